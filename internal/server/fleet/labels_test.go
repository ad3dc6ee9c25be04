package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// TestLabel: a label of a person overrides those of the token and the host, and a removed label is hidden.
func TestLabel(t *testing.T) {
	r := &register{agents: []store.Agent{
		{
			Key: "A", IP: "10.0.0.1", Labels: map[string]string{"role": "db", "zone": "a"},
			Host: store.Host{OS: "debian", Labels: map[string]string{"rack": "4", "zone": "host"}},
		},
		{Key: "B", IP: "10.0.0.2"},
	}}
	d := load(t, r)
	var told []string
	d.Share(func(agent string) { told = append(told, agent) })
	label := func(set map[string]string, remove ...string) {
		t.Helper()
		if err := d.Label(t.Context(), []string{"A", "B"}, set, remove); err != nil {
			t.Fatal(err)
		}
	}
	want := func(key string, labels map[string]*string) {
		t.Helper()
		a, _ := d.ByKey(key)
		if diff := cmp.Diff(labels, a.SetLabels); diff != "" {
			t.Errorf("labels of %s (-want +got): %s", key, diff)
		}
		stored, _ := r.GetAgents(t.Context(), []string{key})
		if diff := cmp.Diff(labels, stored[0].SetLabels); diff != "" {
			t.Errorf("stored labels of %s (-want +got): %s", key, diff)
		}
	}
	label(map[string]string{"role": "web"}, "zone", "rack", "unknown")
	want("A", map[string]*string{"role": new("web"), "zone": nil, "rack": nil})
	want("B", map[string]*string{"role": new("web")})
	if len(told) != 2 {
		t.Errorf("other servers are told of %q", told)
	}
	a, _ := d.ByKey("A")
	for key, value := range map[string]string{"role": "web", "zone": "", "rack": "", "os": "debian", "kernel": ""} {
		if got, found := a.Select(key); got != value || found != (value != "") {
			t.Errorf("%s is %q, %v", key, got, found)
		}
	}
	label(map[string]string{"zone": "b"}, "role")
	want("A", map[string]*string{"role": nil, "zone": new("b"), "rack": nil})
	want("B", map[string]*string{"zone": new("b")})
	label(nil, "zone")
	want("B", nil)

	many := map[string]string{}
	for i := range 64 {
		many[fmt.Sprint("l", i)] = "x"
	}
	err := d.Label(t.Context(), []string{"B", "A"}, many, nil) // A has three already
	if full, ok := errors.AsType[*fleet.LabelsError](err); !ok || full.Host.Key != "A" ||
		!strings.Contains(err.Error(), "0:10.0.0.1") {
		t.Errorf("too many labels: %v", err)
	}
	want("B", nil)
	if err := d.Label(t.Context(), []string{"A", "C"}, nil, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown host: %v", err)
	}
}

// TestLabelsOutliveAnIntroduction: a report or a new disk of the host, with a copy of the row from before, keeps what
// people have set.
func TestLabelsOutliveAnIntroduction(t *testing.T) {
	before := store.Agent{Key: "A", IP: "10.0.0.1", Name: "host", Created: start}
	d := load(t, &register{agents: []store.Agent{before}})
	if err := d.Label(t.Context(), []string{"A"}, map[string]string{"role": "web"}, nil); err != nil {
		t.Fatal(err)
	}
	before.Build = "2"
	if err := d.Join(t.Context(), before, at(time.Second)); err != nil {
		t.Fatal(err)
	}
	if a, _ := d.ByKey("A"); a.Build != "2" || a.SetLabels["role"] == nil {
		t.Errorf("after an introduction: %+v", a)
	}
	again := store.Agent{Key: "B", IP: "10.0.0.1", Name: "host", Created: at(time.Hour), Replaces: "A"}
	err := d.Admit(t.Context(), again, at(time.Hour), func(context.Context, store.Agent) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := d.ByKey("B"); b.SetLabels["role"] == nil {
		t.Errorf("after a new installation: %+v", b)
	}
	// Facts that have changed are stored, and facts that have not are not.
	r := &register{agents: []store.Agent{before}}
	d = load(t, r)
	before.Host = store.Host{OS: "debian", Facts: map[string]string{"a": "1"}}
	for _, puts := range []int{1, 1} {
		if err := d.Join(t.Context(), before, at(time.Second)); err != nil || r.puts != puts {
			t.Errorf("%d writes, %v", r.puts, err)
		}
		before.Host.Facts = map[string]string{"a": "1"}
	}
}
