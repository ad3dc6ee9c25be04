package server

import (
	"context"
	"math"
	"runtime/debug"
	"time"
)

const (
	// memoryAlone and memoryOfAgent are what a server aims to stay below: so much alone, and so much more for each
	// host. What it cannot do without it takes all the same.
	memoryAlone   = 224 << 20
	memoryOfAgent = 160 << 10
	memoryEvery   = 10 * time.Second
)

// boundMemory has the garbage collector run more often where the server's memory nears what as many hosts should take,
// until ctx ends. GOMEMLIMIT in the environment counts more.
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
