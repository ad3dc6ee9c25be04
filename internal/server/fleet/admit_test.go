package fleet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

func TestAdmit(t *testing.T) {
	r := &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1", Assigned: "given", Created: start}}}
	d := load(t, r)
	d.RecordMessage("A", at(time.Second))
	var stored []string
	admit := func(key string, now time.Duration, err error) error {
		return d.Admit(t.Context(), store.Agent{Key: key, IP: "10.0.0.1", Created: at(now), Replaces: "A"}, at(now),
			func(_ context.Context, a store.Agent) error {
				stored = append(stored, a.Key+" "+a.Assigned)
				return err
			})
	}
	if err := admit("B", 2*time.Second, nil); !errors.Is(err, fleet.ErrTaken) || len(stored) > 0 {
		t.Errorf("the address of an agent that is there: %v, stored %q", err, stored)
	}
	spent := errors.New("spent")
	if err := admit("A", 3*time.Second, spent); !errors.Is(err, spent) {
		t.Errorf("the refusal became %v", err)
	}
	if err := admit("A", 3*time.Second, nil); err != nil { // its answer was lost
		t.Error(err)
	}
	d.RecordLinkLost("A", at(4*time.Second))
	if err := admit("B", 5*time.Second, spent); !errors.Is(err, spent) {
		t.Errorf("the refusal became %v", err)
	}
	if a, _ := d.Lookup(0, "10.0.0.1"); a.Key != "A" {
		t.Errorf("one that was refused has the address: %q", a.Key)
	}
	if err := admit("B", 5*time.Second, nil); err != nil {
		t.Error(err)
	}
	for name, found := range map[string]func() (store.Agent, bool){
		"address": func() (store.Agent, bool) { return d.Lookup(0, "10.0.0.1") },
		"given":   func() (store.Agent, bool) { return d.LookupID("given") },
	} {
		if a, _ := found(); a.Key != "B" {
			t.Errorf("the %s leads to %q", name, a.Key)
		}
	}
	if want := "A given"; len(stored) != 4 || stored[0] != want || stored[3] != "B given" {
		t.Errorf("stored %q", stored)
	}
}

// TestAdmitAfterAStart: agents come back to a server one after another, and none may lose its name meanwhile.
func TestAdmitAfterAStart(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1", ID: "id"}}})
	nothing := func(context.Context, store.Agent) error { return nil }
	for _, b := range []store.Agent{
		{Key: "B", IP: "10.0.0.1", Replaces: "A"}, {Key: "B", IP: "10.0.0.2", ID: "id", Replaces: "A"},
	} {
		if err := d.Admit(t.Context(), b, at(29*time.Second), nothing); !errors.Is(err, fleet.ErrUnsettled) {
			t.Errorf("%+v took a name away: %v", b, err)
		}
	}
	for _, a := range []store.Agent{{Key: "A", IP: "10.0.0.1", ID: "id"}, {Key: "C", IP: "10.0.0.3"}} {
		if err := d.Admit(t.Context(), a, at(time.Second), nothing); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if err := d.Admit(t.Context(), store.Agent{Key: "B", IP: "10.0.0.1", Replaces: "A"}, at(31*time.Second), nothing); err != nil {
		t.Errorf("the agent has not come back: %v", err)
	}
}

// TestAdmitUnderAKnownName: nobody gets a name of an agent that is away, except to take its place, and after its
// removal.
func TestAdmitUnderAKnownName(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{
		{Key: "A", IP: "10.0.0.1", ID: "id", Assigned: "given", Created: start},
		{Key: "B", IP: "10.0.0.2", Created: start},
	}})
	nothing := func(context.Context, store.Agent) error { return nil }
	now := at(time.Hour)
	for _, c := range []store.Agent{
		{Key: "C", IP: "10.0.0.1"},
		{Key: "C", IP: "10.0.0.1", ID: "id"},
		{Key: "C", IP: "10.0.0.3", ID: "id"},
		{Key: "C", IP: "10.0.0.3", ID: "given"},
		{Key: "C", IP: "10.0.0.1", Replaces: "B"},
		{Key: "C", IP: "10.0.0.2", ID: "id", Replaces: "A"},
		{Key: "B", IP: "10.0.0.2", ID: "id"},
		{Key: "B", IP: "10.0.0.2", ID: "id", Replaces: "A"},
	} {
		if err := d.Admit(t.Context(), c, now, nothing); !errors.Is(err, fleet.ErrKnown) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := d.Remove(t.Context(), "B", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []store.Agent{
		{Key: "C", IP: "10.0.0.2", Created: now},
		{Key: "D", IP: "10.0.0.3", ID: "id", Created: now, Replaces: "A"},
		{Key: "E", IP: "10.0.0.1", Created: now},
	} {
		if err := d.Admit(t.Context(), c, now, nothing); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if a, _ := d.LookupID("given"); a.Key != "D" {
		t.Errorf("the id that people gave leads to %q", a.Key)
	}
	if _, there := d.ByKey("A"); there {
		t.Error("the agent that was replaced is there")
	}
}

func TestRemove(t *testing.T) {
	d := load(t,
		&register{agents: []store.Agent{
			{Key: "A", IP: "10.0.0.1", ID: "id", Assigned: "given"},
			{Key: "B", IP: "10.0.0.2"},
		}})
	d.RecordMessage("A", at(time.Second))
	d.Introduced("A", fleet.Facts{}, at(time.Second))
	broken := errors.New("broken")
	if err := d.Remove(t.Context(), "A", func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the failure became %v", err)
	}
	if _, ok := d.ByKey("A"); !ok {
		t.Error("it is gone although it is stored")
	}
	nothing := func(context.Context) error { return nil }
	if err := d.Remove(t.Context(), "A", nothing); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"id", "given", "0:10.0.0.1"} {
		if a, ok := d.LookupID(id); ok {
			t.Errorf("%s leads to %+v", id, a)
		}
	}
	if p := d.Presence("A", at(2*time.Second)); p.Joined || !p.Away || d.Introduction("A") {
		t.Errorf("its presence is %+v", p)
	}
	if known, _ := d.Count(at(2 * time.Second)); known != 1 {
		t.Errorf("%d agents are known", known)
	}
	if err := d.Remove(t.Context(), "A", nothing); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

// TestIDsOfOtherAreas: who may join one area gets no id of an agent of another one, be that away or not.
func TestIDsOfOtherAreas(t *testing.T) {
	d := load(t, &register{agents: []store.Agent{
		{Key: "A", Cloud: 2, IP: "10.0.0.1", ID: "id", Created: start},
		{Key: "B", Cloud: 2, IP: "10.0.0.2", Assigned: "given", Created: start},
	}})
	nothing := func(context.Context, store.Agent) error { return nil }
	now := at(time.Hour) // both are away
	for _, id := range []string{"id", "given"} {
		c := store.Agent{Key: "C", Cloud: 1, IP: "10.0.0.3", ID: id, Created: now}
		if err := d.Admit(t.Context(), c, now, nothing); !errors.Is(err, fleet.ErrElsewhere) {
			t.Errorf("%s was given away: %v", id, err)
		}
		if err := d.Join(t.Context(), c, now); !errors.Is(err, fleet.ErrElsewhere) {
			t.Errorf("%s was taken: %v", id, err)
		}
	}
	for _, a := range []store.Agent{
		{Key: "A", Cloud: 1, IP: "10.0.0.1", ID: "id"},
		{Key: "C", Cloud: 1, IP: "10.0.0.3", ID: "id", Replaces: "A"},
	} {
		// the holder itself may move, and another agent may replace it there
		if err := d.Admit(t.Context(), a, now, nothing); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// TestAdmitOnly: an agent that was removed a moment ago does not come back by what it says of itself.
func TestAdmitOnly(t *testing.T) {
	r := &register{agents: []store.Agent{{Key: "A", IP: "10.0.0.1", Created: start}}}
	d := load(t, r)
	d.AdmitOnly()
	if err := d.Join(t.Context(), store.Agent{Key: "A", IP: "10.0.0.1", Name: "host", Created: start},
		at(time.Second)); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if err := d.Remove(t.Context(), "A", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := d.Join(t.Context(), store.Agent{Key: "A", IP: "10.0.0.1", Created: start},
		at(2*time.Second)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("one that was removed: %v", err)
	}
	if _, there := d.ByKey("A"); there {
		t.Error("it is back")
	}
}
