// Package rollup keeps a picture of all processes of the fleet in memory: as much of each as counts, groups and
// selections need. The database is the source: the picture reads the rows of the agents that have told something since
// its last look. So it is right with several servers, and after a restart. It reads only while somebody asks, and
// decides nothing about rights.
package rollup

import (
	"context"
	"maps"
	"slices"
	"time"
	"unique"

	"drover/internal/process"
	"drover/internal/server/store"
)

const (
	// share is how many times as long as the last look took the picture rests, so that looks take a part of one
	// processor at most. longestRest bounds that.
	share       = 20
	longestRest = 10 * time.Second
	// wholeEvery is the interval at which the picture is read as a whole, in case it has missed something.
	wholeEvery = 10 * time.Minute
	// many is how many rows, or agents, one read of the database is for.
	many = 1000
	// mostLabels is the size of the longest labels that the picture keeps, in bytes, because agents may report any
	// text.
	mostLabels = 4 << 10
)

// Row is one process on one host, as the host last reported it.
type Row struct {
	Process process.ID
	State   string
	// Version is that of a running process; empty if it is unknown.
	Version string
	Hosted  bool
	Want    process.Want
	// Since is since when the process has its cause, or when it was last started, in Unix milliseconds; 0 if unknown.
	Since int64
	// ReportedAt is the time of the report, in Unix seconds by the clock of the host; 0 if unknown.
	ReportedAt int64
	// CPU and Memory are what a running process uses, in hundredths of a percent of its host; -1 if it does not run.
	CPU, Memory int32
	// Labels are those of the spec. Callers must not change them.
	Labels map[string]string
	// remarkable is what a judgement of the state needs; nil if there is nothing to explain.
	remarkable *process.Status
}

// status is the part of the reported status that a judgement of the state needs, in a place of the caller if it can be.
// Nobody may change it.
func (r *Row) status(in *process.Status) *process.Status {
	if r.remarkable != nil {
		return r.remarkable
	}
	*in = process.Status{
		Known: true, Hosted: r.Hosted, Want: r.Want, State: r.State, ReportedAt: r.ReportedAt,
		Instance: process.Instance{PID: 1},
	}
	return in
}

// Config configures a picture. All fields are required.
type Config struct {
	Store interface {
		store.Watching
		ListObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey,
			limit int) (rows []store.Observed, more bool, err error)
	}
	Directory Directory
	// Rest is the least time between two looks; with 0 every query looks.
	Rest time.Duration
	Now  func() time.Time
}

// Rollup is the picture. It is safe for concurrent use.
type Rollup struct {
	Config
	// looking is held by the only look at a time.
	looking chan struct{}
	// seen has the places of the reports that the picture contains; late has the agents that changed at the last look,
	// because rows may change soon after the place of their report. Only a look uses them.
	seen map[string]store.ReportPlace
	late map[string]bool
	// whole is the time of the last look at everything, and looked that of the last look; rest is the pause after it.
	whole, looked time.Time
	rest          time.Duration
	// rows are by agent. Neither the map nor a slice in it ever changes: a look makes a new map.
	rows map[string][]Row
}

// New returns an empty picture; the first look fills it.
func New(c Config) *Rollup {
	return &Rollup{Config: c, looking: make(chan struct{}, 1), rows: map[string][]Row{}}
}

// agents returns the rows of each agent, unordered. The picture is at most some seconds old; with now it contains
// everything that was stored before the call. A look at a large fleet may take a second; ctx ends it.
func (p *Rollup) agents(ctx context.Context, now bool) (map[string][]Row, error) {
	select {
	case p.looking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.looking }()
	begun := p.Now()
	if idle := begun.Sub(p.looked); now || p.whole.IsZero() || idle >= p.rest || idle < 0 {
		if err := p.refresh(ctx, begun); err != nil {
			return nil, err
		}
	}
	return p.rows, nil
}

// refresh reads the hosts that have changed since the last refresh, and all hosts once per wholeEvery.
func (p *Rollup) refresh(ctx context.Context, begun time.Time) error {
	places, err := p.Store.LastReports(ctx)
	if err != nil {
		return err
	}
	if age := begun.Sub(p.whole); p.whole.IsZero() || age >= wholeEvery || age < 0 {
		if err := p.readAll(ctx); err != nil {
			return err
		}
		p.whole, p.late, p.rest = begun, map[string]bool{}, p.Rest
	} else {
		changed := map[string]bool{}
		for agent, place := range places {
			if p.seen[agent] != place {
				changed[agent] = true
			}
		}
		gone := []string{}
		for agent := range p.seen {
			if _, there := places[agent]; !there {
				gone = append(gone, agent)
			}
		}
		again := maps.Clone(changed)
		maps.Copy(again, p.late)
		if err := p.read(ctx, slices.Collect(maps.Keys(again)), gone); err != nil {
			return err
		}
		p.late = changed
		if p.rest = p.Rest; p.rest > 0 {
			p.rest = min(max(p.rest, share*p.Now().Sub(begun)), longestRest)
		}
	}
	p.seen, p.looked = places, p.Now()
	return nil
}

// readAll reads all rows.
func (p *Rollup) readAll(ctx context.Context) error {
	rows := map[string][]Row{}
	var after store.ObservedKey
	var labels labelsOf
	for more := true; more; {
		var page []store.Observed
		var err error
		page, more, err = p.Store.ListObserved(ctx, store.ObservedFilter{Spec: true}, after, many)
		if err != nil {
			return err
		}
		for i := range page {
			o := &page[i]
			rows[o.Agent] = append(rows[o.Agent], labels.row(o))
			after = store.ObservedKey{Agent: o.Agent, Process: o.Process}
		}
		more = more && len(page) > 0
	}
	p.rows = rows
	return nil
}

// read reads the rows of agents, and forgets those of others.
func (p *Rollup) read(ctx context.Context, agents, gone []string) error {
	rows := map[string][]Row{}
	var labels labelsOf
	for part := range slices.Chunk(agents, many) {
		err := p.Store.ObservedOn(ctx, part, func(o store.Observed) {
			rows[o.Agent] = append(rows[o.Agent], labels.row(&o))
		})
		if err != nil {
			return err
		}
	}
	if len(agents)+len(gone) == 0 {
		return nil
	}
	all := maps.Clone(p.rows)
	for _, agent := range slices.Concat(agents, gone) {
		delete(all, agent)
	}
	maps.Copy(all, rows)
	p.rows = all
	return nil
}

// labelsOf remembers the labels of the last spec, because rows in order mostly share one.
type labelsOf struct {
	spec   *process.Spec
	labels map[string]string
}

// row returns the row of an observation. Equal texts share their memory.
func (l *labelsOf) row(o *store.Observed) Row {
	s := &o.Status
	if o.Spec != l.spec {
		l.spec, l.labels = o.Spec, nil
		if o.Spec != nil && len(o.Spec.Labels) <= mostLabels {
			l.labels = o.Spec.Labels
		}
	}
	r := Row{
		Process: process.ID{Namespace: shared(o.Process.Namespace), Name: shared(o.Process.Name)},
		State:   shared(s.State), Hosted: s.Hosted, Want: process.Want(shared(string(s.Want))),
		Since: s.Cause.Since, ReportedAt: s.ReportedAt, CPU: -1, Memory: -1, Labels: l.labels,
	}
	if s.Running() {
		r.Version = shared(s.Instance.Version)
		cpu, memory := s.Instance.CPU, s.Instance.Mem
		if s.Usage != nil {
			cpu, memory = s.Usage.CPU, s.Usage.Mem
		}
		r.CPU, r.Memory = hundredths(cpu), hundredths(memory)
	}
	if r.Since == 0 {
		r.Since = s.LastStartAt * 1000
	}
	if s.Cause.ID != "" || len(s.Further) > 0 || !s.Known || s.State != process.StateRunning || !s.Running() {
		r.remarkable = &process.Status{
			Known: s.Known, Hosted: s.Hosted, Want: r.Want, State: r.State, LastExit: s.LastExit,
			LastStartAt: s.LastStartAt, ReportedAt: s.ReportedAt, Instance: process.Instance{PID: s.Instance.PID},
			Cause: process.Cause{ID: process.CauseID(shared(string(s.Cause.ID))), Since: s.Cause.Since},
		}
		for _, c := range s.Further {
			r.remarkable.Further = append(r.remarkable.Further,
				process.Cause{ID: process.CauseID(shared(string(c.ID))), Since: c.Since})
		}
	}
	return r
}

// hundredths returns a percentage in hundredths. Agents may report any number.
func hundredths(percent float64) int32 {
	if percent > 0 {
		return int32(min(percent, 1_000_000)*100 + 0.5)
	}
	return 0 // also for NaN
}

func shared(text string) string { return unique.Make(text).Value() }
