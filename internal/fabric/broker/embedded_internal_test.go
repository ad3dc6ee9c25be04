package broker

import "testing"

// TestConnectionsLeaveDescriptors: whatever the limit is, something is left for callers and files.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	for descriptors, want := range map[uint64]int{
		64: 32, 256: 192, 1024: 960, 20_000: 19_600, 1 << 20: 1<<20 - 1<<20/50, 1 << 63: 1<<31 - 1 - (1<<31-1)/50,
	} {
		if got := connectionsOf(descriptors); got != want {
			t.Errorf("of %d descriptors clients may have %d, want %d", descriptors, got, want)
		}
	}
	if connections() < 1 {
		t.Error("nobody may connect here")
	}
}
