package broker_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/jwt/v2"

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

// TestAStaleList: who is removed, or joins, while the list of those who were removed is read stays so, although the
// list knows nothing of it.
func TestAStaleList(t *testing.T) {
	const removed, joined, kept = "removed", "joined", "kept"
	b := startWith(t, broker.Config{Dir: filepath.Join(t.TempDir(), "fabric"), Revoked: []string{joined}})
	x, err := broker.OpenExternal(broker.ExternalConfig{
		Dir:     filepath.Join(t.TempDir(), "external"),
		Revoked: []string{joined},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]interface {
		Revoke(key string) error
		Restore(key string) error
		RefreshRevoked(read func() ([]string, error)) error
		Account() (string, error)
	}{"embedded": b, "external": x} {
		revoked := func() []string {
			t.Helper()
			account, err := one.Account()
			if err != nil {
				t.Fatal(err)
			}
			claims, err := jwt.DecodeAccountClaims(account)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Sorted(maps.Keys(claims.Revocations))
		}
		list := func(keys []string, err error) func() ([]string, error) {
			return func() ([]string, error) { return keys, err }
		}
		err := one.RefreshRevoked(func() ([]string, error) {
			return []string{joined, kept, "new"}, errors.Join(one.Revoke(removed), one.Restore(joined),
				one.Restore("new"))
		})
		if got := revoked(); err != nil || !slices.Equal(got, []string{kept, removed}) {
			t.Errorf("%s: revoked are %q, %v", name, got, err)
		}
		// What has changed before counts no more.
		if err := one.RefreshRevoked(list([]string{joined}, nil)); err != nil ||
			!slices.Equal(revoked(), []string{joined}) {
			t.Errorf("%s: after the next reading %q are revoked, %v", name, revoked(), err)
		}
		broken := errors.New("broken")
		if err := one.RefreshRevoked(list(nil, broken)); !errors.Is(err, broken) ||
			!slices.Equal(revoked(), []string{joined}) {
			t.Errorf("%s: after a reading that failed %q are revoked, %v", name, revoked(), err)
		}
	}
}

// TestOutsideIsReadAgain: a server that tells the brokers of a change here tells them of those by others, too.
func TestOutsideIsReadAgain(t *testing.T) {
	x, err := broker.OpenExternal(broker.ExternalConfig{
		Dir: t.TempDir(), Reread: func(context.Context) ([]string, error) { return []string{"elsewhere", "here"}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Revoke("here"); err != nil {
		t.Fatal(err)
	}
	account, err := x.Account()
	if err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.DecodeAccountClaims(account)
	if err != nil || len(claims.Revocations) != 2 {
		t.Errorf("revoked are %v, %v", claims.Revocations, err)
	}
}
