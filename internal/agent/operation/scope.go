package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/record"
	"drover/internal/clip"
	"drover/internal/process"
)

// Trees is the host as far as trees of processes go.
type Trees interface {
	// EndTree ends everything in a scope. With a grace, it sends SIGTERM first and SIGKILL after the grace. It returns
	// the processes that it ended besides the root, and the pids that it could not end. It returns ErrBestEffort if it
	// found no more processes but has no proof that none is left.
	EndTree(ctx context.Context, s instance.Scope, grace time.Duration) (ended []liveness.Member, left []int, err error)
	// Members returns the members of a scope that the control group of its run does not hold: they are recognisable
	// only while their parents live.
	Members(s instance.Scope) []instance.Identity
	// Survivors returns the live members of a scope.
	Survivors(s instance.Scope) []instance.Identity
	// RunOf returns the run that a process was born in; empty when it was none of ours.
	RunOf(id instance.Identity) string
	// RunsOf returns the runs that have a control group and whose ids have a prefix.
	RunsOf(prefix string) []string
	// Copies returns the processes that may be the process of the spec, by ascending pid. They were born in no run of a
	// drover, or in a run of this drover that is not kept. If pid is not 0, it returns the process with
	// that pid or none, or the children of -pid: their command lines and directories do not count.
	Copies(spec *process.Spec, pid int, kept func(run string) bool) []instance.UnwatchedCopy
}

// runPrefix is the start of the run ids of a process.
func runPrefix(id process.ID) string { return process.Hash(id)[:12] + "-" }

// RunPrefix is the beginning of the ids of the runs of a process. It is as long as any other.
func RunPrefix(id process.ID) string { return runPrefix(id) }

// PrefixOf is the RunPrefix of the process that a run belongs to.
func PrefixOf(run string) string { return run[:min(len(run), len(runPrefix(process.ID{})))] }

// NewRunID returns the id of a run of the process; unique sets it apart from its other runs: lower-case letters and
// digits. The id begins with a hash of the process, for people who look into the control groups.
func NewRunID(id process.ID, unique string) string { return runPrefix(id) + unique }

// processSuffix ends the id of a run whose command is the process itself.
const processSuffix = "-p"

// runOwnerKnown returns a function that reports whether drover knows the process that a run belongs to. drover knows
// the process of the operation if that process has run since it was registered.
func (n *session) runOwnerKnown() func(run string) bool {
	self, ran := runPrefix(n.id), n.subject.Record != nil && (n.runtime.Run != "" || n.runtime.LastStartAt != 0)
	return func(run string) bool {
		prefix := PrefixOf(run)
		return prefix == self && ran || prefix != self && n.peers.Knows(prefix)
	}
}

// scopeOf is the scope of an instance and its run.
func (n *session) scopeOf(root instance.Identity, run string) instance.Scope {
	return instance.Scope{
		Root: root, Run: run, LeftoverRuns: n.leftBy(false), FormerMembers: n.progress.Members, Spared: n.others,
	}
}

// noteLeft records a command around the process that has left processes behind: they end with the process. It drops the
// commands whose processes have ended.
func (n *session) noteLeft(st *record.Step) {
	if n.spec.Compat != nil || n.mainOnly() || n.starts(st) || slices.Contains(n.runtime.LeftoverRuns, st.Run) {
		return
	}
	runs := append(slices.Clone(n.runtime.LeftoverRuns), st.Run)
	n.runtime.LeftoverRuns = slices.DeleteFunc(runs, func(run string) bool {
		return len(n.Trees.Survivors(instance.Scope{LeftoverRuns: []string{run}})) == 0
	})
}

// leftBy returns the runs of noteLeft: that of the before_start of this operation, or those of all other commands. What
// its before_start has left belongs to the instance to come.
func (n *session) leftBy(beforeStart bool) []string {
	st := n.step(stepBeforeStart)
	return slices.DeleteFunc(slices.Clone(n.runtime.LeftoverRuns), func(run string) bool {
		return (st != nil && st.Run == run) != beforeStart
	})
}

// endLeft ends what commands around the process have left in these runs.
func (n *session) endLeft(runs []string) {
	if len(runs) == 0 {
		return
	}
	if problem, _ := n.endScope(instance.Scope{LeftoverRuns: runs, Spared: n.others}, 0); problem != "" {
		n.Log.Warn("commands around a process have left processes behind", "process", n.id, "left", problem)
	}
}

// others returns the members of among that belong to another process of this agent.
func (n *session) others(among []instance.Identity) []instance.Identity {
	return n.peers.Claimed(n.id, among)
}

// mainOnly reports whether an end of the process spares the rest of its run.
func (n *session) mainOnly() bool { return n.spec.Scope() == process.ScopeProcess }

// recordMembers records the members of the instance before it is ended or replaced: afterwards nobody can tell them. It
// keeps the members that an earlier entry of the operation recorded.
func (n *session) recordMembers(target instance.Identity) {
	if n.mainOnly() {
		return
	}
	noted := n.progress.Members
	members := n.Trees.Members(instance.Scope{Root: target, Run: n.runOf(target)})
	if n.spec.Instances() > 1 {
		members = append(members, n.find().Instances...)
	}
	for _, id := range members {
		if id != target && !slices.Contains(noted, id) {
			noted = append(noted, id)
		}
	}
	if len(noted) > len(n.progress.Members) {
		n.progress.Members = noted
		n.save()
	}
}

// spared names the processes of the run that the end of its main process leaves, by the stop scope of the spec; empty
// if there are none.
func (n *session) spared(target instance.Identity, run string) string {
	var left []liveness.Member
	for _, id := range n.Trees.Survivors(n.scopeOf(target, run)) {
		if i, _, err := n.Processes.Instance(id); err == nil && id != target {
			left = append(left, liveness.Member{Identity: id, Command: clip.Marked(i.Cmdline, maxNamedLine, " ...")})
		}
	}
	return endedText("stop_scope: process leaves these running", left)
}

// endTime is how long drover waits for the end of a tree after SIGKILL.
const endTime = 5 * time.Second

// endScope ends everything in a scope. It appends the ended processes to n.ended. problem says what is left, empty if
// drover knows of nothing; proven says that nothing can be left.
func (n *session) endScope(s instance.Scope, grace time.Duration) (problem string, proven bool) {
	// A stopping agent finishes this first, because half an ended tree helps nobody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), max(grace, 0)+endTime)
	defer cancel()
	ended, left, err := n.Trees.EndTree(ctx, s, max(grace, 0))
	n.ended = append(n.ended, ended...)
	if len(left) == 0 && (err == nil || errors.Is(err, instance.ErrBestEffort)) {
		n.runtime.LeftoverRuns = slices.DeleteFunc(slices.Clone(n.runtime.LeftoverRuns), func(run string) bool {
			return slices.Contains(s.LeftoverRuns, run)
		})
	}
	switch {
	case len(left) > 0:
		return fmt.Sprintf("could not end pids %v", left), false
	case errors.Is(err, instance.ErrBestEffort):
		return "", false
	case err != nil:
		return fmt.Sprintf("cannot verify that all its processes ended: %v", err), false
	}
	return "", true
}

// endCommand ends a command of drover with every process that it started.
func (n *session) endCommand(child instance.Identity, run string) (problem string, proven bool) {
	return n.endScope(instance.Scope{Root: child, Run: run, Spared: n.others}, 0)
}

// endRemains ends the leftovers of the last instance, for example workers that still hold the port of a killed master.
func (n *session) endRemains(grace time.Duration) (problem string) {
	none := n.runtime.Ended == nil && n.runtime.Run == "" && len(n.runtime.LeftoverRuns) == 0
	if n.mainOnly() || n.runtime.Process != nil || none {
		return ""
	}
	var root instance.Identity
	if n.runtime.Ended != nil {
		root = *n.runtime.Ended
	}
	problem, _ = n.endScope(n.scopeOf(root, n.runtime.Run), grace)
	return problem
}

// EndRemains ends the leftovers of the last instance of a process that was to be stopped. It returns the processes
// that it ended, and in words what it could not end.
func (o *Operator) EndRemains(ctx context.Context, id process.ID, spec *process.Spec,
	s Subject,
) (ended []liveness.Member, problem string) {
	n := &session{Operator: o, ctx: ctx, id: id, op: process.Stop, spec: spec, subject: s, runtime: s.Runtime}
	problem = n.endRemains(spec.StopCheck()) //nolint:contextcheck // the session carries it
	return n.ended, problem
}

// maxNamed is how many ended processes a text names.
const maxNamed = 10

// EndedText says in words which leftovers of a run drover ended; empty if there were none.
func EndedText(ended []liveness.Member) string {
	return endedText("drover ended the leftovers of its run", ended)
}

func endedText(what string, ended []liveness.Member) string {
	if len(ended) == 0 {
		return ""
	}
	var names []string
	for _, m := range ended[:min(len(ended), maxNamed)] {
		names = append(names, fmt.Sprintf("pid %d (%s)", m.PID, m.Command))
	}
	if more := len(ended) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return what + ": " + strings.Join(names, ", ")
}
