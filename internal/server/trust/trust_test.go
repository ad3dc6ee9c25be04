package trust_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/server/fleet"
	"drover/internal/server/keyring"
	"drover/internal/server/store"
	"drover/internal/server/trust"
)

// register is a register of one agent.
type register struct {
	store.Agents
	agent store.Agent
}

func (r register) ListAgents(context.Context) ([]store.Agent, error) {
	return []store.Agent{r.agent}, nil
}

// TestReachedGoesByTheClockOfTheFleet: a server whose own clock is an hour ahead of the database's still counts the
// agents that are online, because a rotation of keys waits for them.
func TestReachedGoesByTheClockOfTheFleet(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Now().Add(-time.Hour).Round(0) }
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	keys, err := keyring.Open(keyring.Config{
		Dir: dir, Authorities: pkitest.Open(t, pki.Config{Dir: filepath.Join(dir, "pki"), Names: []string{"x"}}),
		Now: time.Now, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	directory := fleet.New(register{agent: store.Agent{Key: "A", Cloud: 3, IP: "10.0.0.1"}}, now())
	if err := directory.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	directory.RecordMessage("A", now())
	tr := trust.New(trust.Config{
		Keys: keys, Directory: directory, URLs: func(int) []string { return []string{"tls://x:1"} },
		CA: func() string { return "" }, Now: now, Log: log,
	})
	if online, reached := tr.Reached(); online != 1 || reached != 0 {
		t.Errorf("%d agents are online and %d of them have the keys, want 1 and 0", online, reached)
	}
}
