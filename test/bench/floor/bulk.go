package main

import (
	"context"
	"fmt"
	"strings"

	v1 "drover/api/v1"
	"drover/test/bench/lab"
)

// bulkRounds is how often all processes are stopped and started.
const bulkRounds = 5

// bulk measures what operators do to the children of one host. Drover is asked over its API, and answers when the
// operation is done; the floor is asked over a socket.
func (b *bench) bulk(ctx context.Context) error {
	a, err := b.arena(ctx, b.Many, false)
	if err != nil {
		return err
	}
	defer a.close()
	lab.Pause(restBetween)
	err = a.status()
	if err == nil {
		err = a.restart()
	}
	if err == nil {
		err = a.stopAndStart()
	}
	return err
}

// pair is what was measured of the floor and of drover.
type pair struct{ floor, drover lab.Series }

// race measures both, and changes who begins.
func (p *pair) race(round int, floor, drover func() error) error {
	var err error
	do := func(s *lab.Series, f func() error) {
		if err == nil {
			*s = append(*s, timed(func() { err = f() }))
		}
	}
	if round%2 == 1 {
		do(&p.drover, drover)
		do(&p.floor, floor)
	} else {
		do(&p.floor, floor)
		do(&p.drover, drover)
	}
	return err
}

// status measures one look at the states of all processes.
func (a *arena) status() error {
	var times pair
	n := len(a.floor.specs)
	for round := range looks {
		err := times.race(round, func() error {
			answer, err := a.least.Ask(lab.FloorStatus)
			return enough(err, strings.Count(answer, "\n"), n)
		}, func() error {
			running, err := a.server.Running()
			return enough(err, running, n)
		})
		if err != nil {
			return err
		}
	}
	a.b.time("status of "+a.many(), times.floor, times.drover, atMost(20))
	return nil
}

func enough(err error, got, want int) error {
	if err == nil && got != want {
		err = fmt.Errorf("the status of %d processes was read, want %d that run", got, want)
	}
	return err
}

// restart measures the restart of one process after the other, to the answer: the new pid is known.
func (a *arena) restart() error {
	var times pair
	n := len(a.floor.specs)
	for round := range a.b.Rounds {
		i := round * 7 % n
		if err := a.settle(); err != nil {
			return err
		}
		err := times.race(round, func() error {
			_, err := a.least.Ask(fmt.Sprint(lab.FloorRestart, i))
			return err
		}, func() error { return a.server.Do(v1.OpRestart, a.drover.specs[i]) })
		if err != nil {
			return err
		}
		for _, s := range a.turns(round) {
			if _, err := s.Await(1, lab.Patience); err != nil {
				return err
			}
		}
		lab.Pause(restBetween / 20)
	}
	a.b.time("restart of 1 child, to the new pid", times.floor, times.drover, within(3))
	return nil
}

// settle takes the starts that were noted until now.
func (a *arena) settle() error {
	for _, s := range a.turns(0) {
		if _, err := s.Taken(); err != nil {
			return err
		}
	}
	return nil
}

// stopAndStart measures the stop of all processes and their start, to the answer.
func (a *arena) stopAndStart() error {
	var stops, starts pair
	ask := func(what string) func() error {
		return func() error {
			_, err := a.least.Ask(what)
			return err
		}
	}
	do := func(op string) func() error {
		return func() error { return a.server.Do(op, a.drover.specs...) }
	}
	for round := range bulkRounds {
		if err := stops.race(round, ask(lab.FloorStop), do(v1.OpStop)); err != nil {
			return err
		}
		if err := a.settle(); err != nil {
			return err
		}
		lab.Pause(restBetween)
		if err := starts.race(round, ask(lab.FloorStart), do(v1.OpStart)); err != nil {
			return err
		}
		for _, s := range a.turns(round) {
			if _, err := s.Await(len(s.specs), lab.Patience); err != nil {
				return err
			}
		}
		lab.Pause(restBetween)
	}
	a.b.time(fmt.Sprintf("start of %s with ready: {alive: 0s}", a.many()), starts.floor, starts.drover, atMost(1200))
	a.b.time("stop of "+a.many(), stops.floor, stops.drover, atMost(300))
	return nil
}
