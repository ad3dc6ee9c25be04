package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"drover/test/bench/lab"
)

// restBetween is how long a process runs before it is killed again: longer than the interval between relaunches of the
// spec.
const restBetween = 1200 * time.Millisecond

// side is one of the two supervisors, with the stamps of its workers.
type side struct {
	*lab.Stamps
	specs []lab.Spec
}

// arena is a floor and a drover that supervise the same number of processes.
type arena struct {
	b    *bench
	name string
	// daemons says that the processes are daemons; otherwise they are children.
	daemons       bool
	floor, drover side
	least         *lab.Floor
	server        *lab.Drover
	adopted       bool
}

// arena starts both with n processes each.
func (b *bench) arena(ctx context.Context, n int, daemons bool) (_ *arena, err error) {
	a := &arena{b: b, daemons: daemons}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	b.arenas++
	a.name = fmt.Sprintf("%d-%d", b.arenas, n)
	if a.floor, err = b.side("floor-"+a.name, n, daemons); err != nil {
		return nil, err
	}
	if a.drover, err = b.side("drover-"+a.name, n, daemons); err != nil {
		return nil, err
	}
	if a.server, err = b.Drover(ctx, "drover-"+a.name, false); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := a.server.Start(a.drover.specs...); err != nil {
		return nil, fmt.Errorf("cannot start the workers of drover: %w", err)
	}
	took := time.Since(began)
	started, err := a.drover.Await(n, lab.Patience)
	if err != nil {
		return nil, err
	}
	b.Note("first start of %s: the last one ran %s s after the first, the operation was done %s s after the call",
		a.many(), lab.Figure(lab.Milliseconds(started[len(started)-1].At-started[0].At)/1000),
		lab.Figure(took.Seconds()))
	if err := a.startFloor(false); err != nil {
		return nil, err
	}
	_, err = a.floor.Await(n, lab.Patience)
	return a, err
}

// many names the processes of an arena: "1000 daemons".
func (a *arena) many() string {
	name := map[bool][]string{false: {"child", "children"}, true: {"daemon", "daemons"}}[a.daemons]
	if n := len(a.floor.specs); n != 1 {
		return fmt.Sprintf("%d %s", n, name[1])
	}
	return "1 " + name[0]
}

// side names n processes.
func (b *bench) side(name string, n int, daemons bool, flags ...string) (side, error) {
	stamps, err := lab.NewStamps(filepath.Join(b.Dir, name+".stamps"))
	if err != nil {
		return side{}, err
	}
	s := side{Stamps: stamps}
	for i := range n {
		s.specs = append(s.specs, b.Spec(stamps, fmt.Sprintf("%s-%d", name, i), daemons, flags...))
	}
	return s, nil
}

// end ends the workers that run, and the reading of what they note.
func (s side) end() {
	if s.Stamps == nil {
		return
	}
	_, _ = s.Taken() // then at least those that are known are ended
	for _, spec := range s.specs {
		_ = lab.Signal(s.PID(spec.Name), syscall.SIGKILL) // it may have ended
	}
	s.Close()
}

func (a *arena) startFloor(adopt bool) error {
	var err error
	a.least, err = a.b.Floor("floor-"+a.name, a.floor.specs, adopt)
	return err
}

// adopt kills both supervisors and starts them again: their daemons are no children any more.
func (a *arena) adopt() error {
	a.least.End(syscall.SIGKILL)
	a.server.Agent.End(syscall.SIGKILL)
	if err := a.startFloor(true); err != nil {
		return err
	}
	if err := a.server.StartAgent(); err != nil {
		return err
	}
	a.adopted = true
	// The agent takes its processes over one by one; a query of each is answered after that.
	codes, err := a.server.Operate(lab.Query, a.drover.specs...)
	if err == nil {
		err = lab.Failures(codes, 0)
	}
	return err
}

// close ends both supervisors and all workers.
func (a *arena) close() {
	if a.least != nil {
		a.least.End(syscall.SIGKILL)
	}
	if a.server != nil {
		a.server.Close()
	}
	a.floor.end()
	a.drover.end()
}

// crash kills one process of each in turn and adds a row.
func (a *arena) crash() error {
	var times [2]lab.Series
	n := len(a.floor.specs)
	for round := range a.b.Rounds {
		for i, s := range a.turns(round) {
			// Stride through all, so that nobody is killed twice in a short time.
			id := s.specs[round*7%n].Name
			back, err := s.Crash(lab.Patience, id)
			if err != nil {
				return err
			}
			times[(i+round)%2] = append(times[(i+round)%2], back...)
		}
		if n < a.b.Rounds*7 {
			lab.Pause(restBetween)
		} else {
			lab.Pause(restBetween / 20)
		}
	}
	kind, least := "child", 1.2
	switch {
	case a.adopted:
		kind, least = "adopted daemon", 1.5
	case a.daemons:
		kind, least = "re-parented daemon", 1.5
	}
	a.b.time(fmt.Sprintf("crash → runs again, %s, %d watched", kind, n), times[0], times[1],
		within(least).and("max ≤ 10 ms over", func(floor, drover lab.Series) bool {
			return drover.Quantile(1) <= floor.Quantile(1)+10
		}))
	return nil
}

// turns are both sides; who begins changes.
func (a *arena) turns(round int) []side {
	if round%2 == 1 {
		return []side{a.drover, a.floor}
	}
	return []side{a.floor, a.drover}
}

// mass kills a fifth of the processes of each in turn and adds a row.
func (a *arena) mass() error {
	const times = 10
	var middle, last [2]lab.Series
	n := len(a.floor.specs)
	for round := range times {
		var ids [2][]string
		for i := range n / 5 {
			at := (i*5 + round) % n
			ids[0] = append(ids[0], a.floor.specs[at].Name)
			ids[1] = append(ids[1], a.drover.specs[at].Name)
		}
		for i, s := range a.turns(round) {
			who := (i + round) % 2
			back, err := s.Crash(lab.Patience, ids[who]...)
			if err != nil {
				return err
			}
			middle[who] = append(middle[who], lab.Series(back).Quantile(0.5))
			last[who] = append(last[who], lab.Series(back).Quantile(1))
			lab.Pause(restBetween) // the host allows 100 relaunches a second, after the first 500
		}
	}
	a.b.time(fmt.Sprintf("%d of %s killed at once, half of them back", n/5, a.many()), middle[0], middle[1], within(1.5))
	a.b.time(fmt.Sprintf("%d of %s killed at once, last one back", n/5, a.many()), last[0], last[1], within(1.5))
	return nil
}

// crashes measures how soon what was killed runs again.
func (b *bench) crashes(ctx context.Context) error {
	for _, daemons := range []bool{false, true} {
		for _, n := range []int{1, b.Many} {
			if err := b.crashesOf(ctx, n, daemons); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) crashesOf(ctx context.Context, n int, daemons bool) error {
	a, err := b.arena(ctx, n, daemons)
	if err != nil {
		return err
	}
	defer a.close()
	lab.Pause(2 * restBetween)
	err = a.crash()
	if err == nil && n > 1 {
		err = a.mass()
	}
	if err == nil && daemons { // the floor can't find children again
		err = a.adopt()
		if err == nil {
			lab.Pause(restBetween)
			err = a.crash()
		}
	}
	if err == nil {
		err = a.once()
	}
	return err
}

// once checks that no worker of drover runs twice: every start but the first of each must be for a kill.
func (a *arena) once() error {
	lab.Pause(restBetween)
	stamps, err := a.drover.Taken()
	if err == nil && len(stamps) > 0 {
		err = errors.New("drover has started workers that nobody had killed")
	}
	return err
}
