package peers_test

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/server/fleet"
	"drover/internal/server/peers"
)

// air is a fabric in memory: what is published reaches all at once, and a request the first that serves.
type air struct {
	mu     sync.Mutex
	served map[string][]fabric.Handler
	queued map[string][]fabric.Handler
	mute   bool
	sent   int
}

func newAir() *air {
	return &air{served: map[string][]fabric.Handler{}, queued: map[string][]fabric.Handler{}}
}

func (a *air) Publish(subject string, data []byte) error {
	a.mu.Lock()
	all, mute := slices.Clone(a.served[subject]), a.mute
	a.sent++
	a.mu.Unlock()
	if mute {
		return fabric.ErrNotConnected
	}
	for _, fn := range all {
		fn(context.Background(), subject, bytes.Clone(data))
	}
	return nil
}

func (a *air) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	a.mu.Lock()
	all := slices.Clone(a.queued[subject])
	a.mu.Unlock()
	if len(all) == 0 {
		return nil, fabric.ErrNobody
	}
	return all[0](ctx, subject, bytes.Clone(data)), nil
}

func (a *air) Serve(subject, queue string, _ int, fn fabric.Handler) (func(), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if queue == "" {
		a.served[subject] = append(a.served[subject], fn)
	} else {
		a.queued[subject] = append(a.queued[subject], fn)
	}
	return func() {}, nil
}

func (a *air) silence(mute bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mute = mute
}

// links is the presence that a server knows of.
type links struct {
	mu    sync.Mutex
	known map[string]fleet.LinkReport
	fresh []fleet.LinkReport
}

func (l *links) News(limit int) []fleet.LinkReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(limit, len(l.fresh))
	news := l.fresh[:n]
	l.fresh = l.fresh[n:]
	return news
}

func (l *links) Links(after string, limit int) []fleet.LinkReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []fleet.LinkReport
	for key, w := range l.known {
		if key > after {
			words = append(words, w)
		}
	}
	slices.SortFunc(words, func(a, b fleet.LinkReport) int { return strings.Compare(a.Key, b.Key) })
	return words[:min(limit, len(words))]
}

func (l *links) Hear(words []fleet.LinkReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range words {
		l.known[w.Key] = w
	}
}

// see has the server hear an agent.
func (l *links) see(w fleet.LinkReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[w.Key] = w
	l.fresh = append(l.fresh, w)
}

// server is a hub and what it was told.
type server struct {
	*peers.Hub
	links *links
	mu    sync.Mutex
	told  []string
}

func (s *server) record(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// heard returns what the server was told since the last call, in order.
func (s *server) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.told
	s.told = nil
	slices.Sort(told)
	return strings.Join(told, "; ")
}

// pairsOf returns the pairs of the servers of a fleet that has these keys; the same text is the same key.
func pairsOf(keys ...string) func() ([]*frame.Pair, error) {
	return func() ([]*frame.Pair, error) {
		var pairs []*frame.Pair
		for _, text := range keys {
			seed := sha256.Sum256([]byte(text))
			key, err := ecdh.X25519().NewPrivateKey(seed[:])
			if err != nil {
				return nil, err
			}
			pair, err := frame.AmongServers("A"+strings.Repeat("FLEET", 11), key)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, pair)
		}
		return pairs, nil
	}
}

func newServer(name, database string) *server { return newServerOf(name, database, "present") }

// newServerOf is newServer with these keys of the fleet.
func newServerOf(name, database string, keys ...string) *server {
	s := &server{links: &links{known: map[string]fleet.LinkReport{}}}
	s.Hub = peers.New(peers.Config{
		ID: name + "-run", Name: name, Build: "test", Database: database, Pairs: pairsOf(keys...), Presence: s.links,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Listener: peers.Listener{
			Agents:    func(keys []string) { slices.Sort(keys); s.record("agents %v", keys) },
			Tasks:     func(ids []string) { slices.Sort(ids); s.record("tasks %v", ids) },
			Events:    func() { s.record("events") },
			Receivers: func() { s.record("receivers") },
			Work:      func() { s.record("work") },
			Left:      func() { s.record("left") },
			Missed:    func() { s.record("missed") },
		},
	})
	return s
}

// run has a server meet the others and run, until the returned function is called.
func (s *server) run(t *testing.T, on *air) (stop func()) {
	t.Helper()
	if err := s.Meet(t.Context(), on); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, on) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := newAir()
		a, b, c := newServer("a", "db"), newServer("b", "db"), newServer("c", "db")
		a.TellTasks([]string{"nobody hears of it"})
		stopA := a.run(t, on)
		stopB := b.run(t, on)
		stopC := c.run(t, on)
		pass(time.Second)
		if a.Count() != 3 || b.Count() != 3 || c.Count() != 3 {
			t.Errorf("%d, %d and %d servers are there", a.Count(), b.Count(), c.Count())
		}
		a.TellTasks([]string{"t1", "t2"})
		a.TellTasks([]string{"t2", "t3"})
		a.TellAgents("k")
		a.TellEvents()
		a.TellReceivers()
		a.TellWork()
		pass(10 * time.Millisecond)
		for _, s := range []*server{b, c} {
			if got := s.heard(); got != "agents [k]; events; receivers; tasks [t1 t2 t3]; work" {
				t.Errorf("heard %q", got)
			}
		}
		if got := a.heard(); got != "" {
			t.Errorf("it hears itself: %q", got)
		}
		stopC() // it says so
		if a.Count() != 2 || b.Count() != 2 {
			t.Errorf("%d and %d servers are there", a.Count(), b.Count())
		}
		on.silence(true) // a link that is lost takes the news with it
		a.TellTasks([]string{"lost"})
		pass(7 * time.Second)
		if a.Count() != 1 {
			t.Errorf("%d servers are there", a.Count())
		}
		on.silence(false)
		b.Connected()
		pass(time.Second)
		if got := b.heard(); got != "left; left; missed" || b.Count() != 2 {
			t.Errorf("heard %q, %d servers are there", got, b.Count())
		}
		stopA()
		stopB()
	})
}

func TestPresenceIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := newAir()
		a, b := newServer("a", "db"), newServer("b", "db")
		const many = 25_000 // more than one answer holds
		for i := range many {
			w := fleet.LinkReport{Key: fmt.Sprintf("k%05d", i), Seen: time.Now()}
			a.links.known[w.Key] = w
		}
		facts := fleet.Facts{
			Place: "here", Policy: "observe only", Wanted: "1.4.0", Upgrade: "went back", Started: time.Now().Add(-time.Hour),
		}
		a.links.known["k00000"] = fleet.LinkReport{
			Key: "k00000", Seen: time.Now(), Introduced: true,
			Since: time.Now().Add(-time.Minute), Facts: facts, Load: fleet.Load{CPU: 5, Memory: 7}, Rare: true,
			Trust: "digest",
		}
		stopA := a.run(t, on)
		time.Sleep(3 * time.Second)
		stopB := b.run(t, on)
		if len(b.links.known) != many {
			t.Errorf("the new server knows of %d agents", len(b.links.known))
		}
		first := b.links.known["k00000"]
		if !first.Introduced || !first.Since.Equal(time.Now().Add(-time.Minute-3*time.Second)) ||
			!first.Seen.Equal(time.Now().Add(-3*time.Second)) ||
			first.Load != (fleet.Load{CPU: 5, Memory: 7}) || !first.Rare || first.Trust != "digest" ||
			first.Facts.Policy != "observe only" || first.Facts.Place != "here" ||
			!first.Facts.Started.Equal(facts.Started) {
			t.Errorf("of one it knows %+v", first)
		}
		rival := fleet.Rival{
			Place: "there", Name: "two", Session: "s", Since: time.Now().Add(-2 * time.Second),
			Last: time.Now().Add(-time.Second),
		}
		a.links.see(fleet.LinkReport{Key: "k00001", Seen: time.Now(), Rival: rival})
		pass(time.Second)
		if diff := cmp.Diff(rival, b.links.known["k00001"].Rival); diff != "" {
			t.Errorf("of a rival it knows (-want +got):\n%s", diff)
		}
		rival.Proven = time.Now()
		a.links.see(fleet.LinkReport{Key: "k00001", Seen: time.Now(), Rival: rival})
		lost := fleet.LinkReport{Key: "gone", Seen: time.Now().Add(-2 * time.Second), Lost: time.Now()}
		a.links.see(lost)
		pass(time.Second)
		if got := b.links.known["gone"]; got.Lost.IsZero() || got.Seen.After(got.Lost) || got.Introduced {
			t.Errorf("of the lost one it knows %+v", got)
		}
		if got := b.links.known["k00001"].Rival; !got.Certain() {
			t.Errorf("of the rival it knows %+v", got)
		}
		stopA()
		stopB()
	})
}

func TestAnotherDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := newAir()
		a, b := newServer("a", "db"), newServer("b", "another")
		stop := a.run(t, on)
		if err := b.Meet(t.Context(), on); err == nil ||
			!strings.Contains(err.Error(), "server a uses the same fabric with another database (db, here another)") {
			t.Errorf("a server of another database is let in: %v", err)
		}
		if a.Count() != 1 || a.Foreign() != nil {
			t.Errorf("%d servers are there, %v", a.Count(), a.Foreign())
		}
		// One that has been there before, while the link was down, cannot be kept out.
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx, on) }()
		pass(2 * time.Second)
		if err := a.Foreign(); err == nil || !strings.Contains(err.Error(), "server b uses the same fabric") {
			t.Errorf("it is not told of: %v", err)
		}
		if got := a.heard(); got != "" {
			t.Errorf("it was believed: %q", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		stop()
	})
}

func TestNewerServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := newAir()
		a := newServer("a", "db")
		stop := a.run(t, on)
		for _, text := range []string{`{"version":2,"id":"x","database":"db","tasks":["t"]}`, `nothing`} {
			if err := on.Publish("drover.v1.server.news", peers.SealNews(t, a.Hub, text)); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.heard(); got != "" || a.Count() != 1 {
			t.Errorf("heard %q, %d servers are there", got, a.Count())
		}
		stop()
	})
}

// TestWhoIsOnTheWay: a broker that is somebody else's has no servers and no agents there that are not, ends none, and
// has nothing heard twice.
func TestWhoIsOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := newAir()
		a, b := newServer("a", "db"), newServer("b", "db")
		var mu sync.Mutex
		var recorded [][]byte
		if _, err := on.Serve("drover.v1.server.news", "", 1, func(_ context.Context, _ string, data []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			recorded = append(recorded, data)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		stopA, stopB := a.run(t, on), b.run(t, on)
		pass(time.Second)
		b.TellTasks([]string{"t1"})
		pass(10 * time.Millisecond)
		stopB()
		pass(10 * time.Second)
		if got := a.heard(); !strings.Contains(got, "tasks [t1]") || a.Count() != 1 {
			t.Fatalf("heard %q, %d servers are there: then this proves nothing", got, a.Count())
		}
		mu.Lock()
		seen := slices.Clone(recorded)
		mu.Unlock()
		forged := append(seen,
			[]byte(`{"version":1,"id":"x","database":"other","number":9,"tasks":["t"]}`), nil,
			append(make([]byte, 32), `{"version":1,"id":"x","database":"db","number":9,"tasks":["t"]}`...))
		for _, data := range forged {
			if err := on.Publish("drover.v1.server.news", data); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.heard(); got != "" || a.Count() != 1 || a.Foreign() != nil {
			t.Errorf("heard %q, %d servers are there, %v", got, a.Count(), a.Foreign())
		}
		stopA()
		c := newServer("c", "db")
		lying := newAir()
		if _, err := lying.Serve("drover.v1.server.known", "servers", 1, func(context.Context, string, []byte) []byte {
			return []byte(`{"version":1,"id":"x","database":"other","links":[{"k":"agent","s":0}]}`)
		}); err != nil {
			t.Fatal(err)
		}
		if err := c.Meet(t.Context(), lying); err != nil || len(c.links.known) > 0 {
			t.Errorf("it believes %v, %v", c.links.known, err)
		}
		// A server that has just started knows no earlier news. Those of long ago do not count there either.
		pass(frame.Width)
		stopC := c.run(t, lying)
		for _, data := range seen {
			if err := lying.Publish("drover.v1.server.news", data); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.heard(); got != "" || c.Count() != 1 {
			t.Errorf("after a restart it hears %q, %d servers are there", got, c.Count())
		}
		stopC()
	})
}

// TestAnAnswerIsForItsQuestion: what a server has answered before is no answer now, nor is a question or news.
func TestAnAnswerIsForItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on, way := newAir(), newAir()
		a, b := newServer("a", "db"), newServer("b", "db")
		a.links.see(fleet.LinkReport{Key: "k", Seen: time.Now()})
		stop := a.run(t, on)
		var earlier [][]byte
		pass := func(ctx context.Context, subject string, asked []byte) []byte {
			reply, err := on.Request(ctx, subject, asked)
			if err != nil {
				t.Error(err)
			}
			earlier = append(earlier, asked, reply)
			return bytes.Clone(reply)
		}
		if _, err := way.Serve("drover.v1.server.known", "servers", 1, pass); err != nil {
			t.Fatal(err)
		}
		if err := b.Meet(t.Context(), way); err != nil || len(b.links.known) != 1 {
			t.Fatalf("through the one on the way it knows %v, %v: then this proves nothing", b.links.known, err)
		}
		news := peers.SealNews(t, a.Hub, `{"version":1,"id":"a-run","links":[{"k":"k","s":0}]}`)
		for _, data := range append(earlier, news) {
			c, lying := newServer("c", "db"), newAir()
			if _, err := lying.Serve("drover.v1.server.known", "servers", 1, func(context.Context, string, []byte) []byte {
				return bytes.Clone(data)
			}); err != nil {
				t.Fatal(err)
			}
			if err := c.Meet(t.Context(), lying); err != nil || len(c.links.known) > 0 {
				t.Errorf("it believes %v, %v", c.links.known, err)
			}
		}
		stop()
	})
}

// TestKeysOfServers: during a rotation each server hears those that seal with another key that it has, and nobody hears
// a server of another fleet.
func TestKeysOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := newAir()
		a, b := newServerOf("a", "db", "former", "present"), newServerOf("b", "db", "present", "former")
		c := newServerOf("c", "db", "of another fleet")
		a.links.see(fleet.LinkReport{Key: "k", Seen: time.Now()})
		stopA := a.run(t, on)
		stopB := b.run(t, on)
		stopC := c.run(t, on)
		pass(time.Second)
		if a.Count() != 2 || b.Count() != 2 || c.Count() != 1 || len(b.links.known) != 1 || len(c.links.known) != 0 {
			t.Errorf("%d, %d and %d servers are there; they know %v and %v", a.Count(), b.Count(), c.Count(),
				b.links.known, c.links.known)
		}
		stopA()
		stopB()
		stopC()
	})
}
