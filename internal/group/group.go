// Package group runs the long-lived parts of a program as one: it starts them in order, stops them in reverse order
// and names the part that failed. It owns their goroutines. It knows nothing of their work, restarts nothing and sets
// no deadline on a stop.
package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Part is one long-lived piece of a program.
type Part struct {
	// Name is how an error of the part is introduced.
	Name string
	// Run blocks until its context ends or the part can't go on. Its context carries the values of the context given to
	// the group, but ends only when it is this part's turn to stop.
	Run func(context.Context) error
}

// Run starts the parts in the order given and blocks until all of them have ended. When ctx ends, or any part returns,
// the parts are stopped one after another, the last one first: each is cancelled and waited for before the next, so a
// part may use those before it until the very end. Parts that listen for connections should therefore come last.
//
// The error joins those of all parts that failed, each as "name: error". A part that returns nil, or the error of its
// own cancelled context, has not failed, so a regular stop returns nil. Without parts, Run returns nil at once.
func Run(ctx context.Context, parts ...Part) error {
	if len(parts) == 0 {
		return nil
	}
	ended := make(chan struct{})
	var first sync.Once
	running := make([]*runner, len(parts))
	for i, p := range parts {
		running[i] = start(ctx, p, func() { first.Do(func() { close(ended) }) })
	}
	select {
	case <-ctx.Done():
	case <-ended:
	}
	var failed []error
	for _, r := range slices.Backward(running) {
		failed = append(failed, r.stop())
	}
	return errors.Join(failed...)
}

// runner is a part that has been started.
type runner struct {
	name   string
	cancel context.CancelFunc
	done   chan error // receives what Run returned
}

func start(ctx context.Context, p Part, ended func()) *runner {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &runner{name: p.Name, cancel: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- regular(own, p.Run(own))
		ended()
	}()
	return r
}

// regular turns the error of a part that was told to stop, and did, into nil. It is asked before the part is cancelled
// for good, so that a cancellation from elsewhere stays a failure.
func regular(own context.Context, err error) error {
	if own.Err() != nil && errors.Is(err, own.Err()) {
		return nil
	}
	return err
}

func (r *runner) stop() error {
	r.cancel()
	if err := <-r.done; err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}
