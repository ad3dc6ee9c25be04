package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/statusjson"
)

// The statement skips a row that would not change, so an agent that only reconnects costs no sync to disk.
const putObserved = `
	INSERT INTO observed (agent, namespace, name, status, spec) VALUES (?, ?, ?, ?, ?)
	ON CONFLICT (namespace, agent, name) DO UPDATE SET status = excluded.status, spec = coalesce(excluded.spec,
		observed.spec)
	WHERE observed.status <> excluded.status OR (excluded.spec IS NOT NULL AND observed.spec IS DISTINCT
		FROM excluded.spec)`

// PutObserved upserts rows and removes those of gone, in one transaction.
func (db *Store) PutObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
	gone []store.Removal,
) error {
	encoded, err := encodeObserved(rows)
	if err != nil {
		return fmt.Errorf("cannot store observations: %w", err)
	}
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := db.admit(ctx, tx, from, len(rows)+len(gone) > 0); err != nil {
			return err
		}
		if err := put(ctx, tx, encoded); err != nil {
			return err
		}
		for _, r := range gone {
			if err := removeObserved(ctx, tx, store.ObservedKey{Agent: r.Agent, Process: r.Process}); err != nil {
				return err
			}
			if err := confirmRemoval(ctx, tx, r); err != nil {
				return err
			}
		}
		return bound(ctx, tx, from.Agent, sizeOf(encoded))
	})
	if err != nil {
		return fmt.Errorf("cannot store observations: %w", err)
	}
	return nil
}

// ReplaceObserved replaces all rows of the agent, but keeps the stored rows of the processes in keep.
func (db *Store) ReplaceObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
	keep []process.ID,
) error {
	agent := from.Agent
	kept := make(map[process.ID]bool, len(rows)+len(keep))
	for _, id := range keep {
		kept[id] = true
	}
	for i := range rows {
		if rows[i].Agent != agent {
			return fmt.Errorf("cannot replace observations of agent %s: a row is of agent %q", agent, rows[i].Agent)
		}
		kept[rows[i].Process] = true
	}
	encoded, err := encodeObserved(rows)
	if err != nil {
		return fmt.Errorf("cannot replace observations: %w", err)
	}
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		if err := db.admit(ctx, tx, from, len(rows) > 0); err != nil {
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
		return bound(ctx, tx, agent, sizeOf(encoded))
	})
	if err != nil {
		return fmt.Errorf("cannot replace observations: %w", err)
	}
	return nil
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

// put stores rows and their confirmed records.
func put(ctx context.Context, tx tx, rows []encodedObserved) error {
	for _, o := range rows {
		if err := tx.exec(ctx, putObserved, o.Agent, o.Process.Namespace, o.Process.Name, o.status,
			o.spec); err != nil {
			return err
		}
		if err := confirm(ctx, tx, o.Observed, o.spec); err != nil {
			return err
		}
	}
	return nil
}

// small is the size of a report, in bytes, below which the store skips the sums of bound: so few bytes for each process
// are not too much.
const small = 8 << 10

func sizeOf(rows []encodedObserved) (bytes int) {
	for i := range rows {
		bytes += len(rows[i].status.String) + len(rows[i].spec.String)
	}
	return bytes
}

// bound fails if an agent has too many processes or too many bytes. It deletes the oldest of too many removals. told is
// the size of the current report in bytes.
func bound(ctx context.Context, tx tx, agent string, told int) error {
	n, err := one(ctx, tx.query, column[int], `SELECT count(*) FROM observed WHERE agent = ?`, agent)
	if err != nil {
		return err
	}
	if n > store.MostProcesses {
		return store.ErrTooManyProcesses
	}
	if told > small {
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
	}
	n, err = one(ctx, tx.query, column[int], `SELECT count(*) FROM confirmed WHERE agent = ?`, agent)
	if err != nil || n <= 3*store.MostProcesses {
		return err
	}
	err = tx.exec(ctx, `DELETE FROM confirmed WHERE num IN (
			SELECT num FROM confirmed WHERE agent = ? AND gone > 0 ORDER BY gone DESC, num DESC LIMIT ? OFFSET ?)`,
		agent, n, store.MostProcesses)
	if err != nil {
		return err
	}
	// The agent gets the records of its processes back after a loss of its disk, so bound never deletes them.
	n, err = one(ctx, tx.query, column[int], `SELECT count(*) FROM confirmed WHERE agent = ? AND gone = 0`, agent)
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

// admit rejects a report if the store has accepted a later report of its agent, in the same session or in another. If
// the report has content or begins a session, admit stores its place. It locks the agent's place until the transaction
// ends, so other reports of the agent wait.
func (db *Store) admit(ctx context.Context, tx tx, from store.ReportMark, tells bool) error {
	if from.Session == "" {
		return nil
	}
	session, number, err := db.lastReport(ctx, tx, from.Agent)
	switch {
	case err != nil:
		return err
	case session == from.Session && from.Number < number:
		return store.ErrOvertaken
	case from.Session < session && from.Hello:
		return store.ErrEarlierSession
	case session != from.Session && session != "" && !from.Hello:
		return store.ErrOtherSession
	case session == from.Session && !tells:
		return nil
	}
	return tx.exec(ctx, `INSERT INTO agent_reports (agent, session, number) VALUES (?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET session = excluded.session, number = excluded.number`,
		from.Agent, from.Session, from.Number)
}

// lastReport returns and locks the place of the last report of an agent. Without a report, the session is empty.
func (db *Store) lastReport(ctx context.Context, tx tx, agent string) (session string, number int64, err error) {
	found := false
	read := func() error {
		return tx.query(ctx, func(rows *sql.Rows) error {
			found = true
			return rows.Scan(&session, &number)
		}, `SELECT session, number FROM agent_reports WHERE agent = ?`+db.dialect.Locked, agent)
	}
	if err = read(); err != nil || found {
		return session, number, err
	}
	// A missing row cannot be locked. If another transaction has just inserted the row, this insert waits for the end
	// of that transaction.
	if err = tx.exec(ctx, `INSERT INTO agent_reports (agent, session, number) VALUES (?, '', 0) ON CONFLICT DO NOTHING`,
		agent); err != nil {
		return "", 0, err
	}
	err = read()
	return session, number, err
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

const (
	putConfirmed = `
	INSERT INTO confirmed (agent, namespace, name, revision, gone, hosted, want, registered, spec)
		VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?)
	ON CONFLICT (agent, namespace, name) DO UPDATE SET revision = excluded.revision, gone = 0, hosted = excluded.hosted,
	want = excluded.want, registered = excluded.registered, spec = excluded.spec
		WHERE excluded.revision > confirmed.revision`
	putRemoved = `
	INSERT INTO confirmed (agent, namespace, name, revision, gone) VALUES (?, ?, ?, ?, ?)
	ON CONFLICT (agent, namespace, name) DO UPDATE SET revision = excluded.revision, gone = excluded.gone, hosted = 0,
		want = '',
	registered = 0, spec = NULL WHERE excluded.revision > confirmed.revision
		OR (excluded.revision = confirmed.revision AND confirmed.gone = 0)`
)

// confirm stores the confirmed record that a row of observations contains. spec is the encoded spec.
func confirm(ctx context.Context, tx tx, o *store.Observed, spec sql.NullString) error {
	s := &o.Status
	if !spec.Valid || s.Revision == 0 {
		return nil
	}
	return tx.exec(ctx, putConfirmed, o.Agent, o.Process.Namespace, o.Process.Name, s.Revision, s.Hosted, s.Want,
		s.RegisteredAt, spec)
}

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
