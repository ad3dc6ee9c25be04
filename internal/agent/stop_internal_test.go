package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopWithin(t *testing.T) {
	failed := errors.New("failed")
	told := time.Minute
	for name, c := range map[string]struct {
		run   func(ctx context.Context, over <-chan struct{}) error
		takes time.Duration
		err   error
	}{
		"ends by itself": {func(context.Context, <-chan struct{}) error { return failed }, 0, failed},
		"ends when it is told": {func(ctx context.Context, _ <-chan struct{}) error {
			<-ctx.Done()
			return nil
		}, told, nil},
		"takes time for that": {func(ctx context.Context, _ <-chan struct{}) error {
			<-ctx.Done()
			<-time.After(stopTime - time.Second)
			return failed
		}, told + stopTime - time.Second, failed},
		"hangs": {func(_ context.Context, over <-chan struct{}) error {
			<-over
			return nil
		}, told + stopTime, errHangs},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), told)
				defer cancel()
				over := make(chan struct{})
				began := time.Now()
				err := stopWithin(ctx, stopTime, func(ctx context.Context) error { return c.run(ctx, over) })
				if took := time.Since(began); took != c.takes || !errors.Is(err, c.err) {
					t.Errorf("%v after %v, want %v after %v", err, took, c.err, c.takes)
				}
				close(over)
			})
		})
	}
}
