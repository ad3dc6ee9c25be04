package operation

import (
	"testing"

	"drover/internal/process"
)

// TestEveryOperationHasAnAction: each row of process.Ops has one, and there is no other.
func TestEveryOperationHasAnAction(t *testing.T) {
	for _, row := range process.Ops() {
		if actions[row.Op] == nil && row.Group != process.GroupHosts { // package upgrade has that action
			t.Errorf("%s has no action", row.Op)
		}
	}
	for op := range actions {
		if op.Info().Group == "" {
			t.Errorf("%s has an action and no row in process.Ops", op)
		}
	}
}
