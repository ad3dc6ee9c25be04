package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
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

// hash represents a text in an index. Texts with the same hash share a lane or a lock, which only costs needless waits.
func hash(s string) int64 {
	sum := sha256.Sum256([]byte(s))
	return int64(binary.LittleEndian.Uint64(sum[:8]))
}

func laneOf(id process.ID) int64 { return hash(id.Namespace + "\x00" + id.Name) }

// selectItems reads items for scanItem; its conditions follow.
const selectItems = `
	SELECT i.num, i.nonce, t.id, i.agent, coalesce(r.spec_of, r.num), r.namespace, r.name, r.op, i.state, i.attempts,
		t.created, i.deadline, t.app, t."user", t.ordered, i.revision
	FROM items i CROSS JOIN requests r ON r.num = i.request CROSS JOIN tasks t ON t.num = i.task `

// scanItem reads a row of selectItems, and returns which spec the item has. The row has no spec, because many
// items share one.
func scanItem(rows *sql.Rows) (it store.Item, of itemSpec, err error) {
	var id itemID
	var created, deadline int64
	var state int
	err = rows.Scan(&id.num, &id.nonce, &it.Task, &it.Agent, &of.request, &it.Process.Namespace, &it.Process.Name,
		&it.Op, &state, &it.Attempts, &created, &deadline, &it.App, &it.User, &it.Ordered, &of.revision)
	it.ID, it.State, it.Created, it.Deadline = id.String(), task.State(state), moment(created), moment(deadline)
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
func readItems(ctx context.Context, query queryFunc, where string, args ...any) ([]store.Item, error) {
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
		spec, err := decode[process.Spec](text)
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

// encode returns v as a JSON column, null for a nil pointer.
func encode[T any](v *T) (sql.NullString, error) {
	if v == nil {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(v)
	return sql.NullString{String: string(text), Valid: true}, err
}

// decode reads what encode wrote.
func decode[T any](text []byte) (*T, error) {
	if text == nil {
		return nil, nil
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("cannot decode %T: %w", v, err)
	}
	return v, nil
}

// laneLocks is the number of locks that all hosts share. It lets many writers change items in parallel, and a writer
// that needs every lock takes only a few.
const laneLocks = 64

// lockLanes keeps other transactions from adding or ending items of the agents until this transaction ends. An empty
// agent means all agents. Without the locks, one writer could end the first item of a lane while another adds the next
// item. Neither would see the other, and nothing would make the next item due.
func (db *Store) lockLanes(ctx context.Context, tx tx, agents iter.Seq[string]) error {
	if db.dialect.LockLanes == "" {
		return nil
	}
	var wanted [laneLocks]bool
	for agent := range agents {
		wanted[uint64(hash(agent))%laneLocks] = true
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
	return tx.query(ctx, func(*sql.Rows) error { return nil }, db.dialect.LockLanes, sqldb.Array(locks))
}
