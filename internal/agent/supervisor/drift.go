package supervisor

import (
	"context"
	"slices"
	"time"

	"drover/internal/agent/drift"
	"drover/internal/agent/lifecycle"
	"drover/internal/process"
)

// comparison is what came of looking at the configuration files of a process.
type comparison struct {
	files   []process.ConfigFile
	state   drift.State
	drifted []process.Drift
}

// compare has the configuration files compared with what the spec says of them, beside the goroutine of run: a large
// file, or a file system that hangs, must not keep it from hearing that the process has ended.
func (r *runner) compare(ctx context.Context) {
	files := r.record.Spec.Config
	if r.comparing != nil || len(files) == 0 && len(r.runtime.Config) == 0 {
		return
	}
	r.comparing = make(chan struct{})
	before, spec := drift.State{Files: r.runtime.Config}, r.record.Spec
	r.sup.goroutines.spawn(func() {
		c := comparison{files: files}
		c.state, c.drifted = drift.Check(ctx, before, files, r.sup.operator.Visitor(&spec))
		r.post(func(ctx context.Context, r *runner) { r.compared(ctx, &c) })
	})
}

// compared takes in what came of it, and tells what is new. What was found while something else held the process, or of
// an older spec, counts for nothing: the files are looked at again.
func (r *runner) compared(ctx context.Context, c *comparison) {
	close(r.comparing)
	r.comparing = nil
	if r.record == nil || r.work.busy || r.machine.State != lifecycle.Running {
		return
	}
	if !slices.Equal(c.files, r.record.Spec.Config) {
		r.compare(ctx)
		return
	}
	if slices.Equal(c.state.Files, r.runtime.Config) {
		return
	}
	before := map[string]bool{}
	for _, f := range r.runtime.Config {
		before[f.Path] = f.Since != 0
	}
	r.runtime.Config = c.state.Files
	now := map[string]bool{}
	for _, d := range c.drifted {
		now[d.Path] = true
		if !before[d.Path] {
			r.emitDrift(process.EventDrifted, process.Cause{ID: process.CauseDrift, Text: driftText(d), Since: d.Since})
		}
	}
	for _, f := range c.state.Files {
		if before[f.Path] && !now[f.Path] {
			r.emitDrift(process.EventRestored, process.Cause{Text: f.Path + " matches the spec again"})
		}
	}
	r.storeRuntime(r.runtime)
	r.publish()
}

// compareTime is how long a query waits for the comparison that it has asked for.
const compareTime = 3 * time.Second

// afterComparison returns when a comparison is over; nil is none.
func afterComparison(ctx context.Context, over <-chan struct{}) {
	if over == nil {
		return
	}
	limit := time.NewTimer(compareTime)
	defer limit.Stop()
	select {
	case <-over:
	case <-limit.C:
	case <-ctx.Done():
	}
}

func (r *runner) emitDrift(kind process.EventKind, why process.Cause) {
	r.happened(r.machine.State, r.machine.State,
		process.Event{Kind: kind, PID: r.pid(), Actor: process.Actor{Kind: process.ActorOutside}, Cause: why})
}

func driftText(d process.Drift) string {
	if d.Problem != "" {
		return d.Path + " should have the checksum " + d.Want + ": " + d.Problem
	}
	return d.Path + " should have the checksum " + d.Want + " and has " + d.Have
}
