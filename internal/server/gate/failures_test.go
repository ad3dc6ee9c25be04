package gate_test

import (
	"testing"
	"time"

	"drover/internal/server/gate"
)

// TestFailures: a network has one limit, and those of others go on.
func TestFailures(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	f := gate.NewFailures()
	for _, tt := range []struct {
		of, same []string
		other    string
	}{
		{[]string{"192.0.2.1"}, []string{"192.0.2.1"}, "192.0.2.2"},
		{[]string{"2001:db8::1", "2001:db8::ffff:2"}, []string{"2001:db8::3", "2001:db8:0:0:8000::"}, "2001:db8:0:1::1"},
		{[]string{"fe80::1%eth0"}, []string{"fe80::2%eth0"}, "fe81::1%eth0"},
		{[]string{"::ffff:192.0.2.3"}, []string{"::ffff:192.0.2.3"}, "::ffff:192.0.2.4"},
		{[]string{"user ann"}, []string{"user ann"}, "user bob"},
	} {
		n := 0
		for ; f.Wait(tt.same[0], now) == 0 && n < 1000; n++ {
			f.Note(tt.of[n%len(tt.of)], now)
		}
		if n != 20 {
			t.Errorf("%s: %d failures at once, want 20", tt.of, n)
		}
		for _, addr := range tt.same {
			if wait := f.Wait(addr, now); wait != 3*time.Second {
				t.Errorf("%s waits %s, want 3s", addr, wait)
			}
			if f.Wait(addr, now.Add(3*time.Second)) != 0 {
				t.Errorf("%s waits after 3 s", addr)
			}
		}
		if wait := f.Wait(tt.other, now); wait != 0 {
			t.Errorf("%s waits %s for %s", tt.other, wait, tt.of)
		}
	}
	for range 100 {
		f.Note("", now)
	}
	if f.Wait("", now) != 0 {
		t.Error("nobody waits")
	}
}
