package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/statusjson"
)

// observedReport is what a report tells of processes.
type observedReport struct {
	from store.ReportMark
	rows []encodedObserved
	gone []store.Removal
	// known is set by admit: see store.Observations.
	known bool
}

// tells reports whether the report has content.
func (r *observedReport) tells() bool { return len(r.rows)+len(r.gone) > 0 }

// reportBatch is how many reports share a transaction, and so bounds how long the first of them waits.
const reportBatch = 256

// PutObserved upserts rows and removes those of gone, in one transaction. Callers that wait at the same time share it.
func (db *Store) PutObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
	gone []store.Removal,
) error {
	encoded, err := encodeObserved(rows)
	if err == nil {
		err = ctx.Err()
	}
	report := []observedReport{{from: from, rows: encoded, gone: gone}}
	switch {
	case err != nil:
	case len(gone) > 0: // alone, because a removal belongs between the rows before it and after it
		err = db.putObserved(ctx, report)
	default:
		err = db.observed.Put(ctx, report)
	}
	if err != nil {
		return fmt.Errorf("cannot store observations: %w", err)
	}
	return nil
}

// putObserved stores reports in one transaction.
func (db *Store) putObserved(ctx context.Context, reports []observedReport) error {
	return db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := db.admit(ctx, tx, reports); err != nil {
			return err
		}
		var rows []encodedObserved
		for i := range reports {
			rows = append(rows, reports[i].rows...)
		}
		if err := put(ctx, tx, rows); err != nil {
			return err
		}
		for i := range reports {
			for _, r := range reports[i].gone {
				if err := removeObserved(ctx, tx, store.ObservedKey{Agent: r.Agent, Process: r.Process}); err != nil {
					return err
				}
				if err := confirmRemoval(ctx, tx, r); err != nil {
					return err
				}
			}
		}
		return db.bound(ctx, tx, reports)
	})
}

// ReplaceObserved replaces all rows of the agent, but keeps the stored rows of the processes in keep.
func (db *Store) ReplaceObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
	keep []process.ID,
) (known bool, err error) {
	agent := from.Agent
	kept := make(map[process.ID]bool, len(rows)+len(keep))
	for _, id := range keep {
		kept[id] = true
	}
	for i := range rows {
		if rows[i].Agent != agent {
			return false, fmt.Errorf("cannot replace observations of agent %s: a row is of agent %q", agent, rows[i].Agent)
		}
		kept[rows[i].Process] = true
	}
	encoded, err := encodeObserved(rows)
	if err != nil {
		return false, fmt.Errorf("cannot replace observations: %w", err)
	}
	report := []observedReport{{from: from, rows: encoded}}
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := db.admit(ctx, tx, report); err != nil {
			return err
		}
		var gone []store.ObservedKey
		err := tx.query(ctx, func(rows *sql.Rows) error {
			key := store.ObservedKey{Agent: agent}
			err := rows.Scan(&key.Process.Namespace, &key.Process.Name)
			if !kept[key.Process] {
				gone = append(gone, key)
			}
			return err
		}, `SELECT namespace, name FROM observed WHERE agent = ?`, agent)
		if err != nil {
			return err
		}
		for _, key := range gone {
			if err := removeObserved(ctx, tx, key); err != nil {
				return err
			}
		}
		if err := put(ctx, tx, encoded); err != nil {
			return err
		}
		return db.bound(ctx, tx, report)
	})
	if err != nil {
		return false, fmt.Errorf("cannot replace observations: %w", err)
	}
	return report[0].known, nil
}

func removeObserved(ctx context.Context, tx tx, key store.ObservedKey) error {
	return tx.exec(ctx, `DELETE FROM observed WHERE namespace = ? AND agent = ? AND name = ?`,
		key.Process.Namespace, key.Agent, key.Process.Name)
}

// encodedObserved is a row with its JSON columns.
type encodedObserved struct {
	*store.Observed
	status, spec sql.NullString
}

// encodeObserved encodes the rows again. The databases read fields of a status, and JSON of an agent could repeat a
// field or nest too deeply for them.
func encodeObserved(rows []store.Observed) ([]encodedObserved, error) {
	out := make([]encodedObserved, len(rows))
	for i := range rows {
		status, err := encode(&rows[i].Status)
		if err != nil {
			return nil, err
		}
		spec, err := encode(rows[i].Spec)
		if err != nil {
			return nil, err
		}
		status.String = withoutNUL(status.String)
		out[i] = encodedObserved{&rows[i], status, spec}
	}
	return out, nil
}

// withoutNUL replaces NUL bytes in the texts of a JSON value, because not every database can read a value that has
// them.
func withoutNUL(text string) string {
	const escaped = `\u0000`
	if !strings.Contains(text, escaped) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
			out.WriteByte(text[i])
		case strings.HasPrefix(text[i:], escaped):
			out.WriteString("\uFFFD")
			i += len(escaped) - 1
		default: // the escaped character is not the start of another escape
			out.WriteString(text[i : i+2])
			i++
		}
	}
	return out.String()
}

// putRows skips a row that would not change, so an agent that only reconnects costs no sync to disk.
func putRows() rowValues {
	return rowValues{
		head: `INSERT INTO observed (agent, namespace, name, status, spec) VALUES `,
		row:  `(?, ?, ?, ?, ?)`,
		tail: ` ON CONFLICT (namespace, agent, name) DO UPDATE SET status = excluded.status, spec = coalesce(excluded.spec,
			observed.spec)
		WHERE observed.status <> excluded.status OR (excluded.spec IS NOT NULL AND observed.spec IS DISTINCT
			FROM excluded.spec)`,
	}
}

// put stores rows and their confirmed records. A statement has each process once, and the rows of a process are stored
// in their order.
func put(ctx context.Context, tx tx, rows []encodedObserved) error {
	for len(rows) > 0 {
		var later []encodedObserved
		var observed, confirmed []any
		seen := make(map[store.ObservedKey]bool, len(rows))
		for _, o := range rows {
			key := store.ObservedKey{Agent: o.Agent, Process: o.Process}
			if seen[key] {
				later = append(later, o)
				continue
			}
			seen[key] = true
			observed = append(observed, o.Agent, o.Process.Namespace, o.Process.Name, o.status, o.spec)
			if o.confirms() {
				s := &o.Status
				confirmed = append(confirmed, o.Agent, o.Process.Namespace, o.Process.Name, s.Revision, s.Hosted,
					s.Want, s.RegisteredAt, o.spec)
			}
		}
		if err := putRows().run(ctx, tx, observed); err != nil {
			return err
		}
		if err := putConfirmed().run(ctx, tx, confirmed); err != nil {
			return err
		}
		rows = later
	}
	return nil
}

// confirms reports whether the row has a confirmed record.
func (o *encodedObserved) confirms() bool { return o.spec.Valid && o.Status.Revision != 0 }

// small is the size of a report, in bytes, below which the store skips the sums of bound: so few bytes for each process
// are not too much.
const small = 8 << 10

func (r *observedReport) size() (bytes int) {
	for i := range r.rows {
		bytes += len(r.rows[i].status.String) + len(r.rows[i].spec.String)
	}
	return bytes
}

// bound fails if an agent of the reports has too many processes or too many bytes. It deletes the oldest of too many
// removals.
func (db *Store) bound(ctx context.Context, tx tx, reports []observedReport) error {
	var told, confirmed []string
	for i := range reports {
		r := &reports[i]
		if len(r.rows) > 0 {
			told = append(told, r.from.Agent)
		}
		if len(r.gone) > 0 || slices.ContainsFunc(r.rows, func(o encodedObserved) bool { return o.confirms() }) {
			confirmed = append(confirmed, r.from.Agent)
		}
		if r.size() > small {
			if err := boundBytes(ctx, tx, r.from.Agent); err != nil {
				return err
			}
		}
	}
	over, err := db.agentsOver(ctx, tx, "observed", told, store.MostProcesses)
	if err != nil {
		return err
	}
	if len(over) > 0 {
		return store.ErrTooManyProcesses
	}
	over, err = db.agentsOver(ctx, tx, "confirmed", confirmed, 3*store.MostProcesses)
	for _, agent := range over {
		if err == nil {
			err = trimConfirmed(ctx, tx, agent)
		}
	}
	return err
}

// agentsOver returns the agents that have more than most rows in a table.
func (db *Store) agentsOver(ctx context.Context, tx tx, table string, agents []string, most int) ([]string, error) {
	if len(agents) == 0 {
		return nil, nil
	}
	return all(ctx, tx.query, column[string], `SELECT agent FROM `+table+` WHERE agent IN (SELECT value FROM texts(?) j)
		GROUP BY agent HAVING count(*) > ?`, db.dialect.Texts(agents), most)
}

func boundBytes(ctx context.Context, tx tx, agent string) error {
	for _, sum := range []string{
		`SELECT coalesce(sum(length(status) + coalesce(length(spec), 0)), 0) FROM observed WHERE agent = ?`,
		`SELECT coalesce(sum(length(spec)), 0) FROM confirmed WHERE agent = ?`,
	} {
		bytes, err := one(ctx, tx.query, column[int64], sum, agent)
		if err != nil {
			return err
		}
		if bytes > store.MostBytes {
			return store.ErrTooMuch
		}
	}
	return nil
}

// trimConfirmed deletes the oldest removals of an agent with too many confirmed records.
func trimConfirmed(ctx context.Context, tx tx, agent string) error {
	err := tx.exec(ctx, `DELETE FROM confirmed WHERE num IN (
			SELECT num FROM confirmed WHERE agent = ? AND gone > 0 ORDER BY gone DESC, num DESC LIMIT ? OFFSET ?)`,
		agent, math.MaxInt64, store.MostProcesses)
	if err != nil {
		return err
	}
	// The agent gets the records of its processes back after a loss of its disk, so nothing here deletes them.
	n, err := one(ctx, tx.query, column[int], `SELECT count(*) FROM confirmed WHERE agent = ? AND gone = 0`, agent)
	if err != nil {
		return err
	}
	if n > 3*store.MostProcesses {
		return store.ErrTooManyProcesses
	}
	return nil
}

// GetObserved calls fn for the rows of one process in the order of the agents.
func (db *Store) GetObserved(ctx context.Context, id process.ID, agents []string, fn func(store.Observed) error) error {
	var scan observedScanner
	return db.query(ctx, func(rows *sql.Rows) error {
		var place int
		if err := rows.Scan(&place, &scan.status, &scan.spec); err != nil {
			return fmt.Errorf("cannot read observations: %w", err)
		}
		o := store.Observed{Agent: agents[place], Process: id}
		if err := scan.decode(&o); err != nil {
			return fmt.Errorf("cannot read observations: %w", err)
		}
		return fn(o)
	},
		`SELECT j.key, o.status, o.spec FROM texts(?) j CROSS JOIN observed o ON o.namespace = ? AND o.agent = j.value
			AND o.name = ?
		ORDER BY j.key`, db.dialect.Texts(agents), id.Namespace, id.Name)
}

// PageObserved returns a page of a namespace.
func (db *Store) PageObserved(ctx context.Context, namespace string, start,
	limit int,
) (rows []store.Observed, total int, err error) {
	total, err = one(ctx, db.query, column[int], `SELECT count(*) FROM observed WHERE namespace = ?`, namespace)
	if err == nil {
		var scan observedScanner
		read := 0
		err = db.query(ctx, func(r *sql.Rows) error {
			o, err := scan.row(r)
			rows = append(rows, o)
			if read += len(scan.status) + len(scan.spec); err == nil && read > mostListed {
				err = errListed
			}
			return err
		},
			`SELECT o.agent, o.namespace, o.name, o.status, o.spec FROM observed o WHERE o.namespace = ?
				ORDER BY o.num LIMIT ? OFFSET ?`,
			namespace, max(limit, 0), max(start, 0))
	}
	if err != nil && !errors.Is(err, errListed) {
		return nil, 0, fmt.Errorf("cannot read observations of namespace %q: %w", namespace, err)
	}
	return rows, total, nil
}

// observedScanner reads the rows of one query. Rows with equal specs share one copy, because most hosts of a process
// have the same spec.
type observedScanner struct {
	status, spec sql.RawBytes
	statuses     statusjson.Reader
	last         *process.Spec
	lastText     []byte
}

// row reads a row of agent, namespace, name, status and spec.
func (s *observedScanner) row(rows *sql.Rows) (store.Observed, error) {
	var o store.Observed
	if err := rows.Scan(&o.Agent, &o.Process.Namespace, &o.Process.Name, &s.status, &s.spec); err != nil {
		return store.Observed{}, err
	}
	return o, s.decode(&o)
}

// decode fills in the fields from the columns status and spec.
func (s *observedScanner) decode(o *store.Observed) (err error) {
	if o.Status, err = s.statuses.Read(s.status); err != nil || s.spec == nil {
		return err
	}
	if s.last == nil || !bytes.Equal(s.spec, s.lastText) {
		if s.last, err = decode[process.Spec](s.spec); err != nil {
			return err
		}
		s.lastText = append(s.lastText[:0], s.spec...)
	}
	o.Spec = s.last
	return nil
}

// admit rejects reports if the store has accepted a later report of an agent, in the same session or in another. It
// stores the place of each report that has content or begins a session. It locks the places of the agents until the
// transaction ends, so other reports of them wait.
func (db *Store) admit(ctx context.Context, tx tx, reports []observedReport) error {
	last, err := db.lastReports(ctx, tx, reports)
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for i := range reports {
		from := reports[i].from
		before := last[from.Agent]
		same := before.Session == from.Session
		// A later report may have reached the store without its answer; then the agent does not know what is stored.
		reports[i].known = same && from.Told != 0 && from.Told == before.Number
		switch {
		case same && from.Told > before.Number && !from.Hello: // the database has lost what the agent told before
			return store.ErrOtherSession
		case from.Session == "":
			continue
		case same && from.Number < before.Number:
			return store.ErrOvertaken
		case from.Session < before.Session && from.Hello:
			return store.ErrEarlierSession
		case !same && before.Session != "" && !from.Hello:
			return store.ErrOtherSession
		case same && !reports[i].tells():
			continue
		}
		last[from.Agent], changed[from.Agent] = from, true
	}
	var places []any
	for agent := range changed {
		places = append(places, agent, last[agent].Session, last[agent].Number)
	}
	return rowValues{
		head: `INSERT INTO agent_reports (agent, session, number) VALUES `, row: `(?, ?, ?)`,
		tail: ` ON CONFLICT (agent) DO UPDATE SET session = excluded.session, number = excluded.number`,
	}.run(ctx, tx, places)
}

// lastReports returns and locks the places of the last reports of the agents that name a session now. Without a report,
// the session is empty.
func (db *Store) lastReports(ctx context.Context, tx tx,
	reports []observedReport,
) (map[string]store.ReportMark, error) {
	last := make(map[string]store.ReportMark, len(reports))
	for i := range reports {
		if agent := reports[i].from.Agent; reports[i].from.Session != "" {
			last[agent] = store.ReportMark{}
		}
	}
	agents := slices.Sorted(maps.Keys(last)) // all transactions lock them in this order
	if len(agents) == 0 {
		return nil, nil
	}
	found := 0
	read := func() error {
		found = 0
		return tx.query(ctx, func(rows *sql.Rows) error {
			var m store.ReportMark
			err := rows.Scan(&m.Agent, &m.Session, &m.Number)
			last[m.Agent] = m
			found++
			return err
		}, `SELECT agent, session, number FROM agent_reports WHERE agent IN (SELECT value FROM texts(?) j) ORDER BY agent`+
			db.dialect.Locked, db.dialect.Texts(agents))
	}
	if err := read(); err != nil || found == len(agents) {
		return last, err
	}
	// A missing row cannot be locked. If another transaction has just inserted the row, this insert waits for the end
	// of that transaction.
	places := make([]any, len(agents))
	for i, agent := range agents {
		places[i] = agent
	}
	err := rowValues{
		head: `INSERT INTO agent_reports (agent, session, number) VALUES `, row: `(?, '', 0)`,
		tail: ` ON CONFLICT DO NOTHING`,
	}.run(ctx, tx, places)
	if err == nil {
		err = read()
	}
	return last, err
}

// LastSession returns the session of the agent's last introduction.
func (db *Store) LastSession(ctx context.Context, agent string) (session string, err error) {
	err = db.query(ctx, func(rows *sql.Rows) error { return rows.Scan(&session) },
		`SELECT session FROM agent_reports WHERE agent = ?`, agent)
	if err != nil {
		return "", fmt.Errorf("cannot read the session of agent %s: %w", agent, err)
	}
	return session, nil
}

// putConfirmed stores the confirmed records that observations contain.
func putConfirmed() rowValues {
	return rowValues{
		head: `INSERT INTO confirmed (agent, namespace, name, revision, gone, hosted, want, registered, spec) VALUES `,
		row:  `(?, ?, ?, ?, 0, ?, ?, ?, ?)`,
		tail: ` ON CONFLICT (agent, namespace, name) DO UPDATE SET revision = excluded.revision, gone = 0,
			hosted = excluded.hosted, want = excluded.want, registered = excluded.registered, spec = excluded.spec
		WHERE excluded.revision > confirmed.revision`,
	}
}

const putRemoved = `
	INSERT INTO confirmed (agent, namespace, name, revision, gone) VALUES (?, ?, ?, ?, ?)
	ON CONFLICT (agent, namespace, name) DO UPDATE SET revision = excluded.revision, gone = excluded.gone, hosted = 0,
		want = '',
	registered = 0, spec = NULL WHERE excluded.revision > confirmed.revision
		OR (excluded.revision = confirmed.revision AND confirmed.gone = 0)`

// confirmRemoval records that an agent has removed a process.
func confirmRemoval(ctx context.Context, tx tx, r store.Removal) error {
	if r.Revision == 0 {
		return nil
	}
	return tx.exec(ctx, putRemoved, r.Agent, r.Process.Namespace, r.Process.Name, r.Revision, max(nanos(r.At), 1))
}

// AgentConfirmed returns all confirmed records of the agent.
func (db *Store) AgentConfirmed(ctx context.Context, agent string) ([]store.Confirmed, error) {
	list, err := all(ctx, db.query, func(rows *sql.Rows) (store.Confirmed, error) {
		var c store.Confirmed
		err := rows.Scan(&c.Process.Namespace, &c.Process.Name, &c.Revision, &c.Gone, &c.Hosted, &c.Want,
			&c.RegisteredAt)
		return c, err
	}, `SELECT namespace, name, revision, gone > 0, hosted, want, registered FROM confirmed WHERE agent = ?`, agent)
	if err != nil {
		return nil, fmt.Errorf("cannot read what agent %s has confirmed: %w", agent, err)
	}
	return list, nil
}

// GetConfirmed returns the confirmed records of some processes of the agent.
func (db *Store) GetConfirmed(ctx context.Context, agent string, ids []process.ID) ([]store.Confirmed, error) {
	list, err := all(ctx, db.query, func(rows *sql.Rows) (store.Confirmed, error) {
		var c store.Confirmed
		var place int
		var spec sql.RawBytes
		err := rows.Scan(&place, &c.Revision, &c.Gone, &c.Hosted, &c.Want, &c.RegisteredAt, &spec)
		if err == nil && spec != nil {
			c.Spec, err = decode[process.Spec](spec)
		}
		if err == nil {
			c.Process = ids[place]
		}
		return c, err
	}, `SELECT j.key, c.revision, c.gone > 0, c.hosted, c.want, c.registered, c.spec FROM names(?) j
		CROSS JOIN confirmed c ON c.agent = ? AND c.namespace = j.a AND c.name = j.b ORDER BY j.key`,
		db.dialect.Names(ids), agent)
	if err != nil {
		return nil, fmt.Errorf("cannot read what agent %s has confirmed: %w", agent, err)
	}
	return list, nil
}

// PruneConfirmed deletes old removals.
func (db *Store) PruneConfirmed(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) (err error) {
		removed, err = tx.affect(ctx, `DELETE FROM confirmed WHERE num IN
			(SELECT num FROM confirmed WHERE gone > 0 AND gone < ? ORDER BY gone LIMIT ?)`, nanos(before), limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune removals: %w", err)
	}
	return removed, nil
}
