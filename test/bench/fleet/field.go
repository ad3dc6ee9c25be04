package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"drover/test/bench/lab"
)

// field is one run.
type field struct {
	lab    *lab.Lab
	o      lab.Options
	report *lab.Report
	list   []tool
	ssh    bool
}

// few is how many hosts there are when one of them hangs.
const few = 20

func newField(l *lab.Lab, o lab.Options, r *lab.Report, only string) *field {
	f := &field{lab: l, o: o, report: r}
	for _, t := range tools() {
		if only != "" && !slices.Contains(strings.Split(only, ";"), t.name) {
			continue
		}
		if t.program != "" {
			if _, err := exec.LookPath(t.program); err != nil {
				r.Note("%s is missing: %s is not installed", t.name, t.program)
				continue
			}
			f.ssh = true
		}
		f.list = append(f.list, t)
	}
	if _, err := os.Stat("/usr/sbin/sshd"); f.ssh && err != nil {
		f.ssh = false
	}
	r.Note("Salt, Choria and Nomad are missing: neither Debian 12 nor the Go module proxy has them")
	return f
}

// sizes are the numbers of hosts, up to the one that was asked for.
func (f *field) sizes() []int {
	all := []int{few}
	for _, n := range []int{100, f.o.Many} {
		if n > all[len(all)-1] && n <= f.o.Many {
			all = append(all, n)
		}
	}
	return all
}

func (f *field) measure(ctx context.Context) error {
	for _, n := range f.sizes() {
		if err := f.size(ctx, n); err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
	}
	return nil
}

// turn is what was measured of one tool.
type turn struct {
	tool
	took, cpu map[string]lab.Series
	// pids are those of the daemons that the tool has told last.
	pids map[string]int
}

// size measures with a number of hosts.
func (f *field) size(ctx context.Context, n int) error {
	fmt.Fprintf(os.Stderr, "%s measuring %d hosts\n", time.Now().Format(time.TimeOnly), n)
	s, err := newSite(ctx, f.lab, n, f.ssh)
	defer s.close()
	if err != nil {
		return err
	}
	var turns []*turn
	for _, t := range f.list {
		if t.most == 0 || n <= t.most {
			turns = append(turns, &turn{tool: t, took: map[string]lab.Series{}, cpu: map[string]lab.Series{}})
		}
	}
	for round := range f.o.Rounds + 1 {
		for _, t := range turns {
			if err := t.round(ctx, s, round > 0); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	f.times(n, turns)
	f.rest(n, s)
	if n == few {
		return f.hang(ctx, s, turns)
	}
	return nil
}

// round has a tool do each thing once. The first round opens connections and counts for nothing.
func (t *turn) round(ctx context.Context, s *site, counts bool) error {
	for _, do := range []string{restart, status} {
		a, err := t.call(ctx, s, do)
		if errors.Is(err, errNotMeasured) {
			continue
		}
		if err != nil {
			return err
		}
		if a.code != 0 {
			return fmt.Errorf("%s: exit code %d: %.300s", do, a.code, a.out)
		}
		if a.out != "" {
			if err := s.truth(do, t.pids, a.pids()); err != nil {
				return err
			}
			t.pids = a.pids()
		}
		if counts {
			t.took[do] = append(t.took[do], ms(a.took))
			t.cpu[do] = append(t.cpu[do], a.cpu.Seconds())
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// truth checks the pids of an answer beside the former ones: each host has a process of its own, and it is another one
// after a restart only.
func (s *site) truth(do string, former, pids map[string]int) error {
	seen := map[int]bool{}
	for _, host := range s.hosts {
		pid := pids[host]
		switch {
		case pid <= 1 || seen[pid] || syscall.Kill(pid, 0) != nil:
			return fmt.Errorf("%s: %s has the pid %d, which is not that of a daemon of its own", do, host, pid)
		case former != nil && (former[host] == pid) == (do == restart):
			return fmt.Errorf("%s: %s has the pid %d, and before that %d", do, host, pid, former[host])
		}
		seen[pid] = true
	}
	return nil
}

// times adds the table of a number of hosts.
func (f *field) times(n int, turns []*turn) {
	of := map[string]*turn{}
	for _, t := range turns {
		of[t.name] = t
	}
	lead := fmt.Sprintf("%d hosts; median of %d rounds in turns, ms. × is beside %s. CPU is what a restart takes of the "+
		"caller's processor, in s.", n, f.o.Rounds, ours)
	table := f.report.Table(lead, fmt.Sprintf("%d hosts", n), "status of all", "×", "restart of all, new pids known",
		"× of it", "CPU")
	for _, t := range turns {
		cells := []string{t.name}
		for _, do := range []string{status, restart} {
			median := t.took[do].Quantile(0.5)
			times := "-"
			if ref := of[ours]; ref != nil {
				times = lab.Figure(median / ref.took[do].Quantile(0.5))
			}
			cells = append(cells, lab.Figure(median), times)
		}
		table.Add(append(cells, lab.Figure(t.cpu[restart].Quantile(0.5)))...)
	}
}

// rest adds what hosts and servers take while nothing is done.
func (f *field) rest(n int, s *site) {
	lab.Pause(f.o.Window / 2)
	lead := fmt.Sprintf("%d hosts at rest for %s: memory in MB (PSS), processor in %% of one.", n, f.o.Window)
	table := f.report.Table(lead, fmt.Sprintf("%d hosts at rest", n), "MB per host", "CPU % per host",
		"server MB", "server CPU %")
	var agents, sshds []int
	for _, a := range s.agents {
		agents = append(agents, a.PID())
	}
	for _, d := range s.sshds {
		sshds = append(sshds, d.PID())
	}
	watched := map[string]func() lab.Use{
		"drover": lab.Watch(agents), "drover server": lab.Watch([]int{s.fleet.Server.PID()}),
		"floor": lab.Watch(s.bare.agents.PIDs()), "floor server": lab.Watch([]int{s.bare.server.PID()}),
		"ssh": lab.Watch(lab.Tree(sshds...)),
	}
	lab.Pause(f.o.Window)
	use := map[string]lab.Use{}
	for name, end := range watched {
		use[name] = end()
	}
	row := func(name string, hosts, server lab.Use) {
		table.Add(name, lab.Figure(hosts.PSS/float64(n)), lab.Figure(hosts.Percent/float64(n)), lab.Figure(server.PSS),
			lab.Figure(server.Percent))
	}
	row(floor, use["floor"], use["floor server"])
	row(ours, use["drover"], use["drover server"])
	if len(sshds) > 0 {
		row("sshd, connections open", use["ssh"], lab.Use{})
	}
}

// hang stops what each tool has on the first host, and restarts all.
func (f *field) hang(ctx context.Context, s *site, turns []*turn) error {
	lead := fmt.Sprintf("%d hosts, and what the tool has on one of them is stopped (SIGSTOP): the call, s.", few)
	table := f.report.Table(lead, "one host hangs", "restart of all", "exit code", "hosts that answered")
	for _, t := range turns {
		if t.daemon == nil {
			continue
		}
		stopped := lab.Tree(t.daemon(s, 0))
		for _, pid := range stopped {
			_ = lab.Signal(pid, syscall.SIGSTOP) // it may have ended
		}
		a, err := t.call(ctx, s, restart)
		for _, pid := range stopped {
			_ = lab.Signal(pid, syscall.SIGCONT) // it may have ended
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		took, code := lab.Figure(a.took.Seconds()), fmt.Sprint(a.code)
		if a.took >= mostOfCall {
			took, code = "> "+took, "given up"
		}
		table.Add(t.name, took, code, fmt.Sprintf("%d of %d", len(a.pids()), few))
	}
	return nil
}
