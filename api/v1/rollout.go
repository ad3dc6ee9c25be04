package v1

import "time"

// The states of a Rollout. A paused rollout begins no batch until somebody resumes it.
const (
	RolloutRunning = "running"
	RolloutPaused  = "paused"
	RolloutDone    = "done"
	RolloutAborted = "aborted"
)

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

// RolloutPlan says how an operation spreads over the hosts.
type RolloutPlan struct {
	// Batch is the number of hosts in a batch: a number such as "20", or a share of all hosts such as "10%", rounded
	// down to at least one host.
	Batch string `json:"batch"`
	// Canary is the number of hosts in the first batch, of which none may fail; 0 means no such batch.
	Canary int `json:"canary,omitempty"`
	// BakeSeconds is how long the processes of a batch must stay well, and PauseSeconds is the wait after that.
	BakeSeconds  int `json:"bake_seconds,omitempty"`
	PauseSeconds int `json:"pause_seconds,omitempty"`
	// MaxFailures is how many hosts may fail: a number, or a share of all hosts, rounded down. Empty means none.
	MaxFailures string `json:"max_failures,omitempty"`
	// Order is the label or fact that sorts the hosts; hosts without it come last. Empty sorts by name.
	Order string `json:"order,omitempty"`
	// SkipAway leaves out hosts that are not connected; otherwise they count as failed.
	SkipAway bool `json:"skip_away,omitempty"`
}

// Rollout is an operation that spreads over its hosts in batches.
type Rollout struct {
	ID string `json:"id"`
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
	// State is one of the constants above; Reason says why a rollout is paused.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Batch is the number of the batch that began last, from 0; -1 if none has begun.
	Batch  int           `json:"batch"`
	Counts RolloutCounts `json:"counts"`
	// Failures groups the failed hosts, the largest group first. A list of rollouts does not have them.
	Failures []RolloutFailure `json:"failures,omitempty"`
	// Hosts are in the order of the rollout. A list of rollouts does not have them.
	Hosts []RolloutHost `json:"hosts,omitempty"`
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
func (r *Rollout) Active() bool { return r.State == RolloutRunning || r.State == RolloutPaused }
