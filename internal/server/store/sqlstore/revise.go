package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"maps"
	"slices"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// nameAndAgent names a process of a namespace on one host.
type nameAndAgent struct{ name, agent string }

// placement is the spec that a process has on one host.
type placement struct {
	since int64
	// digest is that of the spec; empty if there is none.
	digest string
	// changed is set by a task that changes it.
	changed bool
}

// revision is the part of a task that changes the specs of one namespace.
type revision struct {
	namespace string
	// items are the places of the items of the namespace in the task.
	items  []int
	places []nameAndAgent // distinct, in the order of the items
	states map[nameAndAgent]*placement
}

// digestOf names a spec by its content.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// revise makes the revisions of a task, and sets the revision of each item whose spec the agent will store. A retry of
// the transaction calls it again.
func (db *Store) revise(ctx context.Context, tx tx, t *store.Task, l *layout) error {
	parts := revisionsOf(t, l)
	if known := t.Known; known != nil && parts[known.Namespace] == nil {
		parts[known.Namespace] = &revision{namespace: known.Namespace}
	}
	for _, namespace := range slices.Sorted(maps.Keys(parts)) { // in the same order for all writers, against deadlocks
		part := parts[namespace]
		depends := t.Known != nil && t.Known.Namespace == namespace
		// Most calls bring the specs that are in force already. They need not wait for each other.
		if db.dialect.Locked != "" && !depends {
			if err := part.read(ctx, tx, db.dialect); err != nil {
				return err
			}
			if !part.compare(t, l) {
				continue
			}
		}
		latest, err := db.lockNamespace(ctx, tx, namespace)
		switch {
		case err != nil:
			return err
		case depends && latest != t.Known.Number:
			return store.ErrRevised
		}
		if err := part.read(ctx, tx, db.dialect); err != nil {
			return err
		}
		if !part.compare(t, l) {
			continue
		}
		if err := part.store(ctx, tx, db.dialect, t, l, latest+1); err != nil {
			return err
		}
	}
	return nil
}

// revisionsOf groups the items of a task that may change specs by their namespaces.
func revisionsOf(t *store.Task, l *layout) map[string]*revision {
	parts := map[string]*revision{}
	for i := range l.items {
		it := &l.items[i]
		it.revision = 0
		r := &t.Requests[it.request]
		use := r.Op.Info().Revises
		if it.target.Outcome != nil || it.twin != single ||
			!r.Removes && (use == process.RevisesNothing || use != process.RevisesAway && r.Spec == nil) {
			continue
		}
		part := parts[r.Process.Namespace]
		if part == nil {
			part = &revision{namespace: r.Process.Namespace, states: map[nameAndAgent]*placement{}}
			parts[part.namespace] = part
		}
		part.items = append(part.items, i)
		key := nameAndAgent{r.Process.Name, it.target.Agent}
		if part.states[key] == nil {
			part.states[key] = &placement{}
			part.places = append(part.places, key)
		}
	}
	return parts
}

// read reads the placements of the items.
func (p *revision) read(ctx context.Context, tx tx, d *sqldb.Dialect) error {
	for _, key := range p.places {
		*p.states[key] = placement{}
	}
	if len(p.places) == 0 {
		return nil
	}
	return tx.query(ctx, func(rows *sql.Rows) error {
		var place int
		var now placement
		err := rows.Scan(&place, &now.since, &now.digest)
		if err == nil {
			*p.states[p.places[place]] = now
		}
		return err
	}, `SELECT j.key, p.since, p.digest FROM names(?1) j CROSS JOIN placements p ON p.namespace = ?2 AND p.name = j.a
		AND p.agent = j.b AND p.until = 0`, p.pairs(d, p.places), p.namespace)
}

// pairs returns places as the parameter of names(?).
func (p *revision) pairs(d *sqldb.Dialect, places []nameAndAgent) string {
	pairs := make([]process.ID, len(places))
	for i, key := range places {
		pairs[i] = process.ID{Namespace: key.name, Name: key.agent}
	}
	return d.Names(pairs)
}

// unnumbered stands for the number of the revision that is being made.
const unnumbered = -1

// compare applies the items to the placements in their order, and reports whether that changes a placement. It sets the
// revisions of the items.
func (p *revision) compare(t *store.Task, l *layout) (changes bool) {
	for _, i := range p.items {
		it := &l.items[i]
		r := &t.Requests[it.request]
		now := p.states[nameAndAgent{r.Process.Name, it.target.Agent}]
		digest, use := l.specs[it.request].digest, r.Op.Info().Revises
		switch {
		case r.Removes || use == process.RevisesAway:
			if now.digest != "" {
				*now, changes = placement{changed: true}, true
			}
			continue
		case now.digest != digest && (use == process.RevisesAny || now.digest == ""):
			*now, changes = placement{since: unnumbered, digest: digest, changed: true}, true
		}
		if it.revision = 0; now.digest == digest {
			it.revision = now.since
		}
	}
	return changes
}

// store stores the revision under a number.
func (p *revision) store(ctx context.Context, tx tx, d *sqldb.Dialect, t *store.Task, l *layout, number int64) error {
	var changed []nameAndAgent
	var rows []any
	used := map[string]bool{}
	for _, key := range p.places {
		now := p.states[key]
		if !now.changed {
			continue
		}
		changed = append(changed, key)
		if now.digest != "" {
			rows = append(rows, key.name, key.agent, now.digest)
			used[now.digest] = true
		}
	}
	for _, i := range p.items {
		if l.items[i].revision == unnumbered {
			l.items[i].revision = number
		}
	}
	if err := tx.exec(ctx, `UPDATE namespaces SET revision = ? WHERE namespace = ?`, number, p.namespace); err != nil {
		return err
	}
	if err := tx.exec(ctx, `INSERT INTO revisions (namespace, number, at, app, "user", through, message, task)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, p.namespace, number, nanos(t.Created), t.App, t.User, t.Through, t.Message,
		t.ID); err != nil {
		return err
	}
	for _, spec := range l.specs {
		if !used[spec.digest] {
			continue
		}
		delete(used, spec.digest)
		if err := tx.exec(ctx, `INSERT INTO specs (namespace, digest, spec) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			p.namespace, spec.digest, spec.bare); err != nil {
			return err
		}
	}
	if err := tx.exec(ctx, `UPDATE placements SET until = ?1 WHERE num IN (
		SELECT p.num FROM names(?2) j CROSS JOIN placements p ON p.namespace = ?3 AND p.name = j.a AND p.agent = j.b
			AND p.until = 0)`, number, p.pairs(d, changed), p.namespace); err != nil {
		return err
	}
	return rowValues{
		head:   `INSERT INTO placements (namespace, since, name, agent, digest) VALUES `,
		row:    `(?1, ?2, ?, ?, ?)`,
		shared: []any{p.namespace, number},
	}.run(ctx, tx, rows)
}

// lockNamespace returns the latest revision of a namespace. Until the transaction ends, no other one makes a revision of
// the namespace.
func (db *Store) lockNamespace(ctx context.Context, tx tx, namespace string) (latest int64, err error) {
	// A missing row cannot be locked. If another transaction has just inserted it, this one waits for its end.
	if err := tx.exec(ctx, `INSERT INTO namespaces (namespace, revision) VALUES (?, 0) ON CONFLICT DO NOTHING`,
		namespace); err != nil {
		return 0, err
	}
	return one(ctx, tx.query, column[int64], `SELECT revision FROM namespaces WHERE namespace = ?`+db.dialect.Locked,
		namespace)
}
