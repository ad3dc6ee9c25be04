package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/test/bench/lab"
)

// looks is how often what is cheap is measured.
const looks = 20

// query measures a query task of the GSE API over all processes of one agent, to the last key.
func (b *bench) query(ctx context.Context) error {
	a, err := b.arena(ctx, b.Many, true)
	if err != nil {
		return err
	}
	defer a.close()
	body, err := lab.Body(lab.Query, a.drover.specs...)
	if err != nil {
		return err
	}
	var floor, drover lab.Series
	for range looks {
		floor = append(floor, timed(func() { lookAtAll(a.drover) }))
		var codes map[string]int
		drover = append(drover, timed(func() {
			var task string
			if task, err = a.server.Submit(body); err == nil {
				codes, err = a.server.Await(task)
			}
		}))
		if err == nil {
			err = lab.Failures(codes, 0)
		}
		if err != nil {
			return err
		}
		lab.Pause(restBetween / 10)
	}
	b.time(fmt.Sprintf("query task over %d processes of one agent, to the last key, polled every %v", b.Many,
		lab.PollPause), floor, drover, within(5))
	return nil
}

// lookAtAll reads of each process what an answer to a query shows.
func lookAtAll(s side) {
	for _, spec := range s.specs {
		dir := fmt.Sprintf("/proc/%d/", s.PID(spec.Name))
		for _, file := range []string{"stat", "cmdline"} {
			_, _ = os.ReadFile(dir + file) // it runs
		}
	}
}

func timed(do func()) float64 {
	began := time.Now()
	do()
	return float64(time.Since(began)) / float64(time.Millisecond)
}

// sampling measures one look at all processes for their use of processor and memory.
func (b *bench) sampling(ctx context.Context) error {
	a, err := b.arena(ctx, b.Many, true)
	if err != nil {
		return err
	}
	defer a.close()
	fs := procfs.New("/proc")
	sampler := procfs.NewSampler(fs, 2)
	var ids []instance.Identity
	for _, spec := range a.drover.specs {
		id, err := fs.Identify(a.drover.PID(spec.Name))
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	var floor, drover lab.Series
	for range looks {
		floor = append(floor, timed(func() {
			for _, id := range ids {
				dir := fmt.Sprintf("/proc/%d/", id.PID)
				_, _ = os.ReadFile(dir + "stat")  // it runs
				_, _ = os.ReadFile(dir + "statm") // it runs
			}
		}))
		drover = append(drover, timed(func() {
			for _, id := range ids {
				if _, e := sampler.Use(id); e != nil {
					err = e
				}
			}
		}))
		if err != nil {
			return err
		}
	}
	b.time(fmt.Sprintf("one sample of %d processes (floor: read stat and statm)", b.Many), floor, drover,
		aim{"≤ 1 % of a core at 1 Hz", func(_, drover lab.Series) bool { return drover.Quantile(0.5) <= 10 }})
	return nil
}

// few processes are what most hosts have.
const few = 10

// resting measures what an agent takes that has nothing to do.
func (b *bench) resting(ctx context.Context) error {
	for _, n := range []int{1, few, max(b.Many/10, few+1), b.Many} {
		if err := b.restWith(ctx, n, false); err != nil {
			return err
		}
	}
	return b.restWith(ctx, b.Many, true)
}

func (b *bench) restWith(ctx context.Context, n int, daemons bool) error {
	a, err := b.arena(ctx, n, daemons)
	if err != nil {
		return err
	}
	defer a.close()
	lab.Pause(10 * time.Second) // what follows a start is over then, and the garbage of it gone
	agent := a.server.Agent.PID()
	endOwn, endFloor := lab.Watch([]int{agent}), lab.Watch([]int{a.least.PID()})
	lab.Pause(b.Window)
	own, floor := endOwn(), endFloor()
	const traced = 30 * time.Second
	calls, err := lab.Syscalls(ctx, agent, min(traced, b.Window))
	if err != nil {
		return err
	}
	most := 30.0
	if n <= few {
		most = 12
	}
	total, list := 0, []string{}
	for name, count := range calls {
		total += count
		list = append(list, fmt.Sprintf("%s %s", name, lab.Figure(float64(count)/min(traced, b.Window).Seconds())))
	}
	slices.SortFunc(list, func(x, y string) int { return calls[word(y)] - calls[word(x)] })
	b.calls.Add(a.many(), strings.Join(list[:min(len(list), 8)], ", "))
	b.rest.Add(a.many(), lab.Figure(own.PSS), lab.Figure(own.Heap), fmt.Sprint(own.Threads),
		lab.Figure(own.Percent), lab.Figure(own.Wakeups),
		lab.Figure(float64(total)/min(traced, b.Window).Seconds()),
		lab.Figure(floor.PSS), fmt.Sprint(floor.Threads), lab.Figure(floor.Percent), lab.Figure(floor.Wakeups),
		lab.YesNo(own.PSS <= most && own.Threads <= 12 && own.Percent <= 0.05))
	return nil
}

func word(s string) string {
	first, _, _ := strings.Cut(s, " ")
	return first
}
