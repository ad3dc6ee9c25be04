package agent

import (
	"time"

	"drover/internal/agent/operation"
	"drover/internal/agent/orders"
	"drover/internal/agent/report"
	"drover/internal/agent/supervisor"
)

// Disk is the part of the disk that the agent writes while it works.
type Disk interface {
	supervisor.Store
	operation.Journal
	report.Journal
	orders.Disk
}

// Faults wrap the disk, the queue of queries and the link to the server. So a test can make them fail at a chosen
// moment. They also replace the wall clock. All fields are set.
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
