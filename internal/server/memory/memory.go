// Package memory sets how much memory a server takes: a target by the number of its hosts, a ballast, and the release
// of what it does not need at rest. See https://go.dev/doc/gc-guide.
package memory

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// memoryAlone and memoryOfAgent set the memory target of a server: memoryAlone, and memoryOfAgent for each host.
	// The target is soft: a server that needs more takes more. The ballast counts, although it takes no memory.
	memoryAlone   = 256<<20 + ballastSize
	memoryOfAgent = 160 << 10
	targetEvery   = 10 * time.Second
	// releaseEvery is the least time between two releases of memory, and restTime is the time over which the server
	// looks whether it is at rest: it then uses less than restUse of it on all processors together. A release takes
	// 30 µs of a processor for each connection.
	releaseEvery = 5 * time.Minute
	restTime     = time.Minute
	restUse      = restTime / 2
)

// ballastSize is also the approximate extra memory of a busy server.
const ballastSize = 32 << 20

// Ballast returns memory that a server keeps and never writes. It takes no memory, but the garbage collector counts it,
// so the collector runs once per ballastSize of garbage or less often. Without a ballast, the collector would run many
// times during one large call, because the state of a small server has only a few megabytes.
func Ballast() []byte { return make([]byte, ballastSize) }

// Bound makes the garbage collector run more often near the memory target for the number of hosts, until ctx ends.
// GOMEMLIMIT in the environment overrides the target.
func Bound(ctx context.Context, hosts func() int) error {
	ours := debug.SetMemoryLimit(-1) == math.MaxInt64
	tick := time.NewTicker(targetEvery)
	defer tick.Stop()
	for {
		if ours {
			debug.SetMemoryLimit(memoryAlone + int64(hosts())*memoryOfAgent)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ReleaseAtRest returns unused memory to the system while the server is at rest, until ctx ends.
func ReleaseAtRest(ctx context.Context) error { return releaseAtRest(ctx, processorTime, release) }

// releaseAtRest calls release while the server is at rest, until ctx ends. used returns the processor time of the
// server so far.
func releaseAtRest(ctx context.Context, used func() time.Duration, release func()) error {
	tick := time.NewTicker(restTime)
	defer tick.Stop()
	before, released := used(), time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := used()
		atRest := now-before < restUse
		if before = now; atRest && time.Since(released) >= releaseEvery {
			release()
			before, released = used(), time.Now()
		}
	}
}

// release returns memory to the system. The runtime alone would keep it: a goroutine keeps its largest stack
// until a collection, and each connection has two goroutines that once needed a large one.
func release() {
	runtime.GC() // each collection halves the stacks that are too large
	debug.FreeOSMemory()
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
