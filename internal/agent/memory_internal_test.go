package agent

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestEndThreads(t *testing.T) {
	const burst, few = 40, 10
	// As many reads that the runtime knows nothing of, each of which holds a thread.
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(pipe[0]), "r"), os.NewFile(uintptr(pipe[1]), "w")
	defer r.Close()
	var reads sync.WaitGroup
	for range burst {
		reads.Go(func() {
			if n, err := unix.Read(pipe[0], make([]byte, 1)); n != 0 || err != nil {
				t.Errorf("read %d bytes: %v", n, err)
			}
		})
	}
	until(t, func() bool { return threads() >= burst })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	reads.Wait()
	endThreads(threads() - few)
	// A thread ends a moment after its goroutine, and those that were woken for it go to sleep.
	until(t, func() bool { return threads() <= 2*few })
}

// TestUnmapProgram: what was used long ago is no longer resident, and what is used again comes back.
func TestUnmapProgram(t *testing.T) {
	before := residentFile(t)
	unmapProgram()
	if after := residentFile(t); after >= before {
		t.Errorf("%d kB of files are resident, and were %d before", after, before)
	}
}

// residentFile returns how much of what this process has mapped from files is in memory, in kB.
func residentFile(t *testing.T) (kB int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nRssFile:")
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatalf("%s: %v", status, err)
	}
	return kB
}

// until asks again and again until the answer is yes.
func until(t *testing.T, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !yes(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen; %d threads", threads())
		}
	}
}
