package idle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/idle"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !idle.Sleep(t.Context(), time.Minute) || time.Since(start) != time.Minute {
			t.Errorf("it slept for %s", time.Since(start))
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if idle.Sleep(ctx, time.Minute) || time.Since(start) != time.Second {
			t.Errorf("it slept for %s", time.Since(start))
		}
	})
}

func TestWake(t *testing.T) {
	c := make(chan struct{}, 1)
	idle.Wake(c)
	idle.Wake(c) // does not block
	<-c
	select {
	case <-c:
		t.Error("it was woken twice")
	default:
	}
	idle.Wake(nil) // does not block either
}
