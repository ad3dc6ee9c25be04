// Package rollout decides how an operation spreads over hosts in batches: when the next batch begins, which hosts
// count as failed, and when the rollout stops itself. It does no I/O and owns no clock. Package drive gives it facts
// and carries out its decisions; the store keeps its values.
package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"drover/internal/process"
)

// State is the state of a rollout.
type State string

// The states of a rollout. A paused rollout begins no batch until a person resumes it. Done and aborted rollouts have
// ended; a person can retry their failed hosts.
const (
	Running State = "running"
	Paused  State = "paused"
	Done    State = "done"
	Aborted State = "aborted"
)

// Active reports whether a rollout in this state may still begin a batch.
func (s State) Active() bool { return s == Running || s == Paused }

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
	CauseAway      = "away"
	CauseCancelled = "cancelled"
)

// settleTime is how long after the bake a process may still start or stop.
const settleTime = 10 * time.Second

// Size is a number of hosts: Count, or if that is 0, Percent of all hosts, rounded down.
type Size struct {
	Count   int `json:"count,omitempty"`
	Percent int `json:"percent,omitempty"`
}

// Of returns the number of hosts out of total.
func (s Size) Of(total int) int {
	if s.Count > 0 {
		return s.Count
	}
	return total * s.Percent / 100
}

// ParseSize reads a number such as 20, or a share such as 10%.
func ParseSize(text string) (Size, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 0 || percent && n > 100:
		return Size{}, fmt.Errorf("is %.40q: expected a number of hosts such as 20, or a share such as 10%%", text)
	case percent:
		return Size{Percent: n}, nil
	default:
		return Size{Count: n}, nil
	}
}

// String returns the size in the form of ParseSize.
func (s Size) String() string {
	if s.Percent > 0 {
		return strconv.Itoa(s.Percent) + "%"
	}
	return strconv.Itoa(s.Count)
}

// Plan says how a rollout proceeds.
type Plan struct {
	// Batch is the size of a batch; a batch has at least one host.
	Batch Size `json:"batch"`
	// Canary is the number of hosts in the first batch; 0 means no special first batch. No failure of them is allowed.
	Canary int `json:"canary,omitempty"`
	// Bake is how long the processes of a batch must stay well after the last outcome of the batch. Pause is the wait
	// after that.
	Bake  time.Duration `json:"bake,omitempty"`
	Pause time.Duration `json:"pause,omitempty"`
	// MaxFailures is the number of failed hosts that does not stop the rollout.
	MaxFailures Size `json:"max_failures,omitzero"`
	// SkipAway leaves out hosts that are not connected; otherwise they count as failed.
	SkipAway bool `json:"skip_away,omitempty"`
	// Judged is set if the processes must run after the operation.
	Judged bool `json:"judged,omitempty"`
}

// Host is one host of a rollout. Its name never changes.
type Host struct {
	Agent string
	// Name is the host in the form that callers see.
	Name      string
	Processes []process.ID
	// Batch is the number of its batch, from 0. A retry gives the host a new batch.
	Batch int
	State HostState
	// Begun is the time at which its batch began.
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
	// Reason says why the rollout is paused.
	Reason string
	Plan   Plan
	// Batch is the number of the batch that began last; -1 if none has begun.
	Batch int
	// Settled is the time at which every host of that batch had its outcome; zero before that.
	Settled time.Time
	// Forgiven is the number of failed hosts that a person has accepted by a resume.
	Forgiven int
	Hosts    []Host
}

// New returns a rollout over hosts in their order, with a batch for every host.
func New(p Plan, hosts []Host) Rollout {
	r := Rollout{State: Running, Plan: p, Batch: -1, Hosts: slices.Clone(hosts)}
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
	// Untouched tells, with the fault AgentUnavailable, that the host was never sent the operation.
	Untouched bool
	// Away tells that the host is not connected.
	Away bool
	// Health is the state of its processes, and Cause the name of a state that is not Well.
	Health Health
	Cause  string
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
// of its batch, once. A fact about another batch is ignored.
func Step(r Rollout, facts map[string]Fact, now time.Time) Rollout {
	r.Hosts = slices.Clone(r.Hosts)
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if f, known := facts[h.Agent]; known && f.Batch == h.Batch {
			r.learn(h, f, now)
		}
	}
	if r.Batch >= 0 && r.Settled.IsZero() && r.count(Begun) == 0 {
		r.Settled = now
	}
	if r.State != Running {
		return r
	}
	if reason := r.exceeded(); reason != "" {
		r.State, r.Reason = Paused, reason
		return r
	}
	if r.count(Begun)+r.count(Baking) > 0 {
		return r
	}
	next, more := r.nextBatch()
	switch {
	case !more:
		r.State = Done
	case r.Batch < 0 || !now.Before(r.Settled.Add(r.Plan.Bake+r.Plan.Pause)):
		r.Batch, r.Settled = next, time.Time{}
		for i := range r.Hosts {
			if h := &r.Hosts[i]; h.State == Waiting && h.Batch == next {
				h.State, h.Begun = Begun, now
			}
		}
	}
	return r
}

// learn applies a fact to a host.
func (r *Rollout) learn(h *Host, f Fact, now time.Time) {
	switch {
	case h.State == Begun && f.Done:
		h.outcome(f, r.Plan.SkipAway)
	case h.State == Baking && r.Plan.Judged && f.Health == Unwell:
		h.fail(f.Cause, f.Text)
	}
	if h.State != Baking || r.Settled.IsZero() || now.Before(r.Settled.Add(r.Plan.Bake)) {
		return
	}
	switch {
	case !r.Plan.Judged || f.Health == Well && !f.Away:
		h.State = Succeeded
	case f.Away:
		h.fail(CauseAway, "the host is not connected at the end of the bake")
	case !now.Before(r.Settled.Add(r.Plan.Bake + settleTime)):
		h.fail(f.Cause, f.Text)
	}
}

// outcome applies the outcome of the operation.
func (h *Host) outcome(f Fact, skipAway bool) {
	switch {
	case f.Fault == process.None:
		h.State = Baking
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
	if r.Plan.Canary > 0 && r.Batch <= 0 {
		return r.Forgiven
	}
	return r.Forgiven + r.Plan.MaxFailures.Of(len(r.Hosts))
}

// exceeded returns why the rollout must stop; empty if it may go on.
func (r *Rollout) exceeded() string {
	failed, allowed := r.count(Failed), r.Allowed()
	if failed <= allowed {
		return ""
	}
	of := fmt.Sprintf("%d of %d hosts failed", failed, len(r.Hosts))
	if r.Plan.Canary > 0 && r.Batch == 0 {
		return of + " among the canaries"
	}
	return fmt.Sprintf("%s, and at most %d may fail", of, allowed)
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

// Resume has a paused rollout go on, and accepts its failed hosts.
func (r *Rollout) Resume() error {
	if r.State != Paused {
		return &StateError{r.State, "a paused rollout"}
	}
	r.State, r.Reason, r.Forgiven = Running, "", r.count(Failed)
	return nil
}

// Abort ends a rollout: it begins no further batch, and what has not begun is cancelled.
func (r *Rollout) Abort() error {
	if !r.State.Active() {
		return &StateError{r.State, "a running or paused rollout"}
	}
	r.State, r.Reason = Aborted, ""
	return nil
}

// Retry puts the failed hosts into new batches and goes on; with away only the failed or skipped hosts that were away.
// It returns their number, and fails if there are none.
func (r *Rollout) Retry(away bool) (int, error) {
	if r.State != Paused && r.State != Done {
		return 0, &StateError{r.State, "a paused or done rollout"}
	}
	last := r.Batch
	for i := range r.Hosts {
		last = max(last, r.Hosts[i].Batch)
	}
	n := 0
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if away && h.Cause == CauseAway && h.final() || !away && h.State == Failed {
			*h = Host{
				Agent: h.Agent, Name: h.Name, Processes: h.Processes, State: Waiting,
				Batch: last + 1 + n/r.batchSize(),
			}
			n++
		}
	}
	if n == 0 && away {
		return 0, &StateError{r.State, "a rollout with hosts that were away"}
	}
	if n == 0 {
		return 0, &StateError{r.State, "a rollout with failed hosts"}
	}
	r.State, r.Reason, r.Forgiven = Running, "", r.count(Failed)
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
