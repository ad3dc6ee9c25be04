package sqlstore

import (
	"database/sql"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

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
	// bare is the text without what is for one order, and digest names it; both are empty without a spec.
	bare, digest string
}

// itemRow is one item to store.
type itemRow struct {
	request int
	rank    int
	target  *store.Target
	// blocked is set if the item must wait for an earlier item of the task.
	blocked bool
	// twin is the place of the item that asks for the same operation under another key; this item gets the outcome of
	// that item. It is single if there is no such item.
	twin int
	// leased asks to store the item as leased, unless it must wait for an item of an earlier task.
	leased bool
	// revision is the one that brought the spec; 0 if there is none.
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
				return layout{}, fmt.Errorf("target %q has neither an agent nor an outcome", target.Key)
			}
			it := itemRow{request: r, target: target, twin: single}
			same, again := shown[target.Key]
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
			shown[target.Key] = len(l.items)
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
	created := moment(nanos(t.Created))
	deadline := task.New(created, t.HostTimeout).Deadline
	for i := range l.items {
		num := base.item + int64(i)
		if !l.items[i].leased || waiting[num] {
			continue
		}
		r := &t.Requests[l.items[i].request]
		list = append(list, store.Item{
			ID: itemID{num, base.nonce}.String(), Task: t.ID, App: t.App, User: t.User, Agent: l.items[i].target.Agent,
			Process: r.Process, Op: r.Op, Spec: specs.of(r.Spec, l.items[i].revision),
			SpecSize: sizeOfSpec(len(l.specs[l.items[i].request].text.String), l.items[i].revision),
			Created:  created, Deadline: deadline, Ordered: t.Ordered,
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
			text, err := encode(request.Spec)
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

// name fills in the text without what is for one order, and its digest.
func (s *specRow) name(spec *process.Spec) error {
	if spec == nil {
		return nil
	}
	s.bare = s.text.String
	if bare := spec.Unnumbered(); bare != spec {
		text, err := encode(bare)
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
