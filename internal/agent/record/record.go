// Package record has the records that the agent keeps of processes and orders on its disk. Package specstore stores
// them.
package record

import (
	"time"

	"drover/internal/process"
)

// Record is a process that the agent knows.
type Record struct {
	ID      process.ID   `json:"id"`
	Spec    process.Spec `json:"spec"`
	Hosted  bool         `json:"hosted"`
	Want    process.Want `json:"want,omitempty"`
	GivenUp bool         `json:"given_up,omitempty"`
	// Finished tells that a resident process has succeeded and is not relaunched.
	Finished     bool  `json:"finished,omitempty"`
	RegisteredAt int64 `json:"registered_at"` // Unix seconds
	// Revision rises with every change by an operation, over all records of a disk. Giving a process up does not
	// change it.
	Revision uint64 `json:"revision"`
	// Rest is why the process must not run, or will not be started again. Unlike a Runtime it survives a reboot.
	Rest process.Cause `json:"rest,omitzero"`
	// PendingStop is set while a stop that has failed may still end the process.
	PendingStop *PendingStop `json:"asked,omitempty"`
}

// Decide records what an operation wants of the process from now on. It forgets that the process had been given up or
// had finished.
func (r *Record) Decide(hosted bool, want process.Want) {
	r.Hosted, r.Want, r.GivenUp, r.Finished = hosted, want, false, false
}

// PendingStop is a stop or kill that did not end its process in time. Until, in time since boot, an end of the process
// is that operation's.
type PendingStop struct {
	Op    process.Op    `json:"op"`
	Item  string        `json:"item"`
	Actor process.Actor `json:"actor,omitzero"`
	Until time.Duration `json:"until"`
	Boot  string        `json:"boot"`
}
