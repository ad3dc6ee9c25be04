package engine

import (
	"context"
	"sync"
	"time"

	"drover/internal/idle"
)

// storeRetry is how long a loop waits after an error of the store.
const storeRetry = time.Second

// signal wakes one loop. Several raises before the loop looks count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() { idle.Wake(s) }

// wait blocks until the signal is raised, due comes, or the context ends.
func (s signal) wait(ctx context.Context, due <-chan time.Time) {
	select {
	case <-s:
	case <-due:
	case <-ctx.Done():
	}
}

// waiters holds the signals of callers that wait for tasks.
type waiters struct {
	mu     sync.Mutex
	byTask map[string]map[signal]struct{}
}

func newWaiters() *waiters { return &waiters{byTask: map[string]map[signal]struct{}{}} }

// watch returns a signal that is raised when an item of the task is finished, until stop is called.
func (w *waiters) watch(task string) (woken signal, stop func()) {
	woken = newSignal()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byTask[task] == nil {
		w.byTask[task] = map[signal]struct{}{}
	}
	w.byTask[task][woken] = struct{}{}
	return woken, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byTask[task], woken)
		if len(w.byTask[task]) == 0 {
			delete(w.byTask, task)
		}
	}
}

func (w *waiters) wake(tasks []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, task := range tasks {
		for woken := range w.byTask[task] {
			woken.raise()
		}
	}
}

func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, signals := range w.byTask {
		for woken := range signals {
			woken.raise()
		}
	}
}
