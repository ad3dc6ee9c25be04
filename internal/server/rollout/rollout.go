// Package rollout decides how an operation spreads over hosts in batches: when the next batch begins, which hosts
// count as failed, and when the rollout stops itself. It does no I/O and owns no clock. Package rolloutdriver gives it
// facts and carries out its decisions; the store keeps its values.
package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
)

// State is the state of a rollout.
type State string

// The states of a rollout. A scheduled rollout begins at its time. A held rollout waits for the approval of a person.
// A paused rollout begins no batch until a person resumes it; it is done once no host of it waits or goes on. Done and
// aborted rollouts have ended; a person can retry the failed hosts of a done one.
const (
	Scheduled State = v1.RolloutScheduled
	Running   State = v1.RolloutRunning
	Held      State = v1.RolloutHeld
	Paused    State = v1.RolloutPaused
	Done      State = v1.RolloutDone
	Aborted   State = v1.RolloutAborted
)

// Active reports whether a rollout in this state may still begin a batch.
func (s State) Active() bool { return s != Done && s != Aborted }

// HostState is the state of one host in a rollout.
type HostState string

// The states of a host. A begun host has been ordered to carry out the operation, a baking host has succeeded and is
// observed. Skipped hosts were certainly not affected.
const (
	Waiting   HostState = "waiting"
	Begun     HostState = "begun"
	Baking    HostState = "baking"
	Succeeded HostState = "ok"
	Failed    HostState = "failed"
	Skipped   HostState = "skipped"
)

// CauseAway is the cause of hosts that are not connected. CauseCancelled is the cause of hosts whose operation was
// cancelled before it began.
const (
	CauseAway      = v1.RolloutCauseAway
	CauseCancelled = v1.RolloutCauseCancelled
	// CauseOther is the cause of hosts that are not needed, because another one has the operation.
	CauseOther = "other"
	// CauseAborted is the cause of hosts whose batch had not begun when somebody aborted the rollout.
	CauseAborted = "aborted"
	// CauseChanged is the cause of hosts that keep what somebody has placed there since the plan.
	CauseChanged = v1.RolloutCauseChanged
)

const (
	// settleTime is how long after the bake a process may still start or stop.
	settleTime = 10 * time.Second
	// latest is how long after its time a scheduled rollout still begins by itself.
	latest = time.Hour
)

// Plan says how a rollout proceeds.
type Plan struct {
	v1.RolloutPlan
	// Judged is set if the processes must run after the operation.
	Judged bool `json:"judged,omitempty"`
	// Breadth is the number of hosts that the rollout may reach without an approval; 0 means all, and NoHost none. If
	// several rollouts of one call share a number, Shared is that number.
	Breadth int `json:"breadth,omitempty"`
	Shared  int `json:"shared,omitempty"`
	// Unproven tells that an app has named the user who began the rollout. Nobody knows who that was, so that it counts
	// as no person.
	Unproven bool `json:"unproven,omitempty"`
	// OneOf carries out the operation on one host: the next host follows only after one that certainly never begins it.
	// AgainWhenLost also goes on after a host that may have begun it and is not connected.
	OneOf         bool `json:"one_of,omitempty"`
	AgainWhenLost bool `json:"again_when_lost,omitempty"`
	// NotUndone tells that the undo that the plan asks for was refused. The reason of the rollout says why.
	NotUndone bool `json:"not_undone,omitempty"`
}

// NoHost is a Breadth.
const NoHost = -1

// Host is one host of a rollout. Its name never changes.
type Host struct {
	Agent string
	// Name is the host in the form that callers see.
	Name string
	// Steps are the places of its operations in the list of the rollout, in their order.
	Steps []int
	// Batch is the number of its batch, from 0. A retry gives the host a new batch.
	Batch int
	State HostState
	// Begun is the time at which its last batch began; zero if none has. A retry keeps it.
	Begun time.Time
	// Cause groups failures; Text says more.
	Cause, Text string
}

// final reports whether a host changes no more by itself.
func (h *Host) final() bool {
	return h.State == Succeeded || h.State == Failed || h.State == Skipped
}

// Rollout is the state of a rollout.
type Rollout struct {
	State State
	// Reason says why the rollout is paused, is held or waits.
	Reason string
	Plan   Plan
	// At is the time at which a scheduled rollout begins; zero if it has begun at once.
	At time.Time
	// Approvals are what persons have approved.
	Approvals Approvals
	// Batch is the number of the batch that began last; -1 if none has begun.
	Batch int
	// Settled is the time at which every host of that batch had its outcome; zero before that.
	Settled time.Time
	// Forgiven is the number of failed hosts that a person has accepted by a resume or a retry.
	Forgiven int
	Hosts    []Host
}

// Approvals are what persons have approved of a rollout.
type Approvals struct {
	// Canaries tells that the rollout may go on after its canaries, and Breadth that it may reach all hosts.
	Canaries bool `json:"canaries,omitempty"`
	Breadth  bool `json:"breadth,omitempty"`
	// FailedCanaries is the number of failed canaries that a person has accepted by a resume or a retry.
	FailedCanaries int `json:"failed_canaries,omitempty"`
	// By are the names of the persons, and At the times of their first approvals.
	By []string    `json:"by,omitempty"`
	At []time.Time `json:"at,omitempty"`
}

// New returns a rollout over hosts in their order, with a batch for every host. It begins at a time; zero means at
// once.
func New(p Plan, at time.Time, hosts []Host) Rollout {
	r := Rollout{State: Running, Plan: p, At: at, Batch: -1, Hosts: slices.Clone(hosts)}
	if !at.IsZero() {
		r.State = Scheduled
	}
	canary := min(p.Canary, len(hosts))
	size, first := r.batchSize(), 0
	if canary > 0 {
		first = 1
	}
	for i := range r.Hosts {
		r.Hosts[i].State, r.Hosts[i].Batch = Waiting, 0
		if i >= canary {
			r.Hosts[i].Batch = first + (i-canary)/size
		}
	}
	return r
}

func (r *Rollout) batchSize() int { return max(1, r.Plan.Batch.Of(len(r.Hosts))) }

// Fact is what is known about a host of the batch Batch.
type Fact struct {
	Batch int
	// Done tells that the operation has its outcome: Fault and Text.
	Done  bool
	Fault process.Fault
	Text  string
	// Untouched tells that the host was never sent the operation: with the fault AgentUnavailable because it was away,
	// without a fault because it had nothing to do.
	Untouched bool
	// Changed tells, with the fault Cancelled, that the host keeps what somebody has placed there since the plan.
	Changed bool
	// Away tells that the host is not connected.
	Away bool
	// Health is the state of its processes, and Cause the name of a state that is not Well.
	Health Health
	Cause  string
	// Up tells that all of its processes run, and Looked that somebody has looked. Only Plan.MaxUnavailable needs them,
	// of hosts in every state.
	Up, Looked bool
}

// Health is a judgement about the processes of a host.
type Health int

// The judgements. Unsettled processes start or stop.
const (
	Unsettled Health = iota
	Well
	Unwell
)

// Step returns the rollout after facts about its hosts, by agent. A host that becomes Begun is to get the operation
// of its batch, once. Except for Up, a fact about another batch is ignored.
func Step(r Rollout, facts map[string]Fact, now time.Time) Rollout {
	r.Hosts = slices.Clone(r.Hosts)
	former := r.exceeded()
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if f, known := facts[h.Agent]; known && f.Batch == h.Batch {
			r.learn(h, f, now)
		}
	}
	if r.Batch >= 0 && r.Settled.IsZero() && r.count(Begun) == 0 {
		r.Settled = now
	}
	if r.State == Scheduled && !now.Before(r.At) {
		if r.State = Running; now.After(r.At.Add(latest)) {
			r.State, r.Reason = Paused, "no server ran at its time, "+r.At.Format(time.RFC3339)
		}
	}
	if r.State != Running && r.State != Paused {
		return r
	}
	if r.Plan.OneOf {
		r.leaveOthers()
	}
	next, more := r.nextBatch()
	resting := r.count(Begun)+r.count(Baking) == 0
	if resting && !more && !r.undone() { // also a paused one: it has nothing left to go on with
		if !r.Plan.NotUndone {
			r.Reason = ""
		}
		r.State = Done
		return r
	}
	if r.State == Paused {
		r.renew(former)
		return r
	}
	if reason := r.exceeded(); reason != "" && !r.Plan.OneOf {
		r.State, r.Reason = Paused, reason
		return r
	}
	if !resting {
		return r
	}
	if r.Batch >= 0 && now.Before(r.Settled.Add(time.Duration(r.Plan.Bake+r.Plan.Pause))) {
		return r
	}
	if reason := r.unapproved(next); reason != "" {
		r.State, r.Reason = Held, reason
		return r
	}
	r.begin(next, facts, now)
	return r
}

// leaveOthers leaves out the hosts that wait, if one host has or may have carried out the operation, or if somebody has
// cancelled it.
func (r *Rollout) leaveOthers() {
	taken := ""
	for i := range r.Hosts {
		switch h := &r.Hosts[i]; {
		case h.State == Begun || h.State == Waiting || h.State == Skipped && h.Cause != CauseCancelled:
		case h.State == Failed && h.Cause == CauseAway && r.Plan.AgainWhenLost:
		default:
			taken = h.Name
		}
	}
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.State == Waiting && taken != "" {
			h.State, h.Cause, h.Text = Skipped, CauseOther, "it was the turn of "+taken
		}
	}
}

// unapproved returns why a person must approve the rollout before a batch; empty if nobody needs to.
func (r *Rollout) unapproved(next int) string {
	reached, size := 0, 0
	for i := range r.Hosts {
		switch h := &r.Hosts[i]; {
		case h.State != Waiting:
			reached++
		case h.Batch == next:
			size++
		}
	}
	switch failed := r.failedCanaries(); {
	case r.Plan.CanaryApproval && !r.canary(next) && !r.Approvals.Canaries && failed > 0:
		return fmt.Sprintf("%d of %d canaries failed: waits for the approval of a person", failed,
			min(r.Plan.Canary, len(r.Hosts)))
	case r.Plan.CanaryApproval && !r.canary(next) && !r.Approvals.Canaries:
		return "the canaries are well: waits for the approval of a person"
	case r.Plan.Breadth != 0 && reached+size > r.Plan.Breadth && !r.Approvals.Breadth:
		many := fmt.Sprintf("more than %d hosts", cmp.Or(r.Plan.Shared, r.Plan.Breadth))
		if r.Plan.Shared > 0 {
			many += " in all rollouts of the apply"
		}
		if r.Plan.Unproven {
			return many + ": waits for the approval of two persons, because an app began it"
		}
		return many + ": waits for the approval of a second person"
	}
	return ""
}

// canaries are the first hosts of the plan.
func (r *Rollout) canaries() []Host { return r.Hosts[:min(r.Plan.Canary, len(r.Hosts))] }

// canary reports whether a batch that waits has canaries. They come before all other hosts.
func (r *Rollout) canary(batch int) bool {
	return slices.ContainsFunc(r.canaries(), func(h Host) bool { return h.State == Waiting && h.Batch == batch })
}

// trying reports whether some canaries have no final state yet.
func (r *Rollout) trying() bool {
	return slices.ContainsFunc(r.canaries(), func(h Host) bool { return !h.final() })
}

func (r *Rollout) failedCanaries() (n int) {
	for _, h := range r.canaries() {
		if h.State == Failed {
			n++
		}
	}
	return n
}

// learn applies a fact to a host.
func (r *Rollout) learn(h *Host, f Fact, now time.Time) {
	switch {
	case h.State == Begun && f.Done:
		h.outcome(f, r.Plan.SkipAway)
	case h.State == Baking && r.Plan.Judged && f.Health == Unwell:
		h.fail(f.Cause, f.Text)
	}
	if h.State != Baking || r.Settled.IsZero() || now.Before(r.Settled.Add(time.Duration(r.Plan.Bake))) {
		return
	}
	switch {
	case !r.Plan.Judged || f.Health == Well && !f.Away:
		h.State = Succeeded
	case f.Away:
		h.fail(CauseAway, "the host is not connected at the end of the bake")
	case !now.Before(r.Settled.Add(time.Duration(r.Plan.Bake) + settleTime)):
		h.fail(f.Cause, f.Text)
	}
}

// outcome applies the outcome of the operation.
func (h *Host) outcome(f Fact, skipAway bool) {
	switch {
	case f.Fault == process.None && f.Untouched:
		h.State = Succeeded
	case f.Fault == process.None:
		h.State = Baking
	case f.Fault == process.Cancelled && f.Changed:
		h.State, h.Cause, h.Text = Skipped, CauseChanged, f.Text
	case f.Fault == process.Cancelled:
		h.State, h.Cause, h.Text = Skipped, CauseCancelled, f.Text
	case f.Fault == process.AgentUnavailable && f.Untouched && skipAway:
		h.State, h.Cause, h.Text = Skipped, CauseAway, f.Text
	case f.Fault == process.AgentUnavailable:
		h.fail(CauseAway, f.Text)
	default:
		h.fail(string(f.Fault), f.Text)
	}
}

func (h *Host) fail(cause, text string) { h.State, h.Cause, h.Text = Failed, cause, text }

// count returns the number of hosts in a state.
func (r *Rollout) count(s HostState) (n int) {
	for i := range r.Hosts {
		if r.Hosts[i].State == s {
			n++
		}
	}
	return n
}

// Allowed returns the number of failed hosts that do not stop the rollout now.
func (r *Rollout) Allowed() int {
	if r.trying() {
		return r.Forgiven
	}
	return r.Forgiven + r.Plan.MaxFailures.Of(len(r.Hosts))
}

// TooManyFailed reports whether more hosts have failed than may fail, and than people have accepted.
func (r *Rollout) TooManyFailed() bool { return r.exceeded() != "" }

// exceeded returns why the rollout must stop; empty if it may go on.
func (r *Rollout) exceeded() string {
	failed, allowed := r.count(Failed), r.Allowed()
	of := fmt.Sprintf("%d of %d hosts failed", failed, len(r.Hosts))
	switch {
	case r.failedCanaries() > r.Approvals.FailedCanaries:
		return of + " among the canaries"
	case failed > allowed:
		return fmt.Sprintf("%s, and at most %d may fail", of, allowed)
	}
	return ""
}

// renew lets the reason of a rollout that has paused itself tell what exceeded says now. former is what it said before.
func (r *Rollout) renew(former string) {
	if reason := r.exceeded(); r.State == Paused && r.Reason == former && reason != "" {
		r.Reason = reason
	}
}

// nextBatch returns the lowest batch that waits.
func (r *Rollout) nextBatch() (next int, more bool) {
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.State == Waiting && (!more || h.Batch < next) {
			next, more = h.Batch, true
		}
	}
	return next, more
}

// StateError rejects a change that the state of a rollout does not allow.
type StateError struct {
	State State
	// Expected says which state the change needs.
	Expected string
}

// Error returns the text for the caller.
func (e *StateError) Error() string {
	return fmt.Sprintf("the rollout is %s: expected %s", e.State, e.Expected)
}

// Pause has a running rollout begin no further batch, with the reason. The hosts of the present batch go on.
func (r *Rollout) Pause(reason string) error {
	if r.State != Running {
		return &StateError{r.State, "a running rollout"}
	}
	r.State, r.Reason = Paused, reason
	return nil
}

// Approve has a held rollout go on. A person who approves it after its canaries approves its breadth, too. A rollout
// that an app began needs two persons for its breadth: the first one leaves it held. An approval that changes nothing
// is an error that names the earlier ones.
func (r *Rollout) Approve(by string, now time.Time) error {
	next, _ := r.nextBatch()
	a := r.Approvals
	switch {
	case r.State == Held:
	case len(a.By) > 0:
		return &StateError{r.State, "a rollout that waits for an approval: " + a.by(a.By...)}
	default:
		return &StateError{r.State, "a rollout that waits for an approval"}
	}
	a.By, a.At = slices.Clone(a.By), slices.Clone(a.At)
	again := slices.Contains(a.By, by)
	if !again {
		a.By, a.At = append(a.By, by), append(a.At, now.UTC())
	}
	a.Canaries = a.Canaries || !r.canary(next)
	a.Breadth = !r.Plan.Unproven || len(a.By) > 1
	if again && a.Canaries == r.Approvals.Canaries && a.Breadth == r.Approvals.Breadth {
		return &StateError{r.State, "the approval of another person: " + a.by(by)}
	}
	r.State, r.Reason, r.Approvals = Running, "", a
	if reason := r.unapproved(next); reason != "" {
		r.State, r.Reason = Held, reason
	}
	return nil
}

// by says which persons have approved the rollout already, and when.
func (a *Approvals) by(names ...string) string {
	var parts []string
	for _, name := range names {
		at := a.At[slices.Index(a.By, name)]
		parts = append(parts, "approved already by "+name+" at "+at.Format(time.RFC3339))
	}
	return strings.Join(parts, ", ")
}

// Resume has a paused rollout go on, and accepts its failed hosts.
func (r *Rollout) Resume() error {
	if r.State != Paused {
		return &StateError{r.State, "a paused rollout"}
	}
	r.State, r.Reason = Running, ""
	r.forgive()
	return nil
}

// Undoing reports whether the rollout waits for its undo by itself, as its plan says: it is paused, and more hosts have
// failed than may fail. The undo begins once no host is under way.
func (r *Rollout) Undoing() bool {
	return r.undone() && r.State == Paused
}

// undone reports whether the plan asks for the undo of what has happened so far.
func (r *Rollout) undone() bool {
	return r.Plan.UndoOnFailure && !r.Plan.NotUndone && r.TooManyFailed()
}

// NotUndone has a rollout wait for a person, because nothing can undo it by itself. If no host waits, it is done.
func (r *Rollout) NotUndone(why string) error {
	if !r.Undoing() {
		return &StateError{r.State, "a rollout that waits for its undo"}
	}
	r.Plan.NotUndone = true
	r.Reason += "; it was not undone: " + why
	if r.count(Waiting)+r.count(Begun)+r.count(Baking) == 0 {
		r.State = Done
	}
	return nil
}

// forgive accepts the hosts that have failed so far.
func (r *Rollout) forgive() {
	r.Forgiven, r.Approvals.FailedCanaries = r.count(Failed), r.failedCanaries()
}

// Pace gives the hosts that wait the batches, bake, pause and limits of another plan. Its canaries stay, and the hosts
// of the present batch bake as long as the plan says now. It fails for a rollout that has ended.
func (r *Rollout) Pace(p v1.RolloutPlan) error {
	if !r.State.Active() {
		return &StateError{r.State, "a rollout that has not ended"}
	}
	former := r.exceeded()
	r.Plan.Batch, r.Plan.Bake, r.Plan.Pause = p.Batch, p.Bake, p.Pause
	r.Plan.MaxFailures, r.Plan.MaxUnavailable = p.MaxFailures, p.MaxUnavailable
	r.renew(former)
	canaries := len(r.canaries())
	next := r.Batch + 1
	var waiting []*Host
	for i := range r.Hosts {
		switch h := &r.Hosts[i]; {
		case h.State != Waiting:
		case i < canaries:
			next = max(next, h.Batch+1)
		default:
			waiting = append(waiting, h)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *Host) int { return a.Batch - b.Batch })
	for i, h := range waiting {
		h.Batch = next + i/r.batchSize()
	}
	return nil
}

// Abort ends a rollout: it begins no further batch, and what has not begun is cancelled.
func (r *Rollout) Abort() error {
	if !r.State.Active() {
		return &StateError{r.State, "a rollout that has not ended"}
	}
	r.State, r.Reason = Aborted, ""
	for i := range r.Hosts {
		if h := &r.Hosts[i]; h.State == Waiting {
			h.State, h.Cause, h.Text = Skipped, CauseAborted, "the rollout was aborted before its turn"
		}
	}
	return nil
}

// Retry puts the failed hosts into new batches and goes on; with away only the failed or skipped hosts that were away.
// Canaries get the next batch, the others the last ones. It returns their number, and fails if there are none.
func (r *Rollout) Retry(away bool) (int, error) {
	if r.State != Paused && r.State != Done {
		return 0, &StateError{r.State, "a paused or done rollout"}
	}
	again := func(h *Host) bool { return away && h.Cause == CauseAway && h.final() || !away && h.State == Failed }
	canaries := r.canaries()
	shift := 0
	for i := range canaries {
		if again(&canaries[i]) {
			shift = 1
		}
	}
	last := r.Batch
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.State == Waiting {
			h.Batch += shift
		}
		last = max(last, h.Batch)
	}
	last = max(last, r.Batch+shift)
	n, others := 0, 0
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if !again(h) {
			continue
		}
		batch := r.Batch + 1
		if i >= len(canaries) {
			batch = last + 1 + others/r.batchSize()
			others++
		}
		*h = Host{Agent: h.Agent, Name: h.Name, Steps: h.Steps, State: Waiting, Batch: batch, Begun: h.Begun}
		n++
	}
	if n == 0 && away {
		return 0, &StateError{r.State, "a rollout with hosts that were away"}
	}
	if n == 0 {
		expected := "a rollout with failed hosts"
		if slices.ContainsFunc(r.Hosts, func(h Host) bool { return h.State == Skipped && h.Cause == CauseAway }) {
			expected += ", or --away for hosts that were away"
		}
		return 0, &StateError{r.State, expected}
	}
	r.State, r.Reason = Running, ""
	r.forgive()
	return n, nil
}

// Counts is the number of hosts by state.
func (r *Rollout) Counts() map[HostState]int {
	counts := map[HostState]int{}
	for i := range r.Hosts {
		counts[r.Hosts[i].State]++
	}
	return counts
}
