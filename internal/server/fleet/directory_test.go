package fleet_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// register is a store.Agents in memory.
type register struct {
	looks  int
	agents []store.Agent
	puts   int
	err    error
}

func (r *register) PutAgent(_ context.Context, a store.Agent) error {
	if r.err != nil {
		return r.err
	}
	r.puts++
	r.agents = append(r.agents, a)
	return nil
}

func (r *register) ChangeAgent(_ context.Context, a store.Agent, _ time.Time) error {
	if r.err != nil {
		return r.err
	}
	i := slices.IndexFunc(r.agents, func(b store.Agent) bool { return b.Key == a.Key })
	if i < 0 {
		return store.ErrNotFound
	}
	r.puts++
	r.agents[i] = a
	return nil
}

func (r *register) SetSyncedIncarnation(_ context.Context, key, incarnation string) error {
	i := slices.IndexFunc(r.agents, func(b store.Agent) bool { return b.Key == key })
	if i < 0 {
		return store.ErrNotFound
	}
	r.agents[i].SyncedIncarnation = incarnation
	return nil
}

func (r *register) LabelAgents(_ context.Context, keys []string,
	change func(store.Agent) (map[string]*string, error),
) error {
	changed := slices.Clone(r.agents)
	for _, key := range keys {
		i := slices.IndexFunc(r.agents, func(b store.Agent) bool { return b.Key == key })
		if i < 0 {
			return store.ErrNotFound
		}
		var err error
		if changed[i].SetLabels, err = change(changed[i]); err != nil {
			return err
		}
	}
	r.agents = changed
	return r.err
}

func (r *register) GetAgents(_ context.Context, keys []string) ([]store.Agent, error) {
	r.looks++
	var found []store.Agent
	for _, a := range r.agents {
		if slices.Contains(keys, a.Key) {
			found = append(found, a)
		}
	}
	return found, r.err
}

func (r *register) ListAgents(context.Context) ([]store.Agent, error) { return r.agents, r.err }

func load(t *testing.T, r *register) *fleet.Directory {
	t.Helper()
	d := fleet.New(r, start)
	if err := d.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLookup(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{
		{Key: "A", Cloud: 0, IP: "10.0.0.1"},
		{Key: "B", Cloud: 1, IP: "10.0.0.1", ID: "0200abcd"},
		{Key: "C", Cloud: 2, IP: "fe80::1"},
		{Key: "D", Cloud: 3, IP: "10.0.0.3", ID: "0:10.0.0.9"},
		{Key: "E", Cloud: 3, IP: "10.0.0.4", ID: "2:[fe80::1]", Assigned: "0:10.0.0.1"},
	}})
	for id, want := range map[string]string{
		"0:10.0.0.1":           "A",
		"1:10.0.0.1":           "B",
		"0200abcd":             "B",
		"2:fe80::1":            "C",
		"2:FE80:0:0:0:0:0:0:1": "C",
		"2:[fe80::1]":          "C",
		"0:::ffff:10.0.0.1":    "A",
		"0:10.0.0.9":           "D",
		"3:10.0.0.3":           "D",
		"2:10.0.0.1":           "",
		"10.0.0.1":             "",
		"x:10.0.0.1":           "",
		"0:":                   "",
		"":                     "",
	} {
		a, ok := d.LookupID(id)
		if a.Key != want || ok != (want != "") {
			t.Errorf("%q is agent %q (%v), want %q", id, a.Key, ok, want)
		}
	}
	if a, ok := d.Lookup(1, "10.0.0.1"); !ok || a.Key != "B" {
		t.Errorf("1, 10.0.0.1 is %+v", a)
	}
	if a, ok := d.ByKey("C"); !ok || a.IP != "fe80::1" {
		t.Errorf("C is %+v", a)
	}
	if _, ok := d.ByKey("F"); ok {
		t.Error("F is there")
	}
}

// TestMisleadingIDs: no agent gets an id that reads as the address of another host, and one that has had it from before
// goes on.
func TestMisleadingIDs(t *testing.T) {
	r := &register{agents: []store.Agent{
		{Key: "A", Cloud: 3, IP: "10.0.0.9", Created: start},
		{Key: "B", IP: "10.0.0.1", Created: start},
		{Key: "C", IP: "10.0.0.2", ID: "3:10.0.0.9", Created: start},
	}}
	d := load(t, r)
	now := at(time.Hour) // all are away
	nothing := func(context.Context, store.Agent) error { return nil }
	for _, id := range []string{"3:10.0.0.9", "3:::ffff:10.0.0.9", "+3:10.0.0.9", "4:10.0.0.1", "0:[fe80::1]"} {
		b := store.Agent{Key: "B", IP: "10.0.0.1", ID: id, Created: start}
		if err := d.Join(t.Context(), b, now); !errors.Is(err, fleet.ErrMisleading) {
			t.Errorf("joined as %s: %v", id, err)
		}
		if err := d.Admit(t.Context(), b, now, nothing); !errors.Is(err, fleet.ErrMisleading) {
			t.Errorf("admitted as %s: %v", id, err)
		}
		if err := d.Assign(t.Context(), "B", id, time.Time{}); !errors.Is(err, fleet.ErrMisleading) {
			t.Errorf("was given %s: %v", id, err)
		}
	}
	for _, id := range []string{"0:10.0.0.1", "0:::ffff:10.0.0.1", "7:rack", "02000000024201"} {
		if err := d.Join(t.Context(), store.Agent{Key: "B", IP: "10.0.0.1", ID: id, Created: start}, now); err != nil {
			t.Errorf("as %s: %v", id, err)
		}
	}
	c := r.agents[2]
	c.Build = "next"
	if err := d.Join(t.Context(), c, now); err != nil {
		t.Errorf("one of before: %v", err)
	}
	c.IP = "10.0.0.5"
	if err := d.Join(t.Context(), c, now); !errors.Is(err, fleet.ErrMisleading) {
		t.Errorf("one of before at another address: %v", err)
	}
	if a, _ := d.LookupID("3:10.0.0.9"); a.Key != "A" {
		t.Errorf("3:10.0.0.9 is %q", a.Key)
	}
}

func TestLoadFails(t *testing.T) {
	broken := errors.New("broken")
	if err := fleet.New(&register{err: broken}, start).Load(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
}

func TestJoin(t *testing.T) {
	r := &register{}
	d := load(t, r)
	a := store.Agent{Key: "A", IP: "10.0.0.1", ID: "id", Build: "1", Created: start}
	join := func(a store.Agent, puts int) {
		t.Helper()
		if err := d.Join(t.Context(), a, start); err != nil {
			t.Fatal(err)
		}
		if r.puts != puts {
			t.Errorf("%d writes, want %d", r.puts, puts)
		}
	}
	join(a, 1)
	join(a, 1) // nothing is new
	a.Build = "2"
	join(a, 2)
	a.Sealing = "X"
	join(a, 3)
	if got, _ := d.ByKey("A"); got.Sealing != "X" || r.agents[0].Sealing != "X" {
		t.Errorf("the new sealing key is not in %+v, %+v", got, r.agents[0])
	}
	a.IP, a.ID = "10.0.0.2", ""
	join(a, 4)
	for id, want := range map[string]bool{"0:10.0.0.1": false, "id": false, "0:10.0.0.2": true} {
		if got, ok := d.LookupID(id); ok != want || ok && !cmp.Equal(got, a) {
			t.Errorf("%q: %+v, %v", id, got, ok)
		}
	}
	r.err = errors.New("disk full")
	b := store.Agent{Key: "B", IP: "10.0.0.3"}
	if err := d.Join(t.Context(), b, start); !errors.Is(err, r.err) {
		t.Errorf("error is %v", err)
	}
	if _, ok := d.ByKey("B"); ok {
		t.Error("an agent that could not be stored is in the register")
	}
}

func TestJoinUnderATakenName(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1", ID: "id", Created: start}}})
	d.RecordMessage("A", at(time.Second))
	for _, b := range []store.Agent{{Key: "B", IP: "10.0.0.1"}, {Key: "B", IP: "10.0.0.2", ID: "id"}} {
		if err := d.Join(t.Context(), b, at(2*time.Second)); !errors.Is(err, fleet.ErrTaken) {
			t.Errorf("%+v took over from an agent that is online: %v", b, err)
		}
	}
	if a, _ := d.Lookup(0, "10.0.0.1"); a.Key != "A" {
		t.Errorf("the address leads to %q", a.Key)
	}
	// The host was installed anew: its old agent is gone for good.
	d.RecordLinkLost("A", at(3*time.Second))
	b := store.Agent{Key: "B", IP: "10.0.0.1", ID: "id", Created: at(time.Hour)}
	if err := d.Join(t.Context(), b, at(4*time.Second)); err != nil {
		t.Fatal(err)
	}
	if a, _ := d.LookupID("id"); a.Key != "B" {
		t.Errorf("the id leads to %q", a.Key)
	}
	// A later change of the old one does not take the address along.
	d.RecordMessage("B", at(5*time.Second))
	if err := d.Join(t.Context(), store.Agent{Key: "A", IP: "10.0.0.7"}, at(6*time.Second)); err != nil {
		t.Fatal(err)
	}
	if a, _ := d.Lookup(0, "10.0.0.1"); a.Key != "B" {
		t.Errorf("the address leads to %q", a.Key)
	}
}

func TestLoadPrefersTheLatestOfAName(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{
		{Key: "new", IP: "10.0.0.1", Created: at(time.Hour)}, {Key: "old", IP: "10.0.0.1", Created: start},
	}})
	if a, _ := d.Lookup(0, "10.0.0.1"); a.Key != "new" {
		t.Errorf("the address leads to %q", a.Key)
	}
}

func TestPresence(t *testing.T) {
	const s = time.Second
	d := load(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	check := func(now time.Duration, want fleet.Presence) {
		t.Helper()
		want.Joined, want.Settling = true, now < fleet.SettleTime
		if diff := cmp.Diff(want, d.Presence("A", at(now))); diff != "" {
			t.Errorf("after %v:\n%s", now, diff)
		}
	}
	check(5*s, fleet.Presence{Away: true, Vacant: true, Since: start})
	d.RecordLinkLost("A", at(6*s)) // never seen: nothing is lost
	check(7*s, fleet.Presence{Away: true, Vacant: true, Since: start})
	d.RecordMessage("A", at(10*s))
	check(23*s, fleet.Presence{LastSeen: at(10 * s), Since: at(10 * s)})
	check(24*s, fleet.Presence{LastSeen: at(10 * s), Since: at(10 * s), Away: true})
	check(40*s, fleet.Presence{LastSeen: at(10 * s), Since: at(10 * s), Away: true})
	check(41*s, fleet.Presence{LastSeen: at(10 * s), Since: at(10 * s), Away: true, Vacant: true})
	d.RecordLinkLost("A", at(20*s))
	d.RecordLinkLost("A", at(25*s)) // it is lost once
	check(26*s, fleet.Presence{LastSeen: at(10 * s), Since: at(20 * s), Away: true, Vacant: true})
	d.RecordMessage("A", at(30*s))
	check(31*s, fleet.Presence{LastSeen: at(30 * s), Since: at(30 * s)})
	d.RecordLinkLost("A", at(61*s)) // it has been away for long: that is not news
	check(62*s, fleet.Presence{LastSeen: at(30 * s), Since: at(30 * s), Away: true, Vacant: true})

	if p := d.Presence("B", start); p.Joined || !p.Away {
		t.Errorf("an unknown agent is %+v", p)
	}
}

func TestIntroduction(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{{Key: "A"}}})
	steps := []struct {
		name string
		do   func()
		want bool
	}{
		{"at the start", func() {}, false},
		{"after a report", func() { d.RecordMessage("A", at(1)) }, false},
		{"after a hello", func() { d.Introduced("A", fleet.Facts{}, at(1)) }, true},
		{"after another report", func() { d.RecordMessage("A", at(2)) }, true},
		{"after a lost link", func() { d.RecordLinkLost("A", at(3)) }, false},
		{"after coming back", func() { d.RecordMessage("A", at(4)) }, false},
		{
			"after a hello that the loss overtook", func() {
				d.RecordLinkLost("A", at(5))
				d.Introduced("A", fleet.Facts{}, at(6))
			},
			true,
		},
	}
	for _, step := range steps {
		step.do()
		if got := d.Introduction("A"); got != step.want {
			t.Errorf("%s: introduced is %v", step.name, got)
		}
	}
	if d.Presence("A", at(7)).Away {
		t.Error("an agent that has introduced itself is away")
	}
}

// TestFoundFabric: whoever has just found the fabric knows as little of agents as whoever was just started.
func TestFoundFabric(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	d.RecordMessage("A", at(time.Minute))
	d.Linked(at(time.Hour))
	for after, want := range map[time.Duration]bool{0: false, fleet.SettleTime - 1: false, fleet.SettleTime: true} {
		if now := at(time.Hour + after); d.Presence("A", now).GivenUp(start, now) != want {
			t.Errorf("%v after that it is given up: %v", after, !want)
		}
	}
}

func TestGivenUp(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name       string
		p          fleet.Presence
		asked, now time.Duration
		want       bool
	}{
		{"never joined", fleet.Presence{}, 0, 0, true},
		{"known, server just started", fleet.Presence{Joined: true, Since: start, Settling: true}, 0, 14 * s, false},
		{
			"known, away for long, fabric just found",
			fleet.Presence{Joined: true, Since: start, Settling: true},
			0,
			time.Hour, false,
		},
		{"stranger, server just started", fleet.Presence{Settling: true}, s, s, true},
		{"known, not back 15 s after the start", fleet.Presence{Joined: true, Since: start}, 0, 15 * s, true},
		{"link just lost", fleet.Presence{Joined: true, Since: at(60 * s)}, 61 * s, 61 * s, false},
		{"link lost while the operation waits", fleet.Presence{Joined: true, Since: at(60 * s)}, 0, 61 * s, false},
		{"the same, 3 s after the loss", fleet.Presence{Joined: true, Since: at(60 * s)}, 0, 63 * s, false},
		{"the same, 4 s after the loss", fleet.Presence{Joined: true, Since: at(60 * s)}, 0, 64 * s, true},
		{"asked 20 s after the loss, 3 s ago", fleet.Presence{Joined: true, Since: at(60 * s)}, 80 * s, 83 * s, false},
		{"asked 20 s after the loss, 4 s ago", fleet.Presence{Joined: true, Since: at(60 * s)}, 80 * s, 84 * s, true},
		{"asked 20 s after the loss", fleet.Presence{Joined: true, Since: at(60 * s)}, 80 * s, 80 * s, false},
		{"away for exactly 30 s, asked now", fleet.Presence{Joined: true, Since: at(60 * s)}, 90 * s, 90 * s, false},
		{"away for over 30 s, asked now", fleet.Presence{Joined: true, Since: at(60 * s)}, 91 * s, 91 * s, true},
	}
	for _, tt := range tests {
		if got := tt.p.GivenUp(at(tt.asked), at(tt.now)); got != tt.want {
			t.Errorf("%s: given up is %v", tt.name, got)
		}
	}
}

func TestAssignedIDs(t *testing.T) {
	r := &register{agents: []store.Agent{
		{Key: "A", Cloud: 0, IP: "10.0.0.1"}, {Key: "B", Cloud: 0, IP: "10.0.0.2", ID: "own"},
	}}
	d := load(t, r)
	names := func(d *fleet.Directory, want map[string]string) {
		t.Helper()
		for id, key := range want {
			if a, _ := d.LookupID(id); a.Key != key {
				t.Errorf("%q is agent %q, want %q", id, a.Key, key)
			}
		}
	}
	for _, id := range []string{"first", "second", "second"} {
		if err := d.Assign(t.Context(), "A", id, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	names(d, map[string]string{"first": "", "second": "A", "0:10.0.0.1": "A"})
	if r.puts != 2 {
		t.Errorf("%d writes, want 2: the same id again is none", r.puts)
	}
	for key, id := range map[string]string{"A": "own", "B": "second"} {
		if err := d.Assign(t.Context(), key, id, time.Time{}); !errors.Is(err, fleet.ErrTaken) {
			t.Errorf("agent %s got the id of another: %v", key, err)
		}
	}
	if err := d.Assign(t.Context(), "nobody", "x", time.Time{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown agent: %v", err)
	}
	// The agent introduces itself, and knows of no id; then the server is started again; then the host is installed
	// anew.
	if err := d.Join(t.Context(), store.Agent{Key: "A", Cloud: 0, IP: "10.0.0.1", Build: "2"},
		at(time.Hour)); err != nil {
		t.Fatal(err)
	}
	names(d, map[string]string{"second": "A", "0:10.0.0.1": "A", "own": "B"})
	names(load(t, r), map[string]string{"second": "A"})
	if err := d.Join(t.Context(), store.Agent{Key: "C", Cloud: 0, IP: "10.0.0.1", Created: at(2 * time.Hour)},
		at(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	names(d, map[string]string{"second": "C", "0:10.0.0.1": "C"})
	names(load(t, r), map[string]string{"second": "C"})
	// Taken back.
	if err := d.Assign(t.Context(), "C", "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	names(d, map[string]string{"second": "", "0:10.0.0.1": "C"})
}

func TestFactsComeWithTheIntroduction(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{{Key: "A"}}})
	facts := fleet.Facts{Started: at(1), Place: "here", Policy: "observe only"}
	d.RecordMessage("A", at(2))
	d.Introduced("A", facts, at(2))
	if p := d.Presence("A", at(3)); p.Facts != facts || !p.Linked.Equal(at(2)) {
		t.Errorf("presence is %+v", p)
	}
	d.RecordLinkLost("A", at(4))
	if p := d.Presence("A", at(5)); p.Facts != facts || !p.Linked.IsZero() {
		t.Errorf("after a lost link presence is %+v", p)
	}
}

// TestLoad: the load of a host is known while its agent is online, on every server.
func TestLoad(t *testing.T) {
	a, b, _ := pair(t, &register{agents: []store.Agent{{Key: "A"}}})
	load := fleet.Load{CPU: 125, Memory: 402}
	a.Loaded("A", load) // before any report
	if p := a.Presence("A", at(1)); p.Load != (fleet.Load{}) {
		t.Errorf("an agent that is away has the load %+v", p.Load)
	}
	a.RecordMessage("A", at(time.Second))
	a.Loaded("A", load)
	b.Hear(a.News(10))
	for name, d := range map[string]*fleet.Directory{"its server": a, "another server": b} {
		if p := d.Presence("A", at(2*time.Second)); p.Load != load {
			t.Errorf("%s knows the load %+v", name, p.Load)
		}
	}
	// A server that has just started knows no load, and does not wipe out the load that others know.
	b.Hear([]fleet.LinkReport{{Key: "A", Seen: at(3 * time.Second)}})
	if p := b.Presence("A", at(3*time.Second)); p.Load != load {
		t.Errorf("after a word of a new server the load is %+v", p.Load)
	}
	a.RecordLinkLost("A", at(4*time.Second))
	if p := a.Presence("A", at(4*time.Second)); p.Load != (fleet.Load{}) {
		t.Errorf("of an agent that is away the load is %+v", p.Load)
	}
}

// TestTrust: what an agent goes by outlives its link, and not its place in the register.
func TestTrust(t *testing.T) {
	d := load(t, &register{})
	want := func(what, name string) {
		t.Helper()
		if got := d.Presence("A", at(time.Minute)).Trust; got != name {
			t.Errorf("%s goes by %q, want %q", what, got, name)
		}
	}
	join := func() {
		t.Helper()
		if err := d.Join(t.Context(), store.Agent{Key: "A", IP: "10.0.0.1", Created: start},
			at(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	d.Trusts("A", "early")
	join()
	want("one that was unknown", "")
	d.RecordMessage("A", at(time.Second))
	d.Trusts("A", "old")
	d.Trusts("A", "new")
	want("one that has taken what is new", "new")
	d.RecordLinkLost("A", at(2*time.Second))
	want("one that is away", "new")
	d.Hear([]fleet.LinkReport{{Key: "A", Seen: at(3 * time.Second)}, {Key: "A", Lost: at(4 * time.Second)}})
	want("one that another server has lost", "new")
	if err := d.Remove(t.Context(), "A", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	want("one that was removed", "")
	join()
	want("one that joins again", "")
}

// TestUntold: an agent that has not told a restored database what it has is away, until it has.
func TestUntold(t *testing.T) {
	r, now := &register{}, time.Unix(1e9, 0)
	d := fleet.New(r, now)
	d.SetIncarnation("one")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	away := func(when string, want bool) {
		t.Helper()
		p := d.Presence("A", now)
		_, online := d.Count(now)
		if p.Away != want || p.Untold != want || (online == 0) != want || (len(d.UnsyncedAgents()) > 0) != want {
			t.Errorf("%s: %+v, %d online, untold: %v", when, p, online, d.UnsyncedAgents())
		}
	}
	must(d.Join(t.Context(), store.Agent{Key: "A", IP: "10.0.0.1"}, now))
	d.RecordMessage("A", now)
	d.Introduced("A", fleet.Facts{}, now)
	away("a new agent", false)
	d.SetIncarnation("two")
	if d.Introduction("A") {
		t.Error("it needs no introduction")
	}
	d.RecordMessage("A", now)
	d.Introduced("A", fleet.Facts{}, now)
	must(d.Join(t.Context(), store.Agent{Key: "A", IP: "10.0.0.1", Build: "2"}, now))
	away("after an introduction", true)
	ends := func(when string, want bool) {
		t.Helper()
		if a, _ := d.Absence("A", "next", now.Add(time.Second)); a.Alive.IsZero() == want {
			t.Errorf("%s: its former run is said to have ended at %v", when, a.Alive)
		}
	}
	ends("after an introduction", false)
	must(d.RecordSynced(t.Context(), "A", "two"))
	away("after it has told all", false)
	ends("after it has told all", true)
	must(d.Load(t.Context()))
	away("by the register", false)
}
