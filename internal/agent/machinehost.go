package agent

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/limit"
	"drover/internal/agent/liveness"
	"drover/internal/agent/logs"
	"drover/internal/agent/operation"
	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/agent/supervisor"
	"drover/internal/agent/uplink"
	"drover/internal/group"
	"drover/internal/process"
)

// Host is the machine below an agent: its processes, and the commands that are run on it. It is safe for concurrent
// use.
type Host interface {
	operation.Host
	probe.Host
	limit.Trees
	supervisor.Remains
	Machinery
}

// Machinery is what keeps a Host going.
type Machinery interface {
	// Run does the continuous work until ctx ends. Close releases everything after that.
	Run(ctx context.Context) error
	Close()
	// Sweep drops the data of runs that are over. needed returns the runs to keep: the latest run of each known
	// process, and the runs that are under way.
	Sweep(needed func() map[string]bool)
	Gifts
	Limits
	Starts
}

// Gifts are what a host gives to its agent.
type Gifts interface {
	// Groups says what kind of control groups there are.
	Groups() cgroup.Mode
	// Lacks says what the host does not give; nil means nothing.
	Lacks() []string
}

// Limits are the limits that the kernel keeps, and what else it knows of a running process.
type Limits interface {
	// OOM counts the processes of the run that the kernel has ended for want of memory.
	OOM(run string) int
	// Marks are those of the group of a run.
	Marks(run string) instance.Marks
	// AnyOOM counts those of the whole host; an error says that nobody knows.
	AnyOOM() (uint64, error)
	// LimitNotes says in a caller's words which of the limits of a spec are not kept.
	LimitNotes(spec *process.Spec) []string
	// Relimit changes the limits of a scope that runs by one spec to those of another. It returns by name those that it
	// cannot change, and why.
	Relimit(s instance.Scope, was, is *process.Spec) map[string]string
	// Differs compares the running process of a runtime with its spec. alive is false if it has ended.
	Differs(of process.ID, spec *process.Spec, rt record.Runtime) (fields []process.LiveField, alive bool)
}

// Starts is what a host has for the starts of processes.
type Starts interface {
	// Preflight says why command lines of a spec could not start now. adopts says that drover is about to take the
	// running process over.
	Preflight(id process.ID, spec *process.Spec, lines []instance.Line, adopts bool) error
	// AdoptPlaces takes over what the former supervisor of a process has made for it on this host.
	AdoptPlaces(id process.ID, spec *process.Spec)
}

// machineHost is the machine of this process.
type machineHost struct {
	*host.Host
	watcher *liveness.Watcher
}

// outputsOf is the directory of an agent's outputs.
func outputsOf(dir string) string { return filepath.Join(dir, "output") }

// logsOf is the directory of the logs of processes.
func logsOf(dir string) string { return filepath.Join(dir, "log") }

// groupName is the name of an agent's control group. It differs between two agents on one host.
func groupName(key string) string { return "drover-" + strings.ToLower(key[len(key)-16:]) }

// openMachine opens the machine for the agent with this key. offset is how far the wall clock was ahead of the boot
// clock when the agent first ran in this boot. urgent writes on a full disk, may limits which files the agent reads.
func openMachine(cfg Config, fs procfs.FS, link *uplink.Link, offset time.Duration, urgent func(do func() error) error,
	may func(path string) error, output *logs.Store,
) (Host, error) {
	watcher, err := liveness.New(fs, cfg.Log)
	if err != nil {
		return nil, err
	}
	h, err := host.New(host.Config{
		FS: fs, Watcher: watcher, Name: groupName(link.Key()), HostName: link.HostName, Outputs: outputsOf(cfg.Dir),
		Proofs:       filepath.Join(cfg.Dir, "proofs"),
		RuntimeMarks: filepath.Join(cfg.Dir, "runtime-directories"), Signals: filepath.Join(cfg.Dir, "ready"),
		Logs:   output,
		Urgent: urgent, May: may, ClockOffset: offset, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	return machineHost{h, watcher}, nil
}

// Run implements Machinery. The machine is this agent's alone, and so is the process: its memory is given back, too.
func (m machineHost) Run(ctx context.Context) error {
	return group.Run(ctx,
		group.Part{Name: "commands", Run: m.Host.Run},
		group.Part{Name: "watcher", Run: m.watcher.Run},
		group.Part{Name: "memory", Run: giveBack},
	)
}
