// Package observed keeps the states of processes that agents report, and the selections of callers.
package observed

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

	"drover/internal/process"
	"drover/internal/server/batch"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/store/statusjson"
)

// Observed are the tables of observed processes.
type Observed struct {
	*kit.DB
	// reports gathers the reports of many agents.
	reports *batch.Writer[observedReport]
}

// New returns the tables of observed processes.
func New(db *kit.DB) *Observed {
	o := &Observed{DB: db}
	o.reports = batch.New(ReportBatch, o.putObserved)
	return o
}

// observedReport is the part of a report about processes.
type observedReport struct {
	from store.ReportMark
	rows []encodedObserved
	gone []store.Removal
	// known is set by admit: see store.Observations.
	known bool
}

// tells reports whether the report has content.
func (r *observedReport) tells() bool { return len(r.rows)+len(r.gone) > 0 }

// ReportBatch is how many reports share a transaction, and so bounds how long the first of them waits.
const ReportBatch = 256

// PutObserved upserts rows and removes those of gone, in one transaction. Callers that wait at the same time share a
// transaction.
func (db *Observed) PutObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
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
		err = db.reports.Put(ctx, report)
	}
	if err != nil {
		return fmt.Errorf("cannot store observations: %w", err)
	}
	return nil
}

// putObserved stores reports in one transaction.
func (db *Observed) putObserved(ctx context.Context, reports []observedReport) error {
	return db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
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
func (db *Observed) ReplaceObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
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
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if err := db.admit(ctx, tx, report); err != nil {
			return err
		}
		var gone []store.ObservedKey
		err := tx.Query(ctx, func(rows *sql.Rows) error {
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

func removeObserved(ctx context.Context, tx kit.Tx, key store.ObservedKey) error {
	return tx.Exec(ctx, `DELETE FROM observed WHERE namespace = ? AND agent = ? AND name = ?`,
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
		status, err := kit.Encode(&rows[i].Status)
		if err != nil {
			return nil, err
		}
		spec, err := kit.Encode(rows[i].Spec)
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

// putRows returns the statement that stores rows. It skips a row that would not change, so an agent that only
// reconnects costs no sync to disk.
func putRows() kit.RowValues {
	return kit.RowValues{
		Head: `INSERT INTO observed (agent, namespace, name, status, spec) VALUES `,
		Row:  `(?, ?, ?, ?, ?)`,
		Tail: ` ON CONFLICT (namespace, agent, name) DO UPDATE SET status = excluded.status, spec = coalesce(excluded.spec,
			observed.spec)
		WHERE observed.status <> excluded.status OR (excluded.spec IS NOT NULL AND observed.spec IS DISTINCT
			FROM excluded.spec)`,
	}
}

// put stores rows and their confirmed records. A statement has each process once, and the rows of a process are stored
// in their order.
func put(ctx context.Context, tx kit.Tx, rows []encodedObserved) error {
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
		if err := putRows().Run(ctx, tx, observed); err != nil {
			return err
		}
		if err := putConfirmed().Run(ctx, tx, confirmed); err != nil {
			return err
		}
		rows = later
	}
	return nil
}

// confirms reports whether the row has a confirmed record.
func (o *encodedObserved) confirms() bool { return o.spec.Valid && o.Status.Revision != 0 }

// small is the size of a report, in bytes, below which the store skips the sums of bound: such a report cannot exceed
// the bounds by much.
const small = 8 << 10

func (r *observedReport) size() (bytes int) {
	for i := range r.rows {
		bytes += len(r.rows[i].status.String) + len(r.rows[i].spec.String)
	}
	return bytes
}

// bound fails if an agent of the reports has too many processes or too many bytes. It deletes the oldest of too many
// removals.
func (db *Observed) bound(ctx context.Context, tx kit.Tx, reports []observedReport) error {
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
func (db *Observed) agentsOver(
	ctx context.Context, tx kit.Tx, table string, agents []string, most int,
) ([]string, error) {
	if len(agents) == 0 {
		return nil, nil
	}
	return kit.All(ctx, tx.Query, kit.Column[string],
		`SELECT agent FROM `+table+` WHERE agent IN (SELECT value FROM texts(?) j)
		GROUP BY agent HAVING count(*) > ?`, db.Dialect.Texts(agents), most)
}

func boundBytes(ctx context.Context, tx kit.Tx, agent string) error {
	for _, sum := range []string{
		`SELECT coalesce(sum(length(status) + coalesce(length(spec), 0)), 0) FROM observed WHERE agent = ?`,
		`SELECT coalesce(sum(length(spec)), 0) FROM confirmed WHERE agent = ?`,
	} {
		bytes, err := kit.One(ctx, tx.Query, kit.Column[int64], sum, agent)
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
func trimConfirmed(ctx context.Context, tx kit.Tx, agent string) error {
	err := tx.Exec(ctx, `DELETE FROM confirmed WHERE num IN (
			SELECT num FROM confirmed WHERE agent = ? AND gone > 0 ORDER BY gone DESC, num DESC LIMIT ? OFFSET ?)`,
		agent, math.MaxInt64, store.MostProcesses)
	if err != nil {
		return err
	}
	// The agent gets the records of its processes back after a loss of its disk, so nothing here deletes them.
	n, err := kit.One(ctx, tx.Query, kit.Column[int], `SELECT count(*) FROM confirmed WHERE agent = ? AND gone = 0`, agent)
	if err != nil {
		return err
	}
	if n > 3*store.MostProcesses {
		return store.ErrTooManyProcesses
	}
	return nil
}

// GetObserved calls fn for the rows of one process in the order of the agents.
func (db *Observed) GetObserved(
	ctx context.Context, id process.ID, agents []string, fn func(store.Observed) error,
) error {
	var scan observedScanner
	return db.Query(ctx, func(rows *sql.Rows) error {
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
		ORDER BY j.key`, db.Dialect.Texts(agents), id.Namespace, id.Name)
}

// PageObserved returns a page of a namespace.
func (db *Observed) PageObserved(ctx context.Context, namespace string, start,
	limit int,
) (rows []store.Observed, total int, err error) {
	total, err = kit.One(ctx, db.Query, kit.Column[int], `SELECT count(*) FROM observed WHERE namespace = ?`, namespace)
	if err == nil {
		var scan observedScanner
		read := 0
		err = db.Query(ctx, func(r *sql.Rows) error {
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
		if s.last, err = kit.Decode[process.Spec](s.spec); err != nil {
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
func (db *Observed) admit(ctx context.Context, tx kit.Tx, reports []observedReport) error {
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
		reports[i].known = same && from.LastStates != 0 && from.LastStates == before.Number
		switch {
		case same && from.LastStates > before.Number && !from.Hello: // the database has lost what the agent told before
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
	return kit.RowValues{
		Head: `INSERT INTO agent_reports (agent, session, number) VALUES `, Row: `(?, ?, ?)`,
		Tail: ` ON CONFLICT (agent) DO UPDATE SET session = excluded.session, number = excluded.number`,
	}.Run(ctx, tx, places)
}

// lastReports returns and locks the places of the last reports of the agents that name a session now. Without a report,
// the session is empty.
func (db *Observed) lastReports(ctx context.Context, tx kit.Tx,
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
		return tx.Query(ctx, func(rows *sql.Rows) error {
			var m store.ReportMark
			err := rows.Scan(&m.Agent, &m.Session, &m.Number)
			last[m.Agent] = m
			found++
			return err
		}, `SELECT agent, session, number FROM agent_reports WHERE agent IN (SELECT value FROM texts(?) j) ORDER BY agent`+
			db.Dialect.Locked, db.Dialect.Texts(agents))
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
	err := kit.RowValues{
		Head: `INSERT INTO agent_reports (agent, session, number) VALUES `, Row: `(?, '', 0)`,
		Tail: ` ON CONFLICT DO NOTHING`,
	}.Run(ctx, tx, places)
	if err == nil {
		err = read()
	}
	return last, err
}

// LastSession returns the session of the agent's last introduction.
func (db *Observed) LastSession(ctx context.Context, agent string) (session string, err error) {
	err = db.Query(ctx, func(rows *sql.Rows) error { return rows.Scan(&session) },
		`SELECT session FROM agent_reports WHERE agent = ?`, agent)
	if err != nil {
		return "", fmt.Errorf("cannot read the session of agent %s: %w", agent, err)
	}
	return session, nil
}
