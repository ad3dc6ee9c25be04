// Package operationtest is a simulated host for tests of the packages that work with operations. Its processes appear
// and end as a test says, its commands follow a script, and its journal is in memory. Its time is the time of the
// synctest bubble that it is made in. It owns no process and touches nothing of the machine that it runs on.
package operationtest

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// Boot is the boot id of the world.
const Boot = "boot-1"

// uptime is how long the host has been up when the world begins.
const uptime = 1000 * time.Second

// firstPID is the pid of the first process.
const firstPID = 100

// World is a host. Its exported fields are set before it is used; everything else is safe for concurrent use.
type World struct {
	*Journal
	t     testing.TB
	epoch time.Time

	// WatchError, SignalError and InstanceError refuse a call for an instance when they return an error.
	WatchError    func(instance.Identity) error
	SignalError   func(instance.Identity) error
	InstanceError func(instance.Identity) error
	// OnEndTree replaces the world's EndTree.
	OnEndTree func(End) ([]int, error)
	// Ungrouped says that no control group holds the run's processes: they are recognisable only while their parents
	// live.
	Ungrouped bool
	// Marks are those of each run.
	Marks instance.Marks

	mu       sync.Mutex
	procs    map[instance.Identity]*proc
	exits    map[instance.Identity]liveness.Exit // what this life of the agent has seen
	alone    bool                                // there is no agent
	files    map[string]instance.Identity
	hung     map[string]bool
	scripts  map[string]Script
	talks    map[string]*talk
	heard    chan string
	settle   func()
	runs     map[string]*command
	pids     int
	runCount int
	lines    []string
	signals  []Signal
	ends     []End
	discards []string
	logs     map[string]string
	copies   []instance.UnwatchedCopy
}

// proc is a live process.
type proc struct {
	id       instance.Identity
	name     string
	run      string
	parent   instance.Identity
	started  time.Time
	onTERM   func()
	watchers map[int]func(liveness.Exit)
	nextID   int
}

// Signal is a signal that was sent.
type Signal struct {
	PID    int
	Signal syscall.Signal
}

// End is one call of EndTree.
type End struct {
	Root instance.Identity
	Run  string
}

// New returns an empty host.
func New(t testing.TB) *World {
	return &World{
		Journal: NewJournal(), t: t, epoch: time.Now(), pids: firstPID - 1,
		procs: map[instance.Identity]*proc{}, exits: map[instance.Identity]liveness.Exit{},
		files: map[string]instance.Identity{},
		hung:  map[string]bool{}, scripts: map[string]Script{}, runs: map[string]*command{}, logs: map[string]string{},
		talks: map[string]*talk{}, heard: make(chan string, 100),
	}
}

// Operator returns an operator that works on this host, beside the peers.
func (w *World) Operator(peers operation.Peers) *operation.Operator {
	return operation.New(w.Operations(), peers)
}

// Operations returns the operator's configuration for this host. Its probes run until the test ends.
func (w *World) Operations() operation.Config {
	log := slog.New(slog.DiscardHandler)
	prober := probe.New(probe.Config{Host: w, Clock: w.Clock, NewRun: w.newRun, Log: log})
	ctx := w.t.Context()
	go func() {
		if err := prober.Run(ctx, nil); err != nil {
			w.t.Error(err)
		}
	}()
	return operation.Config{
		Processes: w, Commands: w, Trees: w, Journal: w.Journal, Prober: prober, Clock: w.Clock, Notices: w,
		NewRun: w.newRun, OOM: func(string) int { return 0 }, Log: log,
		Marks: func(string) instance.Marks { return w.Marks },
	}
}

func (w *World) newRun(id process.ID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runCount++
	return RunID(id, w.runCount)
}

// RunID is the id of the host's nth run, for this process.
func RunID(id process.ID, n int) string { return operation.NewRunID(id, strconv.Itoa(n)) }

// Clock is the time since boot.
func (w *World) Clock() time.Duration { return uptime + time.Since(w.epoch) }

// Spawn makes a process in a run, which may be empty, and writes its pid to a pid file, unless the file is empty. The
// process ends at SIGTERM.
func (w *World) Spawn(name, file, run string) instance.Identity {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.add(name, run)
	if file != "" {
		w.files[file] = p.id
	}
	return p.id
}

// add makes a process that ends at SIGTERM; the caller holds the lock.
func (w *World) add(name, run string) *proc {
	w.pids++
	id := instance.Identity{BootID: Boot, PID: w.pids, StartTicks: uint64(w.Clock() / (10 * time.Millisecond))}
	p := &proc{id: id, name: name, run: run, started: time.Now(), watchers: map[int]func(liveness.Exit){}}
	p.onTERM = func() { w.End(id, liveness.Exit{Known: true, Signal: syscall.SIGTERM}) }
	w.procs[id] = p
	return p
}

// Fork makes a child of a live process, in its run. It ends at SIGTERM.
func (w *World) Fork(parent instance.Identity, name string) instance.Identity {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.add(name, w.procs[parent].run)
	p.parent = parent
	return p.id
}

// OnTERM says what a process does at SIGTERM.
func (w *World) OnTERM(id instance.Identity, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.procs[id].onTERM = do
}

// Write puts an instance into a pid file.
func (w *World) Write(file string, id instance.Identity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[file] = id
}

// Hang says whether a pid file is on a file system that does not answer.
func (w *World) Hang(file string, hangs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hung[file] = hangs
}

// End ends a process. It does nothing if the process has already ended.
func (w *World) End(id instance.Identity, exit liveness.Exit) {
	exit.At = time.Now()
	w.mu.Lock()
	var watchers []func(liveness.Exit)
	if p, ok := w.procs[id]; ok {
		watchers = slices.Collect(maps.Values(p.watchers))
		if !w.alone {
			w.exits[id] = exit
		}
	}
	delete(w.procs, id)
	w.mu.Unlock()
	for _, fn := range watchers {
		fn(exit)
	}
}

// Exit ends a process with an exit status.
func (w *World) Exit(id instance.Identity, code int) {
	w.End(id, liveness.Exit{Known: true, Code: code})
}

// Kill ends the process that a pid file names, as by kill -9, and returns it.
func (w *World) Kill(file string) instance.Identity {
	w.mu.Lock()
	id := w.files[file]
	w.mu.Unlock()
	w.End(id, liveness.Exit{Known: true, Signal: syscall.SIGKILL})
	return id
}

// Alive returns the process that a pid file names, if it is alive.
func (w *World) Alive(file string) (instance.Identity, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, written := w.files[file]
	_, alive := w.procs[id]
	return id, written && alive
}

// Living returns the names of all live processes but commands, sorted.
func (w *World) Living() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, p := range w.procs {
		if p.name != shell {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return names
}

// Watched returns how many watches there are on a process.
func (w *World) Watched(id instance.Identity) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.procs[id]; ok {
		return len(p.watchers)
	}
	return 0
}

// Look implements operation.Processes: a recorded identity decides alone, else it is the pid file and the name, or the
// name alone.
func (w *World) Look(spec *process.Spec, rt record.Runtime, whose instance.Ownership) instance.Sighting {
	if spec.ByName() && (rt.Process == nil || !w.alive(*rt.Process)) {
		for _, id := range w.byName(spec.ProcessName) {
			if whose.Other == nil || !whose.Other(id) {
				return instance.Sighting{ID: &id, Matches: 1}
			}
		}
		return instance.Sighting{Note: "no process " + spec.ProcessName + " runs"}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	matches := 0
	for _, p := range w.procs {
		if p.name == spec.ProcessName {
			matches++
		}
	}
	if rt.Process != nil && w.procs[*rt.Process] != nil {
		s := instance.Sighting{ID: rt.Process, PIDFile: rt.PIDFile, Matches: matches}
		name, want := w.procs[*rt.Process].name, spec.ProcessName
		if spec.Foreground() && want != "" && name != want {
			s.Note = fmt.Sprintf("pid %d is %s", rt.Process.PID, name)
		}
		return s
	}
	if spec.Foreground() {
		return instance.Sighting{}
	}
	file := spec.PIDFile
	if w.hung[file] {
		return instance.Sighting{Note: file + " did not answer", Cause: process.CauseFileHangs}
	}
	id, ok := w.files[file]
	if !ok {
		return instance.Sighting{Note: "pid file " + file + " does not exist"}
	}
	p, ok := w.procs[id]
	switch {
	case !ok:
		ended := &instance.Ended{PID: id.PID, PIDFileTime: id.StartedAfterBoot()}
		if exit, told := w.exits[id]; told {
			ended.How = exit.Process()
		}
		return instance.Sighting{
			Note: fmt.Sprintf("pid %d in %s does not run", id.PID, file), Cause: process.CauseOddPIDFile, Ended: ended,
		}
	case p.name != spec.ProcessName:
		return instance.Sighting{Note: fmt.Sprintf("pid %d in %s is %s", id.PID, file, p.name)}
	}
	return instance.Sighting{ID: &id, PIDFile: file, Matches: matches}
}

func (w *World) alive(id instance.Identity) bool {
	alive, _ := w.Glance(id)
	return alive
}

// byName returns the processes of a name, by ascending pid.
func (w *World) byName(name string) (all []instance.Identity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, p := range w.procs {
		if p.name == name {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b instance.Identity) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// Watch implements operation.Processes. It reports at once a process that ended earlier in this life of the agent.
func (w *World) Watch(id instance.Identity, fn func(liveness.Exit)) (stop func(), err error) {
	if w.WatchError != nil {
		if err := w.WatchError(id); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.procs[id]
	if exit, told := w.exits[id]; told {
		fn(exit)
		return func() {}, nil
	}
	if !ok {
		return nil, fmt.Errorf("cannot watch pid %d: %w", id.PID, liveness.ErrGone)
	}
	n := p.nextID
	p.nextID++
	p.watchers[n] = fn
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(p.watchers, n)
	}, nil
}

// Signal implements operation.Processes.
func (w *World) Signal(id instance.Identity, sig syscall.Signal) error {
	if w.SignalError != nil {
		if err := w.SignalError(id); err != nil {
			return err
		}
	}
	w.mu.Lock()
	p, ok := w.procs[id]
	w.signals = append(w.signals, Signal{id.PID, sig})
	w.mu.Unlock()
	if !ok {
		return fmt.Errorf("cannot signal pid %d: %w", id.PID, liveness.ErrGone)
	}
	if sig == syscall.SIGTERM {
		p.onTERM()
		return nil
	}
	if sig == syscall.SIGCONT { // a process that runs ignores it
		return nil
	}
	w.End(id, liveness.Exit{Known: true, Signal: sig})
	return nil
}

// Signals returns all signals that were sent.
func (w *World) Signals() []Signal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.signals)
}

// Instance implements operation.Processes.
func (w *World) Instance(id instance.Identity) (i process.Instance, moved bool, err error) {
	if w.InstanceError != nil {
		if err := w.InstanceError(id); err != nil {
			return process.Instance{}, false, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.procs[id]
	if !ok {
		return process.Instance{}, false, fmt.Errorf("cannot look at pid %d: %w", id.PID, liveness.ErrGone)
	}
	return process.Instance{PID: id.PID, Cmdline: p.name, Stat: "S", StartedAt: p.started.Unix()}, false, nil
}

// Glance implements operation.Processes. Nothing ever moves.
func (w *World) Glance(id instance.Identity) (alive, moved bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, alive = w.procs[id]
	return alive, false
}

// Listeners implements operation.Processes: those of the machine that the test runs on.
func (w *World) Listeners(port uint16) []uint64 {
	sockets, err := procfs.New("/proc").Listeners(port)
	if err != nil {
		w.t.Errorf("the sockets at port %d: %v", port, err)
	}
	return sockets
}

// OtherHolder implements operation.Processes: the test itself, as another program, holds all of them.
func (w *World) OtherHolder([]uint64, instance.Scope) string { return "another program" }
