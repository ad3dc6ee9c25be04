//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// event returns the event number seq of a stream, which happened second seconds after epoch.
func event(stream string, seq uint64, second int, kind process.EventKind, id string) process.Event {
	namespace, name, _ := strings.Cut(id, "/")
	return process.Event{
		Stream: stream, Seq: seq, At: at(time.Duration(second) * time.Second).UnixMilli(), Kind: kind,
		Process: process.ID{Namespace: namespace, Name: name}, PID: int(seq),
	}
}

// exits returns the events from one number of a stream to another, one second apart.
func exits(stream string, from, to uint64) (all []process.Event) {
	for seq := from; seq <= to; seq++ {
		all = append(all, event(stream, seq, int(seq), process.EventExited, "ns/web"))
	}
	return all
}

// NewEvents returns events to store.
func NewEvents(events ...process.Event) []store.NewEvent {
	all := make([]store.NewEvent, len(events))
	for i, e := range events {
		body, _ := json.Marshal(e) // a value without JSON would be missing in the result
		all[i] = store.NewEvent{Event: e, Body: string(body)}
	}
	return all
}

func putEvents(t *testing.T, s store.Store, agent string, want int, events ...process.Event) {
	t.Helper()
	n, err := s.PutEvents(t.Context(), agent, epoch, NewEvents(events...))
	must(t, err)
	if n != want {
		t.Errorf("%d events were new, want %d", n, want)
	}
}

// named formats events as "agent/stream/seq".
func named(events []store.StoredEvent) []string {
	all := []string{}
	for _, e := range events {
		all = append(all, fmt.Sprintf("%s/%s/%d", e.Agent, e.Event.Stream, e.Event.Seq))
	}
	return all
}

// upwards reads the matching events in the order of the cursors, a few at a time.
func upwards(t *testing.T, s store.Store, f store.EventFilter, limit int) (all []store.StoredEvent) {
	t.Helper()
	end, err := s.LastCursor(t.Context())
	must(t, err)
	for at := int64(0); ; {
		events, next, err := s.EventsAfter(t.Context(), at, f, limit)
		must(t, err)
		all = append(all, events...)
		if next == at {
			if at < end {
				t.Errorf("reading ends at %d, before %d", at, end)
			}
			return all
		}
		at = next
	}
}

// downwards reads the matching events, the latest first, a few at a time.
func downwards(t *testing.T, s store.Store, f store.EventFilter, limit int) (all []store.StoredEvent) {
	t.Helper()
	var mark store.EventMark
	for {
		events, next, err := s.EventsBefore(t.Context(), mark, f, limit)
		must(t, err)
		all = append(all, events...)
		if next == (store.EventMark{}) {
			return all
		}
		mark = next
	}
}

func events(t *testing.T, s store.Store) {
	last, err := s.LastCursor(t.Context())
	must(t, err)
	same(t, "last cursor of an empty store", int64(0), last)
	same(t, "events of an empty store", []string{},
		named(slices.Concat(upwards(t, s, store.EventFilter{}, 5), downwards(t, s, store.EventFilter{}, 5))))

	full := event("s", 1, 1, process.EventBreach, "n s/ä\"b")
	full.From, full.To, full.Output, full.RunTime, full.Attempt = "running", "backoff", "line\n\x01", 5, 2
	full.Cause = process.Cause{ID: process.CauseMemLimit, Text: "too much", Evidence: []string{"a"}, Since: 7}
	full.Actor = process.Actor{Kind: process.ActorCaller, App: "a", User: "u", Operation: "o"}
	full.Exit = &process.Exit{Known: true, Signal: 9, OOM: true, At: 8}
	full.Breach = &process.Breach{
		Resource: "mem", Limit: 1.5, Samples: []float64{2, 3}, Group: "g",
		Scores: []process.Score{{Usage: 1, Score: 2}},
	}
	n, err := s.PutEvents(t.Context(), "x", at(time.Minute), NewEvents(full))
	must(t, err)
	got := upwards(t, s, store.EventFilter{}, 5)
	if n != 1 || len(got) != 1 {
		t.Fatalf("%d stored, %d read", n, len(got))
	}
	same(t, "an event",
		[]store.StoredEvent{{Cursor: got[0].Cursor, Agent: "x", Received: at(time.Minute), Event: full}}, got)
	same(t, "an event in the order of time", got, downwards(t, s, store.EventFilter{}, 5))
	last, err = s.LastCursor(t.Context())
	must(t, err)
	if same(t, "last cursor", got[0].Cursor, last); last < 1 {
		t.Errorf("the cursor is %d", last)
	}
}

func eventsOnce(t *testing.T, s store.Store) {
	putEvents(t, s, "x", 0)
	putEvents(t, s, "x", 3, exits("s", 1, 3)...)
	putEvents(t, s, "x", 0, exits("s", 1, 3)...)
	putEvents(t, s, "x", 2, exits("s", 2, 5)...)
	putEvents(t, s, "x", 0, exits("s", 1, 2)...)   // an answer that was late
	putEvents(t, s, "x", 1, exits("s", 9, 9)...)   // some were lost on the host
	putEvents(t, s, "x", 2, exits("two", 1, 2)...) // another life
	putEvents(t, s, "y", 2, exits("s", 1, 2)...)   // another host
	putEvents(t, s, "x", 2, slices.Concat(exits("two", 2, 3), exits("three", 1, 1), exits("three", 1, 1))...)
	want := []string{
		"x/s/1", "x/s/2", "x/s/3", "x/s/4", "x/s/5", "x/s/9", "x/two/1", "x/two/2", "y/s/1", "y/s/2",
		"x/two/3", "x/three/1",
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		got := upwards(t, s, store.EventFilter{}, limit)
		same(t, fmt.Sprintf("read %d at a time", limit), want, named(got))
		for i := 1; i < len(got); i++ {
			if got[i].Cursor <= got[i-1].Cursor {
				t.Errorf("cursor %d comes after %d", got[i].Cursor, got[i-1].Cursor)
			}
		}
	}
	none, next, err := s.EventsAfter(t.Context(), 1<<40, store.EventFilter{}, 10)
	must(t, err)
	if len(none) > 0 || next != 1<<40 {
		t.Errorf("after the last: %d events, then %d", len(none), next)
	}
	if none, next, err = s.EventsAfter(t.Context(), 3, store.EventFilter{}, 0); err != nil || len(none) > 0 ||
		next != 3 {
		t.Errorf("a limit of 0: %d events, then %d, %v", len(none), next, err)
	}
}

func eventsFiltered(t *testing.T, s store.Store) {
	putEvents(
		t, s, "x", 5,
		event("s", 1, 10, process.EventStarted, "ns/web"), event("s", 2, 20, process.EventExited, "ns/web"),
		event("s", 3, 30, process.EventExited, "ns/w[e]b"), event("s", 4, 40, process.EventGivenUp, "other/web"),
		event("s", 5, 50, process.EventsLost, "/"),
	)
	// These arrived late, and three of them have the same time.
	putEvents(
		t, s, "y", 3,
		event("s", 1, 20, process.EventStarted, "ns/web"), event("s", 2, 20, process.EventExited, "ns/web"),
		event("s", 3, 35, process.EventExited, "third/db"),
	)
	both := func(n int) time.Time { return at(time.Duration(n) * time.Second) }
	for _, tt := range []struct {
		name   string
		filter store.EventFilter
		want   string // latest first
	}{
		{"all", store.EventFilter{}, "x5 x4 y3 x3 y2 y1 x2 x1"},
		{"agent", store.EventFilter{Agents: []string{"y"}}, "y3 y2 y1"},
		{"agents", store.EventFilter{Agents: []string{"y", "z", "x"}}, "x5 x4 y3 x3 y2 y1 x2 x1"},
		{"no agents", store.EventFilter{Agents: []string{}}, ""},
		{"namespace", store.EventFilter{Namespaces: []string{"ns"}}, "x3 y2 y1 x2 x1"},
		{"namespaces", store.EventFilter{Namespaces: []string{"o*", "third"}}, "x4 y3"},
		{"namespace pattern", store.EventFilter{Namespaces: []string{"?s"}}, "x3 y2 y1 x2 x1"},
		{"name", store.EventFilter{Name: "web"}, "x4 y2 y1 x2 x1"},
		{"name pattern", store.EventFilter{Name: "w*"}, "x4 x3 y2 y1 x2 x1"},
		{"a bracket is one", store.EventFilter{Namespaces: []string{"n*", "o*"}, Name: "w[*"}, "x3"},
		{"process", store.EventFilter{Namespaces: []string{"ns"}, Name: "web"}, "y2 y1 x2 x1"},
		{
			"process on a host",
			store.EventFilter{Namespaces: []string{"ns"}, Name: "web", Agents: []string{"x"}},
			"x2 x1",
		},
		{"kind", store.EventFilter{Kinds: []process.EventKind{process.EventExited}}, "y3 x3 y2 x2"},
		{"kinds", store.EventFilter{Kinds: []process.EventKind{process.EventStarted, process.EventsLost}}, "x5 y1 x1"},
		{"from", store.EventFilter{From: both(35)}, "x5 x4 y3"},
		{"until", store.EventFilter{Until: both(30)}, "y2 y1 x2 x1"},
		{"from and until", store.EventFilter{From: both(20), Until: both(21)}, "y2 y1 x2"},
		{"all of it", store.EventFilter{
			Agents: []string{"y"}, Namespaces: []string{"ns"}, Name: "web",
			Kinds: []process.EventKind{process.EventExited}, From: both(1), Until: both(99),
		}, "y2"},
		{
			"a host's, of a kind",
			store.EventFilter{Agents: []string{"x"}, Kinds: []process.EventKind{process.EventExited}},
			"x3 x2",
		},
		{"none", store.EventFilter{Namespaces: []string{"none"}}, ""},
		{"within", store.EventFilter{Within: []string{"o*", "third"}}, "x4 y3"},
		{"within, and of hosts", store.EventFilter{Within: []string{"third", ""}}, "x5 y3"},
		{
			"within, of those named",
			store.EventFilter{Namespaces: []string{"ns", "third"}, Within: []string{"t*"}},
			"y3",
		},
		{"within nothing", store.EventFilter{Within: []string{}}, ""},
	} {
		for _, limit := range []int{1, 2, 100} {
			var down, up []string
			for _, e := range downwards(t, s, tt.filter, limit) {
				down = append(down, fmt.Sprint(e.Agent, e.Event.Seq))
			}
			same(t, fmt.Sprintf("%s, %d at a time", tt.name, limit), strings.Fields(tt.want),
				append([]string{}, down...))
			for _, e := range upwards(t, s, tt.filter, limit) {
				up = append(up, fmt.Sprint(e.Agent, e.Event.Seq))
			}
			slices.Sort(down)
			same(t, tt.name+" in the order of the cursors", down, up) // x came before y
		}
	}
}

// eventsAreFound finds events among many that do not match, in steps.
func eventsAreFound(t *testing.T, s store.Store) {
	const many = 50_000
	putEvents(t, s, "x", 1, event("rare", 1, 0, process.EventGivenUp, "ns/rare"))
	for from := uint64(1); from < many; from += 10_000 {
		putEvents(t, s, "x", 10_000, exits("s", from, from+9_999)...)
	}
	putEvents(t, s, "x", 1, event("rare", 2, 100_000, process.EventGivenUp, "ns/rare"))
	for _, f := range []store.EventFilter{
		{Kinds: []process.EventKind{process.EventGivenUp}},
		{Name: "ra*", Agents: []string{"x"}},
		{Namespaces: []string{"ns"}, Name: "rare", Kinds: []process.EventKind{process.EventGivenUp}},
	} {
		same(t, "upwards", []string{"x/rare/1", "x/rare/2"}, named(upwards(t, s, f, 10)))
		same(t, "downwards", []string{"x/rare/2", "x/rare/1"}, named(downwards(t, s, f, 10)))
	}
}

func pruneEvents(t *testing.T, s store.Store) {
	ctx := t.Context()
	put := func(second int, events ...process.Event) {
		_, err := s.PutEvents(ctx, "x", at(time.Duration(second)*time.Second), NewEvents(events...))
		must(t, err)
	}
	prune := func(before, limit, want int) {
		t.Helper()
		n, err := s.PruneEvents(ctx, at(time.Duration(before)*time.Second), limit)
		must(t, err)
		if n != want {
			t.Errorf("%d events were removed, want %d", n, want)
		}
	}
	prune(100, 10, 0)
	put(10, exits("s", 1, 4)...)
	put(20, exits("s", 5, 10)...)
	prune(0, 10, 0)
	prune(15, 3, 3)
	prune(15, 3, 1)
	prune(15, 3, 0)
	same(t, "left", []string{"x/s/5", "x/s/6", "x/s/7", "x/s/8", "x/s/9", "x/s/10"},
		named(upwards(t, s, store.EventFilter{}, 2)))
	prune(25, 10, 6)
	put(30, exits("s", 1, 10)...) // the store knows them although they are gone
	put(40, exits("s", 11, 11)...)
	last := upwards(t, s, store.EventFilter{}, 10)
	if len(last) != 1 || last[0].Cursor != 11 {
		t.Errorf("after all were removed: %+v", last)
	}
	prune(1000, 10, 1)
	put(50, exits("s", 11, 11)...)
	const day = 24 * 60 * 60
	prune(day+41, 10, 0) // the last report of its stream was at 40; the store deletes its record a day after its events
	put(50, exits("s", 11, 11)...)
	prune(1000, 10, 1)
	cursor, err := s.LastCursor(ctx)
	must(t, err)
	same(t, "the last cursor of what is gone", int64(12), cursor)
}

// trimEvents: an agent loses its oldest events and streams, and other agents lose none.
func trimEvents(t *testing.T, s store.Store) {
	ctx := t.Context()
	putEvents(t, s, "loud", 10, exits("s", 1, 10)...)
	putEvents(t, s, "quiet", 2, exits("q", 1, 2)...)
	counts, err := s.CountEvents(ctx)
	must(t, err)
	same(t, "counts", map[string]int{"loud": 10, "quiet": 2}, counts)
	trim := func(agent string, keep, limit, want int) {
		t.Helper()
		n, err := s.TrimEvents(ctx, agent, keep, limit)
		must(t, err)
		if n != want {
			t.Errorf("%d events were removed, want %d", n, want)
		}
	}
	trim("loud", 20, 5, 0)
	trim("nobody", 0, 5, 0)
	trim("loud", 3, 5, 5)
	trim("loud", 3, 5, 2)
	trim("loud", 3, 5, 0)
	same(t, "left", []string{"loud/s/8", "loud/s/9", "loud/s/10", "quiet/q/1", "quiet/q/2"},
		named(upwards(t, s, store.EventFilter{}, 10)))
	putEvents(t, s, "loud", 0, exits("s", 1, 10)...) // the store still knows them
	const streams = 1100
	for i := range streams {
		_, err := s.PutEvents(ctx, "loud", at(time.Duration(i+1)*time.Second),
			NewEvents(exits(fmt.Sprintf("stream-%d", i), 1, 1)...))
		must(t, err)
	}
	trim("loud", 1, 5000, streams+2)
	putEvents(t, s, "loud", 0, exits(fmt.Sprintf("stream-%d", streams-1), 1, 1)...)
	putEvents(t, s, "loud", 1, exits("stream-0", 1, 1)...) // forgotten
	putEvents(t, s, "quiet", 0, exits("q", 1, 2)...)
}
