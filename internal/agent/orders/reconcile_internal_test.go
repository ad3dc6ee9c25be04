package orders

import (
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/wire"
)

// TestI8_RecordsMustBeWhole: what the server is said to know is obeyed only if it is whole. What is refused holds up
// nothing.
func TestI8_RecordsMustBeWhole(t *testing.T) {
	part := &wire.Desired{Processes: []wire.Desires{{Process: process.ID{Namespace: "ns", Name: "a"}, Revision: 1}}}
	i := newIntake(nil, time.Now())
	if again, err := i.reconcile(part); err == nil || again || !strings.Contains(err.Error(), "no spec of ns/a") {
		t.Errorf("without a spec: %v, %v", again, err)
	}
	if i.Introduced(part) {
		t.Error("an answer without a spec has the agent introduce itself again")
	}
	if i.Introduced(nil) {
		t.Error("no answer at all has the agent introduce itself again")
	}
}
