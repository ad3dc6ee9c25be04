package supervisor

import (
	"context"
	"slices"
	"time"

	"drover/internal/agent/configdrift"
	"drover/internal/agent/lifecycle"
	"drover/internal/process"
	"drover/internal/spec"
)

// comparison is the result of a look at the configuration files of a process.
type comparison struct {
	files   []spec.ConfigFile
	state   configdrift.State
	drifted []process.Drift
}

// compare compares the configuration files with the spec, in a goroutine of its own: a large file or a hanging file
// system must not delay the news that the process has ended.
func (r *runner) compare(ctx context.Context) {
	files := r.proc.Record.Spec.ConfigFiles
	if r.comparing != nil || len(files) == 0 && len(r.proc.Runtime.Config) == 0 {
		return
	}
	r.comparing = make(chan struct{})
	before, spec := configdrift.State{Files: r.proc.Runtime.Config}, r.proc.Record.Spec
	r.sup.goroutines.spawn(func() {
		c := comparison{files: files}
		c.state, c.drifted = configdrift.Check(ctx, before, files, r.sup.operator.Visitor(&spec))
		r.post(func(ctx context.Context, r *runner) { r.compared(ctx, &c) })
	})
}

// compared records the result of a comparison and reports what changed. It drops a result from a time when the process
// was busy or not running. If the spec has changed meanwhile, it compares again.
func (r *runner) compared(ctx context.Context, c *comparison) {
	defer close(r.comparing) // when its result can be seen
	r.comparing = nil
	if r.proc.Record == nil || r.proc.Machine.State != lifecycle.Running {
		return
	}
	if !slices.Equal(c.files, r.proc.Record.Spec.ConfigFiles) {
		r.compare(ctx)
		return
	}
	if slices.Equal(c.state.Files, r.proc.Runtime.Config) {
		return
	}
	before := map[string]bool{}
	for _, f := range r.proc.Runtime.Config {
		before[f.Path] = f.Since != 0
	}
	r.proc.Runtime.Config = c.state.Files
	now := map[string]bool{}
	for _, d := range c.drifted {
		now[d.Path] = true
		if !before[d.Path] {
			r.tell(r.proc.Drifted(d))
		}
	}
	for _, f := range c.state.Files {
		if before[f.Path] && !now[f.Path] {
			r.tell(r.proc.Restored(f.Path))
		}
	}
	r.storeRuntime(r.proc.Runtime)
	r.publish()
}

// Compare compares the configuration files of running processes with their specs now. It returns the processes that
// were compared within compareTime, before the end of ctx: their Snapshot has the result.
func (s *Supervisor) Compare(ctx context.Context, ids []process.ID) (compared []process.ID) {
	ctx, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	results := map[process.ID]chan (<-chan struct{}){}
	for _, id := range ids {
		s.mu.Lock()
		r := s.runners[id]
		s.mu.Unlock()
		if r == nil {
			continue
		}
		begun := make(chan (<-chan struct{}), 1)
		results[id] = begun
		r.post(func(ctx context.Context, r *runner) {
			if r.proc.Record != nil && r.proc.Machine.State == lifecycle.Running {
				r.compare(ctx)
			}
			begun <- r.comparing
		})
	}
	for id, begun := range results {
		select {
		case over := <-begun:
			if afterComparison(ctx, over); ctx.Err() == nil {
				compared = append(compared, id)
			}
		case <-ctx.Done():
		}
	}
	return compared
}

// compareTime is how long a query waits for the comparison that it started.
const compareTime = 3 * time.Second

// afterComparison waits until over is closed, at most compareTime. It returns at once if over is nil.
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
