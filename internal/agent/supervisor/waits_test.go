package supervisor

import (
	"testing"

	"drover/internal/process"
)

// TestLookAndNext: a process that matters only at the second look wakes whoever waits, too.
func TestLookAndNext(t *testing.T) {
	a, b := process.ID{Namespace: "ns", Name: "a"}, process.ID{Namespace: "ns", Name: "b"}
	var o order
	looks := []wait{{}, {on: []process.ID{a}}, {on: []process.ID{a, b}}}
	called := 0
	w, cancel := o.lookAndNext(func() wait {
		next := looks[0]
		if len(looks) > 1 {
			looks = looks[1:]
		}
		return next
	}, func() { called++ })
	if len(w.on) != 2 || called != 0 {
		t.Errorf("it waits for %v, called %d times", w.on, called)
	}
	o.changed(b, nil)
	o.changed(a, nil)
	if called != 1 {
		t.Errorf("called %d times, want once", called)
	}
	cancel()
	if len(o.waiting) != 0 {
		t.Errorf("left over: %v", o.waiting)
	}
}
