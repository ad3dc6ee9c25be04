package tasks

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
)

// LatestRevision returns the number of the latest revision of a namespace.
func (db *Tasks) LatestRevision(ctx context.Context, namespace string) (int64, error) {
	n, err := kit.One(ctx, db.Query, kit.Column[int64], `SELECT revision FROM namespaces WHERE namespace = ?`, namespace)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the revision of namespace %q: %w", namespace, err)
	}
	return n, nil
}

// ListRevisions returns a page of the revisions of a namespace, newest first.
func (db *Tasks) ListRevisions(ctx context.Context, f store.RevisionFilter, limit int) (
	rows []store.Revision, next int64, err error,
) {
	before := f.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	found, err := kit.All(ctx, db.Query, func(r *sql.Rows) (v store.Revision, err error) {
		var at int64
		err = r.Scan(&v.Number, &at, &v.App, &v.User, &v.Through, &v.Message, &v.Task)
		v.Namespace, v.At = f.Namespace, kit.Moment(at)
		return v, err
	}, `SELECT number, at, app, "user", through, message, task FROM revisions WHERE namespace = ? AND number < ?
		ORDER BY number DESC LIMIT ?`, f.Namespace, before, max(limit, 0))
	if err == nil {
		rows, next, err = db.withChanges(ctx, f, found)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list the revisions of namespace %q: %w", f.Namespace, err)
	}
	if n := len(found); n == 0 || next == found[n-1].Number && n < limit {
		next = 0
	}
	return rows, next, nil
}

// RevisedBetween returns the revisions that were stored between two times.
func (db *Tasks) RevisedBetween(ctx context.Context, from, to time.Time, limit int) ([]store.Revision, error) {
	rows, err := kit.All(ctx, db.Query, func(r *sql.Rows) (v store.Revision, err error) {
		var at int64
		err = r.Scan(&v.Namespace, &v.Number, &at, &v.App, &v.User, &v.Through, &v.Message, &v.Task)
		v.At = kit.Moment(at)
		return v, err
	}, `SELECT namespace, number, at, app, "user", through, message, task FROM revisions WHERE at > ? AND at <= ?
		ORDER BY at DESC, namespace DESC, number DESC LIMIT ?`, kit.Nanos(from), kit.Nanos(to), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("cannot list revisions: %w", err)
	}
	return rows, nil
}

// mostExamined bounds the work for one page of revisions, in changes of a process on a host. The comparison of two
// specs takes its reader as long as costOfSpecs such changes.
const (
	mostExamined = 100_000
	costOfSpecs  = 50
)

// withChanges completes revisions with their changes. It leaves out the last ones if the changes are too many. last is
// the number of the last completed revision.
func (db *Tasks) withChanges(ctx context.Context, f store.RevisionFilter, found []store.Revision) (
	rows []store.Revision, last int64, err error,
) {
	specs := specReader{db: db, namespace: f.Namespace}
	total := 0
	for _, r := range found {
		digests, examined, err := db.changesOf(ctx, f, r.Number)
		if err != nil {
			return nil, 0, err
		}
		if err := specs.load(ctx, digests); err != nil {
			return nil, 0, err
		}
		for _, c := range digests {
			r.Changes = append(r.Changes, store.SpecChange{
				Name: c.name, From: specs.known[c.from], To: specs.known[c.to], Hosts: c.hosts,
			})
		}
		if f.Sees == nil || len(r.Changes) > 0 {
			rows = append(rows, r)
		}
		last = r.Number
		if total += examined + costOfSpecs*len(digests); total > mostExamined {
			break
		}
	}
	return rows, last, nil
}

// digestChange is a change of a process on some hosts, with the digests of the specs before and after. A digest is
// empty if there is no spec.
type digestChange struct {
	name, from, to string
	hosts          int
}

// changesOf returns the changes of a revision, and the number of hosts that it has examined.
func (db *Tasks) changesOf(ctx context.Context, f store.RevisionFilter, number int64) (
	list []digestChange, examined int, err error,
) {
	const added = ` FROM placements n INDEXED BY placements_since LEFT JOIN placements o ON o.namespace = n.namespace AND o.name = n.name
			AND o.agent = n.agent AND o.until = n.since
		WHERE n.namespace = ?1 AND n.since = ?2`
	const removed = ` FROM placements o INDEXED BY placements_until
		WHERE o.namespace = ?1 AND o.until = ?2 AND o.until > 0 AND NOT EXISTS (
			SELECT 1 FROM placements n WHERE n.namespace = o.namespace AND n.name = o.name AND n.agent = o.agent
				AND n.since = o.until)`
	query := `SELECT n.name, coalesce(o.digest, ''), n.digest, '', count(*)` + added + ` GROUP BY n.name, o.digest, n.digest
		UNION ALL SELECT o.name, o.digest, '', '', count(*)` + removed + ` GROUP BY o.name, o.digest ORDER BY 1, 2, 3`
	if f.Sees != nil {
		query = `SELECT n.name, coalesce(o.digest, ''), n.digest, n.agent, 1` + added + `
			UNION ALL SELECT o.name, o.digest, '', o.agent, 1` + removed + ` ORDER BY 1, 2, 3`
	}
	err = db.Query(ctx, func(r *sql.Rows) error {
		var c digestChange
		var agent string
		if err := r.Scan(&c.name, &c.from, &c.to, &agent, &c.hosts); err != nil {
			return err
		}
		examined += c.hosts
		if f.Sees != nil && !f.Sees(agent) {
			return nil
		}
		if n := len(list) - 1; n >= 0 && list[n].name == c.name && list[n].from == c.from && list[n].to == c.to {
			list[n].hosts += c.hosts
			return nil
		}
		list = append(list, c)
		return nil
	}, query, f.Namespace, number)
	return list, examined, err
}

// specReader reads the specs of a namespace by their digests, each spec once.
type specReader struct {
	db        *Tasks
	namespace string
	known     map[string]*process.Spec
}

// load reads the specs of changes.
func (s *specReader) load(ctx context.Context, changes []digestChange) error {
	if s.known == nil {
		s.known = map[string]*process.Spec{}
	}
	var wanted []string
	for _, c := range changes {
		for _, digest := range []string{c.from, c.to} {
			if _, known := s.known[digest]; digest != "" && !known {
				s.known[digest] = nil
				wanted = append(wanted, digest)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return s.db.Query(ctx, func(r *sql.Rows) error {
		var digest string
		var text sql.RawBytes
		if err := r.Scan(&digest, &text); err != nil {
			return err
		}
		spec, err := kit.Decode[process.Spec](text)
		s.known[digest] = spec
		return err
	}, `SELECT s.digest, s.spec FROM texts(?1) j CROSS JOIN specs s ON s.namespace = ?2 AND s.digest = j.value`,
		s.db.Dialect.Texts(wanted), s.namespace)
}

// PlacedAt returns the processes of a namespace as they are by a revision.
func (db *Tasks) PlacedAt(ctx context.Context, namespace string, revision int64) ([]store.Placed, error) {
	_, err := kit.One(ctx, db.Query, kit.Column[int64], `SELECT number FROM revisions WHERE namespace = ? AND number = ?`,
		namespace, revision)
	var placed []store.Placed
	var since []int64
	var digests []digestChange
	if err == nil {
		err = db.Query(ctx, func(r *sql.Rows) error {
			var p store.Placed
			var began int64
			var digest string
			err := r.Scan(&p.Name, &p.Agent, &began, &digest)
			placed, since, digests = append(placed, p), append(since, began), append(digests, digestChange{to: digest})
			return err
		}, `SELECT name, agent, since, digest FROM placements
			WHERE namespace = ?1 AND since <= ?2 AND (until = 0 OR until > ?2) ORDER BY name, agent`,
			namespace, revision)
	}
	specs, numbered := specReader{db: db, namespace: namespace}, numberedSpecs{}
	if err == nil {
		err = specs.load(ctx, digests)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read revision %d of namespace %q: %w", revision, namespace, err)
	}
	for i := range placed {
		placed[i].Spec = numbered.of(specs.known[digests[i].to], since[i])
	}
	return placed, nil
}

// RevisedSpecs returns the specs that two revisions brought to a process on one host.
func (db *Tasks) RevisedSpecs(ctx context.Context, id process.ID, agent string, former, revision int64) (
	from, to *process.Spec, err error,
) {
	err = db.Query(ctx, func(r *sql.Rows) error {
		var since int64
		var text sql.RawBytes
		if err := r.Scan(&since, &text); err != nil {
			return err
		}
		spec, err := kit.Decode[process.Spec](text)
		if since == former {
			from = spec
		}
		if since == revision {
			to = spec
		}
		return err
	}, `SELECT p.since, s.spec FROM placements p JOIN specs s ON s.namespace = p.namespace AND s.digest = p.digest
		WHERE p.namespace = ? AND p.name = ? AND p.agent = ? AND p.since IN (?, ?)`,
		id.Namespace, id.Name, agent, former, revision)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the specs of %s: %w", id, err)
	}
	return from, to, nil
}

// OpenRevision returns an unfinished task that changes specs of the namespace.
func (db *Tasks) OpenRevision(ctx context.Context, namespace string) (string, error) {
	tasks, err := kit.All(ctx, db.Query, kit.Column[string], `SELECT t.id
		FROM items i INDEXED BY items_deadline JOIN requests r ON r.num = i.request JOIN tasks t ON t.num = i.task
		WHERE i.state < 4 AND r.namespace = ? AND (i.revision <> 0 OR r.op = 'unregister') ORDER BY i.num LIMIT 1`,
		namespace)
	if err != nil {
		return "", fmt.Errorf("cannot look for open changes of namespace %q: %w", namespace, err)
	}
	if len(tasks) == 0 {
		return "", nil
	}
	return tasks[0], nil
}

// PruneRevisions removes old revisions, and the rows that only these revisions need. It counts revisions, because their
// numbers are not consecutive after a restore. The comparison with the latest number only saves the count.
func (db *Tasks) PruneRevisions(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		removed = 0
		old, err := kit.All(ctx, tx.Query, func(r *sql.Rows) (v store.Revision, err error) {
			err = r.Scan(&v.Namespace, &v.Number)
			return v, err
		}, `SELECT r.namespace, r.number FROM revisions r CROSS JOIN namespaces n ON n.namespace = r.namespace
			WHERE r.at < ?1 AND r.number <= n.revision - ?2
				AND r.number <= (SELECT k.number FROM revisions k WHERE k.namespace = r.namespace
					ORDER BY k.number DESC LIMIT 1 OFFSET ?2)
			ORDER BY r.at LIMIT ?3`, kit.Nanos(before), store.KeptRevisions, limit)
		if err != nil {
			return err
		}
		if len(old) < limit {
			many, err := kit.All(ctx, tx.Query, func(r *sql.Rows) (v store.Revision, err error) {
				err = r.Scan(&v.Namespace, &v.Number)
				return v, err
			}, `SELECT r.namespace, r.number FROM namespaces n CROSS JOIN revisions r ON r.namespace = n.namespace
				AND r.number <= (SELECT k.number FROM revisions k WHERE k.namespace = n.namespace
					ORDER BY k.number DESC LIMIT 1 OFFSET ?1)
				WHERE n.revision > ?1 ORDER BY r.at LIMIT ?2`,
				store.MostRevisions, limit-len(old))
			if err != nil {
				return err
			}
			old = append(old, many...)
		}
		newest := map[string]int64{}
		for _, r := range old {
			newest[r.Namespace] = max(newest[r.Namespace], r.Number)
		}
		for _, namespace := range slices.Sorted(maps.Keys(newest)) {
			n, err := db.pruneNamespace(ctx, tx, namespace, newest[namespace])
			if err != nil {
				return err
			}
			removed += n
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot prune revisions: %w", err)
	}
	return removed, nil
}

// pruneNamespace removes the revisions of a namespace up to a number. A placement that ended with the next revision
// stays, because it is what that revision changed. A host that is no longer registered goes with the old revisions.
func (db *Tasks) pruneNamespace(ctx context.Context, tx kit.Tx, namespace string, upTo int64) (removed int, err error) {
	if _, err := db.lockNamespace(ctx, tx, namespace); err != nil {
		return 0, err
	}
	removed, err = tx.Affect(ctx, `DELETE FROM revisions WHERE namespace = ? AND number <= ?`, namespace, upTo)
	if err != nil {
		return 0, err
	}
	for _, statement := range []string{
		`DELETE FROM placements WHERE namespace = ?1 AND until > 0 AND until <= ?2`,
		`DELETE FROM placements WHERE namespace = ?1 AND until = 0 AND since <= ?2
			AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.key = placements.agent)`,
		`DELETE FROM upkeep WHERE namespace = ?1 AND ?2 > 0
			AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.key = upkeep.agent)`,
	} {
		if err := tx.Exec(ctx, statement, namespace, upTo); err != nil {
			return 0, err
		}
	}
	return removed, tx.Exec(ctx, `DELETE FROM specs WHERE namespace = ?1 AND digest NOT IN (
		SELECT p.digest FROM placements p WHERE p.namespace = ?1)`, namespace)
}

// nameAndAgent names a process of a namespace on one host.
type nameAndAgent struct{ name, agent string }

// placement is the spec that a process has on one host.
type placement struct {
	since int64
	// digest is the digest of the spec; empty if there is none.
	digest string
	// changed tells that the task changes the placement, and former that the process had a spec before the task.
	changed, former bool
}

// revision is the part of a task that changes the specs of one namespace.
type revision struct {
	namespace string
	// items are the places of the items of the namespace in the task.
	items  []int
	places []nameAndAgent // distinct, in the order of the items
	states map[nameAndAgent]*placement
}

// digestOf returns the digest of an encoded spec.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// revise makes the revisions of a task, and sets the revision of each item whose spec the agent will store. A retry of
// the transaction calls it again.
func (db *Tasks) revise(ctx context.Context, tx kit.Tx, t *store.Task, l *layout) error {
	parts := revisionsOf(t, l)
	if known := t.ExpectedRevision; known != nil && parts[known.Namespace] == nil {
		parts[known.Namespace] = &revision{namespace: known.Namespace}
	}
	for _, namespace := range slices.Sorted(maps.Keys(parts)) { // in the same order for all writers, against deadlocks
		part := parts[namespace]
		depends := t.ExpectedRevision != nil && t.ExpectedRevision.Namespace == namespace
		// Most calls bring the specs that are in force already. They need not wait for each other.
		if db.Dialect.Locked != "" && !depends && !store.IsUndo(t.Through) {
			if err := part.read(ctx, tx, db.Dialect); err != nil {
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
		case depends && latest != t.ExpectedRevision.Number:
			return store.ErrRevised
		}
		if err := part.read(ctx, tx, db.Dialect); err != nil {
			return err
		}
		changes := part.compare(t, l)
		if err := part.takeBackFiles(ctx, tx, db.Dialect, t, l); err != nil {
			return err
		}
		if !changes {
			continue
		}
		number, err := nextRevision(ctx, tx, latest)
		if err != nil {
			return err
		}
		if err := part.store(ctx, tx, db.Dialect, t, l, number); err != nil {
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
		// A process that is gone already is a removal all the same.
		over := it.target.Outcome != nil && (!r.Removes || it.target.Outcome.Fault != process.None)
		if over || it.twin != single ||
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
func (p *revision) read(ctx context.Context, tx kit.Tx, d *sqldb.Dialect) error {
	for _, key := range p.places {
		*p.states[key] = placement{}
	}
	if len(p.places) == 0 {
		return nil
	}
	return tx.Query(ctx, func(rows *sql.Rows) error {
		var place int
		now := placement{former: true}
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

// unnumbered stands for the number of the revision under construction.
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
				*now, changes = placement{changed: true, former: now.former}, true
			}
			continue
		case now.digest != digest && (use == process.RevisesAny || now.digest == ""):
			*now, changes = placement{since: unnumbered, digest: digest, changed: true, former: now.former}, true
		}
		if it.revision = 0; now.digest == digest {
			it.revision = now.since
		}
	}
	return changes
}

// store stores the revision under a number.
func (p *revision) store(
	ctx context.Context, tx kit.Tx, d *sqldb.Dialect, t *store.Task, l *layout, number int64,
) error {
	var former []nameAndAgent
	var rows []any
	used := map[string]bool{}
	for _, key := range p.places {
		now := p.states[key]
		if !now.changed {
			continue
		}
		if now.former {
			former = append(former, key)
		}
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
	if err := insertRevision(ctx, tx, &store.Revision{
		Namespace: p.namespace, Number: number, At: t.Created, App: t.App, User: t.User, Through: t.Through,
		Message: t.Message, Task: t.ID,
	}); err != nil {
		return err
	}
	for _, spec := range l.specs {
		if !used[spec.digest] {
			continue
		}
		delete(used, spec.digest)
		if err := tx.Exec(ctx, `INSERT INTO specs (namespace, digest, spec) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			p.namespace, spec.digest, spec.bare); err != nil {
			return err
		}
	}
	if len(former) > 0 {
		if err := tx.Exec(ctx, `UPDATE placements SET until = ?1 WHERE namespace = ?2 AND until = 0
			AND (name, agent) IN (SELECT j.a, j.b FROM names(?3) j)`, number, p.namespace, p.pairs(d, former)); err != nil {
			return err
		}
	}
	filed := int64(0)
	if store.ByFile(t.Through) {
		filed = number
	}
	if err := (kit.RowValues{
		Head:   `INSERT INTO placements (namespace, since, filed, name, agent, digest) VALUES `,
		Row:    `(?1, ?2, ?3, ?, ?, ?)`,
		Shared: []any{p.namespace, number, filed},
	}).Run(ctx, tx, rows); err != nil {
		return err
	}
	return inheritFile(ctx, tx, p.namespace, number, t.Through)
}

// nextRevision returns the number of a revision after the latest one. A database that was restored from a copy does not
// know the numbers that it gave out since.
func nextRevision(ctx context.Context, tx kit.Tx, latest int64) (int64, error) {
	text, err := kit.One(ctx, tx.Query, kit.Column[string], `SELECT value FROM fleet WHERE key = ?`,
		store.FactIncarnations)
	if errors.Is(err, store.ErrNotFound) { // no server has opened the database yet
		return latest + 1, nil
	}
	if err != nil {
		return 0, err
	}
	all, err := store.ReadIncarnations(text)
	if err != nil {
		return 0, err
	}
	return max(latest, all[len(all)-1].FirstRevision()) + 1, nil
}

// insertRevision stores the row of a revision, which becomes the latest of its namespace.
func insertRevision(ctx context.Context, tx kit.Tx, r *store.Revision) error {
	err := tx.Exec(ctx, `UPDATE namespaces SET revision = ? WHERE namespace = ?`, r.Number, r.Namespace)
	if err != nil {
		return err
	}
	return tx.Exec(ctx, `INSERT INTO revisions (namespace, number, at, app, "user", through, message, task)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.Namespace, r.Number, kit.Nanos(r.At), r.App, r.User, r.Through, r.Message, r.Task)
}

// lockNamespace returns the latest revision of a namespace. Until the transaction ends, no other transaction makes a
// revision of the namespace.
func (db *Tasks) lockNamespace(ctx context.Context, tx kit.Tx, namespace string) (latest int64, err error) {
	// A missing row cannot be locked. If another transaction has just inserted the row, this insert waits for the end
	// of that transaction.
	if err := tx.Exec(ctx, `INSERT INTO namespaces (namespace, revision) VALUES (?, 0) ON CONFLICT DO NOTHING`,
		namespace); err != nil {
		return 0, err
	}
	return kit.One(ctx, tx.Query, kit.Column[int64], `SELECT revision FROM namespaces WHERE namespace = ?`+db.Dialect.Locked,
		namespace)
}
