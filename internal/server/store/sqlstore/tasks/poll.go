package tasks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/store/statusjson"
	"drover/internal/server/task"
)

const (
	// pollRows and pollBytes bound how much of a task one read returns. Its receiver may be a slow caller, which must
	// not hold a database connection, nor much memory. A page is also small enough for the buffer of the API between a
	// read and its receiver.
	pollRows  = 500
	pollBytes = 1 << 20
)

// errPolled ends a read that has reached pollBytes.
var errPolled = errors.New("enough was read")

// TaskItems calls fn for the last item of every item key, in the order in which the keys first appeared.
func (db *Tasks) TaskItems(ctx context.Context, id, app string, fn func(store.ItemView) error) error {
	w := taskWalk{id: id, app: app}
	for !w.over {
		views, err := w.page(ctx, db)
		if err != nil {
			return fmt.Errorf("cannot read task %s: %w", id, err)
		}
		for _, v := range views {
			if err := fn(v); err != nil { // the caller's error, unchanged
				return err
			}
		}
	}
	return nil
}

// taskWalk reads a task page by page.
type taskWalk struct {
	id, app string
	num     int64
	// from and end bound the item numbers that are left to read.
	from, end int64
	// ranked has the remaining item numbers in display order; nil if that is the order of the numbers.
	ranked   []int64
	requests requestViews
	over     bool
	scanner  viewScanner
	views    []store.ItemView
	read     int
}

// page reads the next page. It fails with ErrNotFound if the task was pruned after the previous page.
func (w *taskWalk) page(ctx context.Context, db *Tasks) ([]store.ItemView, error) {
	w.views, w.read = w.views[:0], 0
	// all statements must see the same task
	err := db.Backend.Snapshot(ctx, func(ctx context.Context, s sqldb.Session) error {
		if err := w.find(ctx, db, s); err != nil {
			return err
		}
		var err error
		if w.ranked == nil {
			err = s.Query(ctx, w.take, selectViews+`FROM items i LEFT JOIN agents a ON a.key = i.agent
				WHERE i.num >= ? AND i.num < ? AND i.rank IS NOT NULL ORDER BY i.num LIMIT ?`, w.from, w.end, pollRows)
		} else {
			err = s.Query(ctx, w.take, selectViews+`FROM pairs(?) j CROSS JOIN items i ON i.num = j.a
				LEFT JOIN agents a ON a.key = i.agent ORDER BY j.b`,
				numbered(w.ranked[:min(len(w.ranked), pollRows)]))
		}
		if errors.Is(err, errPolled) {
			err = nil
		}
		return err
	})
	switch n := len(w.views); {
	case err != nil:
		return nil, err
	case w.ranked != nil:
		w.ranked = w.ranked[n:]
		w.over = n == 0 || len(w.ranked) == 0
	default:
		w.over = n < pollRows && w.read <= pollBytes
		w.from = w.scanner.num + 1
	}
	return w.views, nil
}

// find looks the task up. On the first page it also decides how to read the task.
func (w *taskWalk) find(ctx context.Context, db *Tasks, s sqldb.Session) error {
	var num, first, end int64
	var inOrder bool
	err := kit.Tx{Session: s}.Query(ctx, func(rows *sql.Rows) error { return rows.Scan(&num, &first, &end, &inOrder) },
		`SELECT num, first_item, end_item, in_order FROM tasks WHERE id = ?1 AND (?2 = '' OR app = ?2)`, w.id, w.app)
	if err == nil && (num == 0 || w.num != 0 && num != w.num) {
		err = store.ErrNotFound
	}
	if err != nil || w.num != 0 {
		return err
	}
	w.num, w.from, w.end = num, first, end
	if w.requests, err = db.requestViews(ctx, s, viewKey{num, w.id}); err != nil || inOrder {
		return err
	}
	w.ranked = []int64{}
	return s.Query(ctx, func(rows *sql.Rows) error {
		var item int64
		err := rows.Scan(&item)
		w.ranked = append(w.ranked, item)
		return err
	}, `SELECT num FROM items WHERE num >= ? AND num < ? AND rank IS NOT NULL ORDER BY rank`, first, end)
}

// take adds a row to the page.
func (w *taskWalk) take(rows *sql.Rows) error {
	v, err := w.scanner.scan(rows, w.requests)
	if err != nil {
		return err
	}
	w.views = append(w.views, v)
	if w.read += len(w.scanner.text.String) + len(w.scanner.status); w.read > pollBytes {
		return errPolled
	}
	return nil
}

// numbered returns the numbers and their places as the parameter of pairs(?).
func numbered(list []int64) string {
	pairs := make([][2]int64, len(list))
	for i, n := range list {
		pairs[i] = [2]int64{n, int64(i)}
	}
	return sqldb.Array(pairs)
}

// The cost of a poll is mostly the number of columns that are not null, so this query reads only necessary columns.
const selectViews = `
	SELECT i.num, i.request, i.key, i.asked, a.cloud, a.ip,
		CASE a.assigned WHEN '' THEN a.id ELSE a.assigned END, i.state, i.cancel, i.fault, i.text, i.hosted, i.status `

// viewScanner holds the variables that receive a row of selectViews, to allocate them once.
type viewScanner struct {
	num      int64
	request  int64
	cloud    sql.NullInt64
	ip, id   sql.NullString
	state    int
	cancel   sql.NullInt64
	fault    sql.NullString
	text     sql.NullString
	hosted   sql.NullBool
	status   sql.RawBytes
	statuses statusjson.Reader
}

func (s *viewScanner) scan(rows *sql.Rows, requests requestViews) (store.ItemView, error) {
	var key, asked string
	err := rows.Scan(&s.num, &s.request, &key, &asked, &s.cloud, &s.ip, &s.id, &s.state, &s.cancel, &s.fault, &s.text,
		&s.hosted, &s.status)
	if err != nil {
		return store.ItemView{}, err
	}
	place := s.request - requests.first
	if place < 0 || place >= int64(len(requests.views)) {
		return store.ItemView{}, fmt.Errorf("item %q has no request", key)
	}
	v := requests.views[place]
	v.ItemKey, v.Spelling = key, asked
	if s.cloud.Valid { // a known agent
		v.Cloud, v.IP, v.AgentID = int(s.cloud.Int64), s.ip.String, s.id.String
		if v.AgentID == "" {
			v.AgentID = strconv.Itoa(v.Cloud) + ":" + v.IP
		}
	}
	if v.Done = task.State(s.state) == task.Done; !v.Done {
		v.Cancelling = s.cancel.Valid && task.State(s.state) < task.Begun
		return v, nil
	}
	v.Outcome = &process.Outcome{Fault: process.Fault(s.fault.String), Text: s.text.String, Hosted: s.hosted.Bool}
	if s.status == nil {
		return v, nil
	}
	status, err := s.statuses.Read(s.status)
	v.Outcome.Status = &status
	return v, err
}

// requestViews holds the parts of item views that come from the requests of a task. The requests have consecutive
// numbers.
type requestViews struct {
	first int64
	views []store.ItemView
}

// mostViews bounds how many request views the cache holds. A view takes some hundred bytes.
const mostViews = 20_000

// viewCache holds the requests of polled tasks, because callers poll a task again and again and its requests never
// change.
type viewCache struct {
	mu    sync.Mutex
	tasks map[viewKey]requestViews
	count int
}

// viewKey identifies a task forever. The number alone does not, because the store may reuse the number of a removed
// task.
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

// put adds the requests of a task. If the cache is full, put drops all other tasks; the next polls load them again.
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
func (db *Tasks) requestViews(ctx context.Context, s sqldb.Session, key viewKey) (r requestViews, err error) {
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
