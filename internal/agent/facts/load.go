package facts

import (
	"sync"

	"drover/internal/agent/procfs"
	"drover/internal/wire"
)

const (
	// minLoadChange is the smallest change of a load that is reported, in tenths of a percent.
	minLoadChange = 10
	// mostUntold is after how many measurements a load is reported again: a report may have been lost.
	mostUntold = 10
)

// loads knows how busy the host is. The zero value is ready.
type loads struct {
	mu          sync.Mutex
	last        procfs.Ticks
	now         *wire.Load
	reported    wire.Load
	due         bool // now has not been reported
	sinceReport int  // measurements since the last report
}

// measure measures the load since the last measurement. The first one has only a start.
func (l *loads) measure(fs procfs.FS) {
	ticks, err := fs.Ticks()
	total, failed := fs.MemTotal()
	free, missing := fs.MemAvailable()
	if err != nil || failed != nil || missing != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.last
	l.last = ticks
	if before == (procfs.Ticks{}) || ticks.Total <= before.Total || ticks.Busy < before.Busy {
		return
	}
	l.now = &wire.Load{
		CPU:    int((ticks.Busy - before.Busy) * 1000 / (ticks.Total - before.Total)), //nolint:gosec // at most 1000
		Memory: int(max(total-free, 0) * 1000 / total),
	}
	far := func(a, b int) bool { return max(a-b, b-a) >= minLoadChange }
	l.sinceReport++
	l.due = l.due || l.sinceReport >= mostUntold ||
		far(l.now.CPU, l.reported.CPU) || far(l.now.Memory, l.reported.Memory)
}

// report returns the load for a report; nil if the report does not need it.
func (l *loads) report(introduces bool) *wire.Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil || !l.due && !introduces {
		return nil
	}
	l.reported, l.due, l.sinceReport = *l.now, false, 0
	load := l.reported
	return &load
}
