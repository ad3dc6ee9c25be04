package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"drover/internal/server/store"
)

// requestViews is what the requests of a task, which are numbered without a gap, add to the views of their items.
type requestViews struct {
	first int64
	views []store.ItemView
}

// mostViews bounds how many views are remembered; one takes some hundred bytes.
const mostViews = 20_000

// viewCache remembers the requests of the tasks that are polled: a task is polled again and again, and its requests
// never change.
type viewCache struct {
	mu    sync.Mutex
	tasks map[viewKey]requestViews
	count int
}

// viewKey names a task for good: its number alone may be given out again once it is removed.
type viewKey struct {
	num int64
	id  string
}

func (c *viewCache) get(key viewKey) (requestViews, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.tasks[key]
	return r, ok
}

// put remembers the requests of a task. When there is no room for them, all others are forgotten: those that are still
// polled come back.
func (c *viewCache) put(key viewKey, r requestViews) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tasks == nil || c.count+len(r.views) > mostViews {
		c.tasks, c.count = map[viewKey]requestViews{}, 0
	}
	if _, ok := c.tasks[key]; !ok && len(r.views) <= mostViews {
		c.tasks[key] = r
		c.count += len(r.views)
	}
}

// requestViews returns the requests of a task.
func (db *Store) requestViews(ctx context.Context, s Session, key viewKey) (r requestViews, err error) {
	if r, ok := db.views.get(key); ok {
		return r, nil
	}
	err = s.Query(ctx, func(rows *sql.Rows) error {
		var num int64
		var v store.ItemView
		err := rows.Scan(&num, &v.Op, &v.Process.Namespace, &v.Process.Name, &v.ProcName, &v.SetupPath, &v.FuncID,
			&v.InstanceID)
		if len(r.views) == 0 {
			r.first = num
		}
		r.views = append(r.views, v)
		return err
	},
		`SELECT num, op, namespace, name, proc_name, setup_path, func_id, instance_id FROM requests WHERE task = ?
			ORDER BY num`, key.num)
	if err == nil {
		db.views.put(key, r)
	}
	return r, err
}
