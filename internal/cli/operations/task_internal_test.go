package operations

import (
	"testing"

	"drover/client"
)

// TestTaskWithFailures: a list and a person see what a task is done with.
func TestTaskWithFailures(t *testing.T) {
	task := client.Task{State: "done", Counts: client.Counts{Targets: 2, OK: 1, Failed: 1}}
	if got := taskColumns()[1].Cell(task); got != "done-with-failures" {
		t.Errorf("the list says %q", got)
	}
}
