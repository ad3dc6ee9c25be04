package process_test

import (
	"testing"

	"drover/internal/process"
)

func TestUsageMovedFrom(t *testing.T) {
	told := process.Usage{CPU: 10, Mem: 10, Processes: 1, At: 1}
	for _, c := range []struct {
		cpu, mem float64
		want     bool
	}{
		{10, 10, false},
		{10.9, 10.4, false},
		{9.1, 9.6, false},
		{11, 10, true},
		{9, 10, true},
		{10, 10.5, true},
		{10, 9.5, true},
	} {
		if got := (process.Usage{CPU: c.cpu, Mem: c.mem, Processes: 2, At: 2}).MovedFrom(told); got != c.want {
			t.Errorf("%g %% and %g %%: %v, want %v", c.cpu, c.mem, got, c.want)
		}
	}
}
