package store

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/upkeep"
)

// Selection says that every host that matches an expression has a process. The latest file that names the process makes
// it, and it stays in force.
type Selection struct {
	Process  process.ID
	Selector string
	// Spec is what a host gets that comes to match. Callers must not change it.
	Spec *process.Spec
	// App and User applied the file; their rights count. At is the time of the apply.
	App, User string
	At        time.Time
}

// SelectionChange replaces selections of a namespace: those of entries of a file and of their copies, or all. The
// members are processes on hosts that match now. Released are those on hosts that match only the selections before: the
// hosts keep the processes, and are members no longer. Other members of a process that stays selected become former
// ones: they have come to match or ceased to match meanwhile.
type SelectionChange struct {
	Namespace string
	Entries   []string
	All       bool
	Now       []Selection
	Members   []ObservedKey
	Released  []ObservedKey
}

// FileSelections holds the selections in force. Task.Selections changes them together with a task.
type FileSelections interface {
	// PutSelections carries out a change. In the same transaction it stores the audit row, and a revision of the
	// namespace that changes no spec. The store numbers the revision. PutSelections returns ErrRevised if known is not
	// nil and not the latest revision.
	PutSelections(ctx context.Context, c SelectionChange, by Revision, known *ExpectedRevision, row AuditRow) error
	// ListSelections returns the selections of a namespace, or of all if it is empty, by process and selector.
	ListSelections(ctx context.Context, namespace string) ([]Selection, error)
}

// Upkeep is what the servers did last by themselves about a process on a host.
type Upkeep struct {
	Process process.ID
	Agent   string
	// Serial numbers the changes of the row, from 1.
	Serial int64
	upkeep.Memory
}

// ErrUpkept is returned if somebody else has changed a row of Upkeep in the meantime.
var ErrUpkept = errors.New("another server has done it already")

// Placement is the spec that a process has on a host by the latest revision, and who brought it.
type Placement struct {
	Process process.ID
	Agent   string
	// Revision brought the spec, and Task carries it out. The other fields are empty if the revision is not kept.
	Revision           int64
	Spec               *process.Spec
	Through, App, User string
	Task               string
	At                 time.Time
	// Filed tells that this is the spec that a file has for the host.
	Filed bool
	// Ended is the revision that ended it; nil if it is in force, or if that revision is not kept.
	Ended *Revision
}

// ByFile reports whether the way of a revision is a process file: an apply, its undo, an edit, or a selection in force.
func ByFile(through string) bool {
	return slices.Contains([]string{v1.ThroughApply, v1.ThroughUndo, v1.ThroughEdit, v1.ThroughSelection}, through)
}

// IsUndo reports whether the way of a revision is the undo of an apply.
func IsUndo(through string) bool { return through == v1.ThroughUndo }

// Upkeeping is the part of the store for what servers do by themselves.
type Upkeeping interface {
	// UpkeepOn returns the rows of agents, unordered.
	UpkeepOn(ctx context.Context, agents []string) ([]Upkeep, error)
	// PutUpkeep stores rows, all of them or none. The serial of each must be one higher than the stored one, from 1;
	// otherwise it returns ErrUpkept.
	PutUpkeep(ctx context.Context, rows []Upkeep) error
	// PlacedOn returns what is placed on agents now, unordered.
	PlacedOn(ctx context.Context, agents []string) ([]Placement, error)
	// LeftOn returns the processes that agents have although a file has removed them, unordered. Of the fields of a
	// placement, only Process, Agent, Revision and Ended are set.
	LeftOn(ctx context.Context, agents []string) ([]Placement, error)
	// BusyOn returns the processes of agents with unfinished items other than queries, unordered.
	BusyOn(ctx context.Context, agents []string) ([]ObservedKey, error)
	// TaskFaults calls fn for each finished item of the tasks on the agents. It skips unknown tasks.
	TaskFaults(ctx context.Context, tasks, agents []string,
		fn func(task string, of ObservedKey, fault process.Fault)) error
}

// Filings tells what files say of the processes of hosts.
type Filings interface {
	// RemovedOn returns the processes that should be on agents by a file, and that somebody removed other than by a
	// file, unordered.
	RemovedOn(ctx context.Context, agents []string) ([]ObservedKey, error)
	// FiledAs returns what a file placed last for a process on each of some agents, in force or not, unordered. An undo
	// takes a file back: then it is the file before, or none for what somebody had removed before the undo. FiledAs
	// leaves out agents on which no kept revision of a file has placed the process.
	FiledAs(ctx context.Context, id process.ID, agents []string) ([]Placement, error)
	// Unfiled returns the specs in force in a namespace that no file has, unordered. Of the fields of a placement, only
	// Process, Agent, Revision and Spec are set.
	Unfiled(ctx context.Context, namespace string) ([]Placement, error)
	// File makes placements of Unfiled those of a file, and takes the file back for processes of RemovedOn. It skips a
	// placement that is not in force any more, and a process that is there again.
	File(ctx context.Context, namespace string, placed []Placement, gone []ObservedKey) error
}
