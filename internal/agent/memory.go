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
	// lookEvery is how often the agent checks whether there is memory to return.
	lookEvery = 5 * time.Second
	// busyBytes is how much the agent must have allocated before a collection is worthwhile, in bytes. If it allocates
	// less than calmBytes in one lookEvery, the burst of work is over.
	busyBytes = 8 << 20
	calmBytes = 1 << 20
	// restThreads is how many threads an idle agent needs: some sleep in the kernel for ever, the others do the work.
	restThreads = 10
)

// giveBack returns memory to the system after a burst of work, such as the start of a thousand processes or of the
// agent. The runtime alone would keep it: it collects when the heap has doubled, which does not happen at rest, and a
// goroutine keeps its largest stack.
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

// allocated returns how many bytes this process has allocated on the heap so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// threads returns the number of threads of this process.
func threads() int {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	return len(entries)
}

// endThreads ends n threads. The runtime makes a new thread whenever all others block in the kernel, as in a burst of
// work, and keeps it for ever. But it ends a thread whose goroutine ends locked to it.
func endThreads(n int) {
	for range max(n, 0) {
		var ended sync.WaitGroup
		ended.Go(func() {
			runtime.LockOSThread()
			if unix.Gettid() != unix.Getpid() {
				return
			}
			// The first thread cannot end. Keep it busy, so that the goroutine below runs on another thread.
			var other sync.WaitGroup
			other.Go(runtime.LockOSThread)
			other.Wait()
			runtime.UnlockOSThread()
		})
		ended.Wait()
	}
}
