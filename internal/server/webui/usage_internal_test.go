package webui

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/words"
)

// TestChart: a gap ends a line and is no zero, a single step is a line, and a restart has its place.
func TestChart(t *testing.T) {
	v := &view{lang: words.English}
	step := func(mib int64) *v1.UsageStep { return &v1.UsageStep{Memory: mib << 20} }
	steps := make([]*v1.UsageStep, 10)
	steps[1], steps[2], steps[3], steps[6], steps[9] = step(50), step(100), step(0), step(25), step(75)
	steps[6].Restarted = true
	memory := func(s *v1.UsageStep) float64 { return float64(s.Memory) }
	size := func(n float64) string { return byteSize(int64(n)) }
	got := v.draw(steps, 2, words.Head.Memory, memory, size)
	want := chart{
		Name: "Memory", Now: "75.0 MiB", Most: "100.0 MiB",
		Text:  "Memory: now 75.0 MiB, at least 0.0 B, at most 100.0 MiB. Restarts: 1. Not measured: 5 of 10 steps.",
		Lines: []string{"90.0,60.0 150.0,0.0 210.0,120.0", "390.0,90.0 420.0,90.0", "570.0,30.0 600.0,30.0"},
		Areas: []string{
			"90.0,120 90.0,60.0 150.0,0.0 210.0,120.0 210.0,120", "390.0,120 390.0,90.0 420.0,90.0 420.0,120",
			"570.0,120 570.0,30.0 600.0,30.0 600.0,120",
		},
		Restarts: []string{"360.0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chart (-want +got):\n%s", diff)
	}
	steps[9] = nil
	if got := v.draw(steps, 2, words.Head.Memory, memory, size); got.Now != "" || !strings.Contains(got.Text, "now –") {
		t.Errorf("a process that does not run now uses %q: %s", got.Now, got.Text)
	}
	steps[8] = step(8)
	if got := v.draw(steps, 2, words.Head.Memory, memory, size); got.Now != "8.0 MiB" {
		t.Errorf("in a step that has just begun a process uses %q", got.Now)
	}
	low := v.draw([]*v1.UsageStep{{CPU: 0.5}, {CPU: 0}}, 2, words.Head.CPU, func(s *v1.UsageStep) float64 { return s.CPU }, percent)
	if diff := cmp.Diff([]string{"150.0,60.0 450.0,120.0"}, low.Lines); diff != "" || low.Most != "0.50 %" {
		t.Errorf("little CPU (-want +got):\n%s%s", diff, low.Most)
	}
}
