// Package hollow is a made-up host for real agents, so that many of them can run in one process: commands end at once,
// and what they are said to start is alive as long as nobody ends it. It owns no process, writes nothing and reads only
// the boot id of the machine.
package hollow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/notify"
	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

// Host is one made-up machine. It implements agent.Host and may be used from any goroutine.
type Host struct {
	boot string
	// output is what each command is said to have written.
	output string

	mu    sync.Mutex
	pids  int
	alive map[instance.Identity]*living
	files map[string]instance.Identity // pid file → who is in it
	ended map[string]liveness.Exit     // run → how its command ended
	runs  map[instance.Identity]string // of the commands, until they are discarded
}

// living is a process that is alive.
type living struct {
	name     string
	started  time.Time
	watchers map[int]func(liveness.Exit)
	watches  int
}

// New returns a machine that runs nothing, whose commands write output.
func New(boot, output string) *Host {
	return &Host{
		boot: boot, output: output, pids: 1, alive: map[instance.Identity]*living{},
		files: map[string]instance.Identity{},
		ended: map[string]liveness.Exit{}, runs: map[instance.Identity]string{},
	}
}

// newIdentity makes a process id; the caller holds the lock.
func (h *Host) newIdentity() instance.Identity {
	h.pids++
	return instance.Identity{
		BootID: h.boot, PID: h.pids,
		StartTicks: uint64(host.SinceBoot() / (time.Second / instance.TicksPerSecond)),
	}
}

// Look implements operation.Processes: a recorded identity decides alone, else it is the pid file.
func (h *Host) Look(spec *process.Spec, rt record.Runtime, _ instance.Ownership) instance.Sighting {
	h.mu.Lock()
	defer h.mu.Unlock()
	if rt.Process != nil && h.alive[*rt.Process] != nil {
		return instance.Sighting{ID: rt.Process, PIDFile: rt.PIDFile, Matches: 1}
	}
	id, ok := h.files[spec.PIDFile]
	if !ok || h.alive[id] == nil {
		return instance.Sighting{Note: "no process is in " + spec.PIDFile}
	}
	return instance.Sighting{ID: &id, PIDFile: spec.PIDFile, Matches: 1}
}

// Watch implements operation.Processes and probe.Host. The end of a command is told of at once.
func (h *Host) Watch(id instance.Identity, fn func(liveness.Exit)) (stop func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.alive[id]; p != nil {
		n := p.watches
		p.watches++
		p.watchers[n] = fn
		return func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(p.watchers, n)
		}, nil
	}
	if exit, ok := h.ended[h.runs[id]]; ok {
		fn(exit)
		return func() {}, nil
	}
	return nil, fmt.Errorf("cannot watch pid %d: %w", id.PID, liveness.ErrGone)
}

// Signal implements operation.Processes: every signal ends the process.
func (h *Host) Signal(id instance.Identity, sig syscall.Signal) error {
	if !h.end(id, liveness.Exit{Known: true, Signal: sig}) {
		return fmt.Errorf("cannot signal pid %d: %w", id.PID, liveness.ErrGone)
	}
	return nil
}

// end ends a process and reports whether it was alive.
func (h *Host) end(id instance.Identity, exit liveness.Exit) bool {
	exit.At = time.Now()
	h.mu.Lock()
	p := h.alive[id]
	delete(h.alive, id)
	h.mu.Unlock()
	if p == nil {
		return false
	}
	for _, fn := range p.watchers { // nobody adds one to a process that is not there
		fn(exit)
	}
	return true
}

// Instance implements operation.Processes.
func (h *Host) Instance(id instance.Identity) (i process.Instance, moved bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.alive[id]
	if p == nil {
		return process.Instance{}, false, fmt.Errorf("cannot look at pid %d: %w", id.PID, liveness.ErrGone)
	}
	return process.Instance{PID: id.PID, Cmdline: "/opt/hollow/" + p.name + " --config /opt/hollow/etc/" + p.name +
		".conf", Stat: "S", StartedAt: p.started.Unix()}, false, nil
}

// Executes reports that every program is executed at once.
func (h *Host) Executes(instance.Identity) bool { return false }

// Listeners knows no sockets.
func (h *Host) Listeners(uint16) []uint64 { return nil }

// OtherHolder knows no sockets.
func (h *Host) OtherHolder([]uint64, instance.Scope) string { return "" }

// Glance implements operation.Processes.
func (h *Host) Glance(id instance.Identity) (alive, moved bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.alive[id] != nil, false
}

// Measure implements limit.Trees: everybody uses a little, always the same.
func (h *Host) Measure(roots []procfs.Root) ([]procfs.TreeUse, error) {
	now := host.SinceBoot()
	uses := make([]procfs.TreeUse, len(roots))
	for i, r := range roots {
		if alive, _ := h.Glance(r.Identity); alive {
			uses[i] = procfs.TreeUse{CPU: 0.5, Mem: 0.25, Since: now - time.Second, At: now, Processes: 1}
		}
	}
	return uses, nil
}

// Question implements probe.Host. There is nobody to ask.
func (h *Host) Question(process.ID, string, string, *process.Spec) (probe.Question, error) {
	return nil, errors.New("a hollow host answers no questions")
}

// Launch implements operation.Commands.
func (h *Host) Launch(_ process.ID, run, line string, spec *process.Spec) (instance.Child, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &command{h: h, id: h.newIdentity(), run: run, line: line, spec: spec}
	h.runs[c.id] = run
	return c, nil
}

// command waits at its gate.
type command struct {
	h    *Host
	id   instance.Identity
	run  string
	line string
	spec *process.Spec
}

// Identity implements instance.Child.
func (c *command) Identity() instance.Identity { return c.id }

// Release implements instance.Child: the command does what it is for, and has ended.
func (c *command) Release() error {
	file := c.spec.PIDFile
	switch c.line {
	case c.spec.Stop, c.spec.KillCommand():
		c.h.mu.Lock()
		id := c.h.files[file]
		c.h.mu.Unlock()
		c.h.end(id, liveness.Exit{Known: true, Signal: syscall.SIGTERM})
	case c.spec.Start, c.spec.RestartCommand():
		c.h.mu.Lock()
		id := c.h.newIdentity()
		c.h.alive[id] = &living{
			name: c.spec.ProcessName, started: time.Now(),
			watchers: map[int]func(liveness.Exit){},
		}
		c.h.files[file] = id
		c.h.mu.Unlock()
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.h.ended[c.run] = liveness.Exit{Known: true, At: time.Now()}
	return nil
}

// Abandon implements instance.Child.
func (c *command) Abandon() { c.h.Discard(c.run) }

// Ran implements operation.Commands.
func (h *Host) Ran(run string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.ended[run]
	return ok
}

// Output implements operation.Commands. Nothing of the run is kept after that.
func (h *Host) Output(run string) string {
	h.Discard(run)
	return h.output
}

// Visit implements operation.Commands: there are no files.
func (h *Host) Visit(*process.Spec, string, func(*trail.Trail) error) error { return fs.ErrNotExist }

// LastWords implements operation.Commands.
func (h *Host) LastWords(*process.Spec, time.Time) string { return "" }

// Discard implements operation.Commands.
func (h *Host) Discard(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ended, run)
	for id, of := range h.runs {
		if of == run {
			delete(h.runs, id)
		}
	}
}

// EndTree implements operation.Trees: a process here is alone in its run.
func (h *Host) EndTree(_ context.Context, s instance.Scope, _ time.Duration) ([]liveness.Member, []int, error) {
	h.end(s.Root, liveness.Exit{Known: true, Signal: syscall.SIGKILL})
	return nil, nil, nil
}

// Expect implements operation.Notices: nobody here says anything.
func (h *Host) Expect(string, instance.Identity) {}

// State implements operation.Notices.
func (h *Host) State(string) (said notify.State, changed <-chan struct{}) { return said, nil }

// Settle implements operation.Notices.
func (h *Host) Settle() {}

// AwaitNotice implements operation.Notices.
func (h *Host) AwaitNotice(ctx context.Context) (run string, ok bool) {
	<-ctx.Done()
	return "", false
}

// Ignored implements operation.Notices.
func (h *Host) Ignored() int64 { return 0 }

// Take implements operation.Claims: nobody else is there.
func (h *Host) Take(string) int { return 0 }

// Rival implements operation.Claims.
func (h *Host) Rival(string) int { return 0 }

// ForeignSupervisor implements operation.Claims: there is no other supervisor here.
func (h *Host) ForeignSupervisor(instance.Identity) *instance.ForeignSupervisor { return nil }

// Supervises implements operation.Claims.
func (h *Host) Supervises(instance.ForeignSupervisor) bool { return false }

// SupervisedPID implements operation.Claims.
func (h *Host) SupervisedPID(instance.ForeignSupervisor) int { return 0 }

// Drop implements operation.Claims.
func (h *Host) Drop(string) {}

// Members implements operation.Trees.
func (h *Host) Members(instance.Scope) []instance.Identity { return nil }

// Survivors implements operation.Trees.
func (h *Host) Survivors(instance.Scope) []instance.Identity { return nil }

// RunOf implements operation.Trees.
func (h *Host) RunOf(instance.Identity) string { return "" }

// RunsOf implements operation.Trees.
func (h *Host) RunsOf(string) []string { return nil }

// Copies implements operation.Trees: no other program starts processes here.
func (h *Host) Copies(*process.Spec, int, func(string) bool) []instance.UnwatchedCopy { return nil }

// Run implements agent.Machinery.
func (h *Host) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close implements agent.Machinery.
func (h *Host) Close() {}

// Sweep implements agent.Machinery. There is nothing to drop.
func (h *Host) Sweep(func() map[string]bool) {}

// Groups implements agent.Machinery.
func (h *Host) Groups() cgroup.Mode { return cgroup.ModeV2 }

// Lacks implements agent.Machinery.
func (h *Host) Lacks() []string { return nil }

// AtRest implements supervisor.Remains.
func (h *Host) AtRest(process.ID) {}

// OOM implements agent.Limits.
func (h *Host) OOM(string) int { return 0 }

// Marks implements agent.Limits.
func (h *Host) Marks(string) instance.Marks { return instance.Marks{} }

// AnyOOM implements agent.Limits.
func (h *Host) AnyOOM() (uint64, error) { return 0, nil }

// Preflight implements agent.Starts.
func (h *Host) Preflight(process.ID, *process.Spec, []instance.Line, bool) error { return nil }

// LimitNotes implements agent.Limits.
func (h *Host) LimitNotes(*process.Spec) []string { return nil }

// Differs implements agent.Limits: nothing changes here by itself.
func (h *Host) Differs(process.ID, *process.Spec, record.Runtime) ([]process.LiveField, bool) {
	return nil, true
}

// AdoptPlaces implements agent.Starts: nothing here was another supervisor's.
func (h *Host) AdoptPlaces(process.ID, *process.Spec) {}

// Relimit implements agent.Limits: what runs here has no limits.
func (h *Host) Relimit(instance.Scope, *process.Spec, *process.Spec) map[string]string { return nil }
