package tasks

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/store/sqlstore/people"
)

// PutSelections changes selections without a task.
func (db *Tasks) PutSelections(ctx context.Context, c store.SelectionChange, by store.Revision,
	known *store.ExpectedRevision, row store.AuditRow,
) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		latest, err := db.lockNamespace(ctx, tx, c.Namespace)
		if err != nil {
			return err
		}
		if known != nil && latest != known.Number {
			return store.ErrRevised
		}
		number, err := nextRevision(ctx, tx, latest)
		if err != nil {
			return err
		}
		by.Namespace, by.Number = c.Namespace, number
		if err := insertRevision(ctx, tx, &by); err != nil {
			return err
		}
		if err := db.putSelections(ctx, tx, c); err != nil {
			return err
		}
		return people.InsertAudit(ctx, tx, &row)
	})
	if err != nil {
		return fmt.Errorf("cannot change the selections of namespace %q: %w", c.Namespace, err)
	}
	db.Watch.Audited(1)
	return nil
}

// putSelections replaces selections and their members. The lock of the namespace keeps other transactions from the rows
// of upkeep.
func (db *Tasks) putSelections(ctx context.Context, tx kit.Tx, c store.SelectionChange) error {
	if _, err := db.lockNamespace(ctx, tx, c.Namespace); err != nil {
		return err
	}
	names, err := kit.All(ctx, tx.Query, kit.Column[string], `SELECT DISTINCT name FROM selections WHERE namespace = ?`,
		c.Namespace)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		base, _ := process.CutCopy(name)
		return !c.All && !slices.Contains(c.Entries, name) && !slices.Contains(c.Entries, base)
	})
	err = tx.Exec(ctx, `DELETE FROM selections WHERE namespace = ?1 AND name IN (SELECT j.value FROM texts(?2) j)`,
		c.Namespace, db.Dialect.Texts(names))
	if err != nil {
		return err
	}
	if err := db.releaseMembers(ctx, tx, &c, names); err != nil {
		return err
	}
	var rows, members []any
	for i := range c.Now {
		s := &c.Now[i]
		spec, err := kit.Encode(s.Spec)
		if err != nil {
			return err
		}
		rows = append(rows, s.Process.Name, s.Selector, spec.String, s.App, s.User, kit.Nanos(s.At))
	}
	for _, m := range c.Members {
		members = append(members, m.Process.Name, m.Agent)
	}
	err = kit.RowValues{
		Head:   `INSERT INTO selections (namespace, name, selector, spec, app, "user", at) VALUES `,
		Row:    `(?1, ?, ?, ?, ?, ?, ?)`,
		Shared: []any{c.Namespace},
	}.Run(ctx, tx, rows)
	if err != nil {
		return err
	}
	return kit.RowValues{
		Head: `INSERT INTO upkeep (namespace, name, agent, member, serial, goal, at, tries) VALUES `,
		Row:  `(?1, ?, ?, 'joined', 1, '', 0, 0)`,
		Tail: ` ON CONFLICT (agent, namespace, name) DO UPDATE
			SET member = 'joined', serial = upkeep.serial + 1, goal = '', at = 0, tries = 0`,
		Shared: []any{c.Namespace},
	}.Run(ctx, tx, members)
}

// releaseMembers turns the members of the processes with these names into former members. It deletes the members that
// the change releases. If no selection has the process any more, it deletes all of them.
func (db *Tasks) releaseMembers(ctx context.Context, tx kit.Tx, c *store.SelectionChange, names []string) error {
	stays, released := map[string]bool{}, map[string][]string{}
	for i := range c.Now {
		stays[c.Now[i].Process.Name] = true
	}
	for _, r := range c.Released {
		if slices.Contains(names, r.Process.Name) {
			released[r.Process.Name] = append(released[r.Process.Name], r.Agent)
		}
	}
	ended := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return stays[name] })
	err := tx.Exec(ctx, `UPDATE upkeep SET member = '', serial = serial + 1 WHERE namespace = ?1 AND member <> ''
		AND name IN (SELECT j.value FROM texts(?2) j)`, c.Namespace, db.Dialect.Texts(ended))
	if err != nil {
		return err
	}
	for name, agents := range released {
		err := tx.Exec(ctx, `UPDATE upkeep SET member = '', serial = serial + 1 WHERE namespace = ?1 AND name = ?2
			AND member <> '' AND agent IN (SELECT j.value FROM texts(?3) j)`, c.Namespace, name,
			db.Dialect.Texts(agents))
		if err != nil {
			return err
		}
	}
	return tx.Exec(ctx, `UPDATE upkeep SET member = 'former', serial = serial + 1 WHERE namespace = ?1
		AND member = 'joined' AND name IN (SELECT j.value FROM texts(?2) j)`, c.Namespace, db.Dialect.Texts(names))
}

// ListSelections returns the selections of a namespace; of all namespaces if it is empty.
func (db *Tasks) ListSelections(ctx context.Context, namespace string) ([]store.Selection, error) {
	list, err := listSelections(ctx, db.Query, namespace)
	if err != nil {
		return nil, fmt.Errorf("cannot list selections: %w", err)
	}
	return list, nil
}

func listSelections(ctx context.Context, query kit.QueryFunc, namespace string) ([]store.Selection, error) {
	where, args := "", []any(nil)
	if namespace != "" {
		where, args = ` WHERE namespace = ?`, []any{namespace}
	}
	return kit.All(ctx, query, func(r *sql.Rows) (s store.Selection, err error) {
		var text sql.RawBytes
		var at int64
		if err := r.Scan(&s.Process.Namespace, &s.Process.Name, &s.Selector, &text, &s.App, &s.User, &at); err != nil {
			return s, err
		}
		s.At = kit.Moment(at)
		s.Spec, err = kit.Decode[process.Spec](text)
		return s, err
	}, `SELECT namespace, name, selector, spec, app, "user", at FROM selections`+where+`
		ORDER BY namespace, name, selector`, args...)
}

// UpkeepOn returns the rows of agents.
func (db *Tasks) UpkeepOn(ctx context.Context, agents []string) ([]store.Upkeep, error) {
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (u store.Upkeep, err error) {
		var place int
		var at int64
		err = r.Scan(&place, &u.Process.Namespace, &u.Process.Name, &u.Member, &u.Serial, &u.Goal, &at, &u.Tries)
		if err == nil {
			u.Agent, u.At = agents[place], kit.Moment(at)
		}
		return u, err
	}, `SELECT j.key, u.namespace, u.name, u.member, u.serial, u.goal, u.at, u.tries FROM texts(?) j
		CROSS JOIN upkeep u ON u.agent = j.value`, db.Dialect.Texts(agents))
	if err != nil {
		return nil, fmt.Errorf("cannot read the upkeep of hosts: %w", err)
	}
	return list, nil
}

// PutUpkeep stores rows without a task.
func (db *Tasks) PutUpkeep(ctx context.Context, rows []store.Upkeep) error {
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		var namespaces []string
		for i := range rows {
			namespaces = append(namespaces, rows[i].Process.Namespace)
		}
		slices.Sort(namespaces) // in the same order for all writers, against deadlocks
		for _, namespace := range slices.Compact(namespaces) {
			if _, err := db.lockNamespace(ctx, tx, namespace); err != nil {
				return err
			}
		}
		return putUpkeep(ctx, tx, rows)
	})
	if err != nil {
		return fmt.Errorf("cannot store the upkeep of hosts: %w", err)
	}
	return nil
}

// putUpkeep stores rows whose serial is the next one. The caller has locked their namespaces.
func putUpkeep(ctx context.Context, tx kit.Tx, rows []store.Upkeep) error {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b store.Upkeep) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), process.CompareIDs(a.Process, b.Process))
	})
	for i := range rows {
		u := &rows[i]
		statement := `UPDATE upkeep SET member = ?, serial = serial + 1, goal = ?, at = ?, tries = ?
			WHERE namespace = ? AND name = ? AND agent = ? AND serial = ?`
		if u.Serial == 1 {
			statement = `INSERT INTO upkeep (member, goal, at, tries, namespace, name, agent, serial)
				VALUES (?, ?, ?, ?, ?, ?, ?, 1 + ?) ON CONFLICT DO NOTHING`
		}
		n, err := tx.Affect(ctx, statement, string(u.Member), u.Goal, kit.Nanos(u.At), u.Tries, u.Process.Namespace,
			u.Process.Name, u.Agent, u.Serial-1)
		switch {
		case err != nil:
			return err
		case n == 0:
			return store.ErrUpkept
		}
	}
	return nil
}

// PlacedOn returns the specs that agents should have by the latest revisions.
func (db *Tasks) PlacedOn(ctx context.Context, agents []string) ([]store.Placement, error) {
	digests := map[string][]digestChange{}
	var names []string // of the digests, one for each row
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (p store.Placement, err error) {
		var place int
		var digest string
		var at int64
		err = r.Scan(&place, &p.Process.Namespace, &p.Process.Name, &p.Revision, &digest, &p.Filed, &p.Through, &p.App,
			&p.User, &p.Task, &at)
		if err == nil {
			p.Agent, p.At = agents[place], kit.Moment(at)
			digests[p.Process.Namespace] = append(digests[p.Process.Namespace], digestChange{to: digest})
			names = append(names, digest)
		}
		return p, err
	}, `SELECT j.key, p.namespace, p.name, p.since, p.digest, p.filed = p.since, coalesce(r.through, ''),
			coalesce(r.app, ''), coalesce(r."user", ''), coalesce(r.task, ''), coalesce(r.at, 0)
		FROM texts(?) j CROSS JOIN placements p ON p.agent = j.value AND p.until = 0
		LEFT JOIN revisions r ON r.namespace = p.namespace AND r.number = p.since`, db.Dialect.Texts(agents))
	readers, numbered := map[string]*specReader{}, numberedSpecs{}
	for namespace, wanted := range digests {
		readers[namespace] = &specReader{db: db, namespace: namespace}
		if err == nil {
			err = readers[namespace].load(ctx, wanted)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what is placed on hosts: %w", err)
	}
	for i := range list {
		p := &list[i]
		p.Spec = numbered.of(readers[p.Process.Namespace].known[names[i]], p.Revision)
	}
	return list, nil
}

// LeftOn returns the processes that a file has removed and that agents still report.
func (db *Tasks) LeftOn(ctx context.Context, agents []string) ([]store.Placement, error) {
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (p store.Placement, err error) {
		var place int
		var at int64
		p.Ended = &store.Revision{}
		e := p.Ended
		err = r.Scan(&place, &p.Process.Namespace, &p.Process.Name, &p.Revision, &e.Number, &e.Through, &e.App, &e.User,
			&e.Task, &at)
		if err == nil {
			p.Agent, e.Namespace, e.At = agents[place], p.Process.Namespace, kit.Moment(at)
		}
		return p, err
	}, `SELECT j.key, p.namespace, p.name, p.since, e.number, e.through, e.app, e."user", e.task, e.at
		FROM texts(?) j CROSS JOIN observed o ON o.agent = j.value
		CROSS JOIN placements p ON p.namespace = o.namespace AND p.name = o.name AND p.agent = o.agent AND p.until > 0
			AND p.since = (SELECT max(l.since) FROM placements l WHERE l.namespace = o.namespace AND l.name = o.name
				AND l.agent = o.agent)
		CROSS JOIN revisions e ON e.namespace = p.namespace AND e.number = p.until
		WHERE e.through IN ('apply', 'undo', 'edit')`, db.Dialect.Texts(agents))
	if err != nil {
		return nil, fmt.Errorf("cannot read what files have left on hosts: %w", err)
	}
	return list, nil
}

// BusyOn returns the processes with unfinished items.
func (db *Tasks) BusyOn(ctx context.Context, agents []string) ([]store.ObservedKey, error) {
	hosts := make([]int64, len(agents))
	for i, agent := range agents {
		hosts[i] = kit.Hash(agent)
	}
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (k store.ObservedKey, err error) {
		err = r.Scan(&k.Agent, &k.Process.Namespace, &k.Process.Name)
		return k, err
	}, `SELECT DISTINCT i.agent, r.namespace, r.name FROM numbers(?) j CROSS JOIN items i ON i.host = j.value AND i.state < 4
		CROSS JOIN requests r ON r.num = i.request WHERE r.op <> 'query'`, sqldb.Array(hosts))
	if err != nil {
		return nil, fmt.Errorf("cannot read what is under way on hosts: %w", err)
	}
	return list, nil
}

// TaskFaults calls fn for the finished items of tasks on agents.
func (db *Tasks) TaskFaults(ctx context.Context, tasks, agents []string,
	fn func(task string, of store.ObservedKey, fault process.Fault),
) error {
	err := db.Query(ctx, func(r *sql.Rows) error {
		var task string
		var of store.ObservedKey
		var fault process.Fault
		err := r.Scan(&task, &of.Agent, &of.Process.Namespace, &of.Process.Name, &fault)
		if err == nil {
			fn(task, of, fault)
		}
		return err
	}, `SELECT t.id, i.agent, r.namespace, r.name, coalesce(i.fault, '') FROM tasks t
		JOIN items i ON i.num >= t.first_item AND i.num < t.end_item JOIN requests r ON r.num = i.request
		WHERE t.id IN (SELECT j.value FROM texts(?) j) AND +i.state = 4
			AND i.agent IN (SELECT j.value FROM texts(?) j) ORDER BY i.num`,
		db.Dialect.Texts(tasks), db.Dialect.Texts(agents))
	if err != nil {
		return fmt.Errorf("cannot read the outcomes of tasks: %w", err)
	}
	return nil
}

// RemovedOn returns the processes that agents should have by a file, and that somebody has removed without a file.
func (db *Tasks) RemovedOn(ctx context.Context, agents []string) ([]store.ObservedKey, error) {
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (k store.ObservedKey, err error) {
		err = r.Scan(&k.Agent, &k.Process.Namespace, &k.Process.Name)
		return k, err
	}, `SELECT p.agent, p.namespace, p.name FROM texts(?) j CROSS JOIN placements p ON p.agent = j.value AND p.until > 0
		CROSS JOIN revisions e ON e.namespace = p.namespace AND e.number = p.until
		WHERE p.filed > 0 AND e.through NOT IN ('apply', 'undo', 'edit', 'selection')
			AND NOT EXISTS (SELECT 1 FROM placements l WHERE l.namespace = p.namespace AND l.name = p.name
				AND l.agent = p.agent AND (l.until = 0 OR l.until > p.until))`,
		db.Dialect.Texts(agents))
	if err != nil {
		return nil, fmt.Errorf("cannot read what was removed from hosts: %w", err)
	}
	return list, nil
}

// FiledAs returns, for a process, the spec that a file placed last on each agent.
func (db *Tasks) FiledAs(ctx context.Context, id process.ID, agents []string) ([]store.Placement, error) {
	var digests []string
	wanted := map[string]bool{}
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (p store.Placement, err error) {
		var digest string
		var at, ended int64
		e := store.Revision{Namespace: id.Namespace}
		err = r.Scan(&p.Agent, &p.Revision, &digest, &p.Through, &p.App, &p.User, &p.Task, &at, &e.Number, &e.Through,
			&e.App, &e.User, &ended)
		p.Process, p.At, e.At = id, kit.Moment(at), kit.Moment(ended)
		if e.Number != 0 {
			p.Ended = &e
		}
		digests, wanted[digest] = append(digests, digest), true
		return p, err
	}, `SELECT p.agent, p.since, p.digest, r.through, r.app, r."user", r.task, r.at, coalesce(e.number, 0),
			coalesce(e.through, ''), coalesce(e.app, ''), coalesce(e."user", ''), coalesce(e.at, 0)
		FROM texts(?) j CROSS JOIN placements p ON p.namespace = ? AND p.name = ? AND p.agent = j.value
		CROSS JOIN revisions r ON r.namespace = p.namespace AND r.number = p.since
		LEFT JOIN revisions e ON e.namespace = p.namespace AND e.number = p.until
		WHERE p.since = (SELECT l.filed FROM placements l WHERE l.namespace = p.namespace AND l.name = p.name
			AND l.agent = p.agent ORDER BY l.since DESC LIMIT 1)`,
		db.Dialect.Texts(agents), id.Namespace, id.Name)
	specs := specReader{db: db, namespace: id.Namespace}
	if err == nil {
		var changes []digestChange
		for digest := range wanted {
			changes = append(changes, digestChange{to: digest})
		}
		err = specs.load(ctx, changes)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what a file says of %s: %w", id, err)
	}
	for i := range list {
		list[i].Spec, list[i].Filed = specs.known[digests[i]].Numbered(list[i].Revision), true
	}
	return list, nil
}

// Unfiled returns the specs in force that no file brought. Such a spec may equal the spec of a file that somebody has
// brought back by hand.
func (db *Tasks) Unfiled(ctx context.Context, namespace string) ([]store.Placement, error) {
	var digests []digestChange
	list, err := kit.All(ctx, db.Query, func(r *sql.Rows) (p store.Placement, err error) {
		var digest string
		err = r.Scan(&p.Process.Name, &p.Agent, &p.Revision, &digest)
		p.Process.Namespace, digests = namespace, append(digests, digestChange{to: digest})
		return p, err
	}, `SELECT p.name, p.agent, p.since, p.digest FROM placements p
		WHERE p.namespace = ? AND p.until = 0 AND p.filed <> p.since AND NOT EXISTS (SELECT 1 FROM placements f
			WHERE f.namespace = p.namespace AND f.name = p.name AND f.agent = p.agent AND f.since = p.filed
				AND f.digest = p.digest)`, namespace)
	specs := specReader{db: db, namespace: namespace}
	if err == nil {
		err = specs.load(ctx, digests)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what no file has in namespace %q: %w", namespace, err)
	}
	for i := range list {
		list[i].Spec = specs.known[digests[i].to]
	}
	return list, nil
}

// File marks placements as brought by a file. For the processes of gone, no file counts any more.
func (db *Tasks) File(ctx context.Context, namespace string, placed []store.Placement, gone []store.ObservedKey) error {
	part, of := revision{namespace: namespace}, map[int64][]nameAndAgent{}
	removed := make([]nameAndAgent, len(gone))
	for i, key := range gone {
		removed[i] = nameAndAgent{key.Process.Name, key.Agent}
	}
	for i := range placed {
		p := &placed[i]
		of[p.Revision] = append(of[p.Revision], nameAndAgent{p.Process.Name, p.Agent})
	}
	err := db.Write(ctx, func(ctx context.Context, tx kit.Tx) error {
		if _, err := db.lockNamespace(ctx, tx, namespace); err != nil {
			return err
		}
		for since, places := range of {
			err := tx.Exec(ctx, `UPDATE placements SET filed = since WHERE namespace = ?1 AND since = ?2 AND until = 0
				AND (name, agent) IN (SELECT j.a, j.b FROM names(?3) j)`, namespace, since, part.pairs(db.Dialect, places))
			if err != nil {
				return err
			}
		}
		return part.takeBack(ctx, tx, db.Dialect, removed)
	})
	if err != nil {
		return fmt.Errorf("cannot record what a file has in namespace %q: %w", namespace, err)
	}
	return nil
}

// inheritFile says for the placements of a revision which placement of a file counts, if that is an earlier one. A
// change that no file made leaves the file as it was, but for what a file has removed. So does an undo that brings back
// such a change.
func inheritFile(ctx context.Context, tx kit.Tx, namespace string, number int64, through string) error {
	filed, condition := `CASE WHEN EXISTS (SELECT 1 FROM revisions e WHERE e.namespace = o.namespace
		AND e.number = o.until AND e.through IN ('apply', 'undo', 'edit', 'selection')) THEN 0 ELSE o.filed END`, ""
	switch {
	case store.IsUndo(through):
		filed, condition = "CASE WHEN o.filed = o.since THEN ?2 ELSE o.filed END", " AND o.digest = placements.digest"
	case store.ByFile(through):
		return nil
	}
	before := ` FROM placements o WHERE o.namespace = placements.namespace AND o.name = placements.name
		AND o.agent = placements.agent AND o.until > 0` + condition
	return tx.Exec(ctx, `UPDATE placements SET filed = (SELECT `+filed+before+` ORDER BY o.until DESC LIMIT 1)
		WHERE namespace = ?1 AND since = ?2 AND EXISTS (SELECT 1`+before+`)`, namespace, number)
}

// takeBackFiles takes back what files say of the processes that an undo should remove, and that somebody has removed
// before.
func (p *revision) takeBackFiles(ctx context.Context, tx kit.Tx, d *sqldb.Dialect, t *store.Task, l *layout) error {
	var gone []nameAndAgent
	for _, i := range p.items {
		it := &l.items[i]
		key := nameAndAgent{t.Requests[it.request].Process.Name, it.target.Agent}
		now := p.states[key]
		if store.IsUndo(t.Through) && it.target.Outcome != nil && !now.changed && now.digest == "" {
			gone = append(gone, key)
		}
	}
	return p.takeBack(ctx, tx, d, gone)
}

// takeBack marks placements of processes that somebody has removed without a file: from now on they count as brought by
// no file.
func (p *revision) takeBack(ctx context.Context, tx kit.Tx, d *sqldb.Dialect, gone []nameAndAgent) error {
	if len(gone) == 0 {
		return nil
	}
	return tx.Exec(ctx, `UPDATE placements SET filed = 0 WHERE namespace = ?1
		AND (name, agent) IN (SELECT j.a, j.b FROM names(?2) j)
		AND until = (SELECT max(o.until) FROM placements o WHERE o.namespace = placements.namespace
			AND o.name = placements.name AND o.agent = placements.agent)
		AND NOT EXISTS (SELECT 1 FROM placements l WHERE l.namespace = placements.namespace AND l.name = placements.name
			AND l.agent = placements.agent AND l.until = 0)
		AND EXISTS (SELECT 1 FROM revisions e WHERE e.namespace = placements.namespace AND e.number = placements.until
			AND e.through NOT IN ('apply', 'undo', 'edit', 'selection'))`, p.namespace, p.pairs(d, gone))
}
