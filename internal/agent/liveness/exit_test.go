package liveness_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/liveness"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
)

// A child that ends between its start and the watch leaves its status with whoever asks, whether or not it was reaped.
func TestEndBeforeTheWatch(t *testing.T) {
	w := watcher(t)
	for range 20 {
		s := newStage(t)
		id := s.start(t, "exit 8", nil)
		fd, err := pidfd.Open(id.PID)
		if err == nil {
			err = pidns.AwaitEnd(fd)
			_ = unix.Close(fd)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		if got, ok := w.Exited(id); !ok || got.String() != "exit status 8" {
			t.Errorf("got %v %v", got, ok)
		}
	}
}

// TestAnEndIsNotDatedBack: a child may begin and end while the loop handles other events. Its end is then no earlier than
// its beginning.
func TestAnEndIsNotDatedBack(t *testing.T) {
	w := watcher(t)
	first, second := newStage(t), newStage(t)
	busy, goOn := make(chan struct{}), make(chan struct{})
	stop, err := w.Watch(first.start(t, "read x < go", nil), func(liveness.Exit) {
		close(busy)
		<-goOn
	})
	if err != nil {
		t.Fatal(err)
	}
	first.next(t)
	<-busy
	began := time.Now()
	id := second.start(t, "read x < go; exit 8", nil)
	fd := handle(t, id)
	second.next(t)
	err = pidns.AwaitEnd(fd)
	w.Due()
	close(goOn)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if err := pidns.AwaitReaped(fd); err != nil {
		t.Fatal(err)
	}
	exit, ok := w.Exited(id)
	if !ok || exit.Code != 8 {
		t.Fatalf("got %v %v", exit, ok)
	}
	if exit.At.Before(began) {
		t.Errorf("it ended %s before it began", began.Sub(exit.At))
	}
}
