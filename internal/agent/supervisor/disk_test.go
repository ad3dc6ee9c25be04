package supervisor_test

import (
	"encoding/json"
	goruntime "runtime"
	"slices"
	"sync"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// disk is what outlives an agent.
type disk struct {
	mu        sync.Mutex
	boot      string
	records   map[process.ID]record.Record
	runtimes  map[process.ID][]byte
	histories map[process.ID]record.History
	entries   []record.Entry
	revision  uint64
	// stored counts the runtimes that were stored.
	stored int
	// full refuses every write, refused every outcome.
	full, refused error
}

func newDisk() *disk {
	return &disk{
		boot: operationtest.Boot, records: map[process.ID]record.Record{},
		runtimes: map[process.ID][]byte{}, histories: map[process.ID]record.History{},
	}
}

// runtimeWrites counts how often a runtime was stored.
func (d *disk) runtimeWrites() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stored
}

// history returns what is stored of the past of a process.
func (d *disk) history(id process.ID) record.History {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.histories[id]
}

func (d *disk) accept(e record.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, e)
}

// taken returns the records and the open operations.
func (d *disk) taken() (records []record.Record, open []record.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, rec := range d.records {
		records = append(records, rec)
	}
	for _, e := range d.entries {
		if e.Outcome == nil {
			open = append(open, e)
		}
	}
	return records, open
}

func (d *disk) record(id process.ID) (record.Record, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rec, ok := d.records[id]
	return rec, ok
}

func (d *disk) runtime(id process.ID) (rt record.Runtime) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if data := d.runtimes[id]; data != nil {
		if err := json.Unmarshal(data, &rt); err != nil {
			panic(err)
		}
	}
	return rt
}

// putRuntime stores what an agent would have stored.
func (d *disk) putRuntime(id process.ID, rt record.Runtime) {
	d.mu.Lock()
	defer d.mu.Unlock()
	data, err := json.Marshal(rt)
	if err != nil {
		panic(err)
	}
	d.runtimes[id] = data
}

func (d *disk) fill(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = err
}

// refuse has no outcome stored, while all else is.
func (d *disk) refuse(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = err
}

// reboot forgets what is good for one boot only.
func (d *disk) reboot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boot = "boot-2"
	clear(d.runtimes)
}

// handle is a disk as one life of the agent has it open.
type handle struct {
	*disk
	*operationtest.World

	// onFinish is called when an outcome is about to be stored.
	onFinish func(item string)

	closing sync.Mutex
	// closed says that the agent is dead: whoever would write ends there.
	closed bool
	// left is how many writes go well before a mortal agent dies.
	left   int
	mortal bool
}

// dieAt has the agent die when it has written so many times.
func (h *handle) dieAt(writes int) {
	h.closing.Lock()
	defer h.closing.Unlock()
	h.left, h.mortal = writes, true
}

func (h *handle) dead() bool {
	h.closing.Lock()
	defer h.closing.Unlock()
	return h.closed
}

func (h *handle) close() {
	h.closing.Lock()
	defer h.closing.Unlock()
	h.closed = true
}

// write does something to the disk, unless that is full or the agent is dead.
func (h *handle) write(do func()) error {
	h.closing.Lock()
	defer h.closing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mortal && h.left == 0 {
		h.closed = true
	}
	h.left--
	if h.closed {
		goruntime.Goexit() // nobody goes on after his death
	}
	if h.full != nil {
		return h.full
	}
	do()
	return nil
}

func (h *handle) BootID() string { return h.boot }

func (h *handle) GetHistory(id process.ID) (record.History, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.histories[id], nil
}

func (h *handle) PutHistory(id process.ID, past record.History) error {
	return h.write(func() { h.histories[id] = past })
}

func (h *handle) PutRecord(rec record.Record) error {
	return h.write(func() { h.records[rec.ID] = rec })
}

func (h *handle) Revision() (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision, nil
}

func (h *handle) NextRevision() (n uint64, err error) {
	err = h.write(func() {
		h.revision++
		n = h.revision
	})
	return n, err
}

// Reconcile takes all for newer, as long as the disk takes anything.
func (h *handle) Reconcile(all []specstore.Desired, reached uint64) ([]specstore.Desired, error) {
	return all, h.write(func() {
		for _, d := range all {
			if d.Gone {
				delete(h.records, d.Record.ID)
			} else {
				h.records[d.Record.ID] = d.Record
			}
		}
		h.revision = max(h.revision, reached)
	})
}

func (h *handle) Finish(item string, id process.ID, o process.Outcome, c specstore.Change) error {
	if h.onFinish != nil {
		h.onFinish(item)
	}
	h.mu.Lock()
	refused := h.refused
	h.mu.Unlock()
	if refused != nil {
		return refused
	}
	return h.write(func() {
		i := slices.IndexFunc(h.entries, func(e record.Entry) bool { return e.Item == item })
		h.entries[i].Outcome = &o
		switch {
		case c.Delete:
			h.revision++
			delete(h.records, id)
		case c.Put != nil:
			h.revision++
			c.Put.Revision = h.revision
			h.records[id] = *c.Put
		}
		_ = h.World.Journal.DropProgress(item)
	})
}

// told hears what has come of an item, and reports whether that is on disk, where it has to be. A question is over once
// its answer was told.
func (h *handle) told(item string, o process.Outcome) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.entries, func(e record.Entry) bool { return e.Item == item })
	if i >= 0 && h.entries[i].Op == process.Query {
		h.entries[i].Outcome = &o
	}
	return i >= 0 && h.entries[i].Outcome != nil
}

func (h *handle) GetRuntime(id process.ID) (record.Runtime, error) { return h.runtime(id), nil }

func (h *handle) PutRuntime(id process.ID, rt record.Runtime) error {
	data, err := json.Marshal(rt)
	if err != nil {
		return err
	}
	return h.write(func() {
		h.runtimes[id] = data
		h.stored++
	})
}

func (h *handle) DeleteRuntime(id process.ID) error {
	return h.write(func() { delete(h.runtimes, id) })
}

func (h *handle) PutProgress(item string, p record.Progress) error {
	var err error
	if refused := h.write(func() { err = h.World.Journal.PutProgress(item, p) }); refused != nil {
		return refused
	}
	return err
}
