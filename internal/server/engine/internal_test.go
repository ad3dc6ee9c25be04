package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

func TestPack(t *testing.T) {
	epoch := time.Unix(0, 0)
	small, large := &process.Spec{}, &process.Spec{Start: strings.Repeat("x", 400<<10), Compat: &v1.Compat{}}
	huge := &process.Spec{Start: strings.Repeat("x", 2<<20), Compat: &v1.Compat{}}
	items := func(n int, spec *process.Spec, age time.Duration) []store.Item {
		out := make([]store.Item, n)
		for i := range out {
			out[i] = store.Item{Spec: spec, SpecSize: encodedSize(spec), Created: epoch.Add(age)}
		}
		return out
	}
	join := func(parts ...[]store.Item) (all []store.Item) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	groups := func(n int) []store.Item {
		all := items(n, nil, 0)
		for i := range all {
			all[i].Op = process.SetGroups
		}
		return all
	}
	for name, tt := range map[string]struct {
		items []store.Item
		want  []int
	}{
		"one":                        {items(1, small, 0), []int{1}},
		"as many as travel together": {items(200, small, 0), []int{200}},
		"many":                       {items(450, small, 0), []int{200, 200, 50}},
		"large":                      {items(5, large, 0), []int{2, 2, 1}},
		"larger than a manifest": {
			join(items(1, small, 0), items(2, huge, 0), items(1, small, 0)),
			[]int{1, 1, 1, 1},
		},
		"of different ages": {join(items(1, small, 0), items(1, small, time.Minute),
			items(2, small, time.Minute+1)), []int{2, 2}},
		"without a spec": {items(3, nil, 0), []int{3}},
		"with groups":    {groups(12), []int{5, 5, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			for _, b := range pack(tt.items) {
				got = append(got, len(b))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestManifestExpiresWithItsOldestItem(t *testing.T) {
	created := time.Unix(1e9, 0)
	manifest, err := (&sender{clock: clock{time.Now}, timeout: 3 * time.Second}).encode(created.Add(time.Minute),
		[]store.Item{
			{ID: "1", Created: created.Add(time.Second), Deadline: created.Add(time.Hour)},
			{ID: "2", Created: created, Deadline: created.Add(time.Minute + 2*time.Second)},
			{ID: "3", Created: created.Add(time.Minute), Deadline: created.Add(time.Hour)},
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.ReadManifest(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if want := created.Add(10 * time.Minute); !m.Expires.Equal(want) || len(m.Orders) != 3 {
		t.Errorf("%d orders expire at %v, want 3 at %v", len(m.Orders), m.Expires, want)
	}
	// One of them is given up after 62 s; whoever begins unasked does so a second before that.
	if want := created.Add(time.Minute + time.Second); !m.Unasked.Equal(want) {
		t.Errorf("orders begin unasked until %v, want %v", m.Unasked, want)
	}
}

// TestOrdersThatAsk: no order of such a manifest begins unasked.
func TestOrdersThatAsk(t *testing.T) {
	created := time.Unix(1e9, 0)
	manifest, err := (&sender{clock: clock{time.Now}, timeout: 3 * time.Second}).encode(created,
		[]store.Item{
			{ID: "1", Created: created, Deadline: created.Add(time.Hour)},
			{ID: "2", Created: created, Deadline: created.Add(time.Hour), Asks: true},
			{ID: "3", Created: created, Deadline: created.Add(2 * time.Second)},
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.ReadManifest(manifest)
	if err != nil || !m.Unasked.IsZero() {
		t.Errorf("orders begin unasked until %v, error %v", m.Unasked, err)
	}
}

func TestOutbox(t *testing.T) {
	o := newOutbox()
	put := func(agent string, serve bool, ids ...string) {
		t.Helper()
		var items []store.Item
		for _, id := range ids {
			items = append(items, store.Item{ID: id})
		}
		if got := o.put(agent, items); got != serve {
			t.Errorf("put %v: serve is %v", ids, got)
		}
	}
	take := func(agent string, want ...string) {
		t.Helper()
		items, ok := o.take(agent)
		var got []string
		for _, it := range items {
			got = append(got, it.ID)
		}
		if d := cmp.Diff(want, got); d != "" || ok != (want != nil) {
			t.Errorf("took %v (%v), want %v", got, ok, want)
		}
	}
	put("a", true, "1", "2", "1")
	put("b", true, "1")
	take("a", "1", "2")
	put("a", false, "2", "3") // 2 is on the way
	put("a", false, "3")      // 3 waits
	take("a", "3")
	put("a", false, "1") // no longer known: it may be due again
	take("a", "1")
	take("a")
	put("a", true, "1") // served anew
	take("b", "1")
}

func TestSpread(t *testing.T) {
	now := time.Unix(1000, 0)
	seen := map[time.Time]bool{}
	for range 100 {
		at := spread(now, now.Add(time.Second))
		if d := at.Sub(now); d < time.Second/2 || d > time.Second {
			t.Errorf("after %v", d)
		}
		seen[at] = true
	}
	if len(seen) < 2 {
		t.Error("all at the same time")
	}
	if at := spread(now, now); !at.Equal(now) {
		t.Errorf("no time became %v", at.Sub(now))
	}
}

// oldRows counts what a cleaner removes.
type oldRows struct {
	Store
	tasks, audit  int
	events        int
	shares        map[string]int
	removals      int
	revisions     int
	selections    int
	before        [6]time.Time
	largestDelete int
}

func (o *oldRows) PruneTasks(_ context.Context, before time.Time, limit int) (int, error) {
	return o.prune(0, &o.tasks, before, limit), nil
}

func (o *oldRows) PruneAudit(_ context.Context, before time.Time, limit int) (int, error) {
	return o.prune(1, &o.audit, before, limit), nil
}

func (o *oldRows) PruneEvents(_ context.Context, before time.Time, limit int) (int, error) {
	return o.prune(2, &o.events, before, limit), nil
}

func (o *oldRows) CountEvents(context.Context) (map[string]int, error) {
	return maps.Clone(o.shares), nil
}

func (o *oldRows) TrimEvents(_ context.Context, agent string, keep, limit int) (int, error) {
	n := min(o.shares[agent]-keep, limit)
	o.shares[agent] -= n
	o.largestDelete = max(o.largestDelete, n)
	return n, nil
}

func (o *oldRows) PruneConfirmed(_ context.Context, before time.Time, limit int) (int, error) {
	return o.prune(3, &o.removals, before, limit), nil
}

// PruneRollouts finds none.
func (o *oldRows) PruneRollouts(context.Context, time.Time, int) (int, error) { return 0, nil }

// PruneSilences finds none.
func (o *oldRows) PruneSilences(context.Context, time.Time, int) (int, error) { return 0, nil }

func (o *oldRows) PruneRevisions(_ context.Context, before time.Time, limit int) (int, error) {
	return o.prune(4, &o.revisions, before, limit), nil
}

func (o *oldRows) PruneSelections(_ context.Context, before time.Time, limit int) (int, error) {
	return o.prune(5, &o.selections, before, limit), nil
}

func (o *oldRows) prune(which int, left *int, before time.Time, limit int) int {
	n := min(*left, limit)
	*left -= n
	o.before[which] = before
	o.largestDelete = max(o.largestDelete, n)
	return n
}

func TestClean(t *testing.T) {
	rows := &oldRows{
		tasks: 105, audit: 1000, events: 1234, removals: 501, revisions: 25, selections: 33,
		shares: map[string]int{"quiet": 10, "loud": 5000, "louder": 100_000},
	}
	now := time.Unix(1e9, 0)
	c := &cleaner{
		store: rows, log: slog.New(slog.DiscardHandler), tasks: time.Hour, audit: 2 * time.Hour, events: 3 * time.Hour,
		removals: 4 * time.Hour, revisions: 5 * time.Hour, mostEvents: 2010,
	}
	if err := c.pass(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if rows.tasks != 0 || rows.audit != 0 || rows.events != 0 || rows.removals != 0 ||
		rows.revisions != 0 || rows.selections != 0 || rows.largestDelete > 500 {
		t.Errorf("left are %d tasks, %d audit rows, %d events, %d removals, %d revisions and %d selections; %d were removed at once",
			rows.tasks, rows.audit, rows.events, rows.removals, rows.revisions, rows.selections, rows.largestDelete)
	}
	if want := map[string]int{"quiet": 10, "loud": 1000, "louder": 1000}; !maps.Equal(rows.shares, want) {
		t.Errorf("left are events of %v, want %v", rows.shares, want)
	}
	if want := [6]time.Time{
		now.Add(-time.Hour), now.Add(-2 * time.Hour), now.Add(-3 * time.Hour),
		now.Add(-4 * time.Hour), now.Add(-5 * time.Hour), now,
	}; rows.before != want {
		t.Errorf("removed what was older than %v, want %v", rows.before, want)
	}
}

func TestShareOf(t *testing.T) {
	for _, c := range []struct {
		counts     []int
		room, want int
	}{
		{nil, 10, math.MaxInt},
		{[]int{3, 4}, 10, math.MaxInt},
		{[]int{3, 7}, 10, math.MaxInt},
		{[]int{3, 8}, 10, 7},
		{[]int{9, 9, 1}, 10, 4},
		{[]int{5, 5, 5}, 2, 0},
	} {
		if got := shareOf(c.counts, c.room); got != c.want {
			t.Errorf("%v in %d: %d, want %d", c.counts, c.room, got, c.want)
		}
	}
}

// TestEventsHaveARate: whoever tells too many comes again with them, and nobody else has to.
func TestEventsHaveARate(t *testing.T) {
	s, now := newAgentQuotas(eventBurst, eventRate), time.Unix(1e9, 0)
	told := 0
	for s.take("loud", 500, now) == 0 {
		told += 500
	}
	if told != eventBurst {
		t.Errorf("%d were taken at once", told)
	}
	if wait := s.take("loud", 500, now); wait != 5*time.Second {
		t.Errorf("it has to wait for %v", wait)
	}
	if wait := s.take("quiet", 500, now); wait != 0 {
		t.Errorf("another one has to wait for %v", wait)
	}
	now = now.Add(5 * time.Second)
	if wait := s.take("loud", 500, now); wait != 0 {
		t.Errorf("after that it has to wait for %v", wait)
	}
	trims := 0
	for range 25 {
		if s.addStored("loud", 100) {
			trims++
		}
	}
	if trims != 2 {
		t.Errorf("2,500 events were looked at %d times", trims)
	}
	now = now.Add(time.Hour)
	s.take("new", 1, now)
	if len(s.all) != 1 {
		t.Errorf("%d are remembered", len(s.all))
	}
}

func TestDefaults(t *testing.T) {
	c := Config{Retention: -1, SendTimeout: time.Minute}
	c.setDefaults()
	got := fmt.Sprint(c.Retention, c.AuditRetention, c.EventRetention, c.RemovalRetention, c.MostEvents, c.SendTimeout,
		c.Parallel)
	if want := fmt.Sprint(168*time.Hour, 2160*time.Hour, 672*time.Hour, 2160*time.Hour, 1000000, time.Minute,
		1024); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestALongStatus: all texts of a status together take no more than some, whatever it has most of.
func TestALongStatus(t *testing.T) {
	long := strings.Repeat("x", maxSaid)
	cause := process.Cause{Text: long, Evidence: slices.Repeat([]string{long}, maxList)}
	s := process.Status{
		Message: strings.Repeat("x", maxText), Cause: cause, Further: slices.Repeat([]process.Cause{cause}, maxList),
		Runs:   slices.Repeat([]process.Run{{Output: long}}, maxList),
		Config: slices.Repeat([]process.Drift{{Path: long}}, maxFiles),
	}
	s.Instance.Cmdline = s.Message
	short := shortenedStatus(s)
	if size := sizeOf(&short); size > maxStatus {
		t.Errorf("%d bytes are left", size)
	}
	s.Cause, s.Further, s.Config = process.Cause{Text: "why", Evidence: []string{"proof"}}, nil, nil
	s.Runs = s.Runs[:2]
	if short := shortenedStatus(s); short.Message != s.Message || len(short.Cause.Evidence) != 1 {
		t.Errorf("of a status that agents tell, %d bytes and %v are left", len(short.Message), short.Cause)
	}
}

// TestStoredEvents: an event is stored as its agent encoded it, unless the server changes it or the line is too long.
func TestStoredEvents(t *testing.T) {
	long := strings.Repeat("x", maxSaid)
	proofs := process.Event{
		Stream: "s", Seq: 1, Kind: process.EventExited, Output: long,
		Cause: process.Cause{Text: long, Evidence: slices.Repeat([]string{long}, 3)},
	}
	tooLong, err := json.Marshal(proofs)
	if err != nil {
		t.Fatal(err)
	}
	const begin = `{"stream":"s","seq":1,"kind":"exited",`
	const anew = `{"stream":"s","seq":1,"at":0,"process":{"namespace":"","name":""},"kind":"exited"}`
	for line, want := range map[string]string{
		begin + ` "x":[] , "pid":7}`: begin + ` "x":[] , "pid":7}`,
		begin + `"from":"running","cause":{"evidence":["a"]},"breach":{}}`: begin +
			`"from":"running","cause":{"evidence":["a"]},"breach":{}}`,
		begin + `"to":"nowhere"}`:            anew,
		begin + "\"from\":\"\xff\"}":         anew,
		begin + `"x":"` + long + long + `"}`: anew,
		string(tooLong):                      "",
	} {
		var told process.Event
		if err := json.Unmarshal([]byte(line), &told); err != nil {
			t.Fatal(err)
		}
		e, ok := shortEvent(told)
		stored := encoded(&e, &told, []byte(line))
		var back process.Event
		if err := json.Unmarshal([]byte(stored.Body), &back); err != nil || !ok || len(stored.Body) > maxEvent ||
			!reflect.DeepEqual(back, stored.Event) {
			t.Errorf("%.100s is stored as %.100s, %v", line, stored.Body, err)
		}
		if want != "" && stored.Body != want {
			t.Errorf("%.100s is stored as %.100s, want %s", line, stored.Body, want)
		}
	}
}

// TestFactsCanBeWritten: what one agent says of its start does not keep servers from telling each other of all.
func TestFactsCanBeWritten(t *testing.T) {
	for _, started := range []int64{math.MinInt64, 0, 1, lastMoment, lastMoment + 1, math.MaxInt64} {
		if _, err := json.Marshal(factsOf(wire.Hello{Started: started}, "place")); err != nil {
			t.Errorf("%d: %v", started, err)
		}
	}
}
