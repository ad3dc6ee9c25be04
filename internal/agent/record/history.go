package record

import (
	"time"

	"drover/internal/process"
)

// History is the results of the runs of a periodic or single-run process, across restarts of the agent and of the
// host.
type History struct {
	// Due is the run of the timetable that was dealt with last.
	Due time.Time `json:"due,omitzero"`
	// Owed says that this run is still to begin.
	Owed bool `json:"owed,omitempty"`
	// Table is the timetable that Due is one of.
	Table string `json:"table,omitempty"`
	// Runs are the last runs, newest first.
	Runs []process.Run `json:"runs,omitempty"`
}
