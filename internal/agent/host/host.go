// Package host combines the packages that face the kernel (procfs, cgroup, launch, liveness, locate) into the view
// that an operation has of its host. It owns the agent's control groups and the output files of commands. It decides
// nothing.
package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/liveness"
	"drover/internal/agent/locate"
	"drover/internal/agent/logs"
	"drover/internal/agent/notify"
	"drover/internal/agent/procfs"
	"drover/internal/group"
)

// Host implements operation.Processes and operation.Commands on the machine it runs on. It is safe for concurrent use.
type Host struct {
	fs      procfs.FS
	tree    *cgroup.Tree
	watcher *liveness.Watcher
	looks   *liveness.Looks
	byName  *locate.Looks
	sampler *procfs.Sampler
	// accounts are the cgroup accounts of the runs, which measure trees.
	accounts *accounts
	trees    *procfs.Trees
	forker   *launch.Forker
	files    *fileProber
	names    accountCache
	// find looks for a process; it may hang if a file system hangs.
	find    func(procfs.FS, locate.Query) locate.Result
	outputs string
	proofs  *launch.Proofs
	logs    *logs.Store
	signals string
	// notices is nil if processes cannot notify drover, because of deaf.
	notices *notify.Listener
	deaf    error
	urgent  func(func() error) error
	may     func(path string) error
	name    func() string
	runtime *runtimeDirs
	claims  claims
	// byProgram has the executables, byDirectory the directories.
	byProgram, byDirectory neighbours
	// units has a file for each active unit of systemd; proc is /proc.
	units, proc string
	offset      time.Duration
	log         *slog.Logger
	// launches bounds how many commands start at the same time: until the fork, each may hold a thread in the kernel.
	launches chan struct{}

	mu   sync.Mutex
	runs map[string]*run
}

// Config is what a Host needs.
type Config struct {
	FS      procfs.FS
	Watcher *liveness.Watcher
	// Name is the name of the agent's control group: lower-case letters, digits, dashes.
	Name string
	// HostName returns the name by which callers know the host; nil if they know none.
	HostName func() string
	// Outputs is the directory of the output files, Proofs the file of the proofs that commands have run. New makes
	// both.
	Outputs, Proofs string
	// Logs has the output of foreground processes; nil if it is an output like any other.
	Logs *logs.Store
	// Signals is the directory of the files that processes with notify_fd write to; empty is beside Proofs. Notify is
	// the path of the socket for notifications; empty is a path that every account of the host can reach.
	Signals, Notify string
	// RuntimeMarks is the directory of the marks of runtime directories. RuntimeRoot holds these directories; empty is
	// /run. Without marks no process can have a runtime directory.
	RuntimeMarks, RuntimeRoot string
	// Urgent calls do, which may write to a full disk in reserved space; nil if there is no reserve.
	Urgent func(do func() error) error
	// May rejects files that drover must not read, by their paths with links resolved; nil rejects none.
	May func(path string) error
	// Claims is the file in which the drovers of one host claim processes; empty is the file of this user's drovers.
	Claims string
	// ClockOffset is how far the wall clock was ahead of the boot clock when the agent first ran in this boot.
	ClockOffset time.Duration
	Log         *slog.Logger
}

// New opens the control groups and the directory of outputs.
func New(cfg Config) (*Host, error) {
	cfg.Signals = cmp.Or(cfg.Signals, cfg.Proofs+".ready")
	for _, dir := range []string{cfg.Outputs, filepath.Dir(cfg.Proofs), cfg.Signals} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot create directory for the files of commands: %w", err)
		}
	}
	if cfg.Urgent == nil {
		cfg.Urgent = func(do func() error) error { return do() }
	}
	if cfg.HostName == nil {
		cfg.HostName = func() string { return "" }
	}
	directories, err := openRuntimeDirs(cmp.Or(cfg.RuntimeRoot, runtimeRoot), cfg.RuntimeMarks, cfg.Log)
	if err != nil {
		return nil, err
	}
	tree, err := cgroup.Open(cfg.FS, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("cannot open control groups: %w", err)
	}
	proofs, err := launch.OpenProofs(cfg.Proofs)
	if err != nil {
		return nil, err
	}
	sampler, accounts := procfs.NewSampler(cfg.FS, runtime.NumCPU()), newAccounts(tree)
	h := &Host{
		fs: cfg.FS, tree: tree, watcher: cfg.Watcher, looks: liveness.NewLooks(cfg.FS), byName: locate.NewLooks(cfg.FS),
		sampler: sampler, accounts: accounts, trees: procfs.NewTrees(sampler, accounts, SinceBoot),
		forker: launch.NewForker(cfg.FS, cfg.Log, filepath.Dir(cfg.Proofs)),
		files:  newFileProber(patience), find: locate.Find, outputs: cfg.Outputs, proofs: proofs,
		signals: cfg.Signals, urgent: cfg.Urgent, logs: cfg.Logs,
		may: cfg.May, name: cfg.HostName, runtime: directories, offset: cfg.ClockOffset, log: cfg.Log,
		units: unitsDirectory, proc: "/proc",
		claims: openClaims(cmp.Or(cfg.Claims, claimsPath()), cfg.FS, cfg.Log), runs: map[string]*run{},
		launches: make(chan struct{}, maxLaunches),
	}
	dir := filepath.Dir(cfg.Proofs)
	h.openNotices(cmp.Or(cfg.Notify, noticePath(cfg.Name, dir)), filepath.Join(dir, "notices"))
	h.Take(instance.ClaimOfDrover(os.Getpid()))
	return h, nil
}

// Run keeps the thread that commands are forked from, and outputs within their bound, until ctx ends. Commands can be
// started without it, at a greater cost.
func (h *Host) Run(ctx context.Context) error {
	return group.Run(ctx, group.Part{Name: "forker", Run: h.forker.Run},
		group.Part{Name: "outputs", Run: h.boundOutputs},
		group.Part{Name: "notices", Run: h.runNotices})
}

// Groups says what kind of control groups the host offers.
func (h *Host) Groups() cgroup.Mode { return h.tree.Mode() }

// Lacks says what this host does not give to the agent; nil means nothing.
func (h *Host) Lacks() (lacks []string) {
	for _, fault := range []error{h.deaf, h.claims.fault} {
		if fault != nil {
			lacks = append(lacks, fault.Error())
		}
	}
	return lacks
}

// Close removes the agent's control group if it is empty. The next agent finds the processes in it again.
func (h *Host) Close() {
	h.accounts.close()
	if h.notices != nil {
		_ = h.notices.Close()
	}
	_ = h.proofs.Close() // everything is written
	_ = h.tree.Remove()
	h.claims.close()
}

// SinceBoot is the clock that decisions are made by: it never steps, and it counts while the host sleeps.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	// The call fails only for a clock that the kernel does not have.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}

// ClockOffset is how far the wall clock is ahead of the boot clock now.
func ClockOffset() time.Duration { return time.Duration(time.Now().UnixNano()) - SinceBoot() }
