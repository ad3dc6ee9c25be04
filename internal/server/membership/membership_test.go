//nolint:thelper // what runs in a bubble is the test itself
package membership_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/membership"
	"drover/internal/server/store"
)

// table is the list that all servers share.
type table struct {
	mu   sync.Mutex
	rows map[string]store.Server
	beat map[string]time.Time
	away bool
}

func (t *table) BeatServer(_ context.Context, s store.Server, within time.Duration) (there []store.Server, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away {
		return nil, errors.New("nobody answers")
	}
	t.rows[s.ID], t.beat[s.ID] = s, time.Now()
	for id, row := range t.rows {
		if time.Since(t.beat[id]) < within {
			there = append(there, row)
		}
	}
	slices.SortFunc(there, func(a, b store.Server) int { return a.Started.Compare(b.Started) })
	return there, nil
}

func (t *table) ListServers(context.Context) (all []store.Server, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, row := range t.rows {
		row.Beat = t.beat[id]
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b store.Server) int { return a.Started.Compare(b.Started) })
	return all, nil
}

// ran adds the row of a server that has begun now, and says nothing more.
func (t *table) ran(id, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows[id], t.beat[id] = store.Server{ID: id, Name: name, Started: time.Now()}, time.Now()
}

// goAway has no call answered any more.
func (t *table) goAway() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = true
}

func (t *table) DropServer(_ context.Context, id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, id)
	return nil
}

// site is servers on one table; which of them hear each other is told by parts.
type site struct {
	*table
	log   logged
	parts parts
	lists map[string]*membership.List
	stops map[string]func()
}

func newSite() *site {
	return &site{
		table: &table{rows: map[string]store.Server{}, beat: map[string]time.Time{}},
		lists: map[string]*membership.List{}, stops: map[string]func(){},
	}
}

// logged is a log of several servers.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// parts are the parts of a network that was cut; at first there is one.
type parts struct {
	mu sync.Mutex
	of map[string]int
}

func (p *parts) move(name string, part int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]int{}
	}
	p.of[name] = part
}

func (p *parts) together(a, b string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[a] == p.of[b]
}

// start starts a server that hears an agent of its own name.
func (s *site) start(t *testing.T, name string, keys ...string) {
	r := membership.New(membership.Config{
		Store: s.table, ID: name, Name: name, Started: time.Now(), Keys: func() []string { return keys },
		Hears:  func(id string) bool { return s.parts.together(id, name) },
		Agents: func() []string { return []string{"agent of " + name} },
		Log:    slog.New(slog.NewTextHandler(&s.log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	s.lists[name], s.stops[name] = r, func() { cancel(); running.Wait() }
	pass(time.Second)
}

func (s *site) stop() {
	for _, stop := range s.stops {
		stop()
	}
}

// ready fails unless these of all servers are ready.
func (s *site) ready(t *testing.T, want ...string) {
	t.Helper()
	for name, r := range s.lists {
		if err := r.Ready(); (err == nil) != slices.Contains(want, name) {
			t.Errorf("%s is not ready: %v", name, err)
		}
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestServersThatAreApart: those that hear the fewer others are not ready, everyone says so once, and none gives up an
// agent of the others.
func TestServersThatAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		for _, name := range []string{"a", "b", "c"} {
			s.start(t, name)
		}
		pass(time.Minute)
		s.ready(t, "a", "b", "c")
		if s.lists["a"].Elsewhere("agent of b") || s.lists["a"].Elsewhere("agent of none") {
			t.Error("an agent is elsewhere though all servers are heard")
		}
		s.parts.move("c", 1)
		pass(3 * time.Second) // before anybody has told which agents it hears
		if !s.lists["c"].Elsewhere("agent of a") {
			t.Error("an agent may not be elsewhere")
		}
		pass(5 * time.Second)
		for agent, want := range map[string]bool{
			"agent of a": true, "agent of b": true, "agent of c": false,
			"agent of none": false,
		} {
			if s.lists["c"].Elsewhere(agent) != want {
				t.Errorf("%s is elsewhere: %v", agent, !want)
			}
		}
		s.ready(t, "a", "b", "c")
		pass(time.Minute)
		s.ready(t, "a", "b")
		for name, want := range map[string]string{"a": "server c uses", "c": "server a, b uses"} {
			if got := s.lists[name].Apart(); !strings.HasPrefix(got, want) {
				t.Errorf("%s says %q", name, got)
			}
		}
		if n := strings.Count(s.log.String(), "level=ERROR"); n != 3 {
			t.Errorf("%d lines tell of it:\n%s", n, s.log.String())
		}
		s.parts.move("c", 0)
		pass(3 * time.Second)
		s.ready(t, "a", "b", "c")
		if s.lists["c"].Elsewhere("agent of a") {
			t.Error("an agent is elsewhere though all servers are heard again")
		}
		s.stop()
	})
}

// TestEqualParts: of two servers the one that was there first goes on, also where the other one finds the database in
// use.
func TestEqualParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.parts.move("b", 1)
		s.start(t, "a")
		s.start(t, "b")
		pass(time.Minute)
		s.ready(t, "a")
		s.stops["a"]() // it says so
		delete(s.stops, "a")
		pass(3 * time.Second)
		if err := s.lists["b"].Ready(); err != nil {
			t.Errorf("the last one is not ready: %v", err)
		}
		s.stop()
	})
}

// TestServerThatDied: one that is not heard because it is dead is told of by nobody.
func TestServerThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.start(t, "a")
		s.start(t, "b")
		s.stops["b"]()
		s.rows["b"], s.beat["b"] = store.Server{ID: "b", Name: "b"}, time.Now() // it had no time to
		s.parts.move("b", 1)
		delete(s.stops, "b")
		delete(s.lists, "b")
		for range 60 {
			pass(time.Second)
			s.ready(t, "a")
		}
		if s.lists["a"].Elsewhere("x") || strings.Contains(s.log.String(), "ERROR") {
			t.Errorf("it is still there:\n%s", s.log.String())
		}
		s.goAway()
		pass(time.Minute)
		s.ready(t, "a")
		if n := strings.Count(s.log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d lines tell of the database:\n%s", n, s.log.String())
		}
		s.stop()
	})
}

// TestStopped: a server that does not run is told, until one of the same name has followed.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.start(t, "a")
		stopped := func(want ...string) {
			t.Helper()
			all, err := s.lists["a"].Stopped(t.Context())
			var got []string
			for _, one := range all {
				got = append(got, one.ID)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q do not run, want %q; error %v", got, want, err)
			}
		}
		stopped()
		s.ran("b1", "b")
		s.parts.move("b1", 1)
		pass(time.Minute)
		s.ran("b2", "b")
		s.parts.move("b2", 1)
		pass(time.Second)
		stopped()
		pass(time.Minute)
		stopped("b2")
		s.stop()
	})
}

func TestWhoHasNotAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.start(t, "a", "k1")
		s.start(t, "b", "k1", "k2")
		s.start(t, "c")
		for key, want := range map[string][]string{"k1": {"c"}, "k2": {"c"}, "k3": {"b", "c"}} {
			if got, err := s.lists["a"].Without(t.Context(), key); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s is not held by %q, want %q; error %v", key, got, want, err)
			}
		}
		s.stop()
	})
}
