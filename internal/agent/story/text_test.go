package story_test

import (
	"testing"

	"drover/internal/agent/story"
	"drover/internal/process"
)

// TestBy: a deed names who did it, and the app only if the person did not call alone.
func TestBy(t *testing.T) {
	for want, a := range map[string]process.Actor{
		"stopped":                        {},
		"stopped by ann":                 {App: "person:ann", User: "ann"},
		"stopped by ann (app cmdb)":      {App: "cmdb", User: "ann"},
		"stopped by app cmdb":            {App: "cmdb"},
		"stopped by bo (app person:ann)": {App: "person:ann", User: "bo"},
		"stopped by ann (rollout ro-1)":  {App: "person:ann", User: "ann", Reason: "rollout ro-1"},
		"stopped by bo (app a; drift)":   {App: "a", User: "bo", Reason: "drift"},
	} {
		if got := story.By("stopped", a); got != want {
			t.Errorf("%+v: %q, want %q", a, got, want)
		}
	}
}
