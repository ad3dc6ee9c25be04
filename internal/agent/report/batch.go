package report

import (
	"encoding/json"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/wire"
)

// A report ends at this many entries, or at the entry that brings it to this many bytes: so it stays below
// wire.MaxReport.
const (
	maxEntries = 500
	maxBytes   = 256 << 10
)

// batch is one report with the data to handle its acknowledgement or failure.
type batch struct {
	report     wire.Report
	beginnings []string
	finished   []string
	changed    []process.ID
	added      int // backlog.added when the report was made
	more       bool
	bytes      int
	// alone says that the report is an introduction with the revisions on disk. It has no states, because the server
	// may have them, and so that its answer comes sooner: the next report carries everything else.
	alone bool
	// progress and observed are the encoded entries of the report. addProgress and addObservation encode each entry
	// once, because only the encoded size tells how large the report is: escaping can make text six times as long. A
	// report that is too large never arrives.
	progress, observed []json.RawMessage
}

// addProgress adds an entry and reports whether there is room for more. If it cannot encode an outcome, it reports a
// failed outcome without the data, because the server must learn that the operation has ended; err says why.
func (b *batch) addProgress(p wire.Progress) (room bool, err error) {
	data, err := json.Marshal(p)
	if err != nil {
		unsent := process.Outcome{
			Fault: process.Failed, Text: "the outcome cannot be told: " + err.Error(),
			Hosted: p.Outcome != nil && p.Outcome.Hosted,
		}
		data, _ = json.Marshal(wire.Progress{Item: p.Item, Outcome: &unsent}) // there is nothing left that could fail
	}
	b.progress = append(b.progress, data)
	b.bytes += len(data)
	return b.room(), err
}

// addObservation adds the state of a process. It leaves out a state that it cannot encode, and returns the error.
func (b *batch) addObservation(o wire.Observation) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	b.report.Observed = append(b.report.Observed, o)
	b.observed = append(b.observed, data)
	b.bytes += len(data)
	b.room()
	return nil
}

func (b *batch) room() bool {
	b.more = len(b.progress)+len(b.observed) >= maxEntries || b.bytes >= maxBytes
	return !b.more
}

// encode returns the encoded report.
func (b *batch) encode() ([]byte, error) {
	return wire.EncodeReport(struct {
		wire.Report
		// These two replace the fields of the report.
		Progress []json.RawMessage `json:"progress,omitempty"`
		Observed []json.RawMessage `json:"observed,omitempty"`
	}{b.report, b.progress, b.observed}, b.report.Events)
}

// gather collects the content of a report. States come first: when the server learns of the end of an operation, it
// must have the new state.
func (r *Reporter) gather(processes Processes) batch {
	introduce := r.cfg.LinkState.BeginReport()
	r.mu.Lock()
	defer r.mu.Unlock()
	b := batch{report: wire.Report{Version: wire.Version}}
	if introduce {
		hello := r.cfg.Hello
		b.report.Hello = &hello
	}
	if b.alone = introduce && r.cfg.Disk != nil; b.alone {
		b.more = true
		return b
	}
	if introduce {
		r.tellAll(processes, true)
	}
	b.added, r.fresh = r.backlog.added, false
	for id := range r.changed {
		if b.more {
			break
		}
		delete(r.changed, id)
		b.changed = append(b.changed, id)
		r.encoded(id.String(), b.addObservation(r.observation(processes, id)))
	}
	waiting := r.gatherProgress(&b)
	b.more = b.more && len(r.changed)+len(r.order)-len(b.finished)+waiting-len(b.beginnings) > 0
	return b
}

// tellAll marks everything as unreported, because the server may have lost its data. events says that there are some.
// The caller holds the lock.
func (r *Reporter) tellAll(processes Processes, events bool) {
	clear(r.specs)
	for item, b := range r.beginnings {
		b.reported = false
		r.beginnings[item] = b
	}
	for _, id := range processes.ProcessIDs() {
		r.changed[id] = true
	}
	if events || len(r.changed) > 0 {
		r.backlog.added++
	}
}

// gatherProgress collects the progress of operations. It returns how many operations have been running for beganDelay,
// whether or not there was room for them.
func (r *Reporter) gatherProgress(b *batch) (waiting int) {
	now, room := time.Now(), !b.more
	for _, item := range r.order {
		if !room {
			break
		}
		outcome := r.outcomes[item]
		b.finished = append(b.finished, item)
		var err error
		room, err = b.addProgress(wire.Progress{Item: item, Outcome: &outcome})
		r.encoded(item, err)
	}
	for item, begun := range r.beginnings {
		if begun.reported || now.Before(begun.due) {
			continue
		}
		waiting++
		if room {
			b.beginnings = append(b.beginnings, item)
			room, _ = b.addProgress(wire.Progress{Item: item, Limit: begun.limit}) // a number cannot fail to encode
		}
	}
	return waiting
}

// encoded records whether the outcome of an item or the state of a process could be encoded. A part that cannot be
// encoded is left out, so that the rest arrives; the first failure is logged. The caller holds the lock.
func (r *Reporter) encoded(of string, err error) {
	if err == nil {
		delete(r.unsent, of)
		return
	}
	if !r.unsent[of] {
		r.unsent[of] = true
		r.cfg.Log.Error("left a part out of a report: cannot encode it", "of", of, "error", err)
	}
}

// gatherEvents adds as many events as there is room for. It reads from disk, so it does not hold the lock.
func (r *Reporter) gatherEvents(b *batch) {
	if r.cfg.Events == nil || b.alone {
		return
	}
	events, more := r.cfg.Events.Pending(max(0, maxEntries-len(b.progress)-len(b.observed)), max(0, maxBytes-b.bytes))
	b.report.Events = events
	b.more = b.more || more
}

// gatherGroups adds the process groups of the agent to an introduction. It reads from disk, so it does not hold the
// lock.
func (r *Reporter) gatherGroups(b *batch) {
	if b.report.Hello == nil || r.cfg.Groups == nil {
		return
	}
	groups, err := r.cfg.Groups.Groups()
	if err != nil {
		r.cfg.Log.Error("cannot read process groups", "error", err)
	}
	b.report.Hello.Groups = make(map[string]string, len(groups))
	for namespace, list := range groups {
		b.report.Hello.Groups[namespace] = wire.GroupsDigest(list)
	}
}

// gatherDisk adds the revisions on disk to an introduction. If that fails, the agent must not send the introduction:
// without revisions it would look like an agent that cannot report them.
func (r *Reporter) gatherDisk(b *batch) error {
	if b.report.Hello == nil || r.cfg.Disk == nil {
		return nil
	}
	latest, records, err := r.cfg.Disk.Revisions()
	if err != nil {
		return err
	}
	b.report.Hello.Disk = &wire.Disk{Revision: latest, Records: records}
	return nil
}

func (r *Reporter) observation(processes Processes, id process.ID) wire.Observation {
	status, spec, ok := processes.Snapshot(id)
	if !ok {
		status = process.Status{Revision: r.removals[id]}
	}
	if spec == r.specs[id] {
		spec = nil // specs are immutable, so the server has this one
	}
	return wire.Observation{Process: id, Status: status, Spec: spec, Gone: !ok}
}

// acknowledged drops the content that the server has; the caller holds the lock.
func (r *Reporter) acknowledged(b batch) {
	for _, item := range b.beginnings {
		if begun, ok := r.beginnings[item]; ok {
			begun.reported = true
			r.beginnings[item] = begun
		}
	}
	for _, item := range b.finished {
		delete(r.outcomes, item)
		delete(r.unsent, item)
	}
	r.order = slices.DeleteFunc(r.order, func(item string) bool {
		_, ok := r.outcomes[item]
		return !ok
	})
	if !b.more {
		r.backlog.delivered = max(r.backlog.delivered, b.added)
	}
	for _, o := range b.report.Observed {
		if o.Spec != nil {
			r.specs[o.Process] = o.Spec
		} else if o.Gone {
			delete(r.specs, o.Process)
		}
		if o.Gone && r.removals[o.Process] == o.Status.Revision {
			delete(r.removals, o.Process)
		}
	}
}

// hasNews reports whether there is something to tell.
func (r *Reporter) hasNews() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.beginnings {
		if !b.reported {
			return true
		}
	}
	return len(r.changed)+len(r.order) > 0 || r.backlog.delivered < r.backlog.added
}

// giveBack marks the states of a lost report as changed again.
func (r *Reporter) giveBack(b batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range b.changed {
		r.changed[id] = true
	}
}
