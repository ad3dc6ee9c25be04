package operationtest

import (
	"context"

	"drover/internal/agent/instance"
	"drover/internal/agent/notify"
)

// talk is what a run has said.
type talk struct {
	state   notify.State
	changed chan struct{}
}

// talkOf returns what a run has said; the caller holds the lock.
func (w *World) talkOf(run string) *talk {
	t := w.talks[run]
	if t == nil {
		t = &talk{changed: make(chan struct{})}
		w.talks[run] = t
	}
	return t
}

// Say lets a run say something.
func (w *World) Say(run string, say func(*notify.State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.talkOf(run)
	say(&t.state)
	close(t.changed)
	t.changed = make(chan struct{})
	select {
	case w.heard <- run:
	default: // nobody reads
	}
}

// Expect implements operation.Notices.
func (w *World) Expect(string, instance.Identity) {}

// State implements operation.Notices.
func (w *World) State(run string) (said notify.State, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.talkOf(run)
	return t.state, t.changed
}

// Settle implements operation.Notices.
func (w *World) Settle() {
	w.mu.Lock()
	settle := w.settle
	w.mu.Unlock()
	if settle != nil {
		settle()
	}
}

// OnSettle has fn take in what was sent before and is not read yet.
func (w *World) OnSettle(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle = fn
}

// AwaitNotice implements operation.Notices.
func (w *World) AwaitNotice(ctx context.Context) (run string, ok bool) {
	select {
	case run := <-w.heard:
		return run, true
	case <-ctx.Done():
		return "", false
	}
}

// Ignored implements operation.Notices.
func (w *World) Ignored() int64 { return 0 }

// Forget is a new agent, which has heard nothing.
func (w *World) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.talks)
}
