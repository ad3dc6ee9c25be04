package v1

import "time"

// The states of a Rollout. A scheduled rollout begins at its time. A held rollout waits for the approval of a person,
// and a paused one begins no batch until somebody resumes it.
const (
	RolloutScheduled = "scheduled"
	RolloutRunning   = "running"
	RolloutHeld      = "held"
	RolloutPaused    = "paused"
	RolloutDone      = "done"
	RolloutAborted   = "aborted"
)

// RolloutActive selects, in place of a state, the rollouts in every state but done and aborted.
const RolloutActive = "active"

// OpApply is the Op of a rollout that carries out the plan of an apply.
const OpApply = "apply"

// The states of a host in a rollout. A begun host carries out the operation, and a baking host has succeeded and is
// observed. A skipped host was not affected.
const (
	RolloutHostWaiting = "waiting"
	RolloutHostBegun   = "begun"
	RolloutHostBaking  = "baking"
	RolloutHostOK      = "ok"
	RolloutHostFailed  = "failed"
	RolloutHostSkipped = "skipped"
)

// RolloutCauseChanged is the cause of a host that an apply has left as it is, because somebody has changed one of its
// processes since the plan.
const RolloutCauseChanged = "changed"

// RolloutCauseCancelled is the cause of a host whose operation was cancelled, or where an apply came to a process that
// somebody has removed since the plan.
const RolloutCauseCancelled = "cancelled"

// RolloutCauseAway is the cause of a host that was not connected.
const RolloutCauseAway = "away"

// Rollout is an operation or an apply that spreads over its hosts in batches.
type Rollout struct {
	ID string `json:"id"`
	// Op is the operation, or OpApply.
	Op string `json:"op"`
	// Processes are the names of the processes, each NAMESPACE/NAME.
	Processes []string `json:"processes"`
	Selector  string   `json:"selector,omitempty"`
	App       string   `json:"app"`
	User      string   `json:"user"`
	// RequestID identifies the call in the audit log.
	RequestID string      `json:"request_id"`
	CreatedAt time.Time   `json:"created_at"`
	Plan      RolloutPlan `json:"plan"`
	// OneOf and AgainWhenLost are those of the request.
	OneOf         bool `json:"one_of,omitempty"`
	AgainWhenLost bool `json:"again_when_lost,omitempty"`
	// Schedule is the schedule that the rollout is a run of.
	Schedule string `json:"schedule,omitempty"`
	// At is the time at which the rollout begins; nil means at once.
	At *time.Time `json:"at,omitempty"`
	// Undoes is the id of the rollout that this one undoes.
	Undoes string `json:"undoes,omitempty"`
	// ApprovedBy are the persons who have approved the rollout.
	ApprovedBy []string `json:"approved_by,omitempty"`
	// State is one of the constants above; Reason says why a rollout is paused, is held or waits.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Undoing is set while a paused rollout waits for its undo by itself, as its plan says. A list of rollouts does not
	// have it.
	Undoing bool `json:"undoing,omitempty"`
	// Batch is the number of the batch that began last, from 0; -1 if none has begun.
	Batch  int           `json:"batch"`
	Counts RolloutCounts `json:"counts"`
	// LeftOut counts the processes that match the filter of the selection now and did not when it was made. The rollout
	// leaves them out. Only the answer to the request has it.
	LeftOut int `json:"left_out,omitempty"`
	// Failures groups the failed hosts, the largest group first. A list of rollouts does not have them.
	Failures []RolloutFailure `json:"failures,omitempty"`
	// Hosts are in the order of the rollout. A list of rollouts does not have them.
	Hosts []RolloutHost `json:"hosts,omitempty"`
	// Others are the operations on its processes and hosts that somebody has begun beside it, the latest first, at most
	// 20. Only the answer about one rollout has them.
	Others []Task `json:"others,omitempty"`
}

// RolloutCounts is the number of hosts, in total and by state.
type RolloutCounts struct {
	Hosts   int `json:"hosts"`
	Waiting int `json:"waiting"`
	Begun   int `json:"begun"`
	Baking  int `json:"baking"`
	OK      int `json:"ok"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// RolloutFailure is a group of hosts that failed from one cause.
type RolloutFailure struct {
	// Cause is an outcome such as OutcomeCheckFailed, the state of a process such as StateFlapping, "relaunched", or
	// "away".
	Cause string `json:"cause"`
	// Message is that of the first host.
	Message string   `json:"message"`
	Hosts   []string `json:"hosts"`
	// Common are the labels and facts, as key=value, that all of these hosts have, at least two, and that no host has
	// on which the rollout has succeeded. Only the answer about one rollout has them.
	Common []string `json:"common,omitempty"`
}

// RolloutHost is one host of a rollout.
type RolloutHost struct {
	Host  string `json:"host"`
	Batch int    `json:"batch"`
	// State is one of the constants above. Cause and Message say more about a failed or skipped host.
	State   string `json:"state"`
	Cause   string `json:"cause,omitempty"`
	Message string `json:"message,omitempty"`
	// Operation is the id of the operation of its batch; empty while the host waits.
	Operation string `json:"operation,omitempty"`
}

// RolloutRetry says which hosts of a rollout get the operation anew.
type RolloutRetry struct {
	// Away chooses the hosts that were away; otherwise all failed hosts are chosen.
	Away bool `json:"away,omitempty"`
}

// Active reports whether the rollout may still begin a batch.
func (r *Rollout) Active() bool { return r.State != RolloutDone && r.State != RolloutAborted }
