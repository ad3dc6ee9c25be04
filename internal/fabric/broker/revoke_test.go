package broker_test

import (
	"path/filepath"
	"testing"

	"drover/internal/fabric/broker"
)

func TestRevoke(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	b := startIn(t, dir)
	removed, kept := newAgent(t, b), newAgent(t, b)
	await(t, "the agent to connect", removed.up)
	await(t, "the other agent to connect", kept.up)
	s := connect(t, b.URL(), b.ServerIdentity())
	serve := func(a *agent) {
		t.Helper()
		if _, err := a.Serve(orders(a.key), "", 1, echo); err != nil {
			t.Fatal(err)
		}
	}
	serve(removed)
	serve(kept)
	if err := b.Revoke(removed.key); err != nil {
		t.Fatal(err)
	}
	await(t, "the agent to be cut off", removed.down)
	if _, err := s.Request(t.Context(), orders(removed.key), nil); err == nil {
		t.Error("a revoked agent answers")
	}
	if reply, err := s.Request(t.Context(), orders(kept.key), []byte("x")); err != nil || string(reply) != "x" {
		t.Errorf("the other agent answers %q, %v", reply, err)
	}
	if err := b.Restore(removed.key); err != nil {
		t.Fatal(err)
	}
	await(t, "the agent to come back", removed.up)
	select {
	case <-kept.down:
		t.Error("the other agent was cut off")
	default:
	}
}

// TestRevokedAtTheStart: what was revoked is told at each start.
func TestRevokedAtTheStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	start := func(revoked ...string) *broker.Broker {
		t.Helper()
		return startWith(t, broker.Config{Dir: dir, Revoked: revoked})
	}
	zeroth := start()
	agent := issue(t, zeroth)
	zeroth.Shutdown()
	first := start(agent.key)
	refused := connect(t, first.URL(), agent.Identity)
	if refused.Connected() {
		t.Error("a revoked agent was let in")
	}
	first.Shutdown()
	start()
	await(t, "the agent to be let in by a start that does not revoke it", refused.up)
}
