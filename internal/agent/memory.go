package agent

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// lookEvery is how often it is looked whether there is memory to give back.
	lookEvery = 5 * time.Second
	// busyBytes is how much has been used and let go, in bytes, when giving it back is worth a collection; calmBytes how little in
	// one lookEvery says that the work is over.
	busyBytes = 8 << 20
	calmBytes = 1 << 20
)

// giveBack returns memory to the system after a burst of work, such as the start of a thousand processes. The runtime would keep it:
// it collects when the heap has doubled, which does not happen at rest, and a goroutine keeps the stack that it once needed.
func giveBack(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var given, last uint64
	for {
		select {
		case <-ticker.C:
			now := allocated()
			if now-given >= busyBytes && now-last <= calmBytes {
				runtime.GC() // each collection halves the stacks that are too large
				debug.FreeOSMemory()
				now = allocated()
				given = now
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
