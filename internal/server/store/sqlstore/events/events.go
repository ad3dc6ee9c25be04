// Package events keeps what has happened to processes, and the records of their states.
package events

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"drover/internal/process"
	"drover/internal/server/batch"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/store/sqlstore/observed"
	"drover/internal/wildcard"
)

// Events are the tables of events and states.
type Events struct {
	*kit.DB
	observed *observed.Observed
	// arriving gathers the events of many agents.
	arriving *batch.Writer[*eventReport]
}

// New returns the tables of events and states.
func New(db *kit.DB, o *observed.Observed) *Events {
	e := &Events{DB: db, observed: o}
	e.arriving = batch.New(observed.ReportBatch, e.putEvents)
	return e
}

// eventReport is what one call of PutEvents stores. stored is its result.
type eventReport struct {
	agent    string
	received time.Time
	events   []store.NewEvent
	stored   int
}

// PutEvents stores the new events and records of states of one agent. Callers that wait at the same time share a
// transaction.
func (db *Events) PutEvents(ctx context.Context, agent string, received time.Time,
	events []store.NewEvent,
) (int, error) {
	r := &eventReport{agent: agent, received: received, events: events}
	err := ctx.Err()
	if err == nil {
		err = db.arriving.Put(ctx, []*eventReport{r})
	}
	if err != nil {
		return 0, kit.Wrapped(err, "cannot store events")
	}
	return r.stored, nil
}

// putEvents stores reports in one transaction.
func (db *Events) putEvents(ctx context.Context, reports []*eventReport) error {
	_, err := db.WriteEvents(ctx, time.Time{}, func(ctx context.Context, tx kit.Tx, arrived *Arrivals) error {
		if err := arrived.readStreams(ctx, tx, db.Dialect, reports); err != nil {
			return err
		}
		for _, r := range reports {
			before := arrived.count
			arrived.Agent, arrived.received = r.agent, r.received
			for i := range r.events {
				if err := arrived.Add(ctx, tx, &r.events[i]); err != nil {
					return err
				}
			}
			r.stored = arrived.count - before
		}
		return nil
	})
	return err
}

// WriteEvents runs do in a transaction, and stores the events that do has added. It returns their number.
func (db *Events) WriteEvents(ctx context.Context, received time.Time,
	do func(context.Context, kit.Tx, *Arrivals) error,
) (int, error) {
	var found *Arrivals
	err := db.WriteSerially(ctx, func(ctx context.Context, tx kit.Tx) (err error) {
		found = &Arrivals{received: received, streams: map[streamKey]*Stream{}}
		// The lock keeps other transactions from taking a cursor until this one ends. So no reader sees a later cursor
		// before this one. It guards the cursors of states too. Every transaction takes it first.
		found.cursor, err = kit.One(ctx, tx.Query, kit.Column[int64], lastCursor+db.Dialect.Locked)
		if err != nil {
			return err
		}
		if err := do(ctx, tx, found); err != nil || found.count == 0 {
			return err
		}
		return found.store(ctx, tx)
	})
	if err != nil {
		return 0, err
	}
	for _, e := range found.stored {
		db.Watch.Happened(e.Kind, max(e.received.Sub(time.UnixMilli(e.At)), 0))
	}
	return found.count, nil
}

// Arrivals collects the new events of a transaction. Agent and received apply to the events that Add adds next. streams
// caches the streams of the agents.
type Arrivals struct {
	Agent    string
	received time.Time
	streams  map[streamKey]*Stream
	count    int
	// cursor is the number of the last event.
	cursor int64
	events []any
	stored []arrival
	states states
}

// arrival is a new event, and when it was received.
type arrival struct {
	*store.NewEvent
	received time.Time
}

type streamKey struct{ agent, stream string }

// Stream is what the store knows of a stream. Its times are in Unix milliseconds; began is 0 if it is not a run of the
// agent.
type Stream struct {
	Seq         uint64
	began, last int64
	build       string
	changed     bool
	changedAt   time.Time // of the last change
}

// Add adds an event if it is new.
func (a *Arrivals) Add(ctx context.Context, tx kit.Tx, e *store.NewEvent) error {
	s, err := a.StreamOf(ctx, tx, e.Stream)
	if err != nil || e.Seq <= s.Seq {
		return err
	}
	isState := e.Kind == process.EventState && e.Shown != nil
	if s.began == 0 && isState {
		s.began, s.last = max(e.At, 1), max(e.At, 1)
	}
	if e.Seq > s.Seq+1 && s.began > 0 {
		if err := a.recordLoss(ctx, tx, s); err != nil {
			return err
		}
	}
	s.Seq, s.changed, s.changedAt = e.Seq, true, a.received
	if s.began > 0 {
		s.last = max(s.last, e.At)
	}
	a.count++
	switch {
	case isState:
		if e.Process == (process.ID{}) && e.Shown.Version != "" {
			s.build = e.Shown.Version
		}
		return a.addState(ctx, tx, e)
	}
	a.cursor++
	a.events = append(a.events, a.cursor, a.Agent, e.Process.Namespace, e.Process.Name, string(e.Kind), e.At,
		kit.Nanos(a.received), e.Body)
	a.stored = append(a.stored, arrival{e, a.received})
	return nil
}

const selectStreams = `SELECT s.seq, s.began, s.last, s.build`

func scanStream(r *sql.Rows, others ...any) (*Stream, error) {
	var s Stream
	var seq int64
	err := r.Scan(append([]any{&seq, &s.began, &s.last, &s.build}, others...)...)
	s.Seq = uint64(seq) //nolint:gosec // it was one
	return &s, err
}

// readStreams reads what is known of the streams of reports.
func (a *Arrivals) readStreams(ctx context.Context, tx kit.Tx, dialect *sqldb.Dialect, reports []*eventReport) error {
	var keys []streamKey
	for _, r := range reports {
		for i := range r.events {
			key := streamKey{r.agent, r.events[i].Stream}
			if a.streams[key] == nil {
				a.streams[key] = &Stream{}
				keys = append(keys, key)
			}
		}
	}
	pairs := make([][2]string, len(keys))
	for i, key := range keys {
		pairs[i] = [2]string{key.agent, key.stream}
	}
	return tx.Query(ctx, func(r *sql.Rows) error {
		var place int
		s, err := scanStream(r, &place)
		if err == nil {
			a.streams[keys[place]] = s
		}
		return err
	}, selectStreams+`, j.key FROM names(?) j CROSS JOIN event_streams s ON s.agent = j.a AND s.stream = j.b`,
		dialect.Pairs(pairs))
}

// StreamOf returns what is known of a stream of the agent.
func (a *Arrivals) StreamOf(ctx context.Context, tx kit.Tx, name string) (*Stream, error) {
	key := streamKey{a.Agent, name}
	if s, ok := a.streams[key]; ok {
		return s, nil
	}
	s, err := kit.One(ctx, tx.Query, func(r *sql.Rows) (*Stream, error) { return scanStream(r) },
		selectStreams+` FROM event_streams s WHERE s.agent = ? AND s.stream = ?`, a.Agent, name)
	if errors.Is(err, store.ErrNotFound) {
		s, err = &Stream{}, nil
	}
	a.streams[key] = s
	return s, err
}

// LastEvents returns the last number of each of the latest runs of an agent.
func (db *Events) LastEvents(ctx context.Context, agent string, runs int) (map[string]uint64, error) {
	last := map[string]uint64{}
	err := db.Query(ctx, func(r *sql.Rows) error {
		var stream string
		var seq int64
		err := r.Scan(&stream, &seq)
		last[stream] = uint64(seq) //nolint:gosec // it was one
		return err
	}, `SELECT stream, seq FROM event_streams INDEXED BY event_streams_runs WHERE agent = ? AND began > 0
		ORDER BY began DESC LIMIT ?`, agent, max(runs, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot read the last events of an agent: %w", err)
	}
	return last, nil
}

// store stores what was added.
func (a *Arrivals) store(ctx context.Context, tx kit.Tx) error {
	var streams []any
	for key, s := range a.streams {
		if s.changed {
			streams = append(streams, key.agent, key.stream, int64(s.Seq), kit.Nanos(s.changedAt), //nolint:gosec // at most maxSeq
				s.began, s.last, s.build)
		}
	}
	err := kit.RowValues{
		Head: `INSERT INTO event_streams (agent, stream, seq, heard, began, last, build) VALUES `,
		Row:  `(?, ?, ?, ?, ?, ?, ?)`,
		Tail: ` ON CONFLICT (agent, stream) DO UPDATE SET seq = excluded.seq, heard = excluded.heard,
			began = excluded.began, last = excluded.last, build = excluded.build`,
	}.Run(ctx, tx, streams)
	if err != nil {
		return err
	}
	if err := a.states.store(ctx, tx); err != nil || len(a.stored) == 0 {
		return err
	}
	if err := tx.Exec(ctx, `UPDATE counters SET value = ? WHERE name = 'events'`, a.cursor); err != nil {
		return err
	}
	return insertEvents().Run(ctx, tx, a.events)
}

// insertEvents inserts rows of cursor, agent, namespace, name, kind, at, received and body.
func insertEvents() kit.RowValues {
	return kit.RowValues{
		Head: `INSERT INTO events (cursor, agent, namespace, name, kind, at, received, body) VALUES `,
		Row:  `(?, ?, ?, ?, ?, ?, ?, ?)`,
	}
}

const lastCursor = `SELECT value FROM counters WHERE name = 'events'`

// LastCursor returns the greatest cursor so far.
func (db *Events) LastCursor(ctx context.Context) (int64, error) {
	last, err := kit.One(ctx, db.Query, kit.Column[int64], lastCursor)
	if err != nil {
		return 0, fmt.Errorf("cannot read the last cursor: %w", err)
	}
	return last, nil
}

// SkipCursors makes the cursors of later events greater than the given one.
func (db *Events) SkipCursors(ctx context.Context, to int64) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		return tx.Exec(ctx, `UPDATE counters SET value = ?1 WHERE name = 'events' AND value < ?1`, to)
	})
	if err != nil {
		return fmt.Errorf("cannot skip cursors: %w", err)
	}
	return nil
}

// PruneEvents removes events from before a time, streams that ended before it, and older records of states: at most
// limit of each. It returns the larger number, of events or of records of states.
func (db *Events) PruneEvents(ctx context.Context, before time.Time, limit int) (int, error) {
	var pruned int
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) (err error) {
		states, err := pruneStates(ctx, tx, before, max(limit, 0))
		if err != nil {
			return err
		}
		defer func() { pruned = max(pruned, states) }()
		pruned, err = tx.Affect(ctx, `DELETE FROM events WHERE cursor IN (
				SELECT cursor FROM (SELECT cursor, received FROM events WHERE cursor > 0 ORDER BY cursor
					LIMIT ?) AS oldest WHERE received < ?)`,
			max(limit, 0), kit.Nanos(before))
		if err != nil {
			return err
		}
		// An agent no longer has events that the server acknowledged so long ago, so it does not resend them. The extra
		// day covers agents whose clocks were ahead.
		return tx.Exec(ctx, `DELETE FROM event_streams WHERE (agent, stream) IN (
				SELECT agent, stream FROM event_streams WHERE heard < ? LIMIT ?)`, kit.Nanos(before.Add(-24*time.Hour)), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune events: %w", err)
	}
	return pruned, nil
}

// CountEvents counts the events of each agent, or its records of states if these are more.
func (db *Events) CountEvents(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	err := db.Query(ctx, func(r *sql.Rows) error {
		var agent string
		var n int
		err := r.Scan(&agent, &n)
		counts[agent] = max(counts[agent], n)
		return err
	}, `SELECT agent, count(*) FROM events GROUP BY agent UNION ALL SELECT agent, count(*) FROM states GROUP BY agent`)
	if err != nil {
		return nil, fmt.Errorf("cannot count events: %w", err)
	}
	return counts, nil
}

// maxStreams is how many streams of an agent the store remembers.
const maxStreams = 1000

// TrimEvents removes the oldest events of an agent that has too many.
func (db *Events) TrimEvents(ctx context.Context, agent string, keep, limit int) (int, error) {
	var trimmed int
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) (err error) {
		states, err := trimStates(ctx, tx, agent, max(keep, 0), max(limit, 0))
		if err != nil {
			return err
		}
		defer func() { trimmed = max(trimmed, states) }()
		trimmed, err = tx.Affect(ctx, `DELETE FROM events WHERE cursor IN (
				SELECT cursor FROM events WHERE agent = ? ORDER BY at DESC, cursor DESC LIMIT ? OFFSET ?)`,
			agent, max(limit, 0), max(keep, 0))
		if err != nil {
			return err
		}
		return tx.Exec(ctx, `DELETE FROM event_streams WHERE agent = ? AND stream IN (
				SELECT stream FROM event_streams WHERE agent = ? ORDER BY heard DESC, stream LIMIT ? OFFSET ?)`,
			agent, agent, max(limit, 0), maxStreams)
	})
	if err != nil {
		return 0, fmt.Errorf("cannot trim events: %w", err)
	}
	return trimmed, nil
}

// lookAt is how many events one read examines.
const lookAt = 20_000

// EventsAfter returns events in the order of their cursors.
func (db *Events) EventsAfter(ctx context.Context, after int64, f store.EventFilter,
	limit int,
) ([]store.StoredEvent, int64, error) {
	events, next, err := db.eventsAfter(ctx, after, f, limit)
	if err != nil {
		return nil, after, fmt.Errorf("cannot list events: %w", err)
	}
	return events, next, nil
}

func (db *Events) eventsAfter(ctx context.Context, after int64, f store.EventFilter,
	limit int,
) ([]store.StoredEvent, int64, error) {
	var first, last sql.NullInt64
	err := db.Query(ctx, func(r *sql.Rows) error { return r.Scan(&first, &last) },
		`SELECT (SELECT min(cursor) FROM events), (SELECT max(cursor) FROM events)`)
	if err != nil || last.Int64 <= after || limit <= 0 {
		return nil, after, err
	}
	from := max(after, first.Int64-1)
	until := min(last.Int64, from+lookAt)
	w := kit.Where{Dialect: db.Dialect}
	w.Add("cursor > ? AND cursor <= ?", from, until)
	events(&w, f)
	events, err := db.selectEvents(ctx, `NOT INDEXED WHERE `+w.All()+` ORDER BY cursor LIMIT ?`,
		append(w.Args, limit)...)
	if len(events) == limit {
		until = events[limit-1].Cursor
	}
	return events, until, err
}

// EventsBefore returns events, the latest first.
func (db *Events) EventsBefore(ctx context.Context, before store.EventMark, f store.EventFilter,
	limit int,
) ([]store.StoredEvent, store.EventMark, error) {
	events, next, err := db.eventsBefore(ctx, before, f, limit)
	if err != nil {
		return nil, before, fmt.Errorf("cannot list events: %w", err)
	}
	return events, next, nil
}

func (db *Events) eventsBefore(ctx context.Context, before store.EventMark, f store.EventFilter,
	limit int,
) ([]store.StoredEvent, store.EventMark, error) {
	var bound store.EventMark
	if limit <= 0 {
		return nil, before, nil
	}
	if before == bound {
		before = store.EventMark{At: math.MaxInt64, Cursor: math.MaxInt64}
	}
	served, rest, index := db.eventConditions(f, before)
	from := int64(math.MinInt64)
	if !f.From.IsZero() {
		from = f.From.UnixMilli()
	}
	if len(rest.Text) > 0 { // a few matches may take a look at many events
		err := db.Query(ctx, func(r *sql.Rows) error { return r.Scan(&bound.At, &bound.Cursor) },
			`SELECT at, cursor FROM events INDEXED BY `+index+` WHERE `+served.All()+
				` AND at >= ? ORDER BY at DESC, cursor DESC LIMIT 1 OFFSET ?`,
			append(served.Args, from, lookAt-1)...)
		if err != nil {
			return nil, bound, err
		}
		if bound.Cursor > 0 {
			from = bound.At
			rest.Add("(+at, cursor) >= (?, ?)", bound.At, bound.Cursor)
		}
		served.Add(rest.All(), rest.Args...)
	}
	events, err := db.selectEvents(ctx, `INDEXED BY `+index+` WHERE `+served.All()+
		` AND at >= ? ORDER BY at DESC, cursor DESC LIMIT ?`,
		append(served.Args, from, limit)...)
	if len(events) == limit {
		bound = events[limit-1].Mark()
	}
	return events, bound, err
}

// eventConditions returns the conditions of a filter except From: those that the best index serves, and the rest. A
// unary plus keeps SQLite from using a condition on a mark as the range to walk. SQLite then uses the narrower
// condition beside it.
func (db *Events) eventConditions(f store.EventFilter,
	before store.EventMark,
) (served, rest kit.Where, index string) {
	served.Dialect, rest.Dialect = db.Dialect, db.Dialect
	exact := len(f.Namespaces) == 1 && !wildcard.IsPattern(f.Namespaces[0]) && f.Name != "" &&
		!wildcard.IsPattern(f.Name) && !f.Copies
	switch {
	case exact:
		index = "events_process"
		served.Add("namespace = ? AND name = ?", f.Namespaces[0], f.Name)
		f.Namespaces, f.Name = nil, ""
	case len(f.Agents) == 1:
		index = "events_agent"
		served.Add("agent = ?", f.Agents[0])
		f.Agents = nil
	case len(f.Kinds) == 1:
		index = "events_kind"
		served.Add("kind = ?", string(f.Kinds[0]))
		f.Kinds = nil
	default:
		index = "events_at"
	}
	until := before.At
	if !f.Until.IsZero() {
		until = min(until, f.Until.UnixMilli()-1)
	}
	served.Add("at <= ? AND (+at, cursor) < (?, ?)", until, before.At, before.Cursor)
	f.From, f.Until = time.Time{}, time.Time{}
	events(&rest, f)
	return served, rest, index
}

// events adds the conditions of a filter.
func events(w *kit.Where, f store.EventFilter) {
	if f.Agents != nil {
		w.Among("agent", f.Agents)
	}
	if len(f.Namespaces) == 1 {
		w.Pattern("namespace", f.Namespaces[0])
	} else if len(f.Namespaces) > 1 {
		w.Within("namespace", f.Namespaces)
	}
	w.Within("namespace", f.Within)
	w.Names("name", f.Name, f.Copies)
	w.When(!f.From.IsZero(), "at >= ?", f.From.UnixMilli())
	w.When(!f.Until.IsZero(), "at < ?", f.Until.UnixMilli())
	if len(f.Kinds) == 0 {
		return
	}
	kinds := make([]string, len(f.Kinds))
	for i, k := range f.Kinds {
		kinds[i] = string(k)
	}
	w.Among("kind", kinds)
}

func (db *Events) selectEvents(ctx context.Context, which string, args ...any) ([]store.StoredEvent, error) {
	var events []store.StoredEvent
	err := db.Query(ctx, func(r *sql.Rows) error {
		var e store.StoredEvent
		var received int64
		var body sql.RawBytes
		if err := r.Scan(&e.Cursor, &e.Agent, &received, &body); err != nil {
			return err
		}
		e.Received = kit.Moment(received)
		if err := json.Unmarshal(body, &e.Event); err != nil {
			return fmt.Errorf("event %d: %w", e.Cursor, err)
		}
		events = append(events, e)
		return nil
	}, `SELECT cursor, agent, received, body FROM events `+which, args...)
	return events, err
}
