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
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// Trees is the host as far as trees of processes go.
type Trees interface {
	// EndTree ends everything in a scope. With a grace, SIGTERM comes first and SIGKILL so much later. It returns what
	// it has ended besides the root, the pids of what could not be ended, and ErrBestEffort when nothing was found any
	// more but nothing proves that nothing is left.
	EndTree(ctx context.Context, s instance.Scope, grace time.Duration) (ended []liveness.Member, left []int, err error)
	// Members returns who belongs to a scope and is not held by the control group of its run: they can be told only
	// while their parents live.
	Members(s instance.Scope) []procfs.Identity
	// Survivors returns who lives of a scope.
	Survivors(s instance.Scope) []procfs.Identity
	// RunOf returns the run that a process was born in; empty when it was none of ours.
	RunOf(id procfs.Identity) string
}

// runPrefix is how the ids of the runs of a process begin.
func runPrefix(id process.ID) string { return process.Hash(id)[:12] + "-" }

// NewRunID returns the id of a run of the process; unique sets it apart from its other runs: lower-case letters and
// digits. The id begins with a hash of the process, for people who look into the control groups.
func NewRunID(id process.ID, unique string) string { return runPrefix(id) + unique }

// scopeOf is the scope of an instance with its run.
func (n *session) scopeOf(root procfs.Identity, run string) instance.Scope {
	return instance.Scope{Root: root, Run: run, Noted: n.progress.Noted, Spared: n.others}
}

// others returns those of the processes that another process of this agent is.
func (n *session) others(among []procfs.Identity) []procfs.Identity {
	return n.peers.Claimed(n.id, among)
}

// mainOnly reports whether an end of the process leaves alone what its run consists of besides.
func (n *session) mainOnly() bool { return n.spec.StopScope() == process.ScopeProcess }

// note takes down who belongs to the instance before it is ended or replaced: afterwards nobody could tell. Who has
// been noted by an earlier entry of the operation stays so.
func (n *session) note(target procfs.Identity) {
	if n.mainOnly() {
		return
	}
	noted := n.progress.Noted
	members := n.Trees.Members(instance.Scope{Root: target, Run: n.runOf(target)})
	if n.spec.Policy.Instances > 1 {
		members = append(members, n.Look(n.id, n.spec, n.runtime).Instances...)
	}
	for _, id := range members {
		if id != target && !slices.Contains(noted, id) {
			noted = append(noted, id)
		}
	}
	if len(noted) > len(n.progress.Noted) {
		n.progress.Noted = noted
		n.save()
	}
}

// endTime is how long the end of a tree is waited for after SIGKILL.
const endTime = 5 * time.Second

// endScope ends what is in a scope and says in words what is left of it, empty when nothing is known to be; proven says
// that nothing can be. What has been ended is on the session's list.
func (n *session) endScope(s instance.Scope, grace time.Duration) (problem string, proven bool) {
	// An agent that is told to stop finishes this first: half an ended tree helps nobody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), max(grace, 0)+endTime)
	defer cancel()
	ended, left, err := n.Trees.EndTree(ctx, s, max(grace, 0))
	n.ended = append(n.ended, ended...)
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

// endCommand ends a command of ours with all that it has started.
func (n *session) endCommand(child procfs.Identity, run string) (problem string, proven bool) {
	return n.endScope(instance.Scope{Root: child, Run: run, Spared: n.others}, 0)
}

// endRemains ends what has outlived the last instance of the process: workers that outlived a killed master hold its
// port.
func (n *session) endRemains(grace time.Duration) (problem string) {
	if n.mainOnly() || n.runtime.Process != nil || n.runtime.Ended == nil && n.runtime.Run == "" {
		return ""
	}
	var root procfs.Identity
	if n.runtime.Ended != nil {
		root = *n.runtime.Ended
	}
	problem, _ = n.endScope(n.scopeOf(root, n.runtime.Run), grace)
	return problem
}

// EndRemains ends what has outlived the last instance of a process that was to be stopped. It returns what it has
// ended, and in words what could not be.
func (o *Operator) EndRemains(ctx context.Context, id process.ID, spec *process.Spec,
	s Subject,
) (ended []liveness.Member, problem string) {
	n := &session{Operator: o, ctx: ctx, id: id, op: process.Stop, spec: spec, subject: s, runtime: s.Runtime}
	problem = n.endRemains(seconds(spec.Policy.StopCheck)) //nolint:contextcheck // the session carries it
	return n.ended, problem
}

// maxNamed is how many ended processes are named.
const maxNamed = 10

// EndedText says in words what a run had left behind and was ended; empty where there was nothing.
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
