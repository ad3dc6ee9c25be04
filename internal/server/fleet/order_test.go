package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

func keysAfter(d *fleet.Directory, p fleet.Place) []string {
	keys := []string{}
	for a := range d.After(p) {
		keys = append(keys, a.Key)
	}
	return keys
}

// TestAfter: the list follows every change of the register, however that came about.
func TestAfter(t *testing.T) {
	r := &register{agents: []store.Agent{
		{Key: "D", Cloud: 1, IP: "10.0.0.1", Created: start},
		{Key: "A", Cloud: 1, IP: "10.0.0.2", Created: start},
		{Key: "B", Cloud: 1, IP: "10.0.0.1", Created: start},
		{Key: "C", Cloud: 0, IP: "10.0.0.2", Created: start},
	}}
	d := load(t, r)
	want := func(what string, p fleet.Place, keys ...string) {
		t.Helper()
		if diff := cmp.Diff(keys, keysAfter(d, p)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first := fleet.Place{}
	want("by area, address and key", first, "C", "B", "D", "A")
	b := fleet.PlaceOf(r.agents[2])
	want("behind one", b, "D", "A")
	want("behind the last", fleet.PlaceOf(r.agents[1]), []string{}...)
	must(d.Join(t.Context(), store.Agent{Key: "E", Cloud: 0, IP: "10.0.0.1", Created: start}, at(time.Hour)))
	want("one that has joined", first, "E", "C", "B", "D", "A")
	must(d.Join(t.Context(), store.Agent{Key: "C", Cloud: 2, IP: "10.0.0.1", Created: start}, at(time.Hour)))
	want("one that has moved", first, "E", "B", "D", "A", "C")
	must(d.Remove(t.Context(), "B", func(context.Context) error { return nil }))
	want("one that was removed", first, "E", "D", "A", "C")
	want("behind one that is not there any more", b, "D", "A", "C")
	r.agents = slices.DeleteFunc(r.agents, func(a store.Agent) bool { return a.Key == "B" || a.Key == "D" })
	r.agents = append(r.agents, store.Agent{Key: "F", IP: "10.0.0.9", Created: start})
	must(d.Refresh(t.Context(), []string{"D", "F"}))
	want("after other servers' changes", first, "E", "F", "A", "C")
	r.agents = r.agents[1:]
	must(d.Load(t.Context()))
	want("after all was read again", first, keysInOrder(r.agents)...)
	for a := range d.After(first) {
		if a.Key != "E" {
			t.Errorf("%s is the first", a.Key)
		}
		break
	}
}

// keysInOrder sorts agents as the store does.
func keysInOrder(agents []store.Agent) []string {
	agents = slices.Clone(agents)
	slices.SortFunc(agents, func(a, b store.Agent) int { return fleet.PlaceOf(a).Compare(fleet.PlaceOf(b)) })
	keys := make([]string, len(agents))
	for i, a := range agents {
		keys[i] = a.Key
	}
	return keys
}

// many are agents in no order.
func many(n int) []store.Agent {
	agents := make([]store.Agent, n)
	for i := range agents {
		place := i * 7919 % n // a prime
		agents[i] = store.Agent{
			Key: fmt.Sprintf("K%06d", i), Cloud: place % 3,
			IP: fmt.Sprintf("10.%d.%d.%d", place>>16, place>>8&255, place&255), Created: start,
		}
	}
	return agents
}

// TestAfterWhileTheRegisterChanges: whoever stays is among them once, although others come and go meanwhile.
func TestAfterWhileTheRegisterChanges(t *testing.T) {
	const n = 2000
	r := &register{agents: many(n)}
	d := load(t, r)
	want := keysInOrder(r.agents)
	var got []string
	for a := range d.After(fleet.Place{}) {
		if a.Build == "late" {
			continue
		}
		got = append(got, a.Key)
		if len(got)%100 != 0 {
			continue
		}
		late := store.Agent{Key: "L" + a.Key, Cloud: a.Cloud, IP: a.IP + "0", Build: "late", Created: start}
		if err := d.Join(t.Context(), late, at(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := d.Remove(t.Context(), a.Key, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkAfter is what a page of hosts costs in the middle of 20,000, and a look at all of them; with the register as
// it was, and with one that has just changed.
func BenchmarkAfter(b *testing.B) {
	r := &register{agents: many(20_000)}
	d := fleet.New(r, start)
	if err := d.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	middle := fleet.Place{Cloud: 1, IP: "10.0.140.0"}
	for name, c := range map[string]struct {
		from  fleet.Place
		limit int
		moved bool
	}{"page": {middle, 100, false}, "page of changed": {middle, 100, true}, "all": {fleet.Place{}, 20_000, false}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			last := r.agents[0]
			for i := 0; b.Loop(); i++ {
				if c.moved {
					last.IP = fmt.Sprintf("192.0.2.%d", i%2)
					if err := d.Join(b.Context(), last, at(time.Hour)); err != nil {
						b.Fatal(err)
					}
				}
				n := 0
				for range d.After(c.from) {
					if n++; n == c.limit {
						break
					}
				}
				if n != c.limit {
					b.Fatalf("%d agents", n)
				}
			}
		})
	}
}

// TestOrderOfHosts: hosts are in the order of their addresses, as people count.
func TestOrderOfHosts(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{
		{Key: "C", IP: "10.0.0.10", Created: start}, {Key: "D", IP: "10.0.0.9", Created: start},
	}})
	if diff := cmp.Diff([]string{"D", "C"}, keysAfter(d, fleet.Place{})); diff != "" {
		t.Error(diff)
	}
}
