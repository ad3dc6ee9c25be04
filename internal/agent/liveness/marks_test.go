package liveness_test

import (
	"syscall"
	"testing"

	"drover/internal/agent/liveness"
)

func TestMarks(t *testing.T) {
	w := watcher(t)
	s, other := newStage(t), newStage(t)
	root := s.start(t, "exec sleep 1000", nil)
	marks := func(want bool) {
		t.Helper()
		all, err := liveness.Marks(live())
		if err != nil {
			t.Fatal(err)
		}
		if mark := "stage " + s.dir; all[mark] != want || all["stage "+other.dir] || all[""] {
			t.Errorf("marks are %v, want %q there: %v", all, mark, want)
		}
	}
	marks(true)
	exits, _ := watch(t, w, root)
	if err := liveness.Signal(live(), root, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, exits)
	marks(false)
}
