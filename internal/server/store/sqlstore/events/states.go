package events

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/past"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// states are new records of states. cursor is the last used cursor; 0 before it was read.
type states struct {
	cursor    int64
	rows      []any
	processes []any
	seen      map[store.ObservedKey]bool
	gaps      []any
}

const lastStateCursor = `SELECT value FROM counters WHERE name = 'states'`

// begin reads the last cursor.
func (s *states) begin(ctx context.Context, tx kit.Tx) (err error) {
	if s.seen == nil {
		s.seen = map[store.ObservedKey]bool{}
		s.cursor, err = kit.One(ctx, tx.Query, kit.Column[int64], lastStateCursor)
	}
	return err
}

// addState adds a record of a process, or of the agent itself.
func (a *Arrivals) addState(ctx context.Context, tx kit.Tx, e *store.NewEvent) error {
	s := &a.states
	if err := s.begin(ctx, tx); err != nil {
		return err
	}
	s.cursor++
	s.rows = append(s.rows, s.cursor, a.Agent, e.Process.Namespace, e.Process.Name, e.At, kit.Nanos(a.received),
		e.Body)
	if key := (store.ObservedKey{Agent: a.Agent, Process: e.Process}); e.Process != (process.ID{}) && !s.seen[key] {
		s.seen[key] = true
		s.processes = append(s.processes, e.Process.Namespace, e.Process.Name, a.Agent)
	}
	return nil
}

// recordLoss records that events of a run are missing. If the first events are missing, the gap begins at the end of
// the run before.
func (a *Arrivals) recordLoss(ctx context.Context, tx kit.Tx, of *Stream) error {
	s := &a.states
	if err := s.begin(ctx, tx); err != nil {
		return err
	}
	since := of.last
	if of.Seq == 0 {
		former, err := kit.One(ctx, tx.Query, kit.Column[int64], `SELECT coalesce(max(last), 0) FROM event_streams
			WHERE agent = ? AND began > 0`, a.Agent)
		if err != nil {
			return err
		}
		since = min(former, of.began)
	}
	s.cursor++
	s.gaps = append(s.gaps, a.Agent, s.cursor, since, kit.Nanos(a.received))
	return nil
}

// store stores the records.
func (s *states) store(ctx context.Context, tx kit.Tx) error {
	if s.seen == nil {
		return nil
	}
	if err := tx.Exec(ctx, `UPDATE counters SET value = ? WHERE name = 'states'`, s.cursor); err != nil {
		return err
	}
	return errors.Join(
		kit.RowValues{
			Head: `INSERT INTO states (cursor, agent, namespace, name, at, received, body) VALUES `,
			Row:  `(?, ?, ?, ?, ?, ?, ?)`,
		}.Run(ctx, tx, s.rows),
		kit.RowValues{
			Head: `INSERT INTO state_processes (namespace, name, agent) VALUES `, Row: `(?, ?, ?)`,
			Tail: ` ON CONFLICT DO NOTHING`,
		}.Run(ctx, tx, s.processes),
		kit.RowValues{
			Head: `INSERT INTO event_gaps (agent, cursor, since, received) VALUES `, Row: `(?, ?, ?, ?)`,
		}.Run(ctx, tx, s.gaps),
	)
}

// pruneStates removes records of states, gaps, absences, stays and former names that ended before a time, at most limit
// of each. It returns the number of removed records of states.
func pruneStates(ctx context.Context, tx kit.Tx, before time.Time, limit int) (int, error) {
	n, err := removeStates(ctx, tx, `SELECT cursor FROM (SELECT cursor, received FROM states WHERE cursor > 0
		ORDER BY cursor LIMIT ?) AS oldest WHERE received < ?`, limit, kit.Nanos(before))
	if err != nil {
		return 0, err
	}
	return n, errors.Join(
		tx.Exec(ctx, `DELETE FROM event_gaps WHERE (agent, cursor) IN (
			SELECT agent, cursor FROM event_gaps WHERE received < ? LIMIT ?)`, kit.Nanos(before), limit),
		tx.Exec(ctx, `DELETE FROM absences WHERE (agent, until) IN (
			SELECT agent, until FROM absences WHERE until < ? LIMIT ?)`, kit.Nanos(before), limit),
		tx.Exec(ctx, `DELETE FROM stays WHERE (agent, removed) IN (
			SELECT agent, removed FROM stays WHERE removed < ? LIMIT ?)`, kit.Nanos(before), limit),
		tx.Exec(ctx, `DELETE FROM former_names WHERE (agent, until) IN (
			SELECT agent, until FROM former_names WHERE until < ? LIMIT ?)`, kit.Nanos(before), limit),
	)
}

// trimStates removes the oldest records, gaps and absences of an agent that has too many. It returns the number of
// removed records.
func trimStates(ctx context.Context, tx kit.Tx, agent string, keep, limit int) (int, error) {
	n, err := removeStates(ctx, tx, `SELECT cursor FROM states WHERE agent = ? ORDER BY at DESC, cursor DESC
		LIMIT ? OFFSET ?`, agent, limit, keep)
	if err != nil {
		return 0, err
	}
	return n, errors.Join(
		tx.Exec(ctx, `DELETE FROM event_gaps WHERE agent = ? AND cursor IN (
			SELECT cursor FROM event_gaps WHERE agent = ? ORDER BY cursor DESC LIMIT ? OFFSET ?)`,
			agent, agent, limit, maxStreams),
		tx.Exec(ctx, `DELETE FROM absences WHERE agent = ? AND until IN (
			SELECT until FROM absences WHERE agent = ? ORDER BY until DESC LIMIT ? OFFSET ?)`,
			agent, agent, limit, maxStreams),
	)
}

// removeStates removes the records whose cursors a query returns, and the processes that have none left.
func removeStates(ctx context.Context, tx kit.Tx, which string, args ...any) (int, error) {
	n, left := 0, map[store.ObservedKey]bool{}
	err := tx.Query(ctx, func(r *sql.Rows) error {
		var key store.ObservedKey
		err := r.Scan(&key.Agent, &key.Process.Namespace, &key.Process.Name)
		left[key] = true
		n++
		return err
	}, `DELETE FROM states WHERE cursor IN (`+which+`) RETURNING agent, namespace, name`, args...)
	for key := range left {
		if err != nil {
			break
		}
		err = tx.Exec(ctx, `DELETE FROM state_processes WHERE namespace = ?1 AND name = ?2 AND agent = ?3
			AND NOT EXISTS (SELECT 1 FROM states WHERE namespace = ?1 AND name = ?2 AND agent = ?3)`,
			key.Process.Namespace, key.Process.Name, key.Agent)
	}
	return n, err
}

// lastUpTo is the cursor of the last record of a process o up to a time. firstAfter is the cursor of the first record
// after that time.
const (
	ofProcess  = `(SELECT s.cursor FROM states s WHERE s.namespace = o.namespace AND s.name = o.name AND s.agent = o.agent`
	lastUpTo   = ofProcess + ` AND s.at <= ? ORDER BY s.at DESC, s.cursor DESC LIMIT 1)`
	firstAfter = ofProcess + ` AND s.at > ? ORDER BY s.at, s.cursor LIMIT 1)`
)

// StatesAt returns a page of processes with their records around a time.
func (db *Events) StatesAt(ctx context.Context, f store.ObservedFilter, at time.Time, after store.ObservedKey,
	limit int,
) (rows []store.RecordedState, more bool, err error) {
	limit = max(limit, 0)
	rows, err = db.recorded(ctx, [2]string{lastUpTo, firstAfter}, "", at, at, f, after, limit)
	if err != nil {
		return nil, false, fmt.Errorf("cannot list states of the past: %w", err)
	}
	for i := range rows {
		if rows[i].Before != nil {
			rows[i].After = nil
		}
	}
	return rows, len(rows) == limit, nil
}

// StatesBetween returns the processes of a page that have changed.
func (db *Events) StatesBetween(ctx context.Context, f store.ObservedFilter, from, to time.Time,
	after store.ObservedKey, limit int,
) (rows []store.RecordedState, next store.ObservedKey, err error) {
	limit = max(limit, 0)
	const changed = ` AND q.first IS DISTINCT FROM q.second`
	all, err := db.recorded(ctx, [2]string{lastUpTo, lastUpTo}, changed, from, to, f, after, limit)
	if err != nil {
		return nil, next, fmt.Errorf("cannot compare states of the past: %w", err)
	}
	for _, r := range all {
		if r.After != nil {
			rows = append(rows, r)
		}
	}
	if len(all) == limit && limit > 0 {
		last := &all[limit-1]
		next = store.ObservedKey{Agent: last.Agent, Process: last.Process}
	}
	return rows, next, nil
}

// recorded returns processes with the two records that expressions select. It leaves out processes whose records do not
// meet a further condition.
func (db *Events) recorded(ctx context.Context, which [2]string, condition string, at, until time.Time,
	f store.ObservedFilter, after store.ObservedKey, limit int,
) ([]store.RecordedState, error) {
	w := db.observed.ObservedAfter(f, after)
	args := append([]any{at.UnixMilli(), until.UnixMilli()}, w.Args...)
	return kit.All(ctx, db.Query, scanRecorded, `SELECT q.agent, q.namespace, q.name, b.cursor, b.at, b.body, a.cursor, a.at,
			a.body
		FROM (SELECT o.agent, o.namespace, o.name, `+which[0]+` AS first, `+which[1]+` AS second FROM state_processes o
			WHERE `+w.All()+` ORDER BY o.namespace, o.name, o.agent LIMIT ?) AS q
		LEFT JOIN states b ON b.cursor = q.first`+condition+` LEFT JOIN states a ON a.cursor = q.second`+condition+`
		ORDER BY q.namespace, q.name, q.agent`, append(args, limit)...)
}

func scanRecorded(r *sql.Rows) (row store.RecordedState, err error) {
	var cursors, times [2]sql.NullInt64
	var bodies [2]sql.RawBytes
	err = r.Scan(&row.Agent, &row.Process.Namespace, &row.Process.Name, &cursors[0], &times[0], &bodies[0], &cursors[1],
		&times[1], &bodies[1])
	for i, to := range []**past.Record{&row.Before, &row.After} {
		if err != nil || !cursors[i].Valid {
			continue
		}
		e, failure := kit.Decode[process.Event](bodies[i])
		if err = failure; err == nil && e.Shown != nil {
			*to = &past.Record{Cursor: cursors[i].Int64, At: times[i].Int64, Shown: *e.Shown}
		}
	}
	return row, err
}

// OldestState returns the time at which the oldest record was stored.
func (db *Events) OldestState(ctx context.Context) (time.Time, error) {
	at, err := kit.One(ctx, db.Query, kit.Column[int64], `SELECT received FROM states WHERE cursor > 0 ORDER BY cursor LIMIT 1`)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return time.Time{}, fmt.Errorf("cannot read the oldest state: %w", err)
	}
	return kit.Moment(at), nil
}

// RunsAt returns, for each agent, the run that had begun last at a time.
func (db *Events) RunsAt(ctx context.Context, agents []string, at time.Time) (map[string]*past.Run, error) {
	runs := make(map[string]*past.Run, len(agents))
	err := db.Query(ctx, func(r *sql.Rows) error {
		var agent string
		var run past.Run
		var former, cursor, since, oldest, first sql.NullInt64
		var build sql.NullString
		err := r.Scan(&agent, &run.Stream, &run.Began, &run.Last, &run.Build, &run.Latest, &former, &build, &cursor,
			&since, &oldest, &first)
		run.Former, run.FormerBuild, run.Oldest = former.Int64, build.String, oldest.Int64
		run.Gap, run.FirstGap = past.Gap{Cursor: cursor.Int64, Since: since.Int64}, first.Int64
		runs[agent] = &run
		return err
	}, selectRunsOfAgents+`
		FROM texts(?) j CROSS JOIN event_streams r ON r.agent = j.value AND r.began > 0 AND r.stream = (
			SELECT l.stream FROM event_streams l INDEXED BY event_streams_runs
			WHERE l.agent = j.value AND l.began > 0 AND l.began <= ? ORDER BY l.began DESC LIMIT 1)`,
		at.UnixMilli(), db.Dialect.Texts(agents), at.UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("cannot read the runs of agents: %w", err)
	}
	return runs, nil
}

// selectRunsOfAgents are the columns of runs r, with the last gap up to a time, the oldest record and the first gap.
const selectRunsOfAgents = `SELECT r.agent, r.stream, r.began, r.last, r.build,
		NOT EXISTS (SELECT 1 FROM event_streams l INDEXED BY event_streams_runs
			WHERE l.agent = r.agent AND l.began > 0 AND l.began > r.began),
		(SELECT l.last FROM event_streams l INDEXED BY event_streams_runs
			WHERE l.agent = r.agent AND l.began > 0 AND l.began < r.began ORDER BY l.began DESC LIMIT 1),
		(SELECT l.build FROM event_streams l INDEXED BY event_streams_runs
			WHERE l.agent = r.agent AND l.began > 0 AND l.began < r.began ORDER BY l.began DESC LIMIT 1),
		(SELECT max(g.cursor) FROM event_gaps g WHERE g.agent = r.agent AND g.since <= ?1),
		(SELECT g.since FROM event_gaps g WHERE g.agent = r.agent AND g.since <= ?1 ORDER BY g.cursor DESC LIMIT 1),
		(SELECT min(s.at) FROM states s WHERE s.agent = r.agent),
		(SELECT min(g.cursor) FROM event_gaps g WHERE g.agent = r.agent)`

// RunsBetween returns the runs that began in a time.
func (db *Events) RunsBetween(ctx context.Context, from, to time.Time, limit int) ([]store.StartedRun, error) {
	runs, err := kit.All(ctx, db.Query, func(r *sql.Rows) (run store.StartedRun, err error) {
		var former sql.NullInt64
		var build sql.NullString
		err = r.Scan(&run.Agent, &run.Stream, &run.Began, &run.Last, &run.Build, &former, &build)
		run.Former, run.FormerBuild = former.Int64, build.String
		return run, err
	}, `SELECT r.agent, r.stream, r.began, r.last, r.build,
			(SELECT l.last FROM event_streams l INDEXED BY event_streams_runs
				WHERE l.agent = r.agent AND l.began > 0 AND l.began < r.began ORDER BY l.began DESC LIMIT 1),
			(SELECT l.build FROM event_streams l INDEXED BY event_streams_runs
				WHERE l.agent = r.agent AND l.began > 0 AND l.began < r.began ORDER BY l.began DESC LIMIT 1)
		FROM event_streams r INDEXED BY event_streams_began WHERE r.began > 0 AND r.began > ? AND r.began <= ?
		ORDER BY r.began LIMIT ?`, from.UnixMilli(), to.UnixMilli(), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list the runs of agents: %w", err)
	}
	return runs, nil
}

// PutAbsence stores the absence of an agent that has returned.
func (db *Events) PutAbsence(ctx context.Context, a store.Absence) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if a.Until.After(a.Since) {
			err := tx.Exec(ctx, `INSERT INTO absences (agent, since, until) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
				a.Agent, kit.Nanos(a.Since), kit.Nanos(a.Until))
			if err != nil {
				return err
			}
		}
		if a.Alive.IsZero() {
			return nil
		}
		return tx.Exec(ctx, `UPDATE event_streams SET last = ?1 WHERE agent = ?2 AND last < ?1 AND began > 0 AND stream = (
			SELECT l.stream FROM event_streams l INDEXED BY event_streams_runs
			WHERE l.agent = ?2 AND l.began > 0 ORDER BY l.began DESC LIMIT 1)`, a.Alive.UnixMilli(), a.Agent)
	})
	if err != nil {
		return fmt.Errorf("cannot store the absence of agent %s: %w", a.Agent, err)
	}
	return nil
}

// AbsencesBetween returns the absences that began or ended in a time.
func (db *Events) AbsencesBetween(ctx context.Context, from, to time.Time, limit int) ([]store.Absence, error) {
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (a store.Absence, err error) {
		var since, until int64
		err = r.Scan(&a.Agent, &since, &until)
		a.Since, a.Until = kit.Moment(since), kit.Moment(until)
		return a, err
	}, `SELECT agent, since, until FROM absences INDEXED BY absences_until WHERE until > ? AND since <= ?
			AND (since > ? OR until <= ?) ORDER BY until LIMIT ?`,
		kit.Nanos(from), kit.Nanos(to), kit.Nanos(from), kit.Nanos(to), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list absences: %w", err)
	}
	return list, nil
}

// FormerNames returns earlier names of agents.
func (db *Events) FormerNames(ctx context.Context, limit int) ([]store.FormerName, error) {
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (n store.FormerName, err error) {
		var until int64
		err = r.Scan(&n.Key, &until, &n.Cloud, &n.IP, &n.ID, &n.Assigned)
		n.Until = kit.Moment(until)
		return n, err
	}, `SELECT agent, until, cloud, ip, id, assigned FROM former_names INDEXED BY former_names_until WHERE until >= 0
		ORDER BY until DESC, agent LIMIT ?`, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list the earlier names of agents: %w", err)
	}
	return list, nil
}

// KeepNames keeps the names that an agent has, or had at its removal, if its new ones are others.
func KeepNames(ctx context.Context, tx kit.Tx, a *store.Agent, at time.Time) error {
	for _, from := range []string{
		`SELECT key, ?, cloud, ip, id, assigned FROM agents WHERE key = ?
			AND (cloud <> ? OR ip <> ? OR id <> ? OR assigned <> ?)`,
		`SELECT key, ?, area, ip, id, assigned FROM removed_agents WHERE key = ? AND role = 'agent'
			AND (area <> ? OR ip <> ? OR id <> ? OR assigned <> ?)`,
	} {
		err := tx.Exec(ctx, `INSERT INTO former_names (agent, until, cloud, ip, id, assigned) `+from+
			` ON CONFLICT DO NOTHING`, kit.Nanos(at), a.Key, a.Cloud, a.IP, a.ID, a.Assigned)
		if err != nil {
			return err
		}
	}
	return nil
}

// StaysBetween returns the earlier stays that began or ended in a time.
func (db *Events) StaysBetween(ctx context.Context, from, to time.Time, limit int) ([]store.Stay, error) {
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (s store.Stay, err error) {
		var joined, removed int64
		err = r.Scan(&s.Agent, &joined, &removed)
		s.Joined, s.Removed = kit.Moment(joined), kit.Moment(removed)
		return s, err
	}, `SELECT agent, joined, removed FROM stays INDEXED BY stays_removed WHERE removed > ? AND joined <= ?
			AND (joined > ? OR removed <= ?) ORDER BY removed LIMIT ?`,
		kit.Nanos(from), kit.Nanos(to), kit.Nanos(from), kit.Nanos(to), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list the stays of agents: %w", err)
	}
	return list, nil
}
