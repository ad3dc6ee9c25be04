package facts

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"drover/internal/agent/procfs"
	"drover/internal/test/harness"
)

// TestFullDisks: a full file system is named once, by the first directory on it, until it has some room again.
func TestFullDisks(t *testing.T) {
	small := harness.SmallDisk(t, "4m")
	log, filler := filepath.Join(small, "log"), filepath.Join(small, "filler")
	if err := os.Mkdir(log, 0o700); err != nil {
		t.Fatal(err)
	}
	k := New(Config{
		FS: procfs.New("/proc"), Disks: []string{t.TempDir(), small, log, filepath.Join(small, "none")},
		Log: slog.New(slog.DiscardHandler),
	})
	for _, c := range []struct {
		what string
		left int64
		full bool
	}{
		{"some room", 2 << 20, false},
		{"little room", 512 << 10, false},
		{"no room", 0, true},
		{"little room again", 512 << 10, true},
		{"some room again", 2 << 20, false},
	} {
		if err := os.WriteFile(filler, make([]byte, 4<<20-c.left), 0o600); err != nil && c.left > 0 {
			t.Fatal(err)
		}
		var want []string
		if c.full {
			want = []string{small}
		}
		h, _ := k.Collect(t.Context())
		if !slices.Equal(slices.Collect(maps.Keys(h.Full)), want) || h.Full[small] != k.Full(small) || (k.Full(small) != 0) != c.full || (k.Full(log) != 0) != c.full {
			t.Errorf("%s: %v is full, since %d, its log since %d", c.what, h.Full, k.Full(small), k.Full(log))
		}
	}
}
