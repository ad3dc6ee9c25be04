package observed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlstore/kit"
)

// mostListed is how many bytes of statuses and specs one read returns, because both the server and its caller hold them
// in memory.
const mostListed = 8 << 20

// errListed ends a read that has reached mostListed.
var errListed = errors.New("enough was read")

// ListObserved returns a page of the observed processes.
func (db *Observed) ListObserved(
	ctx context.Context, f store.ObservedFilter, after store.ObservedKey, limit int,
) (rows []store.Observed, more bool, err error) {
	rows, err = db.listObserved(ctx, f, after, limit)
	if err != nil && !errors.Is(err, errListed) {
		return nil, false, fmt.Errorf("cannot list observations: %w", err)
	}
	return rows, err != nil || len(rows) == limit, nil
}

// ObservedAfter returns the condition on rows o that match the names and agents of a filter and come after a place.
func (db *Observed) ObservedAfter(f store.ObservedFilter, after store.ObservedKey) kit.Where {
	w := kit.Where{Dialect: db.Dialect}
	w.Add("(o.namespace, o.name, o.agent) > (?, ?, ?)", after.Process.Namespace, after.Process.Name, after.Agent)
	if f.Process != (process.ID{}) {
		w.Add("o.namespace = ?", f.Process.Namespace)
		w.Name("o.name", f.Process.Name, f.Copies)
	}
	w.Pattern("o.namespace", f.Namespace)
	w.Within("o.namespace", f.Within)
	w.Names("o.name", f.Name, f.Copies)
	if f.Agents != nil {
		w.Among("o.agent", f.Agents)
	}
	return w
}

func (db *Observed) listObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey,
	limit int,
) ([]store.Observed, error) {
	w := db.ObservedAfter(f, after)
	if len(f.States) > 0 {
		w.Among("o.status ->> 'state'", f.States)
	}
	spec := "NULL"
	if f.Spec {
		spec = "o.spec"
	}
	var rows []store.Observed
	var scan observedScanner
	read := 0
	err := db.Query(ctx, func(r *sql.Rows) error {
		o, err := scan.row(r)
		rows = append(rows, o)
		if read += len(scan.status) + len(scan.spec); err == nil && read > mostListed {
			err = errListed
		}
		return err
	}, `SELECT o.agent, o.namespace, o.name, o.status, `+spec+` FROM observed o INDEXED BY observed_name WHERE `+
		w.All()+` ORDER BY o.namespace, o.name, o.agent LIMIT ?`,
		append(w.Args, max(limit, 0))...)
	return rows, err
}

// ObservedAt calls fn with the rows of processes.
func (db *Observed) ObservedAt(
	ctx context.Context, keys []store.ObservedKey, spec bool, fn func(store.Observed),
) error {
	specs, places := "NULL", make([][3]string, len(keys))
	if spec {
		specs = "o.spec"
	}
	for i, k := range keys {
		places[i] = [3]string{k.Process.Namespace, k.Process.Name, k.Agent}
	}
	var scan observedScanner
	err := db.Query(ctx, func(r *sql.Rows) error {
		o, err := scan.row(r)
		if err == nil {
			fn(o)
		}
		return err
	}, `SELECT o.agent, o.namespace, o.name, o.status, `+specs+` FROM triples(?) j
		CROSS JOIN observed o ON o.namespace = j.a AND o.name = j.b AND o.agent = j.c`, db.Dialect.Triples(places))
	if err != nil {
		return fmt.Errorf("cannot read observations: %w", err)
	}
	return nil
}

// LastReports returns the place of the last report of each agent.
func (db *Observed) LastReports(ctx context.Context) (map[string]store.ReportPlace, error) {
	places := map[string]store.ReportPlace{}
	err := db.Query(ctx, func(r *sql.Rows) error {
		var agent string
		var p store.ReportPlace
		err := r.Scan(&agent, &p.Session, &p.Number)
		places[agent] = p
		return err
	}, `SELECT agent, session, number FROM agent_reports`)
	if err != nil {
		return nil, fmt.Errorf("cannot read the places of reports: %w", err)
	}
	return places, nil
}

// ObservedOn calls fn with the rows of agents.
func (db *Observed) ObservedOn(ctx context.Context, agents []string, fn func(store.Observed)) error {
	var scan observedScanner
	err := db.Query(ctx, func(r *sql.Rows) error {
		o, err := scan.row(r)
		if err == nil {
			fn(o)
		}
		return err
	}, `SELECT o.agent, o.namespace, o.name, o.status, o.spec FROM texts(?) j
		CROSS JOIN observed o ON o.agent = j.value`, db.Dialect.Texts(agents))
	if err != nil {
		return fmt.Errorf("cannot read observations of agents: %w", err)
	}
	return nil
}
