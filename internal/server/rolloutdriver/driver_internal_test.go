package rolloutdriver

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// lasting is a database in which one rollout is always open.
type lasting struct{ Store }

func (lasting) OpenRollouts(context.Context, time.Time) ([]string, time.Time, error) {
	return []string{"ro-b"}, time.Time{}, nil
}

func (lasting) GetRollout(context.Context, string, string) (*store.Rollout, error) {
	return nil, store.ErrNotFound
}

// TestForgets: a driver forgets each rollout that has ended, also while another one goes on.
func TestForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Config{Store: lasting{}, Now: time.Now, Wall: time.Now, Log: slog.New(slog.DiscardHandler)})
		for _, id := range []string{"ro-a", "ro-b"} {
			d.counts[id], d.cancelled[id+"-0"] = time.Now(), true
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		synctest.Wait()
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		counts, cancelled := slices.Collect(maps.Keys(d.counts)), slices.Collect(maps.Keys(d.cancelled))
		if !slices.Equal(counts, []string{"ro-b"}) || !slices.Equal(cancelled, []string{"ro-b-0"}) {
			t.Errorf("it remembers %q and %q", counts, cancelled)
		}
	})
}

// TestAnAgentThatStartsAgain: after an upgrade that is a failure of the host, by the clock of the server.
func TestAnAgentThatStartsAgain(t *testing.T) {
	settled := time.Unix(1_000_000, 0)
	step := &store.RolloutStep{Process: process.AgentID(), Op: process.UpgradeOp("1.4.0")}
	for what, c := range map[string]struct {
		started time.Time
		ahead   time.Duration
		settled time.Time
		unwell  bool
	}{
		"it runs since the upgrade":    {settled.Add(-3 * time.Second), 0, settled, false},
		"nobody knows since when":      {time.Time{}, 0, settled, false},
		"the batch is under way":       {settled.Add(time.Minute), 0, time.Time{}, false},
		"as precise as clocks are":     {settled.Add(2 * time.Second), 0, settled, false},
		"it has started again":         {settled.Add(3 * time.Second), 0, settled, true},
		"its clock is ahead":           {settled.Add(time.Hour), time.Hour, settled, false},
		"its clock is behind":          {settled.Add(-time.Hour), -time.Hour - 5*time.Second, settled, true},
		"an hour later, clock is fine": {settled.Add(time.Hour), 0, settled, true},
	} {
		p := fleet.Presence{Ahead: c.ahead, Facts: fleet.Facts{Started: c.started, Upgrade: "the host went back later"}}
		got := agentFact(rollout.Fact{Health: rollout.Well}, step, &p, c.settled)
		if unwell := got.Health == rollout.Unwell; unwell != c.unwell {
			t.Errorf("%s: %+v", what, got)
		}
		if c.unwell && (got.Cause != relaunched || got.Text != "drover/agent was relaunched: the host went back later") {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
