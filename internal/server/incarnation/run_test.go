package incarnation_test

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/incarnation"
)

// database is a database that other servers share, and the agents of its fleet, which never tell anything.
type database struct {
	mu          sync.Mutex
	origin, run string
	facts       map[string]string
	cursor      int64
	// called are the calls of the agents.
	called []string
}

func (d *database) Shared() bool { return true }

func (d *database) Origin(context.Context) (origin, run string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.origin, d.run, nil
}

func (d *database) Identify(_ context.Context, facts map[string]string) (map[string]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, value := range facts {
		if _, has := d.facts[name]; !has {
			d.facts[name] = value
		}
	}
	return maps.Clone(d.facts), nil
}

func (d *database) SetFact(_ context.Context, name, value string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.facts[name] = value
	return nil
}

func (d *database) SwapFact(_ context.Context, name, before, value string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	swapped := d.facts[name] == before
	if swapped {
		d.facts[name] = value
	}
	return swapped, nil
}

func (d *database) SkipCursors(_ context.Context, to int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cursor = max(d.cursor, to)
	return nil
}

func (d *database) call(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called = append(d.called, text)
}

func (d *database) SetIncarnation(string)                { d.call("another") }
func (d *database) Reintroduce()                         { d.call("reintroduce") }
func (d *database) UnsyncedAgents() []string             { return []string{"a"} }
func (d *database) ping(_ context.Context, agent string) { d.call("ping " + agent) }

// TestDatabaseOfRunningServers: servers notice within two seconds that their database is another one, or went back to a
// copy in its place, and once only. Agents that have not told it anything are pinged for two minutes.
func TestDatabaseOfRunningServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{origin: "o", run: "r", facts: map[string]string{}}
		w, err := incarnation.Open(t.Context(), incarnation.Config{
			Store: d, Path: filepath.Join(t.TempDir(), "incarnation"), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx, d, d.ping) }()
		calls := func(what string, wait time.Duration, want ...string) {
			t.Helper()
			time.Sleep(wait) // of the bubble
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			slices.Sort(d.called)
			if got := slices.Compact(d.called); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
			d.called = nil
		}
		change := func(f func()) {
			d.mu.Lock()
			defer d.mu.Unlock()
			f()
		}
		calls("nothing has happened", time.Minute)
		change(func() { d.run = "another" })
		calls("the database's server has started again", 2*time.Second, "reintroduce")
		first := w.Now().ID
		change(func() { d.origin = "another" })
		calls("it is another database", 2*time.Second, "another")
		second := w.Now()
		if second.ID == first || d.cursor < second.Began || second.Began < time.Now().Add(-2*time.Second).UnixMilli() {
			t.Errorf("the second incarnation is %+v, and cursors begin after %d", second, d.cursor)
		}
		calls("agents have not told anything", time.Minute, "ping a")
		calls("they are perhaps gone", 2*time.Minute, "ping a")
		calls("they are gone", time.Hour)
		change(func() {
			for name := range d.facts {
				if strings.HasPrefix(name, "mark ") {
					d.facts[name] = "an earlier one"
				}
			}
		})
		calls("it went back to a copy", 2*time.Second, "another")
		if w.Now().ID == second.ID {
			t.Error("the third incarnation is the second one")
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
