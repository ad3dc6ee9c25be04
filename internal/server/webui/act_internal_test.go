package webui

import (
	"slices"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/server/access"
)

// TestActsOfARollout: only the person who began a rollout can change it, only another can approve it, and an
// administrator can do both with those of others.
func TestActsOfARollout(t *testing.T) {
	for _, tt := range []struct {
		who   string
		admin bool
		state string
		want  string
	}{
		{"anna", false, "held", "abort"},
		{"bob", false, "held", "approve"},
		{"bob", true, "held", "approve abort"},
		{"anna", false, "running", "pause abort"},
		{"bob", false, "running", ""},
		{"anna", false, "paused", "resume retry undo abort"},
		{"bob", false, "paused", ""},
		{"anna", false, "done", "retry undo"},
		{"bob", false, "done", ""},
		{"bob", true, "done", "retry undo"},
	} {
		v := &view{who: access.Principal{App: "person:" + tt.who, User: tt.who, Admin: tt.admin}}
		r := v1.Rollout{App: "person:anna", User: "anna", State: tt.state, Op: "apply"}
		r.Counts.Failed = 1
		var got []string
		for _, a := range v.actsOf(&r) {
			got = append(got, a.ID)
		}
		if !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// TestAgain: a task that has ended offers its operation for exactly the targets that have failed.
func TestAgain(t *testing.T) {
	one := v1.Result{Namespace: "shop", Name: "api", Host: "h1", Op: "restart"}
	other := v1.Result{Namespace: "shop", Name: "web", Host: "h2", Op: "stop"}
	for _, tt := range []struct {
		op, state string
		failed    []v1.Result
		want      []target
	}{
		{"restart", v1.TaskDone, []v1.Result{one}, []target{{"shop", "api", "h1"}}},
		{"restart", v1.TaskRunning, []v1.Result{one}, nil},
		{"restart", v1.TaskDone, nil, nil},
		{"restart", v1.TaskDone, []v1.Result{one, other}, nil},
		{"register", v1.TaskDone, []v1.Result{one}, nil},
		{"restart", v1.TaskDone, make([]v1.Result, maxNamed+1), nil},
	} {
		body := map[string]any{}
		again(body, &v1.Task{Op: tt.op, State: tt.state}, tt.failed)
		if got, _ := body["Failed"].([]target); !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: %v, want %v", tt.op, tt.state, got, tt.want)
		}
	}
}

// TestTargets: a form names exactly the process that the page has shown, also a copy and a host with odd names.
func TestTargets(t *testing.T) {
	for _, want := range []target{
		{"shop", "web", "h1"},
		{"shop", "worker@1", "h1"},
		{"a+b", "a b%2F/c@d", "0:10.0.0.1"},
		{"店", "worker@2", "h@1"},
	} {
		if got, ok := parseTarget(want.Text()); !ok || got != want {
			t.Errorf("%q is read as %+v, %t; want %+v", want.Text(), got, ok, want)
		}
	}
	for _, text := range []string{"", "shop", "shop/web", "shop/web@", "/web@h", "shop/@h", "shop/%zz@h"} {
		if got, ok := parseTarget(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
