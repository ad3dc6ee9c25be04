package fleet_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// pair is two directories of one register, as two servers have them.
func pair(t *testing.T, r *register) (a, b *fleet.Directory, changed *[]string) {
	t.Helper()
	a, b = load(t, r), load(t, r)
	changed = &[]string{}
	note := func(agent string) { *changed = append(*changed, agent) }
	a.Share(note)
	b.Share(note)
	return a, b, changed
}

func TestPresenceIsHeardElsewhere(t *testing.T) {
	const s = time.Second
	a, b, _ := pair(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}}})
	tell := func() {
		t.Helper()
		b.Hear(a.News(10))
	}
	away := func(now time.Duration, want bool) {
		t.Helper()
		if got := b.Presence("A", at(now)).Away; got != want {
			t.Errorf("after %v it is away: %t", now, got)
		}
	}
	a.RecordMessage("A", at(10*s))
	a.Introduced("A", fleet.Facts{Policy: "linux"}, at(10*s))
	tell()
	if len(a.News(10)) != 0 {
		t.Error("the same news are told twice")
	}
	away(20*s, false)
	if !b.Introduction("A") || b.Presence("A", at(20*s)).Facts.Policy != "linux" {
		t.Error("an introduction is not known elsewhere")
	}
	if len(b.News(10)) != 0 {
		t.Error("what was heard from others is told to them")
	}
	a.RecordLinkLost("A", at(21*s))
	tell()
	away(22*s, true)
	if b.Introduction("A") {
		t.Error("an agent whose link was lost need not introduce itself")
	}
	b.RecordMessage("A", at(25*s)) // it came back, by the other server
	b.Introduced("A", fleet.Facts{Policy: "linux"}, at(25*s))
	a.Hear(b.News(10))
	tell()
	away(26*s, false)
	if !b.Introduction("A") || !a.Introduction("A") {
		t.Error("the introduction was lost")
	}
	// Words that are late change nothing.
	late := fleet.LinkReport{
		Key: "A", Seen: at(20 * s), Lost: at(21 * s), Introduced: true, Since: at(10 * s),
		Facts: fleet.Facts{Policy: "old"},
	}
	b.Hear([]fleet.LinkReport{late})
	away(27*s, false)
	if b.Presence("A", at(27*s)).Facts.Policy != "linux" || !b.Introduction("A") {
		t.Error("an old word counts")
	}
	b.Hear([]fleet.LinkReport{{Key: "stranger", Seen: at(27 * s)}})
	if words := b.Links("", 10); len(words) != 1 || words[0].Key != "A" {
		t.Errorf("it knows the links %+v", words)
	}
}

// TestAnIntroductionAheadOfItsRow: that an agent has introduced itself is told once, and counts even where its row
// comes later.
func TestAnIntroductionAheadOfItsRow(t *testing.T) {
	const s = time.Second
	learn := map[string]func(t *testing.T, d *fleet.Directory){
		"its row is read": func(t *testing.T, d *fleet.Directory) {
			t.Helper()
			if err := d.Refresh(t.Context(), []string{"B"}); err != nil {
				t.Fatal(err)
			}
		},
		"all are read": func(t *testing.T, d *fleet.Directory) {
			t.Helper()
			if err := d.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"it joins here": func(t *testing.T, d *fleet.Directory) {
			t.Helper()
			if err := d.Join(t.Context(), store.Agent{Key: "B", IP: "10.0.0.2", Created: start, Build: "2"},
				at(12*s)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, learn := range learn {
		t.Run(name, func(t *testing.T) {
			a, b, _ := pair(t, &register{})
			if err := a.Join(t.Context(), store.Agent{Key: "B", IP: "10.0.0.2", Created: start}, at(9*s)); err != nil {
				t.Fatal(err)
			}
			a.RecordMessage("B", at(10*s))
			a.Introduced("B", fleet.Facts{Place: "its own"}, at(10*s))
			b.Hear(a.News(10))
			a.RecordMessage("B", at(11*s))
			b.Hear(a.News(10))
			if b.Introduction("B") || len(b.Links("", 10)) != 0 {
				t.Fatal("a link is known before the row")
			}
			b.Shift(s)
			learn(t, b)
			p := b.Presence("B", at(13*s))
			if !b.Introduction("B") || p.Facts.Place != "its own" || !p.LastSeen.Equal(at(12*s)) {
				t.Errorf("introduced %t, presence %+v", b.Introduction("B"), p)
			}
			if c, _, _ := b.Claim("B", fleet.Claimant{Place: "a copy's", Introduces: true},
				at(13*s)); c == fleet.Granted {
				t.Error("its key is granted to a copy")
			}
		})
	}
}

// TestWordsOfAgentsWithoutRows: they are bounded, and the last ones count.
func TestWordsOfAgentsWithoutRows(t *testing.T) {
	const many = 10_001
	r := &register{}
	_, b, _ := pair(t, r)
	for i := range many {
		key := strconv.Itoa(i)
		b.Hear([]fleet.LinkReport{{Key: key, Seen: at(time.Second), Introduced: true, Since: at(time.Second)}})
		r.agents = append(r.agents, store.Agent{Key: key, IP: "10.0.0.1"})
	}
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(b.Links("", many)); n != many-1 || !b.Introduction(strconv.Itoa(many-1)) {
		t.Errorf("%d links were kept", n)
	}
}

func TestLinksArePaged(t *testing.T) {
	r := &register{}
	for _, key := range []string{"E", "C", "A", "D", "B"} {
		r.agents = append(r.agents, store.Agent{Key: key, IP: "10.0.0." + key})
	}
	a, _, _ := pair(t, r)
	for _, agent := range r.agents {
		a.RecordMessage(agent.Key, at(time.Second))
	}
	got, after := "", ""
	for words := a.Links(after, 2); len(words) > 0; words = a.Links(after, 2) {
		for _, w := range words {
			got += w.Key
		}
		after = words[len(words)-1].Key
	}
	if got != "ABCDE" {
		t.Errorf("pages hold %s", got)
	}
	if n := len(a.News(2)) + len(a.News(2)) + len(a.News(2)); n != 5 {
		t.Errorf("news hold %d", n)
	}
}

func TestRowsOfOthers(t *testing.T) {
	r := &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1", Created: start}}}
	a, b, changed := pair(t, r)
	joined := store.Agent{Key: "B", IP: "10.0.0.2", Created: start}
	if err := a.Join(t.Context(), joined, start); err != nil {
		t.Fatal(err)
	}
	if len(*changed) != 1 || (*changed)[0] != "B" {
		t.Errorf("told were %q", *changed)
	}
	if _, known := b.ByKey("B"); known {
		t.Fatal("it knows already: nothing is tried")
	}
	if got, known, err := b.Find(t.Context(), "B"); !known || err != nil || got.IP != "10.0.0.2" {
		t.Errorf("found is %+v, %t, %v", got, known, err)
	}
	if _, known, err := b.Find(t.Context(), "C"); known || err != nil {
		t.Errorf("a stranger was found: %v", err)
	}

	if err := a.Assign(t.Context(), "B", "web-1", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := b.Refresh(t.Context(), []string{"B"}); err != nil {
		t.Fatal(err)
	}
	if got, known := b.LookupID("web-1"); !known || got.Key != "B" {
		t.Errorf("the id leads to %+v", got)
	}

	drop := func(key string) {
		t.Helper()
		for i, agent := range r.agents {
			if agent.Key == key {
				r.agents = append(r.agents[:i], r.agents[i+1:]...)
				return
			}
		}
		t.Errorf("%s is not there", key)
	}
	drop("B")
	if err := b.Refresh(t.Context(), []string{"B"}); err != nil {
		t.Fatal(err)
	}
	if _, known := b.LookupID("web-1"); known {
		t.Error("a removed agent is known by its id")
	}
	// The other server has not heard of it: what the agent says of itself must not bring it back.
	joined.Build = "2"
	if err := a.Join(t.Context(), joined, start); err == nil || len(r.agents) != 1 {
		t.Errorf("a removed agent came back: %v", err)
	}
	drop("A")
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if known, _ := a.Count(start); known != 0 {
		t.Errorf("%d agents are known", known)
	}
}

// TestRefreshKeepsNames: of two agents with one name, the one that joined last has it, whichever row is read again.
func TestRefreshKeepsNames(t *testing.T) {
	a, _, _ := pair(t, &register{agents: []store.Agent{
		{Key: "old", IP: "10.0.0.1", ID: "x", Created: start},
		{Key: "new", IP: "10.0.0.1", ID: "x", Created: at(time.Hour)},
	}})
	for _, key := range []string{"new", "old"} {
		if err := a.Refresh(t.Context(), []string{key}); err != nil {
			t.Fatal(err)
		}
		byAddress, _ := a.Lookup(0, "10.0.0.1")
		byID, _ := a.LookupID("x")
		if byAddress.Key != "new" || byID.Key != "new" {
			t.Errorf("after a look at %s the names lead to %s and %s", key, byAddress.Key, byID.Key)
		}
	}
}

// TestAClockThatIsSet: what was heard keeps its distance to the present.
func TestAClockThatIsSet(t *testing.T) {
	a, _, _ := pair(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1"}, {Key: "B", IP: "10.0.0.2"}}})
	a.RecordMessage("A", at(time.Minute))
	a.RecordMessage("B", at(time.Minute))
	a.RecordLinkLost("B", at(time.Minute))
	a.Shift(time.Hour)
	now := at(time.Hour + time.Minute + 3*time.Second)
	if p := a.Presence("A", now); p.Away || !p.LastSeen.Equal(at(time.Hour+time.Minute)) {
		t.Errorf("presence is %+v", p)
	}
	if p := a.Presence("B", now); !p.Away || p.GivenUp(at(time.Hour), now) {
		t.Errorf("the lost one is given up at once: %+v", p)
	}
}

func TestClocksOfHosts(t *testing.T) {
	a, _, _ := pair(t,
		&register{agents: []store.Agent{
			{Key: "A", IP: "10.0.0.1"},
			{Key: "B", IP: "10.0.0.2"},
			{Key: "C", IP: "10.0.0.3"},
		}})
	for key, ahead := range map[string]time.Duration{"A": -time.Hour, "B": 40 * time.Second, "C": time.Second} {
		a.RecordMessage(key, at(time.Minute))
		a.Clock(key, ahead)
	}
	a.Clock("stranger", time.Hour)
	if n, worst := a.Unsteady(at(time.Minute), 30*time.Second); n != 2 || worst != -time.Hour {
		t.Errorf("%d clocks are off, the worst by %v", n, worst)
	}
	a.Clock("A", 0)
	a.RecordLinkLost("B", at(time.Minute))
	if n, _ := a.Unsteady(at(time.Minute), 30*time.Second); n != 0 {
		t.Errorf("%d clocks are off", n)
	}
}

// TestKeysThatAreMadeUp: whoever makes up agents has the store asked some times, and those who are known are found
// meanwhile.
func TestKeysThatAreMadeUp(t *testing.T) {
	r := &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1", Created: start}}}
	_, b, _ := pair(t, r)
	refused := 0
	for i := range 5000 {
		_, known, err := b.Find(t.Context(), "made-up-"+strconv.Itoa(i))
		if known || err != nil && !errors.Is(err, fleet.ErrLookups) {
			t.Fatalf("%t, %v", known, err)
		}
		if err != nil {
			refused++
		}
	}
	if r.looks > 1000 || r.looks+refused != 5000 {
		t.Errorf("the store was asked %d times, and %d were refused", r.looks, refused)
	}
	if _, known, err := b.Find(t.Context(), "A"); !known || err != nil {
		t.Errorf("one who is known: %t, %v", known, err)
	}
}
