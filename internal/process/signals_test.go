package process_test

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/process"
	"drover/internal/spec"
)

// TestSignalNames: each name of the API has a number, which is that of the kernel, and comes back.
func TestSignalNames(t *testing.T) {
	seen := map[int]string{}
	for _, name := range spec.Signals() {
		n := process.SignalNumber(name)
		if first := seen[n]; n == 0 || first != "" || process.SignalName(n) != name {
			t.Errorf("%s is %d, which is %s and %s", name, n, process.SignalName(n), first)
		}
		if kernel := unix.SignalNum("SIG" + name); !strings.HasPrefix(name, "RT") && int(kernel) != n {
			t.Errorf("%s is %d, and %d for the kernel", name, n, kernel)
		}
		seen[n] = name
	}
	for name, want := range map[string]int{
		"TERM": int(syscall.SIGTERM), "RTMIN": 34, "RTMIN+3": 37, "RTMIN+15": 49, "RTMAX-14": 50, "RTMAX": 64,
		"RTMIN+16": 0, "X": 0, "": 0,
	} {
		if got := process.SignalNumber(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for _, n := range []int{0, 32, 33, 65, -1} {
		if name := process.SignalName(n); name != "" {
			t.Errorf("%d is %s", n, name)
		}
	}
}
