package agent

import (
	"time"

	"drover/internal/agent/operation"
	"drover/internal/agent/orders"
	"drover/internal/agent/report"
	"drover/internal/agent/supervisor"
)

// Disk is what the agent writes to while it works.
type Disk interface {
	supervisor.Store
	operation.Journal
	report.Journal
	orders.Disk
}

// Faults stand in front of the disk, of the questions and of the way to the server, to die at a chosen moment, and are
// the wall clock, to be wrong. All are set.
type Faults struct {
	Disk  func(Disk) Disk
	Queue func(orders.Queue) orders.Queue
	Link  func(report.Link) report.Link
	Wall  func() time.Time
}

// noFaults returns faults that change nothing.
func noFaults() *Faults {
	return &Faults{
		Disk:  func(d Disk) Disk { return d },
		Queue: func(q orders.Queue) orders.Queue { return q },
		Link:  func(l report.Link) report.Link { return l },
		Wall:  time.Now,
	}
}
