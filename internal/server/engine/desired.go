package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"

	"drover/internal/process"
	"drover/internal/server/bus"
	"drover/internal/server/desired"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// reconciler answers introductions. If an agent's disk is an old copy or new, the answer contains the changes that the
// disk has missed.
type reconciler struct {
	store Store
	clock clock
	bus   *bus.Bus
	log   *slog.Logger
}

// answer returns the records for an agent with this disk; nil if the agent has all that it should have.
func (r *reconciler) answer(ctx context.Context, from store.ReportMark, disk *wire.Disk) (*wire.Desired, error) {
	agent := from.Agent
	if disk == nil || disk.Revision > math.MaxInt64 { // the agent does not know the revision, or invents it
		return nil, nil
	}
	confirmed, err := r.store.AgentConfirmed(ctx, agent)
	if err != nil {
		return nil, err
	}
	verdict := desired.Compare(toDesired(confirmed), desired.Disk{Revision: disk.Revision, Records: disk.Records})
	if len(verdict.Removed) > 0 {
		if err := r.store.PutObserved(ctx, from, nil, r.removals(agent, verdict.Removed, disk.Revision)); err != nil {
			return nil, err
		}
		r.bus.Changed(bus.Processes)
	}
	if verdict.Settled() {
		return nil, nil
	}
	r.log.WarnContext(ctx, "agent reconnected with an old disk", "agent", agent, "revision", disk.Revision,
		"confirmed", verdict.Reached,
		"to_restore", len(verdict.Restore), "to_forget", len(verdict.Forget))
	return r.desires(ctx, agent, verdict)
}

func toDesired(confirmed []store.Confirmed) []desired.Confirmed {
	all := make([]desired.Confirmed, len(confirmed))
	for i, c := range confirmed {
		all[i] = desired.Confirmed{Process: c.Process, Revision: c.Revision, Gone: c.Gone}
	}
	return all
}

func (r *reconciler) removals(agent string, removed []desired.Confirmed, revision uint64) []store.Removal {
	all := make([]store.Removal, len(removed))
	for i, c := range removed {
		all[i] = store.Removal{Agent: agent, Process: c.Process, Revision: revision, At: r.clock.now()}
	}
	return all
}

const (
	// desiredChunk is how many records one read returns. mostForgotten is how many processes one answer tells the agent
	// to remove.
	desiredChunk  = 200
	mostForgotten = 2000
)

// desires encodes a verdict into an answer, as far as it fits. The agent gets the rest at its next introduction. Until
// then the agent must not count the rest as seen, so the answer has the revision of its last record, or 0.
func (r *reconciler) desires(ctx context.Context, agent string, v desired.Verdict) (*wire.Desired, error) {
	d := &wire.Desired{Revision: v.Reached}
	if len(v.Forget) > mostForgotten {
		v.Forget, v.Restore, d.More, d.Revision = v.Forget[:mostForgotten], nil, true, 0
	}
	for _, c := range v.Forget {
		d.Processes = append(d.Processes, wire.Desires{Process: c.Process, Revision: c.Revision, Gone: true})
	}
	bytes := 0
	for len(v.Restore) > 0 {
		chunk := v.Restore[:min(desiredChunk, len(v.Restore))]
		v.Restore = v.Restore[len(chunk):]
		ids := make([]process.ID, len(chunk))
		for i, c := range chunk {
			ids[i] = c.Process
		}
		records, err := r.store.GetConfirmed(ctx, agent, ids)
		if err != nil {
			return nil, err
		}
		for _, c := range records {
			if c.Spec == nil {
				return nil, fmt.Errorf("cannot restore %s on agent %s: its spec is not known", c.Process, agent)
			}
			bytes += encodedSize(c.Spec) + orderOverhead
			if bytes > maxBytes && len(d.Processes) > len(v.Forget) {
				last := d.Processes[len(d.Processes)-1]
				d.More, d.Revision = true, last.Revision
				return d, nil
			}
			d.Processes = append(d.Processes, wire.Desires{
				Process: c.Process, Revision: c.Revision, Spec: c.Spec, Hosted: c.Hosted, Want: c.Want,
				RegisteredAt: c.RegisteredAt,
			})
		}
	}
	return d, nil
}

func encodedSize(spec *process.Spec) int {
	text, err := json.Marshal(spec)
	if err != nil {
		return maxBytes // the record travels alone, and sealing it returns the error
	}
	return len(text)
}
