package sqlstore

import (
	"database/sql"
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// hidden is the rank of an item that a later one of the same key replaces in polls.
const hidden = -1

// single is the twin of an item that has none.
const single = -1

// layout is a task as rows.
type layout struct {
	specs []specRow // of the requests
	items []itemRow
	// shuffled says that the shown items are not in the order of their keys.
	shuffled bool
	// until is when the leases end.
	until time.Time
}

// specRow is the spec of a request, encoded, as null for none. It is the same text as that of the request of the
// number in of, which is the first one that has it.
type specRow struct {
	text sql.NullString
	of   int
}

// itemRow is one item to be stored.
type itemRow struct {
	request int
	rank    int
	target  *store.Target
	// blocked says that an earlier item of the task has to be done first.
	blocked bool
	// twin is the place of the item that asks for the same in another spelling, whose outcome is this one's too; single
	// where there is none.
	twin int
	// leased says that it is leased as it is stored, unless it has to wait for an item of an earlier task.
	leased bool
}

// layOut places the items of a task: it drops repetitions, finds which item of each key is shown and in which place,
// which items wait for others of the task, and which are one operation under several keys.
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
	lanes := make(map[lane]int, total)   // lane → the last item of it that is carried out
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

// lease leases the first of the items that nothing of the task blocks.
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

// leased returns the items that are leased, but for those that wait.
func (l *layout) leased(t *store.Task, base itemBase, waiting map[int64]bool) []store.Item {
	var list []store.Item
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
			Process: r.Process, Op: r.Op, Spec: r.Spec, SpecSize: len(l.specs[l.items[i].request].text.String),
			Created: created, Deadline: deadline,
		})
	}
	return list
}

// encode encodes the specs, each once.
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
			spec = specRow{text, of}
			seen[request.Spec] = spec
		}
		l.specs[r] = spec
	}
	return nil
}

// lane names the items that run one after another.
type lane struct {
	agent   string
	process process.ID
}

// repeated reports whether an item is the same as the one of its key that is shown so far: they are both one operation,
// or both the same outcome. Only neighbours in a lane are one operation: start, stop, start is three.
func (l *layout) repeated(t *store.Task, it itemRow, shown int) bool {
	other := &l.items[shown]
	p, q := it.target.Outcome, other.target.Outcome
	if p == nil && q == nil {
		return it.twin != single && (it.twin == shown || it.twin == other.twin)
	}
	return p != nil && q != nil && *p == *q && it.target.Agent == other.target.Agent && l.repeats(t, it, *other)
}

// repeats reports whether two items of a process ask for the same.
func (l *layout) repeats(t *store.Task, a, b itemRow) bool {
	x, y := &t.Requests[a.request], &t.Requests[b.request]
	return x.Op == y.Op && x.Process == y.Process &&
		(x.Op == process.Query || l.specs[a.request].of == l.specs[b.request].of)
}
