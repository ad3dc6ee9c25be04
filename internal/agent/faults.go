package agent

import (
	"time"

	"drover/internal/agent/operation"
	"drover/internal/agent/report"
	"drover/internal/agent/specstore"
	"drover/internal/agent/supervisor"
)

// Disk is what the agent writes to while it works.
type Disk interface {
	supervisor.Store
	operation.Journal
	report.Journal
	// Known returns the entries of those items that are in the journal.
	Known(items []string) ([]specstore.Entry, error)
	// Accept journals the entries that are not known yet and returns when they are on disk.
	Accept(entries []specstore.Entry) (fresh, known []specstore.Entry, err error)
}

// Queue takes what has been asked, to have it answered. It does not block.
type Queue interface {
	Submit(entries []specstore.Entry)
}

// Faults stand in front of the disk, of the questions and of the way to the server, to die at a chosen moment, and are
// the wall clock, to be wrong. All are set.
type Faults struct {
	Disk  func(Disk) Disk
	Queue func(Queue) Queue
	Link  func(report.Link) report.Link
	Wall  func() time.Time
}
