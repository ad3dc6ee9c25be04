package spec

// RolloutPlan says how an operation or an apply spreads over its hosts. It is the field rollout of a process file.
type RolloutPlan struct {
	// Batch is the number of hosts in a batch: a number, or a share of all hosts, rounded down to at least one host.
	Batch HostCount `json:"batch,omitzero"`
	// Canary is the number of hosts in the first batch, of which none may fail; 0 means no such batch.
	Canary int `json:"canary,omitempty"`
	// CanarySelect is a selector of labels and facts, from whose hosts the canaries are taken; empty takes them from
	// all hosts. If fewer hosts match than Canary, those are the canaries.
	CanarySelect string `json:"canary_select,omitempty"`
	// Bake is how long the processes of a batch must stay well, and Pause is the wait after that. They are whole
	// seconds.
	Bake  Duration `json:"bake,omitzero"`
	Pause Duration `json:"pause,omitzero"`
	// MaxFailures is how many hosts may fail: a number, or a share of all hosts, rounded down.
	MaxFailures HostCount `json:"max_failures,omitzero"`
	// MaxUnavailable is how many hosts may be without the running process at the same time, for any reason: a number,
	// or a share of all hosts, rounded down to at least one host. Zero means no limit.
	MaxUnavailable HostCount `json:"max_unavailable,omitzero"`
	// Order is the label or fact that sorts the hosts; hosts without it come last. Empty sorts by name.
	Order string `json:"order,omitempty"`
	// Spread is the label or fact over whose values the canaries and each batch are spread: hosts with different values
	// take turns. Hosts without it count as one value. Empty spreads nothing.
	Spread string `json:"spread,omitempty"`
	// SkipAway leaves out hosts that are not connected; otherwise they count as failed.
	SkipAway bool `json:"skip_away,omitempty"`
	// CanaryApproval holds the rollout after its canaries until a person approves it.
	CanaryApproval bool `json:"canary_approval,omitempty"`
	// UndoOnFailure undoes the apply of the rollout by itself when more hosts fail than may fail.
	UndoOnFailure bool `json:"undo_on_failure,omitempty"`
}
