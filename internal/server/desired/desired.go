// Package desired compares the records on an agent's disk with the records that the agent confirmed earlier, and
// decides which are authoritative. It is pure: it owns no clock, no database and no connection, and it does not know
// what a spec says.
//
// An agent numbers all changes of its records, removals too, and never goes back. So the latest number identifies a
// disk, and a record has a number of its own. For changes that the agent's disk has seen, the agent is the authority.
// For later changes, which an old copy or an empty disk has missed, the server is the authority.
package desired

import (
	"cmp"
	"slices"

	"drover/internal/process"
)

// Disk describes an agent's disk as the agent reports it.
type Disk struct {
	// Revision is the revision of the latest change.
	Revision uint64
	Records  map[process.ID]uint64
}

// Confirmed is the highest revision of a process that the agent has reported to the server. Gone means that this
// revision was its removal.
type Confirmed struct {
	Process  process.ID
	Revision uint64
	Gone     bool
}

// Verdict is the result of a comparison.
type Verdict struct {
	// Forget are the processes that the agent has and should not have, in the order of their ids.
	Forget []Confirmed
	// Restore are the processes whose record the agent lacks or has in an older version, in the order of their
	// revisions. So an agent that has stored all records up to a revision may report that revision.
	Restore []Confirmed
	// Removed are the processes that the agent has removed unknown to the server, in the order of their ids. All were
	// removed at the revision that the disk reports or before.
	Removed []Confirmed
	// Reached is the highest revision of all: the agent must not begin again below it.
	Reached uint64
}

// Settled reports whether the agent has all that it should have.
func (v Verdict) Settled() bool { return len(v.Forget)+len(v.Restore) == 0 }

// Compare decides, for each process that the server or the agent knows.
func Compare(confirmed []Confirmed, disk Disk) Verdict {
	var v Verdict
	for _, c := range confirmed {
		v.Reached = max(v.Reached, c.Revision)
		has, known := disk.Records[c.Process]
		switch {
		case c.Gone:
			if known && has <= c.Revision {
				v.Forget = append(v.Forget, c)
			}
		case known:
			if has < c.Revision {
				v.Restore = append(v.Restore, c)
			}
		case c.Revision > disk.Revision:
			v.Restore = append(v.Restore, c)
		default:
			v.Removed = append(v.Removed, c)
		}
	}
	slices.SortFunc(v.Forget, byProcess)
	slices.SortFunc(v.Removed, byProcess)
	slices.SortFunc(v.Restore, func(a, b Confirmed) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), byProcess(a, b))
	})
	return v
}

func byProcess(a, b Confirmed) int {
	return cmp.Or(cmp.Compare(a.Process.Namespace, b.Process.Namespace), cmp.Compare(a.Process.Name, b.Process.Name))
}
