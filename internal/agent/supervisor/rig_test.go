package supervisor_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/probe"
	"drover/internal/agent/record"
	"drover/internal/agent/supervisor"
	"drover/internal/agent/timetable"
	"drover/internal/process"
)

// rig is an agent's supervisor on a made-up host, in a synctest bubble. Every process NAME has a pid file and the
// commands "start NAME" and so on, each of which takes a second and does what it is called for.
type rig struct {
	*operationtest.World
	*supervisor.Supervisor
	t      *testing.T
	disk   *disk
	handle *handle
	sink   *sink
	items  int
	// preflight answers whether a process could start; nil is no look.
	preflight func(process.ID, *process.Spec, []instance.Line, bool) error
	boots     int
	burst     int
	parts     *parts
	timetable *timetable.Scheduler
	// policy is nil where everything is allowed.
	policy operation.Policy
	// claims is nil where there is no other supervisor.
	claims operation.Claims
	// confirmed is nil where nobody waits for the server.
	confirmed chan struct{}
	// mayBegin is nil where everything is wanted.
	mayBegin func(ctx context.Context, item string) (bool, error)
	// decayed is since when a record is not what is shown any more, because time has passed.
	decayed map[process.ID]time.Time
	stop    func()
}

// bubble runs fn with a rig whose supervisor runs.
func bubble(t *testing.T, fn func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{World: operationtest.New(t), t: t, disk: newDisk(), boots: 8, burst: 1000}
		r.begin()
		fn(t, r)
		r.stop()
	})
}

// begin starts an agent that takes over what is on the disk.
func (r *rig) begin() {
	r.Revive()
	r.handle = &handle{disk: r.disk, World: r.World}
	r.sink = newSink(r.handle)
	operations := r.Operations()
	operations.Journal, operations.Policy = r.handle, r.policy
	operations.Claims, operations.Preflight = r.claims, r.preflight
	r.parts = &parts{asked: map[process.ID]probe.Subject{}, starved: map[string]int{}}
	operations.OOM = r.parts.OOM
	r.timetable = timetable.New(timetable.Config{Now: time.Now, Host: "host"})
	r.Supervisor = supervisor.New(supervisor.Config{
		Store: r.handle, Histories: r.handle, Revisions: r.handle, Confirmed: r.confirmed, Sink: r.sink,
		Operation: operations, Timetables: r.timetable, Probes: r.parts, Usages: r.parts,
		AnyOOM:   r.parts.AnyOOM,
		MayBegin: r.mayBegin, HealthyAfter: time.Minute, Relist: 30 * time.Second,
		BootStarts: r.boots, Bounds: lifecycle.Bounds{Flaps: 3, FlapWindow: 10 * time.Minute, BreachWindow: time.Hour},
		Burst: r.burst, Rate: 10,
		Log: slog.New(slog.DiscardHandler),
	})
	r.Adopt(r.disk.taken())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	super := r.Supervisor
	go func() { done <- super.Run(ctx) }()
	table := r.timetable
	go func() {
		for run, ok := r.World.AwaitNotice(ctx); ok; run, ok = r.World.AwaitNotice(ctx) {
			super.TakeNotice(run)
		}
	}()
	called := make(chan error, 1)
	go func() { called <- table.Run(ctx, super) }()
	r.stop = func() {
		cancel()
		if err := <-called; err != nil {
			r.t.Error(err)
		}
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
	synctest.Wait()
}

// kill ends the agent as kill -9 does: nothing that it would still write arrives.
func (r *rig) kill() {
	r.handle.close()
	r.Crash()
	r.stop()
}

// reboot ends the host.
func (r *rig) reboot() {
	r.kill()
	r.disk.reboot()
	for _, name := range []string{"a", "b"} {
		r.Kill(file(name))
	}
}

// pass lets virtual time pass, and everything happen that is due.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	<-time.After(d)
	synctest.Wait()
	r.recorded()
}

// recorded fails unless what was recorded last of each process is what its status shows now: so what is folded from the
// records is the live state, whatever a test does.
func (r *rig) recorded() {
	r.t.Helper()
	r.handle.closing.Lock()
	closed := r.handle.closed
	r.handle.closing.Unlock()
	if closed {
		return
	}
	if r.decayed == nil {
		r.decayed = map[process.ID]time.Time{}
	}
	r.sink.mu.Lock()
	last := maps.Clone(r.sink.last)
	r.sink.mu.Unlock()
	for id, was := range last {
		status, _, known := r.Snapshot(id)
		is := status.Shown()
		if !known {
			is = process.Shown{Gone: true}
		}
		is.StartedAt, was.StartedAt, is.Version, was.Version = 0, 0, "", "" // the figures of a look
		if known && is.PID == 0 && was.PID != 0 {
			was.PID, was.Ran = 0, 0 // it has ended, and nobody has noticed yet
		}
		since, late := r.decayed[id]
		if !late {
			since = time.Now()
		}
		// What ends by itself with time is noticed by the next look at all processes.
		decays := (was.Flapping && !is.Flapping || was.Cause == process.CauseWorkerOOM) &&
			time.Since(since) <= 31*time.Second
		operates := is.State == string(lifecycle.Operating) || is.Cause == process.CauseOperating
		brief := operates && !was.Gone &&
			time.Since(time.UnixMilli(is.CauseSince)) <= supervisor.ShowAfter
		switch {
		case brief:
		case was.Same(is):
			delete(r.decayed, id)
		case decays:
			r.decayed[id] = since
		default:
			r.t.Errorf("%s is recorded as\n%+v\nand shown as\n%+v", id, was, is)
		}
	}
}

func id(name string) process.ID     { return process.ID{Namespace: "ns", Name: name} }
func file(name string) string       { return "/run/" + name + ".pid" }
func line(verb, name string) string { return verb + " " + name }

// spec returns the spec of a process, after its commands have been given to the host.
func (r *rig) spec(name string) *process.Spec {
	start := func(run string) { r.Spawn(name, file(name), run) }
	end := func(string) { r.Kill(file(name)) }
	r.Script(line("start", name), operationtest.Script{Takes: time.Second, End: start})
	r.Script(line("stop", name), operationtest.Script{Takes: time.Second, End: end})
	r.Script(line("restart", name), operationtest.Script{Takes: time.Second, End: func(run string) {
		end(run)
		start(run)
	}})
	r.Script(line("reload", name), operationtest.Script{Takes: time.Second})
	return &process.Spec{
		ProcessName: name, Directory: "/opt", PIDFile: file(name), User: "root",
		Start: line("start", name), Stop: line("stop", name), Reload: &v1.Reload{Command: line("reload", name)},
		Compat: &v1.Compat{RestartCommand: line("restart", name)},
	}
}

// own is spec in the form of a process file: with a policy of relaunches of its own.
func (r *rig) own(name string, restart v1.Restart) *process.Spec {
	s := r.spec(name)
	s.Compat, s.Ready, s.Restart = nil, &v1.Ready{Alive: lasting(5 * time.Second)}, &restart
	return s
}

func lasting(d time.Duration) *v1.Duration { return new(v1.Duration(d)) }

// evenly are pauses of one length.
func evenly(pause, resetAfter time.Duration) v1.Restart {
	return v1.Restart{
		Delay: lasting(pause), MaxDelay: lasting(pause), Factor: new(1.0), Jitter: new(v1.Percent(0)),
		ResetAfter: lasting(resetAfter),
	}
}

// submit has an operation accepted and queued, and returns its item.
func (r *rig) submit(op process.Op, name string, s *process.Spec) string {
	e := r.accept(op, name, s)
	r.Submit([]record.Entry{e})
	return e.Item
}

// accept has an operation accepted: whoever takes over the disk carries it out.
func (r *rig) accept(op process.Op, name string, s *process.Spec) record.Entry {
	r.items++
	e := record.Entry{
		Item: fmt.Sprintf("item-%d", r.items), Process: id(name), Op: op, Spec: s, Boot: r.disk.boot,
		BeginBy: r.Clock() + time.Hour, Expires: time.Now().Add(time.Hour),
	}
	r.disk.accept(e)
	return e
}

// do carries out an operation to its end, which must be a success.
func (r *rig) do(op process.Op, name string, s *process.Spec) {
	r.t.Helper()
	item := r.submit(op, name, s)
	for range 200 {
		if o, ok := r.sink.outcome(item); ok {
			synctest.Wait()
			if o.Fault != process.None {
				r.t.Fatalf("%s %s: %+v", op, name, o)
			}
			return
		}
		r.pass(500 * time.Millisecond)
	}
	r.t.Fatalf("%s %s does not end", op, name)
}

// expect fails unless the operation has ended so.
func (r *rig) expect(item string, fault process.Fault, text string) {
	r.t.Helper()
	o, ok := r.sink.outcome(item)
	if !ok || o.Fault != fault || o.Text != text {
		r.t.Errorf("%s: outcome %q %q (%v),\nwant %q %q", item, o.Fault, o.Text, ok, fault, text)
	}
}

// state fails unless the process is in that state, hosted or not.
func (r *rig) state(name, state string, hosted bool) process.Status {
	r.t.Helper()
	s, _, ok := r.Snapshot(id(name))
	if !ok || s.State != state || s.Hosted != hosted {
		r.t.Errorf("%s is %q, hosted %v (%v), want %q, %v", name, s.State, s.Hosted, ok, state, hosted)
	}
	if rec, stored := r.disk.record(id(name)); ok && (!stored || rec.Hosted != hosted) {
		r.t.Errorf("%s is stored %v, hosted %v; want %v", name, stored, rec.Hosted, hosted)
	}
	return s
}

// ran fails unless exactly these commands have run.
func (r *rig) ran(lines ...string) {
	r.t.Helper()
	if got := r.Lines(); !slices.Equal(got, lines) {
		r.t.Errorf("commands %q have run, want %q", got, lines)
	}
}

// starts has the start command of a process note when it runs, in seconds from now.
func (r *rig) starts(name string, s operationtest.Script) *[]float64 {
	var at []float64
	epoch := time.Now()
	begin := s.Begin
	s.Begin = func(run string) {
		at = append(at, time.Since(epoch).Seconds())
		if begin != nil {
			begin(run)
		}
	}
	r.Script(line("start", name), s)
	return &at
}

// parts are the probes and the measurements of the rig: they are what a test says they are.
type parts struct {
	mu    sync.Mutex
	asked map[process.ID]probe.Subject
	// starved counts what the kernel has ended for want of memory, by run.
	starved map[string]int
	// looks counts the calls of OOM.
	looks int
}

func (p *parts) OOM(run string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	return p.starved[run]
}

func (p *parts) AnyOOM() (total uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.starved {
		total += uint64(n)
	}
	return total, nil
}

// starve has the kernel end something of a run.
func (p *parts) starve(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starved[run]++
}

func (p *parts) Set(id process.ID, s probe.Subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[id] = s
}

func (p *parts) Drop(id process.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, id)
}

// subject returns how a process is asked, and whether it is.
// Hurry implements supervisor.Probes.
func (p *parts) Hurry(process.ID) {}

func (p *parts) subject(id process.ID) (probe.Subject, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.asked[id]
	return s, ok
}

func (p *parts) Usage(process.ID) (process.Usage, bool) { return process.Usage{}, false }

// sink keeps what the server would be told.
type sink struct {
	handle *handle

	mu       sync.Mutex
	began    []string
	limits   []time.Duration
	outcomes map[string]process.Outcome
	order    []string
	changed  int
	events   []process.Event
	gone     map[process.ID]uint64
	shown    []process.Event
	// last is the last of shown of each process.
	last map[process.ID]process.Shown
}

func newSink(h *handle) *sink {
	return &sink{
		handle: h, outcomes: map[string]process.Outcome{}, gone: map[process.ID]uint64{},
		last: map[process.ID]process.Shown{},
	}
}

func (s *sink) Happened(e process.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// history returns the events of a process as "kind from→to cause".
func (s *sink) history(id process.ID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, e := range s.events {
		if e.Process == id {
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s→%s %s", e.Kind, e.From, e.To, e.Cause.ID)))
		}
	}
	return list
}

func (s *sink) Began(item string, limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = append(s.began, item)
	s.limits = append(s.limits, limit)
}

func (s *sink) Finished(item string, o process.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.handle.told(item, o) {
		panic("an outcome is told before it is stored")
	}
	s.outcomes[item] = o
	s.order = append(s.order, item)
}

// begun returns the items that have begun, sorted.
func (s *sink) begun() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.began)
}

func (s *sink) Removed(id process.ID, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[id] = revision
}

func (s *sink) StateShown(id process.ID, at int64, shown process.Shown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = append(s.shown, process.Event{Process: id, At: at, Kind: process.EventState, Shown: &shown})
	s.last[id] = shown
}

func (s *sink) Changed(process.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed++
}

func (s *sink) outcome(item string) (process.Outcome, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.outcomes[item]
	return o, ok
}

// instance returns the live instance of a process.
func (r *rig) instance(name string) instance.Identity {
	r.t.Helper()
	who, alive := r.Alive(file(name))
	if !alive {
		r.t.Fatalf("%s does not run", name)
	}
	return who
}

// asksBefore begins the agent again. It asks whether the items are wanted that one chooses, and waits for each answer.
func (r *rig) asksBefore(chooses func(item string) bool) chan<- bool {
	said := make(chan bool)
	r.stop()
	r.mayBegin = func(ctx context.Context, item string) (bool, error) {
		if !chooses(item) {
			return true, nil
		}
		select {
		case wanted := <-said:
			return wanted, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	r.begin()
	return said
}
