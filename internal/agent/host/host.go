// Package host joins the kernel-facing packages (procfs, cgroup, launch, liveness, locate) into what an operation sees of its
// host. It owns the agent's control groups and the output files of commands; it decides nothing.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/launch"
	"drover/internal/agent/liveness"
	"drover/internal/agent/locate"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// Host implements operation.Processes and operation.Commands on the machine it runs on. It is safe for concurrent use.
type Host struct {
	fs      procfs.FS
	tree    *cgroup.Tree
	watcher *liveness.Watcher
	sampler *procfs.Sampler
	// accounts are those of the runs, by which trees are measured.
	accounts *accounts
	trees    *procfs.Trees
	forker   *launch.Forker
	outputs  string
	offset   time.Duration
	log      *slog.Logger
	// launches bounds how many commands are being started at a time: until it is forked, each may hold up a thread in the kernel.
	launches chan struct{}

	mu   sync.Mutex
	runs map[string]*run
}

// run is a command under way, or one whose output has not been dropped yet.
type run struct {
	group  *cgroup.Group
	output *launch.Output
}

// Config is what a Host needs.
type Config struct {
	FS      procfs.FS
	Watcher *liveness.Watcher
	// Name is the name of the agent's control group: lower-case letters, digits, dashes.
	Name string
	// Outputs is the directory of the output files; it is made.
	Outputs string
	// ClockOffset is how far the wall clock was ahead of the boot clock when the agent first ran in this boot.
	ClockOffset time.Duration
	Log         *slog.Logger
}

// New opens the control groups and the directory of outputs.
func New(cfg Config) (*Host, error) {
	if err := os.MkdirAll(cfg.Outputs, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create directory of outputs: %w", err)
	}
	tree, err := cgroup.Open(cfg.FS, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("cannot open control groups: %w", err)
	}
	sampler, accounts := procfs.NewSampler(cfg.FS, runtime.NumCPU()), newAccounts(tree)
	return &Host{
		fs: cfg.FS, tree: tree, watcher: cfg.Watcher, sampler: sampler,
		accounts: accounts, trees: procfs.NewTrees(sampler, accounts, SinceBoot), forker: launch.NewForker(cfg.FS, cfg.Log),
		outputs: cfg.Outputs, offset: cfg.ClockOffset, log: cfg.Log, runs: map[string]*run{},
		launches: make(chan struct{}, maxLaunches),
	}, nil
}

// Run keeps the thread that commands are forked from, until ctx ends. Commands can be started without it, at a greater cost.
func (h *Host) Run(ctx context.Context) error { return h.forker.Run(ctx) }

// Groups says what kind of control groups the host offers.
func (h *Host) Groups() cgroup.Mode { return h.tree.Mode() }

// Close removes the agent's control group if nothing lives in it. What does is found again by the next agent.
func (h *Host) Close() {
	h.accounts.close()
	_ = h.tree.Remove()
}

// SinceBoot is the clock that decisions are made by: it never steps, and it counts while the host sleeps.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	// It can only fail for a clock that the kernel does not have.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}

// ClockOffset is how far the wall clock is ahead of the boot clock now.
func ClockOffset() time.Duration { return time.Duration(time.Now().UnixNano()) - SinceBoot() }

const (
	// stepTolerance is how far the clocks may drift apart before the wall clock counts as stepped.
	stepTolerance = 2 * time.Second
	// fileTolerance is how much later than its pid file a process may seem to have started: clock ticks and file times are
	// coarse.
	fileTolerance = time.Second
)

// Look finds the live instance of a process. A recorded identity that still runs decides alone. When none was recorded in
// this boot, a process that started after its pid file was written is a stranger at a reused pid.
func (h *Host) Look(spec *process.Spec, rt specstore.Runtime) operation.Sighting {
	query := locate.Query{ProcName: spec.Identity.ProcName, PIDPath: spec.Identity.PIDPath, SetupPath: spec.Identity.SetupPath, Count: spec.Policy.Instances > 1}
	if rt.Process != nil && h.alive(*rt.Process) {
		s := operation.Sighting{ID: rt.Process, PIDFile: rt.PIDFile, Matches: 1}
		if spec.Policy.Instances > 1 {
			if found := locate.Find(h.fs, query).Found; found != nil {
				s.Matches = max(found.Matches, 1)
			}
		}
		return s
	}
	r := locate.Find(h.fs, query)
	if r.Found == nil && spec.Policy.Instances > 1 && query.PIDPath != "" {
		// One of several instances is enough, whichever the pid file named last.
		query.PIDPath = ""
		if byName := locate.Find(h.fs, query); byName.Found != nil {
			r = byName
		}
	}
	if r.Found == nil {
		return operation.Sighting{Note: r.Note, Cause: r.Cause}
	}
	if rt.Process == nil && h.stranger(*r.Found) {
		note := fmt.Sprintf("pid %d in %s started after the file was written: the pid was used again by another process", r.Found.ID.PID, r.Found.PIDFile)
		return operation.Sighting{Note: note, Cause: process.CauseOddPIDFile}
	}
	file := r.Found.PIDFile
	if resolved, err := filepath.EvalSymlinks(file); err == nil && file != "" {
		file = resolved
	}
	return operation.Sighting{ID: &r.Found.ID, PIDFile: file, Matches: r.Found.Matches, Note: r.Note}
}

// stranger reports whether a process that a pid file names cannot be the one that the file was written for. Where the wall
// clock was stepped nobody can tell, and the name alone decides.
func (h *Host) stranger(f locate.Found) bool {
	if f.PIDFile == "" || (ClockOffset()-h.offset).Abs() > stepTolerance {
		return false
	}
	started, err := h.fs.StartTime(f.ID.StartTicks)
	return err == nil && started.After(f.PIDFileTime.Add(fileTolerance))
}

// Watch implements operation.Processes. A process that ended before the call, while this agent was there to see it, is told of
// at once: a command may be over before anybody can ask about it.
func (h *Host) Watch(id procfs.Identity, fn func(liveness.Exit)) (stop func(), err error) {
	stop, err = h.watcher.Watch(id, func(e liveness.Exit) {
		h.sampler.Forget(id)
		fn(e)
	})
	if !errors.Is(err, liveness.ErrGone) {
		return stop, err
	}
	exit, ok := h.watcher.Exited(id)
	if !ok {
		return nil, err
	}
	fn(exit)
	return func() {}, nil
}

// Signal implements operation.Processes.
func (h *Host) Signal(id procfs.Identity, sig syscall.Signal) error {
	return liveness.Signal(h.fs, id, sig)
}

// SignalGroup implements operation.Processes. While the leader lives, its number cannot be another group's.
func (h *Host) SignalGroup(id procfs.Identity, sig syscall.Signal) error {
	return liveness.SignalGroup(h.fs, id, sig)
}

// Instance implements operation.Processes.
func (h *Host) Instance(id procfs.Identity) (process.Instance, error) { return h.sampler.Instance(id) }

// Glance implements operation.Processes.
func (h *Host) Glance(id procfs.Identity) (alive, moved bool) { return h.sampler.Glance(id) }

func (h *Host) alive(id procfs.Identity) bool {
	alive, _ := h.sampler.Glance(id)
	return alive
}

// maxLaunches is how many commands are started side by side.
const maxLaunches = 8

// Launch implements operation.Commands: the command is born in a control group of its own where there are any, and its
// output goes to a file that is named for the run.
func (h *Host) Launch(id, line string, spec *process.Spec) (operation.Child, error) {
	h.launches <- struct{}{}
	defer func() { <-h.launches }()
	account, err := launch.LookupAccount("/", spec.Identity.User)
	if err != nil {
		refused := process.Errorf(process.Failed, "spec.identity.user: %v", err)
		if errors.Is(err, launch.ErrNoAccount) {
			refused = refused.Because(process.CauseNoUser)
		}
		return nil, refused
	}
	// Before anything of it can be seen: a sweep takes away what belongs to no run under way.
	h.setRun(id, &run{})
	output, file, err := h.createOutput(id)
	if err != nil {
		h.close(id)
		return nil, err
	}
	if output == nil {
		defer file.Close() //nolint:errcheck // nothing is written to it here
	}
	group, err := h.tree.Create(id)
	if err != nil {
		// A run without a group is still a run: its end is found by descent and by mark.
		h.log.Warn("control group could not be made", "run", id, "error", err)
		group = nil
	}
	if spec.Hard != (process.HardLimits{}) {
		h.limit(id, group, spec.Hard)
	}
	h.setRun(id, &run{group: group, output: output})
	child, err := h.forker.Start(launch.Command{
		Line: line, Dir: spec.Identity.SetupPath, Account: account, Mark: id, Output: file, Group: group,
	})
	if err != nil {
		return nil, err
	}
	if err := child.GroupError(); err != nil {
		h.log.Warn("command could not be put into its control group", "run", id, "error", err)
	}
	return child, nil
}

func (h *Host) setRun(id string, r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[id] = r
}

// createOutput makes the output file of a run. A disk that takes no file must not keep a process from being started: its
// output is dropped then, and output is nil.
func (h *Host) createOutput(id string) (output *launch.Output, file *os.File, err error) {
	output, err = launch.CreateOutput(h.outputs, id)
	if err == nil {
		if err = output.Probe(); err == nil {
			return output, output.File(), nil
		}
		_ = output.Close()
	}
	h.log.Warn("output of command is dropped", "run", id, "error", err)
	file, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, process.Errorf(process.Failed, "cannot drop the output of the command: %v", err)
	}
	return nil, file, nil
}

// runOf returns a run, one that an earlier agent began included; output is nil when its file is not there any more.
func (h *Host) runOf(id string) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r, ok := h.runs[id]; ok {
		return r
	}
	r := &run{}
	if output, err := launch.OpenOutput(h.outputs, id); err == nil {
		r.output = output
	}
	if group, ok := h.tree.Group(id); ok {
		r.group = group
	}
	h.runs[id] = r
	return r
}

// Trim implements operation.Commands.
func (h *Host) Trim(id string) {
	if r := h.runOf(id); r.output != nil {
		if err := r.output.Trim(); err != nil {
			h.log.Warn("output could not be cut", "run", id, "error", err)
		}
	}
}

// Ran implements operation.Commands.
func (h *Host) Ran(id string) bool {
	r := h.runOf(id)
	return r.output == nil || r.output.Ran()
}

// Output implements operation.Commands. It gives back what the run holds open.
func (h *Host) Output(id string) string {
	r := h.runOf(id)
	text := ""
	if r.output != nil {
		text = r.output.Text()
	}
	h.close(id)
	return text
}

func (h *Host) close(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[id]
	if r == nil {
		return
	}
	delete(h.runs, id)
	if r.output != nil {
		_ = r.output.Close()
	}
	if r.group != nil {
		_ = r.group.Close()
	}
}

// Discard implements operation.Commands.
func (h *Host) Discard(id string) {
	h.close(id)
	if err := os.Remove(filepath.Join(h.outputs, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("output could not be removed", "run", id, "error", err)
	}
	if group, ok := h.tree.Group(id); ok {
		_ = group.Remove() // what still lives there keeps it, and the next sweep sees to it
		_ = group.Close()
	}
}

// EndTree implements operation.Commands.
func (h *Host) EndTree(ctx context.Context, root procfs.Identity, id string) ([]int, error) {
	tree := liveness.Tree{Root: root, Mark: id}
	group, ok := h.tree.Group(id)
	if ok {
		defer group.Close() //nolint:errcheck // opened to be killed only
		if !h.fs.Same(root) {
			// The group holds all that the run has started: there is nothing to search for.
			if populated, err := group.Populated(); err == nil && !populated {
				return nil, nil
			}
			return nil, group.Kill(ctx)
		}
		tree.Groups = append(tree.Groups, group)
	}
	left, err := liveness.KillTree(ctx, h.fs, tree)
	if err == nil && (!ok || h.tree.Mode() == cgroup.ModeNone) {
		err = operation.ErrBestEffort
	}
	return left, err
}

// Sweep drops the groups and outputs of runs that are over, and cuts the outputs that daemons still write to. needed are
// the latest runs of the processes that are known, whose groups and outputs are kept.
func (h *Host) Sweep(needed map[string]bool) {
	h.sampler.Tidy()
	h.accounts.tidy()
	groups, err := h.tree.IDs()
	if err != nil {
		h.log.Warn("control groups could not be listed", "error", err)
	}
	files, err := os.ReadDir(h.outputs)
	if err != nil {
		h.log.Warn("outputs could not be listed", "error", err)
	}
	active := h.active() // after the lists: whatever is on them and not active is over
	living := map[string]bool{}
	for _, id := range groups {
		// An empty group still proves that nothing is left of a run: without it EndTree has to search all of /proc.
		living[id] = active[id] || needed[id] || h.sweepGroup(id)
	}
	for _, f := range files {
		id := f.Name()
		switch {
		case active[id]:
		case needed[id] || living[id]:
			if err := launch.TrimFile(filepath.Join(h.outputs, id)); err != nil {
				h.log.Warn("output could not be cut", "run", id, "error", err)
			}
		default:
			h.Discard(id)
		}
	}
}

// active returns the runs that are under way, or whose output has not been dropped yet.
func (h *Host) active() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	active := make(map[string]bool, len(h.runs))
	for id := range h.runs {
		active[id] = true
	}
	return active
}

// sweepGroup removes a group that is empty and reports whether it is still there.
func (h *Host) sweepGroup(id string) bool {
	group, ok := h.tree.Group(id)
	if !ok {
		return false
	}
	defer group.Close() //nolint:errcheck // opened for a look only
	if strings.HasSuffix(id, questionSuffix) {
		// What an earlier agent has asked hangs: nobody waits for the answer.
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if err := group.Kill(ctx); err != nil {
			h.log.Warn("question of an earlier agent could not be ended", "run", id, "error", err)
		}
	}
	populated, err := group.Populated()
	if err == nil && !populated {
		err = group.Remove()
	}
	return err != nil || populated
}
