package kit

import (
	"time"

	"drover/internal/process"
)

// Watch receives notices of what was stored, for metrics. Its methods return at once, and any goroutine may call them.
type Watch interface {
	// Wrote tells that a transaction of some writes is on disk, or has failed, after the given time.
	Wrote(writes int, took time.Duration, err error)
	// Ended tells that an item got its outcome, and the time since the creation of its task.
	Ended(op process.Op, fault process.Fault, took time.Duration)
	// Happened tells that a new event was stored, and the time since the event by the clock of its host.
	Happened(kind process.EventKind, delay time.Duration)
	// Audited tells that rows were added to the audit log.
	Audited(rows int)
}

// noWatch ignores all notices.
type noWatch struct{}

func (noWatch) Wrote(int, time.Duration, error) {}

func (noWatch) Ended(process.Op, process.Fault, time.Duration) {}

func (noWatch) Happened(process.EventKind, time.Duration) {}

func (noWatch) Audited(int) {}
