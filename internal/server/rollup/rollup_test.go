package rollup_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

// rig is a picture of a real database.
type rig struct {
	t       testing.TB
	store   store.Store
	fleet   *fleet.Directory
	picture *rollup.Rollup
	now     time.Time
}

func newRig(t testing.TB, rest time.Duration) *rig {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := &rig{t: t, store: s, now: time.Now()}
	r.fleet = fleet.New(s, r.now)
	r.picture = rollup.New(rollup.Config{Store: s, Directory: r.fleet, Rest: rest, Now: func() time.Time { return r.now }})
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// join adds a host that is online.
func (r *rig) join(key string, n int) {
	r.t.Helper()
	r.must(r.fleet.Join(r.t.Context(), store.Agent{
		Key: key, IP: fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255), Created: time.Unix(1, 0),
	}, r.now))
	r.fleet.RecordMessage(key, r.now)
}

// report stores a report of an agent: names of processes that run.
func (r *rig) report(key string, number int64, names ...string) {
	r.t.Helper()
	rows := make([]store.Observed, len(names))
	for i, name := range names {
		rows[i] = store.Observed{
			Agent: key, Process: process.ID{Namespace: "ns", Name: name}, Spec: &process.Spec{},
			Status: process.Status{Known: true, State: "running", Hosted: true, Instance: process.Instance{PID: 7}},
		}
	}
	from := store.ReportMark{Agent: key, Session: "s", Number: number, Hello: true}
	r.must(r.store.PutObserved(r.t.Context(), from, rows, nil))
}

// names returns what a query finds, in order.
func (r *rig) names(q rollup.Query) []string {
	r.t.Helper()
	q.Sees = func(string, *store.Agent) bool { return true }
	names := []string{}
	r.must(r.picture.Each(r.t.Context(), &q, func(f *rollup.Found) {
		names = append(names, f.Process.Name+"@"+f.Agent.Key)
	}))
	slices.Sort(names)
	return names
}

func (r *rig) want(what string, q rollup.Query, names ...string) {
	r.t.Helper()
	if got := r.names(q); !slices.Equal(got, names) {
		r.t.Errorf("%s: %v, want %v", what, got, names)
	}
}

// TestLooks: a picture rests between two looks, and each look brings what was stored before, also soon after the place
// of its report, and also without a place.
func TestLooks(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Second)
	r.join("a", 1)
	r.join("b", 2)
	r.report("a", 1, "x")
	r.want("the first look", rollup.Query{}, "x@a")
	r.report("b", 1, "y")
	r.want("while it rests", rollup.Query{}, "x@a")
	r.want("with Now", rollup.Query{Now: true}, "x@a", "y@b")
	r.report("a", 2, "z")
	r.now = r.now.Add(time.Second)
	r.want("after the rest", rollup.Query{}, "x@a", "y@b", "z@a")

	r.report("a", 2, "late") // with the place that the last look has seen
	r.now = r.now.Add(11 * time.Second)
	r.want("soon after the place", rollup.Query{}, "late@a", "x@a", "y@b", "z@a")

	r.must(r.store.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{{
		Agent: "b", Process: process.ID{Namespace: "ns", Name: "unnumbered"}, Status: process.Status{State: "stopped"},
	}}, nil))
	r.now = r.now.Add(11 * time.Second)
	r.want("without a place", rollup.Query{}, "late@a", "x@a", "y@b", "z@a")
	r.now = r.now.Add(10 * time.Minute)
	r.want("of everything", rollup.Query{}, "late@a", "unnumbered@b", "x@a", "y@b", "z@a")

	r.must(r.store.PutObserved(t.Context(), store.ReportMark{Agent: "a", Session: "s", Number: 3},
		nil, []store.Removal{{Agent: "a", Process: process.ID{Namespace: "ns", Name: "x"}}}))
	r.must(r.store.RemoveAgent(t.Context(), "b", r.now, nil))
	r.want("after removals", rollup.Query{Now: true}, "late@a", "z@a")
}

// TestSearch finds a text in the name of a process and in the names of its host, not over the end of one of them.
func TestSearch(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	r.join("a", 1)
	r.join("b", 2)
	r.report("a", 1, "API", "db")
	r.report("b", 1, "api@2", "web")
	r.want("a name", rollup.Query{Search: "pi"}, "API@a", "api@2@b")
	r.want("a namespace and a name", rollup.Query{Search: "ns/w"}, "web@b")
	r.want("an address", rollup.Query{Search: "0:10.0.0.2"}, "api@2@b", "web@b")
	r.want("a name beside another filter", rollup.Query{Search: "api", Name: "a*"}, "api@2@b")
	r.want("no name", rollup.Query{Search: "api0"})
}

// TestTwoServers: two pictures of one database agree, whichever server stored what.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	other := rollup.New(rollup.Config{Store: r.store, Directory: r.fleet, Now: time.Now})
	own := r.picture
	r.join("a", 1)
	for number := range int64(5) {
		r.report("a", number+1, fmt.Sprint("p", number))
		first := r.names(rollup.Query{})
		r.picture = other
		if second := r.names(rollup.Query{}); !slices.Equal(first, second) || len(first) != int(number)+1 {
			t.Errorf("%v and %v", first, second)
		}
		r.picture = own
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no heap is so large
}

// BenchmarkLook measures a fleet of 20,000 hosts with 5 processes: the first look, a look after 500 reports, and the
// overview of it.
func BenchmarkLook(b *testing.B) {
	r := newRig(b, 0)
	const hosts = 20_000
	for n := range hosts {
		key := fmt.Sprintf("K%d", n)
		r.must(r.store.PutAgent(b.Context(), store.Agent{
			Key: key, IP: fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255), Created: time.Unix(1, 0),
		}))
		r.report(key, 1, "api", "web", "db", "worker", "cache")
	}
	r.must(r.fleet.Load(b.Context()))
	for n := range hosts {
		r.fleet.RecordMessage(fmt.Sprintf("K%d", n), r.now)
	}
	q := rollup.Query{Sees: func(string, *store.Agent) bool { return true }}
	b.Run("first", func(b *testing.B) {
		before := heap()
		var fresh *rollup.Rollup
		for b.Loop() {
			fresh = rollup.New(r.picture.Config)
			if v, err := fresh.Overview(b.Context(), &q); err != nil || v.Processes.Total != 5*hosts {
				b.Fatal(v, err)
			}
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MB")
		runtime.KeepAlive(fresh)
	})
	b.Run("sql", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.store.Counts(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("next", func(b *testing.B) {
		number := int64(1)
		for b.Loop() {
			b.StopTimer()
			number++
			for n := range 500 {
				r.report(fmt.Sprintf("K%d", n*7), number, "api", "web", "db", "worker", "cache")
			}
			b.StartTimer()
			if _, err := r.picture.Overview(b.Context(), &q); err != nil {
				b.Fatal(err)
			}
		}
	})
	resting := r.picture.Config
	resting.Rest = time.Hour
	still := rollup.New(resting)
	away := rollup.New(resting)
	away.Now = func() time.Time { return r.now.Add(time.Hour) }
	for name, run := range map[string]func() error{
		"overview": func() error { _, err := still.Overview(b.Context(), &q); return err },
		"groups": func() error {
			_, _, _, err := still.Groups(b.Context(), &q, "process", rollup.GroupOrders()["key"], nil, 50)
			return err
		},
		"hosts": func() error {
			_, _, _, err := still.Groups(b.Context(), &q, "host", rollup.GroupOrders()["key"], nil, 50)
			return err
		},
		"list": func() error {
			_, _, _, err := still.List(b.Context(), &q, rollup.Orders()["process"], rollup.Place{}, 50)
			return err
		},
		"hosts-away": func() error {
			_, _, _, err := away.Groups(b.Context(), &q, "host", rollup.GroupOrders()["-wrong"], nil, 50)
			return err
		},
		"list-away": func() error {
			_, _, _, err := away.List(b.Context(), &q, rollup.Orders()["-since"], rollup.Place{}, 50)
			return err
		},
		"top": func() error {
			_, _, _, err := still.List(b.Context(), &q, rollup.Orders()["-cpu"], rollup.Place{}, 20)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestNaturalOrder: a list shows copies by their numbers, and the hosts of a process by address instead of by key. Its
// pages follow the same order.
func TestNaturalOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Second)
	r.join("z", 2) // 10.0.0.2
	r.join("a", 10)
	r.report("z", 1, "web@10", "web@2")
	r.report("a", 1, "web@2")
	q := rollup.Query{Sees: func(string, *store.Agent) bool { return true }}
	var got []string
	for after, more := (rollup.Place{}), true; more; {
		var page []rollup.Place
		var err error
		page, more, _, err = r.picture.List(t.Context(), &q, rollup.Orders()["process"], after, 1)
		r.must(err)
		got, after = append(got, page[0].Key.Process.Name+" "+page[0].Key.Agent), page[0]
	}
	if want := []string{"web@2 z", "web@2 a", "web@10 z"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}
