package tasks

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
	"drover/internal/server/store/sqlstore/kit"
	"drover/internal/server/task"
)

// itemID is the row number of an item and a nonce that makes the id impossible to guess.
type itemID struct{ num, nonce int64 }

func (id itemID) String() string { return fmt.Sprintf("%016x-%d", uint64(id.nonce), id.num) }

// parseItemID returns false for a text that is not an item id of this store.
func parseItemID(s string) (itemID, bool) {
	head, tail, _ := strings.Cut(s, "-")
	nonce, err := strconv.ParseUint(head, 16, 64)
	if err != nil {
		return itemID{}, false
	}
	num, err := strconv.ParseInt(tail, 10, 64)
	id := itemID{num: num, nonce: int64(nonce)}
	return id, err == nil && id.String() == s
}

// idList returns the ids as pairs(?) of num and nonce. It leaves out invalid ids.
func idList(ids []string) string {
	list := make([][2]int64, 0, len(ids))
	for _, s := range ids {
		if id, ok := parseItemID(s); ok {
			list = append(list, [2]int64{id.num, id.nonce})
		}
	}
	return sqldb.Array(list)
}

func laneOf(id process.ID) int64 { return kit.Hash(id.Namespace + "\x00" + id.Name) }

// selectItems reads items for scanItem; its conditions follow.
const selectItems = `
	SELECT i.num, i.nonce, t.id, i.agent, coalesce(r.spec_of, r.num), r.namespace, r.name, r.op, i.state, i.attempts,
		t.created, i.deadline, t.app, t."user", t.reason, t.ordered, r.removes, t.asks, i.revision
	FROM items i CROSS JOIN requests r ON r.num = i.request CROSS JOIN tasks t ON t.num = i.task `

// scanItem reads a row of selectItems, and returns the place of the item's spec. The row has no spec, because many
// items share one.
func scanItem(rows *sql.Rows) (it store.Item, of itemSpec, err error) {
	var id itemID
	var created, deadline int64
	var state int
	err = rows.Scan(&id.num, &id.nonce, &it.Task, &it.Agent, &of.request, &it.Process.Namespace, &it.Process.Name,
		&it.Op, &state, &it.Attempts, &created, &deadline, &it.App, &it.User, &it.Reason, &it.Ordered,
		&it.Removes, &it.Asks, &of.revision)
	it.ID, it.State, it.Created, it.Deadline = id.String(), task.State(state), kit.Moment(created), kit.Moment(deadline)
	return it, of, err
}

// itemSpec names the spec of an item: the request that holds it, and the revision that brought it.
type itemSpec struct{ request, revision int64 }

// numberedSpecs has one copy of a spec for each revision, because many items share it.
type numberedSpecs map[numberedSpec]*process.Spec

type numberedSpec struct {
	spec     *process.Spec
	revision int64
}

func (n numberedSpecs) of(spec *process.Spec, revision int64) *process.Spec {
	key := numberedSpec{spec, revision}
	if n[key] == nil {
		n[key] = spec.Numbered(revision)
	}
	return n[key]
}

// sizeOfSpec returns a bound for the size of a spec with its revision, from its size without.
func sizeOfSpec(size int, revision int64) int {
	if revision != 0 {
		size += len(`,"revision":`) + 20
	}
	return size
}

// readItems runs selectItems with the given conditions and completes the items with their specs.
func readItems(ctx context.Context, query kit.QueryFunc, where string, args ...any) ([]store.Item, error) {
	var items []store.Item
	var of []itemSpec
	err := query(ctx, func(rows *sql.Rows) error {
		it, spec, err := scanItem(rows)
		items, of = append(items, it), append(of, spec)
		return err
	}, selectItems+where, args...)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	type sized struct {
		spec *process.Spec
		size int
	}
	specs := map[int64]sized{}
	for _, o := range of {
		specs[o.request] = sized{}
	}
	wanted := make([]int64, 0, len(specs))
	for request := range specs {
		wanted = append(wanted, request)
	}
	err = query(ctx, func(rows *sql.Rows) error {
		var request int64
		var text sql.RawBytes
		if err := rows.Scan(&request, &text); err != nil {
			return err
		}
		spec, err := kit.Decode[process.Spec](text)
		specs[request] = sized{spec, len(text)}
		return err
	}, `SELECT r.num, r.spec FROM numbers(?) j CROSS JOIN requests r ON r.num = j.value`, sqldb.Array(wanted))
	if err != nil {
		return nil, err
	}
	numbered := numberedSpecs{}
	for i := range items {
		spec, revision := specs[of[i].request], of[i].revision
		items[i].Spec, items[i].SpecSize = numbered.of(spec.spec, revision), sizeOfSpec(spec.size, revision)
	}
	return items, nil
}

// laneLocks is the number of locks that all hosts share. It lets many writers change items in parallel, and a writer
// that needs every lock takes only a few.
const laneLocks = 64

// lockLanes keeps other transactions from adding or ending items of the agents until this transaction ends. An empty
// agent means all agents. Without the locks, one writer could end the first item of a lane while another adds the next
// item. Neither would see the other, and nothing would make the next item due.
func (db *Tasks) lockLanes(ctx context.Context, tx kit.Tx, agents iter.Seq[string]) error {
	if db.Dialect.LockLanes == "" {
		return nil
	}
	var wanted [laneLocks]bool
	for agent := range agents {
		wanted[uint64(kit.Hash(agent))%laneLocks] = true
		if agent == "" {
			for i := range wanted {
				wanted[i] = true
			}
			break
		}
	}
	var locks []int // in the same order for all writers, against deadlocks
	for i, w := range wanted {
		if w {
			locks = append(locks, i)
		}
	}
	if len(locks) == 0 {
		return nil
	}
	return tx.Query(ctx, func(*sql.Rows) error { return nil }, db.Dialect.LockLanes, sqldb.Array(locks))
}

// hidden is the rank of an item that polls do not show, because a later item has the same key.
const hidden = -1

// single is the twin of an item without a twin.
const single = -1

// layout is a task as rows.
type layout struct {
	specs []specRow // of the requests
	items []itemRow
	// shuffled is set if the shown items are not in the order of their keys.
	shuffled bool
	// until is the end of the leases.
	until time.Time
}

// specRow is the encoded spec of a request; null if the request has none. Equal specs share one text: of is the number
// of the first request with it.
type specRow struct {
	text sql.NullString
	of   int
	// bare is the text without the fields that are for one order, and digest its digest; both are empty without a spec.
	bare, digest string
}

// itemRow is one item to store.
type itemRow struct {
	request int
	rank    int
	target  *store.Target
	// blocked is set if the item must wait for an earlier item of the task.
	blocked bool
	// twin is the place of an item with the same operation under another key. This item gets the outcome of its twin.
	// twin is single if there is no such item.
	twin int
	// leased tells that the item is stored as leased, unless it must wait for an item of an earlier task.
	leased bool
	// revision is the number of the revision that brought the spec; 0 if there is none.
	revision int64
}

// layOut places the items of a task and drops repetitions. It decides which item of each key polls show, and in which
// order. It finds which items wait for others of the task, and which are one operation under several keys.
func layOut(t *store.Task) (layout, error) {
	total := 0
	for i := range t.Requests {
		total += len(t.Requests[i].Targets)
	}
	l := layout{items: make([]itemRow, 0, total)}
	if err := l.encode(t); err != nil {
		return layout{}, err
	}
	shown := make(map[string]int, total) // key → its last item
	lanes := make(map[lane]int, total)   // lane → its last item that an agent executes
	keys := 0
	for r := range t.Requests {
		request := &t.Requests[r]
		for n := range request.Targets {
			target := &request.Targets[n]
			if target.Agent == "" && target.Outcome == nil {
				return layout{}, fmt.Errorf("target %q has neither an agent nor an outcome", target.ItemKey)
			}
			it := itemRow{request: r, target: target, twin: single}
			same, again := shown[target.ItemKey]
			if target.Outcome == nil {
				where := lane{target.Agent, request.Process}
				before, busy := lanes[where]
				if it.blocked = busy; busy && l.repeats(t, it, l.items[before]) {
					it.twin = before
				} else {
					lanes[where] = len(l.items)
				}
			}
			switch {
			case !again:
				it.rank = keys
				keys++
			case l.repeated(t, it, same):
				continue
			default:
				it.rank = l.items[same].rank
				l.items[same].rank = hidden
				l.shuffled = true
			}
			shown[target.ItemKey] = len(l.items)
			l.items = append(l.items, it)
		}
	}
	return l, nil
}

// lease leases the first items that no item of the task blocks, up to limit.
func (l *layout) lease(until time.Time, limit int) {
	l.until = until
	for i := range l.items {
		it := &l.items[i]
		if limit > 0 && it.target.Outcome == nil && !it.blocked {
			it.leased = true
			limit--
		}
	}
}

// leased returns the leased items except the waiting ones.
func (l *layout) leased(t *store.Task, base itemBase, waiting map[int64]bool) []store.Item {
	var list []store.Item
	specs := numberedSpecs{}
	created := kit.Moment(kit.Nanos(t.Created))
	deadline := task.New(created, t.HostTimeout).Deadline
	for i := range l.items {
		num := base.item + int64(i)
		if !l.items[i].leased || waiting[num] {
			continue
		}
		r := &t.Requests[l.items[i].request]
		list = append(list, store.Item{
			ID: itemID{num, base.nonce}.String(), Task: t.ID, App: t.App, User: t.User, Reason: t.Reason,
			Agent:   l.items[i].target.Agent,
			Process: r.Process, Op: r.Op, Spec: specs.of(r.Spec, l.items[i].revision),
			SpecSize: sizeOfSpec(len(l.specs[l.items[i].request].text.String), l.items[i].revision),
			Created:  created, Deadline: deadline, Ordered: t.Ordered, Removes: r.Removes, Asks: t.Asks,
		})
	}
	return list
}

// encode encodes each distinct spec once.
func (l *layout) encode(t *store.Task) error {
	l.specs = make([]specRow, len(t.Requests))
	seen := make(map[*process.Spec]specRow)
	first := make(map[string]int)
	for r := range t.Requests {
		request := &t.Requests[r]
		spec, ok := seen[request.Spec]
		if !ok {
			text, err := kit.Encode(request.Spec)
			if err != nil {
				return fmt.Errorf("cannot encode spec of %s: %w", request.Process, err)
			}
			of, met := first[text.String]
			if !met {
				of = r
				first[text.String] = r
			}
			spec = specRow{text: text, of: of}
			if err := spec.name(request.Spec); err != nil {
				return fmt.Errorf("cannot encode spec of %s: %w", request.Process, err)
			}
			seen[request.Spec] = spec
		}
		l.specs[r] = spec
	}
	return nil
}

// name sets bare and digest.
func (s *specRow) name(spec *process.Spec) error {
	if spec == nil {
		return nil
	}
	s.bare = s.text.String
	if bare := spec.Unnumbered(); bare != spec {
		text, err := kit.Encode(bare)
		if err != nil {
			return err
		}
		s.bare = text.String
	}
	s.digest = digestOf(s.bare)
	return nil
}

// lane names the items that run one after another.
type lane struct {
	agent   string
	process process.ID
}

// repeated reports whether an item equals the item of its key that polls show so far: both are one operation, or both
// have the same outcome. Only neighbours in a lane can be one operation: start, stop, start are three.
func (l *layout) repeated(t *store.Task, it itemRow, shown int) bool {
	other := &l.items[shown]
	p, q := it.target.Outcome, other.target.Outcome
	if p == nil && q == nil {
		return it.twin != single && (it.twin == shown || it.twin == other.twin)
	}
	return p != nil && q != nil && *p == *q && it.target.Agent == other.target.Agent && l.repeats(t, it, *other)
}

// repeats reports whether two items of a process ask for the same operation with the same spec.
func (l *layout) repeats(t *store.Task, a, b itemRow) bool {
	x, y := &t.Requests[a.request], &t.Requests[b.request]
	return x.Op == y.Op && x.Process == y.Process &&
		(x.Op == process.Query || l.specs[a.request].of == l.specs[b.request].of)
}
