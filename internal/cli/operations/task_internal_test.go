package operations

import (
	"testing"

	v1 "drover/api/v1"
)

// TestTaskWithFailures: a list and a person see what a task is done with.
func TestTaskWithFailures(t *testing.T) {
	task := v1.Task{State: "done", Counts: v1.Counts{Targets: 2, OK: 1, Failed: 1}}
	if got := taskColumns()[1].Cell(task); got != "done-with-failures" {
		t.Errorf("the list says %q", got)
	}
}
