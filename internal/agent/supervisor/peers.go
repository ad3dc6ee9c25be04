package supervisor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// Owner implements operation.Peers.
func (s *Supervisor) Owner(self process.ID, instance procfs.Identity) (process.ID, string, bool) {
	return s.peers.owner(self, instance)
}

// Claimed implements operation.Peers. Of another process that is not known to run its pid file is read: somebody may
// just have started it.
func (s *Supervisor) Claimed(self process.ID, among []procfs.Identity) []procfs.Identity {
	if len(among) == 0 {
		return nil
	}
	known := map[procfs.Identity]bool{}
	for _, r := range s.all() {
		f := r.shared.load()
		switch {
		case r.id == self || f.Record == nil:
		case f.Runtime.Process != nil && s.isAlive(*f.Runtime.Process):
			known[*f.Runtime.Process] = true
		case f.Record.Spec.Identity.PIDPath != "":
			if seen := s.operator.Processes.Look(&f.Record.Spec, f.Runtime, instance.Ownership{}); seen.Alive() &&
				seen.PIDFile != "" {
				known[*seen.ID] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(among), func(id procfs.Identity) bool { return !known[id] })
}

func (s *Supervisor) isAlive(id procfs.Identity) bool {
	alive, _ := s.operator.Processes.Glance(id)
	return alive
}

// Hosting implements operation.Peers.
func (s *Supervisor) Hosting(self process.ID, spec *process.Spec, pidFile string) (process.ID, bool) {
	return s.peers.host(self, pidFile, pidNameOf(spec))
}

// holdLimit is how long a hold waits for its turn. It is short because the operation that wants it has begun and its
// time runs, and because two processes that want to hold each other would wait for ever.
const holdLimit = 10 * time.Second

// Hold implements operation.Peers: it waits in the other process's queue like an operation, so that nothing else
// happens to that process until release is called. It fails when the other process is busy for longer than holdLimit.
func (s *Supervisor) Hold(ctx context.Context, id process.ID) (release func(operation.PeerEffect), err error) {
	h := &hold{held: make(chan struct{}), released: make(chan operation.PeerEffect, 1), by: holder(ctx)}
	s.submit(id, task{hold: h})
	release = func(f operation.PeerEffect) { h.released <- f }
	limit := time.NewTimer(holdLimit)
	defer limit.Stop()
	select {
	case <-h.held:
		return release, nil
	case <-limit.C:
		release(operation.Untouched)
		return nil,
			process.Errorf(process.Failed,
				"the process is also hosted as %s, which is busy with another operation: nothing was done", id)
	case <-ctx.Done():
		release(operation.Untouched)
		return nil, fmt.Errorf("cannot suspend the watch of %s: %w", id, operation.ErrInterrupted)
	}
}

// hold is a process kept still on behalf of another one.
type hold struct {
	held     chan struct{}
	released chan operation.PeerEffect
	// by is the operation that wants it.
	by *specstore.Entry
}

// holderKey is the context key of the operation that is carried out.
type holderKey struct{}

func withHolder(ctx context.Context, e *specstore.Entry) context.Context {
	return context.WithValue(ctx, holderKey{}, e)
}

func holder(ctx context.Context) *specstore.Entry {
	if e, ok := ctx.Value(holderKey{}).(*specstore.Entry); ok {
		return e
	}
	return &specstore.Entry{}
}
