package report

import (
	"encoding/json"
	"slices"

	"drover/internal/process"
	"drover/internal/wire"
)

// A report is cut when it holds this many entries, or when its last entry has brought it to this many bytes: so it stays well
// below wire.MaxMessage.
const (
	maxEntries = 500
	maxBytes   = 1 << 20
)

// batch is one report and what has to be done when it has arrived, or has not.
type batch struct {
	report   wire.Report
	begun    []string
	finished []string
	changed  []process.ID
	greeting int // as it was when the report was made
	more     bool
	entries  int
	bytes    int
}

// add counts an entry and reports whether there is room for more.
func (b *batch) add(entry any) bool {
	b.entries++
	b.bytes += sizeOf(entry)
	if b.entries >= maxEntries || b.bytes >= maxBytes {
		b.more = true
		return false
	}
	return true
}

// gather takes what there is to tell, outcomes first.
func (r *Reporter) gather() batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := batch{report: wire.Report{Version: wire.Version}, greeting: r.greeting}
	if r.hello {
		hello := r.cfg.Hello
		b.report.Hello = &hello
		r.hello = false
		for _, id := range r.cfg.Processes.Known() {
			r.changed[id] = true
		}
	}
	r.gatherProgress(&b)
	for id := range r.changed {
		if b.more {
			break
		}
		delete(r.changed, id)
		b.changed = append(b.changed, id)
		o := r.observe(id)
		b.report.Observed = append(b.report.Observed, o)
		b.add(o)
	}
	left := len(r.changed) + len(r.order) - len(b.finished) + r.untold() - len(b.begun)
	b.more = b.more && left > 0
	return b
}

func (r *Reporter) gatherProgress(b *batch) {
	for _, item := range r.order {
		outcome := r.outcomes[item]
		p := wire.Progress{Item: item, Outcome: &outcome}
		b.finished = append(b.finished, item)
		b.report.Progress = append(b.report.Progress, p)
		if !b.add(p) {
			return
		}
	}
	for item, limit := range r.begun {
		if r.told[item] {
			continue
		}
		p := wire.Progress{Item: item, Limit: limit}
		b.begun = append(b.begun, item)
		b.report.Progress = append(b.report.Progress, p)
		if !b.add(p) {
			return
		}
	}
}

// untold counts the begun items that the server has not heard of.
func (r *Reporter) untold() int { return len(r.begun) - len(r.told) }

func (r *Reporter) observe(id process.ID) wire.Observation {
	status, spec, ok := r.cfg.Processes.Snapshot(id)
	if spec == r.specs[id] {
		spec = nil // a spec is never changed, only replaced: the server has this one
	}
	return wire.Observation{Process: id, Status: status, Spec: spec, Gone: !ok}
}

// sizeOf returns how large an entry is when it is encoded. Guessing is no use: what has to be escaped grows sixfold, and a
// report that is too large is never delivered.
func sizeOf(entry any) int {
	data, err := json.Marshal(entry)
	if err != nil {
		return 0 // the report as a whole fails then, and says why
	}
	return len(data)
}

// acknowledged drops what the server has; the caller holds the lock.
func (r *Reporter) acknowledged(b batch) {
	for _, item := range b.begun {
		if _, ok := r.begun[item]; ok {
			r.told[item] = true
		}
	}
	for _, item := range b.finished {
		delete(r.outcomes, item)
	}
	r.order = slices.DeleteFunc(r.order, func(item string) bool {
		_, ok := r.outcomes[item]
		return !ok
	})
	if b.greeting != r.greeting {
		return // a new introduction tells everything again
	}
	for _, o := range b.report.Observed {
		if o.Spec != nil {
			r.specs[o.Process] = o.Spec
		} else if o.Gone {
			delete(r.specs, o.Process)
		}
	}
}

// giveBack takes back what did not arrive.
func (r *Reporter) giveBack(b batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hello = r.hello || b.report.Hello != nil
	for _, id := range b.changed {
		r.changed[id] = true
	}
}
