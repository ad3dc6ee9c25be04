package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"drover/test/bench/lab"
)

// errNone says that there is no such thing to be measured.
var errNone = errors.New("none") //nolint:gochecknoglobals // an error

// field is all supervisors, and what was measured of them.
type field struct {
	*lab.Lab
	lab.Options
	*lab.Report
	list  []*supervisor
	teams int

	crash, bulk, cost, death *lab.Table
	// What the floor needs, by whether it has daemons: for one crash, and for the last of a fifth.
	floorCrash, floorLast map[bool]float64
}

func newField(l *lab.Lab, o lab.Options, r *lab.Report) *field {
	lead := fmt.Sprintf(
		"* many is %d, few a tenth of it. Figures of drover are those of drover-agent; its server runs beside it\n"+
			"* floor, drover, monit and systemd forking supervise daemons, which cost a shell (not with systemd) and a second fork; the others supervise children. × floor compares daemons with the floor's daemons, and children with its children\n"+
			"* drover is started and stopped through its API, with ready: {alive: 0s}\n"+
			"* systemd is PID 1 of namespaces of its own, without journal and bus", o.Many)
	return &field{
		Lab: l, Options: o, Report: r, floorCrash: map[bool]float64{}, floorLast: map[bool]float64{},
		crash: r.Table(lead, "crash → runs again, ms", "what", "rounds", "p50", "max", "× floor"),
		cost: r.Table("", "at rest", "PSS MB at 1", "PSS MB at few", "PSS MB at many", "processes / threads at many",
			"CPU % of a core at 1", "CPU % at few", "CPU % at many", "wake-ups/s at many"),
		bulk: r.Table("", "many", "start all, s", "a fifth killed: half back, ms", "last back, ms", "× floor",
			"stop all, s",
			"status of all, ms", "restart one: returns, ms", "runs, ms"),
		death: r.Table("", "kill -9 of the supervisor", "silent one survives", "talking one survives", "and is heard",
			"started again"),
	}
}

func (f *field) measure(ctx context.Context) error {
	if err := f.crashes(ctx); err != nil {
		return fmt.Errorf("crashes: %w", err)
	}
	for _, s := range f.list {
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), s.name)
		if err := f.one(ctx, s); err != nil {
			f.Note("%s: %v", s.name, err)
		}
		if err := f.dies(ctx, s); err != nil {
			f.Note("%s, killed: %v", s.name, err)
		}
	}
	return nil
}

// ratio is how many times as long something took as it took the floor with the same kind of processes; a dash where the
// floor was not measured.
func ratio(ms float64, floor map[bool]float64, daemons bool) string {
	if floor[daemons] == 0 {
		return "-"
	}
	return lab.Figure(ms / floor[daemons])
}

// apart is how long nothing happens before each crash: what one supervisor sets off in the kernel (moving a process
// between control groups waits for a grace period, and a second move right after it does not) is neither to help the
// next nor to hold it up.
const apart = 100 * time.Millisecond

// crashes measures all at once, in turns, with one process each.
func (f *field) crashes(ctx context.Context) error {
	var teams []*team
	defer func() {
		for _, t := range teams {
			t.end()
		}
	}()
	able := f.list[:0:0]
	for _, s := range f.list {
		t, err := f.team(s, 1)
		if t != nil {
			teams = append(teams, t)
		}
		if err == nil {
			err = t.start(ctx, false)
		}
		if err == nil {
			_, err = t.Await(1, patience)
		}
		if err == nil {
			able = append(able, s)
			continue
		}
		if s.kind != 0 {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		f.Note("%s does not work here and is left out: %v", s.name, err)
		if t != nil {
			t.end()
			teams = teams[:len(teams)-1]
		}
	}
	f.list = able
	lab.Pause(5 * time.Second)
	times := make([]lab.Series, len(teams))
	for round := range f.Rounds {
		began := time.Now()
		for i := range teams {
			lab.Pause(apart)
			who := (i + round) % len(teams)
			back, err := teams[who].Crash(patience, teams[who].units[0].Name)
			if err != nil {
				return fmt.Errorf("%s: %w", teams[who].name, err)
			}
			times[who] = append(times[who], back...)
		}
		lab.Pause(max(1500*time.Millisecond-time.Since(began), 0))
	}
	for i, t := range teams {
		p50 := times[i].Quantile(0.5)
		if t.kind == theFloor {
			f.floorCrash[t.daemons] = p50
		}
		f.crash.Add(t.name, lab.KindOf(t.daemons), fmt.Sprint(f.Rounds), lab.Figure(p50),
			lab.Figure(times[i].Quantile(1)), ratio(p50, f.floorCrash, t.daemons))
	}
	return nil
}

// one measures one supervisor alone, with one, a few and many processes.
func (f *field) one(ctx context.Context, s *supervisor) error {
	var uses [3]lab.Use
	var failed error
	for i, n := range []int{1, max(f.Many/10, 2), f.Many} {
		t, err := f.team(s, n)
		if err != nil {
			return err
		}
		began := lab.Now()
		if err := t.start(ctx, false); err != nil {
			return err
		}
		stamps, err := t.Await(n, patience+30*time.Second)
		if err != nil {
			t.end()
			return fmt.Errorf("with %d: %w", n, err)
		}
		lab.Pause(5 * time.Second)
		tree := lab.Tree(t.root())
		uses[i] = lab.UseOf(tree, f.Window)
		if n == f.Many {
			failed = f.bulkOf(t, lab.Milliseconds(stamps[len(stamps)-1].At-began)/1000)
		}
		t.end()
	}
	f.cost.Add(s.name, lab.Figure(uses[0].PSS), lab.Figure(uses[1].PSS), lab.Figure(uses[2].PSS),
		fmt.Sprintf("%d / %d", uses[2].Processes, uses[2].Threads), lab.Figure(uses[0].Percent),
		lab.Figure(uses[1].Percent), lab.Figure(uses[2].Percent), lab.Figure(uses[2].Wakeups))
	return failed
}

// bulkOf measures what is done to many; a cell holds a dash where it could not be done.
func (f *field) bulkOf(t *team, started float64) error {
	const times = 3
	var failed error
	figure := func(v float64, err error) string {
		if errors.Is(err, errNone) {
			return "-"
		}
		if err != nil {
			failed = errors.Join(failed, err)
			return "-"
		}
		return lab.Figure(v)
	}
	var half, last lab.Series
	var crashed error
	for round := range times {
		var ids []string
		for i := range len(t.units) / 5 {
			ids = append(ids, t.units[(i*5+round)%len(t.units)].Name)
		}
		back, err := t.Crash(patience, ids...)
		if err != nil {
			crashed = err
			break
		}
		half, last = append(half, lab.Series(back).Quantile(0.5)), append(last, lab.Series(back).Quantile(1))
		lab.Pause(2 * time.Second)
	}
	if t.kind == theFloor {
		f.floorLast[t.daemons] = last.Quantile(0.5)
	}
	var status, restart, runs lab.Series
	var statusErr, restartErr error
	for i := range times {
		ms, err := t.statusOfAll()
		status, statusErr = append(status, ms), err
		_, _ = t.Taken() // only what comes now
		began := lab.Now()
		ms, restartErr = t.restartOne(t.units[i*5+4])
		restart = append(restart, ms)
		if restartErr != nil {
			break
		}
		stamps, err := t.Await(1, patience)
		if err != nil {
			restartErr = err
			break
		}
		runs = append(runs, lab.Milliseconds(stamps[0].At-began))
		lab.Pause(time.Second)
	}
	stopped, stopErr := t.stopAll()
	f.bulk.Add(t.name, lab.Figure(started), figure(half.Quantile(0.5), crashed), figure(last.Quantile(0.5), crashed),
		ratio(last.Quantile(0.5), f.floorLast, t.daemons), figure(stopped/1000, stopErr),
		figure(status.Quantile(0.5), statusErr),
		figure(restart.Quantile(0.5), restartErr), figure(runs.Quantile(0.5), restartErr))
	return failed
}

// dies kills the supervisor itself and starts it again, over a silent and over a talking process.
func (f *field) dies(ctx context.Context, s *supervisor) error {
	if s.kind == theFloor {
		return nil
	}
	if s.isolated {
		f.death.Add(s.name, "-", "-", "-", "PID 1 of a host cannot be killed")
		return nil
	}
	cells := []string{s.name}
	verdict := ""
	for _, flags := range [][]string{nil, {"-t"}} {
		t, err := f.team(s, 1, flags...)
		if err != nil {
			return err
		}
		again, survived, heard, err := t.dies(ctx)
		t.end()
		if err != nil {
			return err
		}
		cells = append(cells, lab.YesNo(survived))
		if flags != nil {
			cells = append(cells, lab.YesNo(heard))
		}
		if verdict != "" && again != verdict {
			verdict = "silent: " + verdict + "; talking: " + again
		} else {
			verdict = again
		}
	}
	f.death.Add(append(cells, verdict)...)
	return nil
}

// dies returns what became of the one process when the supervisor was killed, and what it does when it is started
// again.
func (t *team) dies(ctx context.Context) (again string, survived, heard bool, err error) {
	if err := t.start(ctx, false); err != nil {
		return "", false, false, err
	}
	if _, err := t.Await(1, patience); err != nil {
		return "", false, false, err
	}
	lab.Pause(2 * time.Second)
	name := t.units[0].Name
	root := t.root()
	if err := lab.Signal(root, syscall.SIGKILL); err != nil {
		return "", false, false, err
	}
	lab.Pause(2 * time.Second)
	survived = len(t.workers()) == 1
	_, _ = t.Taken() // what was said until now
	spoken := t.Spoken(name)
	lab.Pause(time.Second)
	_, _ = t.Taken() // what was said since
	heard = t.Spoken(name) > spoken
	before := t.Starts(name)
	if err := t.start(ctx, true); err != nil {
		return "", survived, heard, err
	}
	lab.Pause(6 * time.Second)
	_, _ = t.Taken() // what was started since
	switch n := len(t.workers()); {
	case n > 1:
		again = fmt.Sprintf("**duplicates**: %d run", n)
	case n == 0:
		again = "none runs"
	case t.Starts(name) == before:
		again = "taken over, not restarted"
	default:
		again = "started anew"
	}
	return again, survived, heard, nil
}
