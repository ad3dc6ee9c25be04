package logs_test

import (
	"strings"
	"testing"

	"drover/internal/agent/logs"
	"drover/internal/process"
)

// TestLargest: each log counts with its rotated files, once, and under the name of its process.
func TestLargest(t *testing.T) {
	r := newRig(t)
	for name, size := range map[string]int{"quiet": 0, "small": 64 << 10, "large": 256 << 10, "middle": 128 << 10} {
		out, errs, err := r.Begin(process.ID{Namespace: "shop", Name: name}, process.Hash(process.ID{Name: name}), policy(1<<30, 1))
		if err != nil {
			t.Fatal(err)
		}
		write(t, out, strings.Repeat("x", size))
		_, _ = out.Close(), errs.Close()
	}
	largest, err := logs.Largest(r.dir, 2)
	if err != nil || len(largest) != 2 || largest[0].Process.Name != "large" || largest[1].Process.Name != "middle" {
		t.Fatalf("the largest logs are %v, %v", largest, err)
	}
	if got := largest[0].Bytes; got < 256<<10 || got >= 2*256<<10 {
		t.Errorf("a log of 256 KiB takes %d bytes", got)
	}
}
