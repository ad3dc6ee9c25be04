package agent

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lookEvery is how often it is looked whether there is memory to give back.
	lookEvery = 5 * time.Second
	// busyBytes is how much has been used and let go, in bytes, when giving it back is worth a collection; calmBytes
	// how little in one lookEvery says that the work is over.
	busyBytes = 8 << 20
	calmBytes = 1 << 20
	// restThreads is how many threads an agent at rest has use for: some sleep in the kernel for good, the others do
	// what there is.
	restThreads = 10
)

// giveBack returns memory to the system after a burst of work, such as the start of a thousand processes or that of the
// agent. The runtime would keep it: it collects when the heap has doubled, which does not happen at rest, and a
// goroutine keeps the stack that it once needed.
func giveBack(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var given, last uint64
	started := false
	for {
		select {
		case <-ticker.C:
			now := allocated()
			if (!started || now-given >= busyBytes) && now-last <= calmBytes {
				started = true
				runtime.GC() // each collection halves the stacks that are too large
				debug.FreeOSMemory()
				unmapProgram()
				now = allocated()
				given = now
				endThreads(threads() - restThreads)
			}
			last = now
		case <-ctx.Done():
			return nil
		}
	}
}

// allocated returns how many bytes the heap has handed out in the life of this process.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// threads returns how many threads this process has.
func threads() int {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	return len(entries)
}

// endThreads ends n threads. The runtime makes one whenever all others are held up in the kernel, as in a burst of
// work, and keeps it for good; one that a goroutine is locked to at its end is ended.
func endThreads(n int) {
	for range max(n, 0) {
		var ended sync.WaitGroup
		ended.Go(func() {
			runtime.LockOSThread()
			if unix.Gettid() != unix.Getpid() {
				return
			}
			// The first thread cannot end. As long as it is taken, what is begun here is done on another.
			var other sync.WaitGroup
			other.Go(runtime.LockOSThread)
			other.Wait()
			runtime.UnlockOSThread()
		})
		ended.Wait()
	}
}
