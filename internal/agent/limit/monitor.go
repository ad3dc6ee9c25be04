// Package limit keeps processes within their limits. It measures processes with their trees at intervals, judges the
// readings, and names the processes to end. It owns the judgement of a process's own limits and of the pools of a
// namespace, and the last readings. It hands each reading to the histories (usage). It ends no process and does not
// decide what follows (supervisor does), and it does not read from the kernel (procfs does).
package limit

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/agent/usage"
	"drover/internal/process"
	"drover/internal/spec"
)

// Subject is a running process to measure.
type Subject struct {
	ID       process.ID
	Instance instance.Identity
	// Run is the run of drover in which the process was started; empty if somebody else started it.
	Run    string
	Limits spec.Thresholds
	// StartedAt is when the process started, since boot. Its use within StartWindow after that does not count.
	StartedAt   time.Duration
	StartWindow time.Duration
}

// Subjects yields the hosted processes that are running, without those that an operation or an end by policy holds.
type Subjects interface {
	Subjects() iter.Seq[Subject]
}

// Sink receives the findings. Its methods do not block.
type Sink interface {
	// Exceeded says which instance to end, and why. The monitor may repeat it after a minute or more if the instance is
	// still listed.
	Exceeded(id process.ID, instance instance.Identity, b process.Breach)
	// Moved says that the Usage of a process has changed enough to report it, or is the first. The monitor calls it at
	// most once in each round over all processes.
	Moved(id process.ID)
}

// Groups reads the process groups of this host, by namespace.
type Groups interface {
	Groups() (map[string][]process.Group, error)
}

// Trees measures processes with their trees. The answers are in the order of the roots.
type Trees interface {
	Measure(roots []procfs.Root) ([]procfs.TreeUse, error)
}

// Histories keep what processes have used. Watched tells which processes deserve a look at every interval.
type Histories interface {
	Add(id process.ID, l usage.Look)
	Watched(id process.ID, now time.Duration) bool
}

// Config is what a Monitor needs. The fields of the second group have defaults.
type Config struct {
	Groups    Groups
	Trees     Trees
	Histories Histories
	// Clock is the time since boot.
	Clock func() time.Duration
	Log   *slog.Logger

	// Interval is how often processes with limits and watched processes are measured (5 s; at least 1 s), Leisure how
	// often the others are (30 s).
	Interval, Leisure time.Duration
	// Samples is how many readings running must be over a limit (3).
	Samples int
}

func (c *Config) setDefaults() {
	c.Interval = max(cmp.Or(c.Interval, 5*time.Second), time.Second)
	c.Leisure = max(cmp.Or(c.Leisure, 30*time.Second), c.Interval)
	c.Samples = max(cmp.Or(c.Samples, 3), 1)
}

// Monitor measures and judges. Its methods may be called from any goroutine.
type Monitor struct {
	cfg Config

	mu   sync.Mutex
	uses map[process.ID]*lastUsage

	// The fields below belong to the goroutine of Run.
	rounds  uint64
	judge   *Judge
	groups  map[string][]process.Group
	all     time.Duration   // when all processes were last measured; negative before the first time
	failing map[string]bool // by message
}

// lastUsage is the usage of a process at the last look, and the last usage that was reported. round
// is the last round in which the process was there.
type lastUsage struct {
	instance instance.Identity
	round    uint64
	usage    process.Usage
	reported process.Usage
}

func (u *lastUsage) moved() bool {
	return u.reported.At == 0 || u.usage.MovedFrom(u.reported)
}

// gaps is how many intervals may lie between two consecutive readings.
const gaps = 2

// NewMonitor returns a monitor that does nothing until Run.
func NewMonitor(cfg Config) *Monitor {
	cfg.setDefaults()
	return &Monitor{
		cfg: cfg, uses: map[process.ID]*lastUsage{}, judge: NewJudge(cfg.Samples, gaps*cfg.Interval), all: -1,
		failing: map[string]bool{},
	}
}

// Run measures and judges until ctx ends. If no process has a limit, it measures at the interval Leisure.
func (m *Monitor) Run(ctx context.Context, subjects Subjects, sink Sink) error {
	ticker := time.NewTicker(m.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.round(ctx, subjects.Subjects(), sink)
		case <-ctx.Done():
			return nil
		}
	}
}

// Usage returns what a process used at the last look; false if the process was not measured yet, or is no longer among
// the subjects.
func (m *Monitor) Usage(id process.ID) (process.Usage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.uses[id]; u != nil {
		return u.usage, true
	}
	return process.Usage{}, false
}

// Use is what a process used at the last look, with its memory in bytes.
type Use struct {
	ID     process.ID
	Memory int64
	process.Usage
}

// Uses returns the use of the measured processes, ordered by namespace and name.
func (m *Monitor) Uses() []Use {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Use, 0, len(m.uses))
	ids := slices.Collect(maps.Keys(m.uses))
	process.SortIDs(ids)
	for _, id := range ids {
		u := m.uses[id]
		list = append(list, Use{ID: id, Memory: u.usage.RSS, Usage: u.usage})
	}
	return list
}

// round measures the processes that are due, and judges those with a limit or a pool.
func (m *Monitor) round(ctx context.Context, present iter.Seq[Subject], sink Sink) {
	at := m.cfg.Clock()
	m.readGroups(ctx)
	everybody := m.all < 0 || at-m.all > m.cfg.Leisure-m.cfg.Interval/2
	var subjects []Subject
	var roots []procfs.Root
	m.rounds++
	for s := range present {
		m.markPresent(&s)
		if everybody || m.limited(&s) || m.cfg.Histories.Watched(s.ID, at) {
			subjects, roots = append(subjects, s), append(roots, procfs.Root{Identity: s.Instance, Run: s.Run})
		}
	}
	m.forget()
	var uses []procfs.TreeUse
	if len(roots) > 0 {
		var err error
		uses, err = m.cfg.Trees.Measure(roots)
		m.logOnce(ctx, "processes could not be measured", err)
	}
	readings := m.keep(subjects, uses)
	if everybody {
		m.all = at
		m.tell(subjects, sink)
	}
	for _, v := range m.judge.Round(at, readings, m.groups) {
		sink.Exceeded(v.ID, v.Instance, v.Breach)
	}
}

// readGroups reads the groups. If that fails, the previous groups stay in force.
func (m *Monitor) readGroups(ctx context.Context) {
	groups, err := m.cfg.Groups.Groups()
	if err == nil {
		m.groups = groups
	}
	m.logOnce(ctx, "cannot read process groups", err)
}

// logOnce logs a failure that was not there in the previous round.
func (m *Monitor) logOnce(ctx context.Context, message string, err error) {
	if err != nil && !m.failing[message] {
		m.cfg.Log.ErrorContext(ctx, message, "error", err) //nolint:sloglint // one of two constants
	}
	m.failing[message] = err != nil
}

// limited reports whether a process has a limit or shares a pool.
func (m *Monitor) limited(s *Subject) bool {
	return s.Limits.CPU > 0 || s.Limits.Memory > 0 || len(m.groups[s.ID.Namespace]) > 0
}

// markPresent notes that a process is there in this round. The usage of its former instance no longer counts.
func (m *Monitor) markPresent(s *Subject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.uses[s.ID]; u != nil && u.instance == s.Instance {
		u.round = m.rounds
	}
}

// forget drops the usage of processes that are not there in this round.
func (m *Monitor) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.uses, func(_ process.ID, u *lastUsage) bool { return u.round != m.rounds })
}

// keep stores the measurements, and returns the readings to judge.
func (m *Monitor) keep(subjects []Subject, uses []procfs.TreeUse) []Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UnixMilli()
	var readings []Reading
	for i := range uses {
		s, u := &subjects[i], &uses[i]
		if u.Processes == 0 {
			delete(m.uses, s.ID)
			continue
		}
		last := m.uses[s.ID]
		if last == nil {
			last = &lastUsage{instance: s.Instance, round: m.rounds}
			m.uses[s.ID] = last
		}
		last.usage = process.Usage{
			CPU: u.CPU, Mem: u.Mem, RSS: u.RSS, Processes: u.Processes, Files: u.Files, At: now,
		}
		m.cfg.Histories.Add(s.ID, usage.Look{
			CPU: u.CPU, Memory: u.RSS, Files: u.Files, Since: u.Since, At: u.At, StartTicks: s.Instance.StartTicks,
		})
		if m.limited(s) {
			readings = append(readings, Reading{ID: s.ID, Instance: s.Instance, Limits: s.Limits, Ready: s.StartedAt +
				s.StartWindow, Use: *u})
		}
	}
	return readings
}

// tell reports each process whose usage has moved since the last report.
func (m *Monitor) tell(subjects []Subject, sink Sink) {
	var moved []process.ID
	m.mu.Lock()
	for i := range subjects {
		if u := m.uses[subjects[i].ID]; u != nil && u.moved() {
			u.reported = u.usage
			moved = append(moved, subjects[i].ID)
		}
	}
	m.mu.Unlock()
	for _, id := range moved {
		sink.Moved(id)
	}
}
