package agentlink

import (
	"context"
	"errors"
	"testing"
)

// TestPlacesOfAnAgent: a question waits for a place of its agent alone, and leaves with its caller.
func TestPlacesOfAnAgent(t *testing.T) {
	p := newPlaces(1)
	leave, err := p.enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.enter(gone, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a second question of the agent gets %v", err)
	}
	other, err := p.enter(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	leave()
	again, err := p.enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other()
	again()
	if len(p.open)+len(p.users) != 0 {
		t.Errorf("%d and %d agents are left", len(p.open), len(p.users))
	}
}
