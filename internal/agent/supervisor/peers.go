package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// Owner implements operation.Peers.
func (s *Supervisor) Owner(self process.ID, instance instance.Identity) (process.ID, string, bool) {
	return s.peers.owner(self, instance)
}

// Knows implements operation.Peers. It knows a process of a first start that is under way, too.
func (s *Supervisor) Knows(prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPrefix[prefix] != nil
}

// Claimed implements operation.Peers. If it does not know another process to be running, it reads that process's pid
// file, because somebody may just have started the process.
func (s *Supervisor) Claimed(self process.ID, among []instance.Identity) []instance.Identity {
	if len(among) == 0 {
		return nil
	}
	known := map[instance.Identity]bool{}
	for _, r := range s.all() {
		f := r.shared.load()
		switch {
		case r.id == self || f.Record == nil:
		case f.Runtime.Process != nil && s.isAlive(*f.Runtime.Process):
			known[*f.Runtime.Process] = true
		case f.Record.Spec.PIDFile != "":
			if seen := s.operator.Processes.Look(&f.Record.Spec, f.Runtime, instance.Ownership{}); seen.Alive() &&
				seen.PIDFile != "" {
				known[*seen.ID] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(among), func(id instance.Identity) bool { return !known[id] })
}

func (s *Supervisor) isAlive(id instance.Identity) bool {
	alive, _ := s.operator.Processes.Glance(id)
	return alive
}

// Hosting implements operation.Peers.
func (s *Supervisor) Hosting(self process.ID, spec *process.Spec, pidFile string) (process.ID, bool) {
	return s.peers.host(self, pidFile, pidNameOf(spec))
}

// holdLimit is how long a hold waits for its turn. It is short because the time of the operation that wants the hold
// is running. Also, two processes that want to hold each other would otherwise wait for ever.
const holdLimit = 10 * time.Second

// Hold implements operation.Peers: the hold waits in the other process's queue like an operation, so that nothing else
// happens to that process until release is called. It fails if the other process stays busy for longer than holdLimit.
func (s *Supervisor) Hold(ctx context.Context, id process.ID) (release func(operation.PeerEffect), err error) {
	h := &hold{confirmed: make(chan struct{}), released: make(chan operation.PeerEffect, 1), by: holder(ctx)}
	s.submit(id, task{hold: h})
	release = func(f operation.PeerEffect) { h.released <- f }
	limit := time.NewTimer(holdLimit)
	defer limit.Stop()
	select {
	case <-h.confirmed:
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

// hold keeps a process still on behalf of another process.
type hold struct {
	confirmed chan struct{}
	released  chan operation.PeerEffect
	// by is the operation that wants the hold.
	by *record.Entry
}

// holderKey is the context key of the operation under way.
type holderKey struct{}

func withHolder(ctx context.Context, e *record.Entry) context.Context {
	return context.WithValue(ctx, holderKey{}, e)
}

func holder(ctx context.Context) *record.Entry {
	if e, ok := ctx.Value(holderKey{}).(*record.Entry); ok {
		return e
	}
	return &record.Entry{}
}

// peerIndex finds processes by their marks, so that a look at one process does not scan all others. Its zero value is
// ready to use, and it is safe for concurrent use.
type peerIndex struct {
	mu    sync.Mutex
	marks map[process.ID]marks
	// Each list has the processes in the order in which they got the mark.
	byInstance map[instance.Identity][]process.ID
	byFile     map[string][]process.ID
	byName     map[pidName][]process.ID
}

// marks identify one process. A zero field is not a mark.
type marks struct {
	instance instance.Identity
	// file is the pid file that led to the instance.
	file string
	// host has the marks of a hosted process only.
	host hostMarks
}

type hostMarks struct {
	file string
	name pidName
}

// pidName is where a spec says that its process is found.
type pidName struct{ path, proc string }

// marksOf returns the marks of a process.
func marksOf(f *story.Process) marks {
	if f.Record == nil {
		return marks{}
	}
	m := marks{file: f.Runtime.PIDFile}
	if f.Runtime.Process != nil {
		m.instance = *f.Runtime.Process
	}
	if f.Record.Hosted {
		m.host = hostMarks{file: m.file, name: pidNameOf(&f.Record.Spec)}
	}
	return m
}

// pidNameOf is zero for a spec without a pid file.
func pidNameOf(s *process.Spec) pidName {
	if s.PIDFile == "" {
		return pidName{}
	}
	return pidName{s.PIDFile, s.ProcessName}
}

// put replaces the marks of a process. Zero marks remove the process.
func (x *peerIndex) put(id process.ID, m marks) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.marks[id]
	if m == old {
		return
	}
	if x.marks == nil {
		x.marks, x.byInstance = map[process.ID]marks{}, map[instance.Identity][]process.ID{}
		x.byFile, x.byName = map[string][]process.ID{}, map[pidName][]process.ID{}
	}
	moveMark(x.byInstance, id, old.instance, m.instance)
	moveMark(x.byFile, id, old.host.file, m.host.file)
	moveMark(x.byName, id, old.host.name, m.host.name)
	if m == (marks{}) {
		delete(x.marks, id)
		return
	}
	x.marks[id] = m
}

// moveMark moves a process from one mark to another.
func moveMark[K comparable](by map[K][]process.ID, id process.ID, from, to K) {
	var none K
	if from == to {
		return
	}
	if from != none {
		rest := slices.DeleteFunc(by[from], func(other process.ID) bool { return other == id })
		if by[from] = rest; len(rest) == 0 {
			delete(by, from)
		}
	}
	if to != none {
		by[to] = append(by[to], id)
	}
}

// owner returns another process than self that has the instance, and the pid file that led to the instance.
func (x *peerIndex) owner(self process.ID, instance instance.Identity) (id process.ID, file string, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id, ok = another(x.byInstance[instance], self)
	return id, x.marks[id].file, ok
}

// host returns another hosted process than self with the same pid file, or with the same pid file and name in its
// spec.
func (x *peerIndex) host(self process.ID, file string, name pidName) (process.ID, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if id, ok := another(x.byFile[file], self); ok {
		return id, true
	}
	return another(x.byName[name], self)
}

// another returns the first id that is not self.
func another(ids []process.ID, self process.ID) (process.ID, bool) {
	for _, id := range ids {
		if id != self {
			return id, true
		}
	}
	return process.ID{}, false
}
