// Package breaker decides when the relaunches of a process are withheld on all hosts, because too many hosts fail from
// one cause. It is pure: it does no I/O and owns no clock.
package breaker

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"drover/internal/process"
)

// Rule says when a breaker opens and how long it stays open.
type Rule struct {
	// A breaker opens if more than Share of the hosts with one release of a process, and at least Least hosts, fail
	// from one cause within Window.
	Share  float64
	Least  int
	Window time.Duration
	// Hold is the time after which it closes by itself.
	Hold time.Duration
}

// Default returns the rule of drover. A batch of a rollout has 10 % of the hosts as a rule, and a rack rarely more than
// 20 %: 30 % is beyond both. With fewer than five hosts, people see the failures as fast as drover. In a minute, two or
// three relaunches of a crash loop are over, and a load on what the processes share is visible. Five minutes let a
// database recover; a person who is faster resets the breaker.
func Default() Rule {
	return Rule{Share: 0.3, Least: 5, Window: time.Minute, Hold: 5 * time.Minute}
}

// Failure is the end of an instance, or a failed relaunch, that nobody asked for.
type Failure struct {
	Agent string
	Cause process.CauseID
	At    time.Time
}

// FailureKinds returns the kinds of events that may be failures.
func FailureKinds() []process.EventKind {
	return []process.EventKind{process.EventExited, process.EventRelaunchFailed, process.EventUnhealthy}
}

// Of returns the failure that an event tells; ok is false if it tells none. The end of a host, and an end that nobody
// saw, have no cause in the process: a relaunch is the right answer to both.
func Of(agent string, e *process.Event) (f Failure, ok bool) {
	harmless := []process.CauseID{
		"", process.CauseRebooted, process.CauseUnseen, process.CauseFinished, process.CauseBreakerOpen, process.CausePolicy,
	}
	counts := slices.Contains(FailureKinds(), e.Kind) && e.To != process.StateFinished
	if !counts || slices.Contains(harmless, e.Cause.ID) {
		return Failure{}, false
	}
	return Failure{Agent: agent, Cause: e.Cause.ID, At: time.UnixMilli(e.At)}, true
}

// Host is an agent that keeps a process running, with the revision and the digest of its spec.
type Host struct {
	Agent    string
	Revision int64
	Digest   string
}

// Hosts are the hosts that keep a process running, by releases. Hosts have the same release if they have the same
// revision, or equal specs: each batch of a rollout is a revision of its own.
type Hosts struct {
	revisions map[string]int64
	releases  map[int64]int64 // the latest revision of the release of each revision
	counts    map[int64]int   // by release
}

// NewHosts returns the releases of hosts.
func NewHosts(list []Host) Hosts {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Host) int { return cmp.Compare(b.Revision, a.Revision) }) // the latest first
	h := Hosts{revisions: map[string]int64{}, releases: map[int64]int64{}, counts: map[int64]int{}}
	latest := map[string]int64{} // by digest
	var root func(revision int64) int64
	root = func(revision int64) int64 {
		if up, joined := h.releases[revision]; joined && up != revision {
			return root(up)
		}
		return revision
	}
	for _, one := range list {
		h.revisions[one.Agent] = one.Revision
		if _, known := latest[one.Digest]; !known {
			latest[one.Digest] = one.Revision
		}
		a, b := root(latest[one.Digest]), root(one.Revision)
		h.releases[min(a, b)], h.releases[max(a, b)] = max(a, b), max(a, b)
	}
	for revision := range h.releases {
		h.releases[revision] = root(revision)
	}
	for agent := range h.revisions {
		h.counts[h.Release(h.revisions[agent])]++
	}
	return h
}

// Agents returns the agents, unordered.
func (h Hosts) Agents() iter.Seq[string] { return maps.Keys(h.revisions) }

// Revision returns the revision that an agent has.
func (h Hosts) Revision(agent string) int64 { return h.revisions[agent] }

// Release returns the latest revision of the release to which a revision belongs; it is the revision itself if no host
// has that.
func (h Hosts) Release(revision int64) int64 {
	if release, known := h.releases[revision]; known {
		return release
	}
	return revision
}

// Count returns how many hosts have the release to which a revision belongs.
func (h Hosts) Count(revision int64) int { return h.counts[h.Release(revision)] }

// Trip is the opening of a breaker.
type Trip struct {
	// Revision is the latest one of the release that fails.
	Revision int64
	Cause    process.CauseID
	// Failed of Hosts failed; Last is the agent that failed last, at At.
	Failed, Hosts int
	Last          string
	At            time.Time
}

// String describes the trip in a clause.
func (t Trip) String() string {
	of := ""
	if t.Revision != 0 {
		of = fmt.Sprintf(" with the spec of revision %d", t.Revision)
	}
	return fmt.Sprintf("%d of %d hosts%s failed [%s]", t.Failed, t.Hosts, of, t.Cause)
}

// recent returns the failures that count at a time, oldest first: within the window, and after the last closing.
func (r Rule) recent(failures []Failure, closed, now time.Time) []Failure {
	var list []Failure
	for _, f := range failures {
		if f.At.After(now.Add(-r.Window)) && f.At.After(closed) && !f.At.After(now) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b Failure) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Cause, b.Cause))
	})
	return list
}

// Suspect reports whether enough hosts fail from one cause to look at the hosts of the process.
func (r Rule) Suspect(failures []Failure, closed, now time.Time) bool {
	hosts := map[process.CauseID]map[string]bool{}
	for _, f := range r.recent(failures, closed, now) {
		if hosts[f.Cause] == nil {
			hosts[f.Cause] = map[string]bool{}
		}
		hosts[f.Cause][f.Agent] = true
		if len(hosts[f.Cause]) >= r.Least {
			return true
		}
	}
	return false
}

// Judge decides whether the failures of a process open its breaker. closed is the time of the last closing, zero if
// there was none. If several releases fail, the trip is of the one that most hosts have: a few hosts cannot hide it.
func (r Rule) Judge(failures []Failure, hosts Hosts, closed, now time.Time) (t Trip, open bool) {
	type common struct {
		release int64
		cause   process.CauseID
	}
	failed := map[common]map[string]bool{}
	for _, f := range r.recent(failures, closed, now) {
		revision, known := hosts.revisions[f.Agent]
		if !known {
			continue
		}
		c := common{hosts.Release(revision), f.Cause}
		if failed[c] == nil {
			failed[c] = map[string]bool{}
		}
		failed[c][f.Agent] = true
		n, total := len(failed[c]), hosts.Count(c.release)
		if n >= r.Least && float64(n) > r.Share*float64(total) && total >= t.Hosts {
			t = Trip{Revision: c.release, Cause: f.Cause, Failed: n, Hosts: total, Last: f.Agent, At: f.At}
			open = true
		}
	}
	return t, open
}
