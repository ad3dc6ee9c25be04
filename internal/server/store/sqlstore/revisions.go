package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// LatestRevision returns the number of the latest revision of a namespace.
func (db *Store) LatestRevision(ctx context.Context, namespace string) (int64, error) {
	n, err := one(ctx, db.query, column[int64], `SELECT revision FROM namespaces WHERE namespace = ?`, namespace)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the revision of namespace %q: %w", namespace, err)
	}
	return n, nil
}

// ListRevisions returns a page of the revisions of a namespace, newest first.
func (db *Store) ListRevisions(ctx context.Context, f store.RevisionFilter, limit int) (
	rows []store.Revision, next int64, err error,
) {
	before := f.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	found, err := all(ctx, db.query, func(r *sql.Rows) (v store.Revision, err error) {
		var at int64
		err = r.Scan(&v.Number, &at, &v.App, &v.User, &v.Through, &v.Message, &v.Task)
		v.Namespace, v.At = f.Namespace, moment(at)
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

// mostChanges is about how many changes of processes one page of revisions has.
const mostChanges = 10_000

// withChanges completes revisions with their changes. It leaves out the last ones if the changes are too many. last is
// the number of the last revision that it has completed.
func (db *Store) withChanges(ctx context.Context, f store.RevisionFilter, found []store.Revision) (
	rows []store.Revision, last int64, err error,
) {
	specs := specReader{db: db, namespace: f.Namespace}
	changes := 0
	for _, r := range found {
		digests, err := db.changesOf(ctx, f, r.Number)
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
		if changes += len(digests); changes > mostChanges {
			break
		}
	}
	return rows, last, nil
}

// digestChange is a change of a process on some hosts, with the digests of the specs; one is empty if there is none.
type digestChange struct {
	name, from, to string
	hosts          int
}

// changesOf returns the changes of a revision.
func (db *Store) changesOf(ctx context.Context, f store.RevisionFilter, number int64) (list []digestChange, err error) {
	const added = ` FROM placements n LEFT JOIN placements o ON o.namespace = n.namespace AND o.name = n.name
			AND o.agent = n.agent AND o.until = n.since
		WHERE n.namespace = ?1 AND n.since = ?2`
	const removed = ` FROM placements o WHERE o.namespace = ?1 AND o.until = ?2 AND NOT EXISTS (
			SELECT 1 FROM placements n WHERE n.namespace = o.namespace AND n.name = o.name AND n.agent = o.agent
				AND n.since = o.until)`
	query := `SELECT n.name, coalesce(o.digest, ''), n.digest, '', count(*)` + added + ` GROUP BY n.name, o.digest, n.digest
		UNION ALL SELECT o.name, o.digest, '', '', count(*)` + removed + ` GROUP BY o.name, o.digest ORDER BY 1, 2, 3`
	if f.Sees != nil {
		query = `SELECT n.name, coalesce(o.digest, ''), n.digest, n.agent, 1` + added + `
			UNION ALL SELECT o.name, o.digest, '', o.agent, 1` + removed + ` ORDER BY 1, 2, 3`
	}
	err = db.query(ctx, func(r *sql.Rows) error {
		var c digestChange
		var agent string
		if err := r.Scan(&c.name, &c.from, &c.to, &agent, &c.hosts); err != nil {
			return err
		}
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
	return list, err
}

// specReader reads the specs of a namespace, each once.
type specReader struct {
	db        *Store
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
	return s.db.query(ctx, func(r *sql.Rows) error {
		var digest string
		var text sql.RawBytes
		if err := r.Scan(&digest, &text); err != nil {
			return err
		}
		spec, err := decode[process.Spec](text)
		s.known[digest] = spec
		return err
	}, `SELECT s.digest, s.spec FROM texts(?1) j CROSS JOIN specs s ON s.namespace = ?2 AND s.digest = j.value`,
		s.db.dialect.Texts(wanted), s.namespace)
}

// PlacedAt returns the processes of a namespace as they are by a revision.
func (db *Store) PlacedAt(ctx context.Context, namespace string, revision int64) ([]store.Placed, error) {
	_, err := one(ctx, db.query, column[int64], `SELECT number FROM revisions WHERE namespace = ? AND number = ?`,
		namespace, revision)
	var placed []store.Placed
	var since []int64
	var digests []digestChange
	if err == nil {
		err = db.query(ctx, func(r *sql.Rows) error {
			var p store.Placed
			var began int64
			var digest string
			err := r.Scan(&p.Name, &p.Agent, &began, &digest)
			placed, since, digests = append(placed, p), append(since, began), append(digests, digestChange{to: digest})
			return err
		}, `SELECT name, agent, since, digest FROM placements
			WHERE namespace = ?1 AND since <= ?2 AND (until = 0 OR until > ?2) ORDER BY name, agent`, namespace, revision)
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
func (db *Store) RevisedSpecs(ctx context.Context, id process.ID, agent string, former, revision int64) (
	from, to *process.Spec, err error,
) {
	err = db.query(ctx, func(r *sql.Rows) error {
		var since int64
		var text sql.RawBytes
		if err := r.Scan(&since, &text); err != nil {
			return err
		}
		spec, err := decode[process.Spec](text)
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
func (db *Store) OpenRevision(ctx context.Context, namespace string) (string, error) {
	tasks, err := all(ctx, db.query, column[string], `SELECT t.id
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

// PruneRevisions removes old revisions, and what only they need.
func (db *Store) PruneRevisions(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = db.write(ctx, func(ctx context.Context, tx tx) error {
		removed = 0
		old, err := all(ctx, tx.query, func(r *sql.Rows) (v store.Revision, err error) {
			err = r.Scan(&v.Namespace, &v.Number)
			return v, err
		}, `SELECT r.namespace, r.number FROM revisions r CROSS JOIN namespaces n ON n.namespace = r.namespace
			WHERE r.at < ?1 AND r.number <= n.revision - ?2 ORDER BY r.at LIMIT ?3`,
			nanos(before), store.KeptRevisions, limit)
		if err != nil {
			return err
		}
		if len(old) < limit {
			many, err := all(ctx, tx.query, func(r *sql.Rows) (v store.Revision, err error) {
				err = r.Scan(&v.Namespace, &v.Number)
				return v, err
			}, `SELECT r.namespace, r.number FROM namespaces n CROSS JOIN revisions r ON r.namespace = n.namespace
				AND r.number <= n.revision - ?1 WHERE n.revision > ?1 ORDER BY r.at LIMIT ?2`,
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
func (db *Store) pruneNamespace(ctx context.Context, tx tx, namespace string, upTo int64) (removed int, err error) {
	if _, err := db.lockNamespace(ctx, tx, namespace); err != nil {
		return 0, err
	}
	removed, err = tx.affect(ctx, `DELETE FROM revisions WHERE namespace = ? AND number <= ?`, namespace, upTo)
	if err != nil {
		return 0, err
	}
	for _, statement := range []string{
		`DELETE FROM placements WHERE namespace = ?1 AND until > 0 AND until <= ?2`,
		`DELETE FROM placements WHERE namespace = ?1 AND until = 0 AND since <= ?2
			AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.key = placements.agent)`,
	} {
		if err := tx.exec(ctx, statement, namespace, upTo); err != nil {
			return 0, err
		}
	}
	return removed, tx.exec(ctx, `DELETE FROM specs WHERE namespace = ?1 AND NOT EXISTS (
		SELECT 1 FROM placements p WHERE p.namespace = ?1 AND p.digest = specs.digest)`, namespace)
}
