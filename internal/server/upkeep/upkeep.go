// Package upkeep decides what the servers do by themselves so that a host has the processes of the latest file: when a
// host comes to match a selection or ceases to match it, when it missed an apply, and when a process has drifted. It
// does no I/O and owns no clock. Package upkeepdriver gives it facts and carries out its decisions.
//
// A change that a person made on one host stands: upkeep starts no process that somebody has stopped, and brings back
// no process that somebody has removed.
package upkeep

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"drover/internal/process"
)

// Member says whether a host has a process by a selection.
type Member string

// The values of Member. A leaving host no longer matches, and the process is being removed. A former host had the
// process by a selection that another one has replaced since: it joins that one, or leaves.
const (
	Outside Member = ""
	Joined  Member = "joined"
	Former  Member = "former"
	Leaving Member = "leaving"
)

// Memory is what the servers remember of a process on a host.
type Memory struct {
	Member Member
	// Goal names what the server last did, At is the time, and Tries counts the orders for that goal.
	Goal  string
	At    time.Time
	Tries int
}

// Reach says what became of the order that should bring a spec to a host.
type Reach uint8

// The values of Reach. An answered order was carried out, rejected or cancelled: nobody repeats it.
const (
	Unknown Reach = iota // the order is not kept any more
	Unreached
	Answered
)

// Case is what is known of a process on a host.
type Case struct {
	Memory
	// Standing is set if a selection has the process, and Selected if the host matches one. Chosen names that
	// selection: it differs after each apply.
	Standing, Selected bool
	Chosen             string
	// Stops is set if a host that ceases to match gives the process up.
	Stops bool
	// Placed is the revision that brought the spec of the process to the host; 0 means that the host should not have
	// the process. ByFile is set if a file brought it.
	Placed int64
	ByFile bool
	// Removed is the revision of a file that removed the process from the host; 0 if the process is placed, or if
	// somebody else removed it.
	Removed int64
	// Reach is what became of the order of that revision.
	Reach Reach
	// Behind is set if a file placed another spec there than the selection has, before the selection.
	Behind bool
	// Known is set if the host has the process, and Has is the revision of the spec there. Up is set if the process
	// runs or is watched.
	Known bool
	Has   int64
	Up    bool
	// Apply is what an apply of the wanted spec does on the host now; empty for nothing.
	Apply process.Op
	// OnDemand says that the server never starts the process.
	OnDemand bool
	// Drifted is what mends the running process; empty if there is nothing to mend.
	Drifted process.Op
	// Blocked is set if the host is away, or if something else is under way for the process.
	Blocked bool
}

// Decision is what to do.
type Decision struct {
	// Memory is what to remember, also if there is nothing to do.
	Memory Memory
	// Op is an order; empty for none. Removes tells that it is a part of the removal of the process.
	Op      process.Op
	Removes bool
	// Selected tells that the order brings the spec of the selection, not of the placement.
	Selected bool
}

const (
	// firstPause is the time between two orders for the same goal; each pause is twice as long as the one before, up to
	// longestPause.
	firstPause   = time.Minute
	longestPause = 24 * time.Hour
)

// The goals, each before the selection or the revision that it is about. A process is dropped that did not run, so a
// person may have stopped it.
const (
	goalJoin     = "join:"
	goalLeave    = "leave:"
	goalRemove   = "remove:"
	goalDrop     = "drop:"
	goalDeliver  = "deliver:"
	goalMend     = "mend:"
	goalAnswered = "answered:"
)

// Due returns when the next order for the same goal may follow.
func (m Memory) Due() time.Time {
	pause := firstPause
	for range min(m.Tries-1, 20) {
		pause *= 2
	}
	return m.At.Add(min(pause, longestPause))
}

// Decide decides about one process on one host.
func Decide(c Case, now time.Time) Decision {
	d := Decision{Memory: c.Memory}
	if c.missed() && c.Reach == Answered { // also on a host that is away: the order is not kept for ever
		d.Memory.Goal, d.Memory.Tries = numbered(goalAnswered, c.revision()), 0
	}
	if !c.Standing {
		d.Memory.Member = Outside
	}
	if c.Blocked {
		return d
	}
	switch {
	case c.Selected && c.Member != Joined:
		return join(c, d, now)
	case c.Standing && !c.Selected && c.Member != Outside:
		return leave(c, d, now)
	}
	return keep(c, d, now)
}

// missed reports whether the host should have another spec by a file, or should not have the process any more.
func (c *Case) missed() bool {
	if c.Placed == 0 {
		return c.Removed != 0 && c.Known
	}
	return c.ByFile && (!c.Known || c.Has < c.Placed)
}

// revision is the latest one for the process on the host.
func (c *Case) revision() int64 { return cmp.Or(c.Placed, c.Removed) }

func numbered(goal string, revision int64) string { return goal + strconv.FormatInt(revision, 10) }

// join gives the process to a host that has come to match.
func join(c Case, d Decision, now time.Time) Decision {
	if c.Placed != 0 && !c.Behind { // it had the process before, or a person gave it back
		d.Memory.Member = Joined
		return keep(c, d, now)
	}
	op := c.Apply
	if c.Member == Leaving && c.Known && !c.OnDemand && !strings.HasPrefix(c.Goal, goalDrop) {
		op = process.Start // the server has stopped it
	}
	if op == "" {
		d.Memory.Member = Joined
		return d
	}
	if d = order(c, d, op, goalJoin+c.Chosen, now); d.Op != "" {
		d.Memory.Member, d.Selected = Joined, true
	}
	return d
}

// leave takes the process from a host that has ceased to match.
func leave(c Case, d Decision, now time.Time) Decision {
	switch {
	case !c.Stops && c.Member != Leaving, !c.Known && c.Placed == 0,
		c.Member == Leaving && c.Placed != 0: // a person gave it back
		d.Memory.Member = Outside
		return d
	case c.Up:
		d = order(c, d, process.Stop, goalLeave+c.Chosen, now)
	case c.Member != Leaving || strings.HasPrefix(c.Goal, goalDrop):
		d = order(c, d, process.Unregister, goalDrop+c.Chosen, now)
	default:
		d = order(c, d, process.Unregister, goalRemove+c.Chosen, now)
	}
	if d.Op != "" {
		d.Memory.Member, d.Removes = Leaving, true
	}
	return d
}

// keep brings a spec or a removal to a host that has missed it, and mends a process.
func keep(c Case, d Decision, now time.Time) Decision {
	switch {
	case c.missed() && c.Placed == 0:
		return remove(c, d, now)
	case c.missed():
		if c.Apply != "" && d.Memory.Goal != numbered(goalAnswered, c.Placed) {
			return order(c, d, c.Apply, numbered(goalDeliver, c.Placed), now)
		}
	case c.Placed != 0 && c.ByFile && c.Drifted != "":
		return order(c, d, c.Drifted, numbered(goalMend, c.Placed), now)
	}
	return d
}

// remove takes a process from a host that has missed its removal. A host that matches a selection keeps it.
func remove(c Case, d Decision, now time.Time) Decision {
	switch {
	case c.Selected || d.Memory.Goal == numbered(goalAnswered, c.Removed):
		return d
	case c.Up:
		d = order(c, d, process.Stop, numbered(goalLeave, c.Removed), now)
	default:
		d = order(c, d, process.Unregister, numbered(goalRemove, c.Removed), now)
	}
	d.Removes = d.Op != ""
	return d
}

// BySelection reports whether an order is given for a selection.
func (d *Decision) BySelection() bool { return d.Selected || d.Removes && d.Memory.Member == Leaving }

// order adds an order, unless the server has tried the same too recently.
func order(c Case, d Decision, op process.Op, goal string, now time.Time) Decision {
	if c.Goal == goal && now.Before(c.Due()) {
		return d
	}
	if d.Memory.Tries++; c.Goal != goal || now.Sub(c.At) > 2*longestPause {
		d.Memory.Tries = 1
	}
	d.Op, d.Memory.Goal, d.Memory.At = op, goal, now
	return d
}
