package server

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
	memoryEvery   = 10 * time.Second
	// releaseEvery is the least time between two releases of memory, and restTime is the time over which the server
	// looks whether it is at rest: it then uses less than restUse of it on all processors together. A release takes
	// 30 µs of a processor for each connection.
	releaseEvery = 5 * time.Minute
	restTime     = time.Minute
	restUse      = restTime / 2
)

// boundMemory makes the garbage collector run more often near the memory target for the number of hosts, until ctx
// ends. GOMEMLIMIT in the environment overrides the target.
func (s *Server) boundMemory(ctx context.Context) error {
	ours := debug.SetMemoryLimit(-1) == math.MaxInt64
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		if known, _ := s.directory.Count(s.clock.Now()); ours {
			debug.SetMemoryLimit(memoryAlone + int64(known)*memoryOfAgent)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

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

// releaseMemory returns memory to the system. The runtime alone would keep it: a goroutine keeps its largest stack
// until a collection, and each connection has two goroutines that once needed a large one.
func releaseMemory() {
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
