package agent

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/process"
)

// TestFewDescriptors: the last 64 descriptors are for what runs, however the numbers of the others lie.
func TestFewDescriptors(t *testing.T) {
	if err := fewDescriptors(); err != nil {
		t.Fatalf("at first: %v", err)
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = uint64(len(list) + 2*spareDescriptors)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) //nolint:errcheck // the test is over
	var taken []int
	for range spareDescriptors + 2 {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, fd)
	}
	defer func() {
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
	}()
	if err := fewDescriptors(); err == nil || !strings.Contains(err.Error(), "raise LimitNOFILE") {
		t.Errorf("with a reserve of fewer than %d: %v", spareDescriptors, err)
	}
	spec := &process.Spec{Run: "sleep 1"}
	if err := (measuredHost{}).Preflight(process.ID{}, spec, nil, false); err == nil {
		t.Error("a preflight passes")
	}
	for _, line := range []string{"sleep 1", process.Replacing("sleep 1")} {
		if _, err := (measuredHost{}).Launch(process.ID{}, "run", line, spec); err == nil {
			t.Errorf("%q starts", line)
		}
	}
	for range 8 {
		_ = unix.Close(taken[0])
		taken = taken[1:]
	}
	if err := fewDescriptors(); err != nil {
		t.Errorf("with more again: %v", err)
	}
}
