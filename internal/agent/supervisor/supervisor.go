// Package supervisor runs one lifecycle machine for every process that the agent knows. It queues the operations and
// relaunches of a process, so that they run one after another while different processes run in parallel. It watches
// the running processes and reports changes. Package operation executes an operation; lifecycle decides what follows
// from an event.
package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"drover/internal/agent/budget"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/probe"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/agent/story"
	"drover/internal/agent/timetable"
	"drover/internal/process"
)

// Store is the supervisor's data on disk.
type Store interface {
	PutRecord(r record.Record) error
	Finish(item string, id process.ID, outcome process.Outcome, change specstore.Change) error
	GetRuntime(id process.ID) (record.Runtime, error)
	PutRuntime(id process.ID, r record.Runtime) error
	DeleteRuntime(id process.ID) error
	BootID() string
}

// Histories keeps the results of periodic and single runs.
type Histories interface {
	GetHistory(id process.ID) (record.History, error)
	PutHistory(id process.ID, h record.History) error
}

// Sink receives everything that the server must learn. Its methods do not block.
type Sink interface {
	// Began says that an operation has begun and how long it may take.
	Began(item string, limit time.Duration)
	// Finished says that an outcome is on disk.
	Finished(item string, outcome process.Outcome)
	// Changed says that the state of a process has changed; Snapshot returns the new state.
	Changed(id process.ID)
	// Happened reports an event, which has no stream and no number yet.
	Happened(e process.Event)
	// StateShown records what a list shows of a process from a time on, in Unix milliseconds.
	StateShown(id process.ID, at int64, s process.Shown)
	// Removed says that a process was forgotten, and with which revision.
	Removed(id process.ID, revision uint64)
}

// Timetables calls Due and Missed for the processes that are set.
type Timetables interface {
	Set(id process.ID, t timetable.Table, last time.Time, missed process.Missed)
	Drop(id process.ID)
	Next(id process.ID) (time.Time, bool)
}

// Probes asks the processes that are set, and calls Answered.
type Probes interface {
	Set(id process.ID, s probe.Subject)
	Drop(id process.ID)
	// Hurry asks for the health of the process at once.
	Hurry(id process.ID)
}

// Usages knows the use of the processes.
type Usages interface {
	Usage(id process.ID) (process.Usage, bool)
}

// Remains is what processes have on the host while they run.
type Remains interface {
	// AtRest removes it: the process does not run, and nobody starts it before its next launch.
	AtRest(id process.ID)
}

// Config is what a supervisor needs.
type Config struct {
	Store     Store
	Histories Histories
	Revisions Revisions
	Sink      Sink
	// Operation is what the operator of the supervisor works with.
	Operation operation.Config
	// Timetables, Probes and Usages tell the supervisor of the processes while they run.
	Timetables Timetables
	Probes     Probes
	Usages     Usages
	// Remains is nil where processes leave nothing.
	Remains Remains
	// AnyOOM counts the processes of the whole host that the kernel has killed since the boot because memory ran out.
	// Nil, or an error, says that nobody knows.
	AnyOOM func() (uint64, error)
	// MayBegin reports whether an operation whose turn has come is still wanted. It may wait for that until ctx ends,
	// which is an error. Nil counts as yes.
	MayBegin func(ctx context.Context, item string) (bool, error)
	// Confirmed is closed when the server has sent its records of this host, or when the agent stops waiting for them.
	// Until then no relaunch and no operation begins, because an old disk could be wrong. Nil counts as closed.
	Confirmed <-chan struct{}
	// Alive is called at least every few seconds while supervision lives; it may be nil.
	Alive func()
	// HealthyAfter is how long a run must last to restore the relaunch budget.
	HealthyAfter time.Duration
	// Bounds define flapping, and how long a breach of a limit counts.
	Bounds lifecycle.Bounds
	// The host may do Burst relaunches at once, and Rate more in each second after that.
	Burst int
	Rate  float64
	// Spread is the longest delay, at random, before the relaunches beyond Burst.
	Spread time.Duration
	// Relist is the interval at which drover compares /proc with its own state.
	Relist time.Duration
	// BootStarts is how many processes are started at a time after a reboot.
	BootStarts int
	Log        *slog.Logger
}

// Supervisor is the set of processes of one agent.
type Supervisor struct {
	cfg        Config
	operator   *operation.Operator
	bootSlots  chan struct{}
	readySlots chan struct{}
	budget     *budget.Budget
	goroutines goroutines
	peers      peerIndex
	order      order
	confirmed  atomic.Bool
	shutsDown  atomic.Bool
	breakers   breakers
	// killed and killedLimited belong to the goroutine of Run.
	killed, killedLimited oomTotal

	mu      sync.Mutex
	runners map[process.ID]*runner
	// byPrefix finds a runner by the beginning of its runs.
	byPrefix map[string]*runner
	ctx      context.Context //nolint:containedctx // the context of Run, for runners that are added during Run
}

// New returns a supervisor that does nothing until Run.
func New(cfg Config) *Supervisor {
	s := &Supervisor{
		cfg: cfg, bootSlots: make(chan struct{}, cfg.BootStarts), budget: budget.New(cfg.Burst, cfg.Rate, cfg.Spread),
		readySlots: make(chan struct{}, readyAtOnce), runners: map[process.ID]*runner{},
		byPrefix: map[string]*runner{},
	}
	s.operator = operation.New(cfg.Operation, s)
	s.confirmed.Store(cfg.Confirmed == nil)
	return s
}

// Begun reports whether an operation had begun in an earlier life of the agent.
func (s *Supervisor) Begun(item string) bool { return s.operator.Begun(item) }

// Adopt takes over the processes and the open operations of the last agent. Call it once, before Run.
func (s *Supervisor) Adopt(records []record.Record, open []record.Entry) {
	for _, rec := range records {
		s.add(rec.ID, s.newRunner(rec.ID, &rec))
		s.operator.AdoptPolicy(rec.ID)
	}
	for _, e := range open {
		r := s.runnerOf(e.Process)
		s.operator.Adopt(e.Item)
		s.noteRemoval(&e)
		r.queue(task{entry: e, adopted: true, behind: r.operationPending(), begun: s.operator.Begun(e.Item)})
	}
}

// TellOf tells of operations that the last agent has ended and could not tell of any more. told are those whose event
// is in the log (eventlog.Log.Operations), as far as the log was read: from a time in Unix milliseconds on. Call it
// after Adopt.
func (s *Supervisor) TellOf(ended []record.Entry, told map[string]bool, since int64) {
	for _, e := range ended {
		operation := story.Caller(e.Actor, e.Item).Operation
		if e.Ended >= since && !told[operation+" "+e.Process.String()] && e.Op.Info().Event != "" {
			s.runnerOf(e.Process).post(func(_ context.Context, r *runner) { r.tell(r.proc.OperatedBefore(&e)...) })
		}
	}
}

// Run supervises until ctx ends. It returns when every runner has stopped; the processes and the commands of
// operations under way continue without it.
func (s *Supervisor) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for _, r := range s.runners {
		s.goRun(r)
	}
	s.mu.Unlock()
	ticker := time.NewTicker(s.cfg.Relist)
	defer ticker.Stop()
	counter := time.NewTicker(countEvery)
	defer counter.Stop()
	confirmed := s.cfg.Confirmed
	for n, counts := 1, 1; ; {
		select {
		case <-counter.C:
			if s.cfg.Alive != nil {
				s.cfg.Alive()
			}
			s.count(counts%countAllEvery == 0)
			counts++
		case <-ticker.C:
			s.relist(n)
			n++
		case <-confirmed:
			s.finishReconcile()
			confirmed = nil
		case <-ctx.Done():
			s.goroutines.wait()
			for _, r := range s.all() {
				r.stopTimers()
			}
			return nil
		}
	}
}

// goRun attaches a runner to the context of Run; the caller holds the lock.
func (s *Supervisor) goRun(r *runner) {
	r.attach(func() { s.goroutines.start(func() { r.run(s.ctx) }) })
}

// Submit queues accepted operations. The operations of one process run in this order. Those on several processes are
// queued together, so that they can wait for each other.
func (s *Supervisor) Submit(entries []record.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		s.noteRemoval(&entries[i])
	}
	for _, e := range entries {
		e.Followers = followers(&e, entries)
		s.runnerOf(e.Process).queue(task{entry: e})
	}
}

// followers are the processes that begin in a namespace when a removal from it is over.
func followers(removal *record.Entry, beside []record.Entry) (list []record.Follower) {
	for i := range beside {
		if e := &beside[i]; removal.Removes && e.Op == process.Start && e.Spec != nil &&
			e.Process != removal.Process && e.Process.Namespace == removal.Process.Namespace {
			list = append(list, record.Follower{Process: e.Process, Spec: e.Spec})
		}
	}
	return list
}

// noteRemoval notes whether an operation begins a removal, before the operation is queued.
func (s *Supervisor) noteRemoval(e *record.Entry) {
	if e.Op != process.Query {
		s.order.removal(e.Process, e.Removes)
	}
}

func (s *Supervisor) submit(id process.ID, t task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runnerOf(id).queue(t)
}

// runnerOf returns the runner of a process, and makes it if necessary. The caller holds the lock, or Run has not
// begun.
func (s *Supervisor) runnerOf(id process.ID) *runner {
	r, ok := s.runners[id]
	if !ok {
		r = s.newRunner(id, nil)
		s.add(id, r)
		if s.ctx != nil && s.ctx.Err() == nil {
			s.goRun(r)
		}
	}
	return r
}

// add makes a runner known. The caller holds the lock, or Run has not begun.
func (s *Supervisor) add(id process.ID, r *runner) {
	r.part = len(s.runners) % parts
	s.runners[id], s.byPrefix[operation.RunPrefix(id)] = r, r
	s.order.add(id)
}

// retire removes the runner of an unknown process, unless something was queued for the runner meanwhile.
func (s *Supervisor) retire(r *runner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.pending() {
		return false
	}
	delete(s.runners, r.id)
	s.order.remove(r.id)
	s.order.removal(r.id, false)
	delete(s.byPrefix, operation.RunPrefix(r.id))
	return true
}

// refreshEvery is how many relists pass between two reports of an unchanged process.
const refreshEvery = 10

// parts is how many relists it takes until each watched process was looked at: the watch tells of its end at once.
const parts = 10

// relist compares the agent's state with /proc. A process that runs as expected costs at most one system call, and does
// not wake its runner.
func (s *Supervisor) relist(n int) {
	refresh := n%refreshEvery == 0
	for _, r := range s.all() {
		if (!r.watched.Load() || r.part == n%parts) && !s.isConfirmed(r) {
			r.post(func(ctx context.Context, r *runner) { r.relist(ctx) })
		}
		f := r.shared.load()
		if f.Rival != 0 || f.Runtime.ForeignSupervisor != nil {
			r.post(reclaim)
		}
		if rechecked(f.Runtime.Cause.ID) {
			r.post(recheck)
		}
		if f.Record != nil && f.Record.PendingStop != nil {
			r.post(func(_ context.Context, r *runner) { r.dropPendingStop() })
		}
		if f.Record != nil && (len(f.Record.Spec.ConfigFiles) > 0 || f.Record.Spec.Instances() > 1 ||
			len(f.Runtime.Relaunches) > 0 || f.Runtime.Flaps != 0) {
			r.post(func(ctx context.Context, r *runner) { r.review(ctx) })
		}
		if refresh && f.Record != nil {
			s.cfg.Sink.Changed(r.id)
		}
		if f.Record != nil {
			r.recordDue(&f)
		}
	}
}

// isConfirmed reports whether a process that should be running is alive. If its figures have moved since the last
// report, it causes a new report.
func (s *Supervisor) isConfirmed(r *runner) bool {
	f := r.shared.load()
	if f.Record == nil || f.Machine.State != lifecycle.Running || f.Runtime.Process == nil {
		return false
	}
	alive, moved := s.operator.Processes.Glance(*f.Runtime.Process)
	if alive && moved {
		s.cfg.Sink.Changed(r.id)
	}
	return alive
}

// all returns the current runners.
func (s *Supervisor) all() []*runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*runner, 0, len(s.runners))
	for _, r := range s.runners {
		list = append(list, r)
	}
	return list
}

// Snapshot returns the current status of a process and the spec in force; ok is false for an unknown process.
func (s *Supervisor) Snapshot(id process.ID) (status process.Status, spec *process.Spec, ok bool) {
	s.mu.Lock()
	r := s.runners[id]
	s.mu.Unlock()
	if r == nil {
		return process.Status{}, nil, false
	}
	return r.snapshot()
}

// Spec returns the spec in force of a process, and its latest run; nil for a process without a record.
func (s *Supervisor) Spec(id process.ID) (spec *process.Spec, run string) {
	s.mu.Lock()
	r := s.runners[id]
	s.mu.Unlock()
	if r == nil {
		return nil, ""
	}
	facts := r.shared.load()
	if facts.Record == nil {
		return nil, ""
	}
	return &facts.Record.Spec, facts.Runtime.Run
}

// Running returns the spec in force of a process, and what is on record of its instance. ok is false if no instance is
// on record.
func (s *Supervisor) Running(id process.ID) (spec *process.Spec, rt record.Runtime, ok bool) {
	s.mu.Lock()
	r := s.runners[id]
	s.mu.Unlock()
	if r == nil {
		return nil, record.Runtime{}, false
	}
	facts := r.shared.load()
	if facts.Record == nil || facts.Runtime.Process == nil {
		return nil, record.Runtime{}, false
	}
	return &facts.Record.Spec, facts.Runtime, true
}

// ProcessIDs returns the ids of all processes that have a record.
func (s *Supervisor) ProcessIDs() []process.ID {
	var ids []process.ID
	for _, r := range s.all() {
		if r.shared.load().Record != nil {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// Runs returns the runs whose output and cgroups must be kept: the latest runs of all processes, and all runs that are
// under way.
func (s *Supervisor) Runs() map[string]bool {
	runs := map[string]bool{}
	// Read these first: a run that ends meanwhile is in the runtime before it is no longer under way.
	for _, run := range s.operator.Runs() {
		runs[run] = true
	}
	for _, r := range s.all() {
		if run := r.shared.load().Runtime.Run; run != "" {
			runs[run] = true
		}
	}
	return runs
}

// goroutines are the goroutines of a supervisor. A runner has one only while it has work: the stacks of a thousand
// waiting goroutines would be most of the agent's memory.
type goroutines struct {
	mu      sync.Mutex
	ending  bool
	running sync.WaitGroup
}

// start runs fn in a new goroutine, unless the supervisor is ending.
func (g *goroutines) start(fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ending {
		g.running.Go(fn)
	}
}

// spawn is start for a caller that is itself one of these goroutines, so that wait cannot have returned yet.
func (g *goroutines) spawn(fn func()) { g.running.Go(fn) }

// wait blocks further starts, and waits for the goroutines that run.
func (g *goroutines) wait() {
	g.mu.Lock()
	g.ending = true
	g.mu.Unlock()
	g.running.Wait()
}
