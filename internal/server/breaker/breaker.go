// Package breaker decides when the relaunches of a process are withheld on all hosts, because too many hosts fail from
// one cause. It is pure: it does no I/O and owns no clock.
package breaker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"drover/internal/process"
)

// Rule says when a breaker opens and how long it stays open.
type Rule struct {
	// A breaker opens if more than Share of the hosts with one revision of a process, and at least Least hosts, fail
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

// Trip is the opening of a breaker.
type Trip struct {
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
		of = fmt.Sprintf(" with revision %d", t.Revision)
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

// Judge decides whether the failures of a process open its breaker. hosts are the agents that keep the process running,
// with the revision of its spec. closed is the time of the last closing, zero if there was none. If several revisions
// fail, the trip is of the one that most hosts have: a few hosts cannot hide it.
func (r Rule) Judge(failures []Failure, hosts map[string]int64, closed, now time.Time) (t Trip, open bool) {
	total := map[int64]int{}
	for _, revision := range hosts {
		total[revision]++
	}
	type common struct {
		revision int64
		cause    process.CauseID
	}
	failed := map[common]map[string]bool{}
	for _, f := range r.recent(failures, closed, now) {
		revision, known := hosts[f.Agent]
		if !known {
			continue
		}
		c := common{revision, f.Cause}
		if failed[c] == nil {
			failed[c] = map[string]bool{}
		}
		failed[c][f.Agent] = true
		n := len(failed[c])
		if n >= r.Least && float64(n) > r.Share*float64(total[revision]) && total[revision] >= t.Hosts {
			t = Trip{Revision: revision, Cause: f.Cause, Failed: n, Hosts: total[revision], Last: f.Agent, At: f.At}
			open = true
		}
	}
	return t, open
}
