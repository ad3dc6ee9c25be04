package server

import (
	"context"
	"math"
	"runtime/debug"
	"time"
)

const (
	// memoryAlone and memoryOfAgent set the memory target of a server: memoryAlone, and memoryOfAgent for each host.
	// The target is soft: a server that needs more takes more.
	memoryAlone   = 224 << 20
	memoryOfAgent = 160 << 10
	memoryEvery   = 10 * time.Second
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
