package store

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
)

// Rollout is a stored rollout of one operation.
type Rollout struct {
	rollout.Rollout
	// Number is the rollout's place in lists: a later rollout has a higher number.
	Number    int64
	ID        string
	App       string
	User      string
	RequestID string
	Created   time.Time
	Op        process.Op
	// Processes are the processes of all hosts.
	Processes   []process.ID
	HostTimeout time.Duration
	// Selector is the expression that selected the hosts; empty if there was none.
	Selector string
	// Total is the number of hosts. States counts them by state; only lists have it.
	Total  int
	States map[rollout.HostState]int
	// Order is the label or fact that sorted the hosts; it may be empty.
	Order string
}

// BatchTask returns the id of the task of a batch. A batch has only one task, because the store rejects a second one
// of the same id.
func (r *Rollout) BatchTask(batch int) string { return r.ID + "-" + strconv.Itoa(batch) }

// ResultKey returns the key of a result of drover's own API. Its separators do not occur in its parts, so two targets
// never share a key.
func ResultKey(id process.ID, host string) string {
	part := func(s string) string { return strings.ReplaceAll(url.PathEscape(s), "@", "%40") }
	return part(id.Namespace) + "/" + part(id.Name) + "@" + host
}

// RolloutBusyError rejects a rollout because another one is active over one of its processes.
type RolloutBusyError struct {
	ID      string
	Process process.ID
}

// Error returns the text for the caller.
func (e *RolloutBusyError) Error() string {
	return fmt.Sprintf("rollout %s over %s is not finished: wait for it, or abort it", e.ID, e.Process)
}

// RolloutFilter selects rollouts. An empty field matches all.
type RolloutFilter struct {
	App   string
	State rollout.State
}

// Rollouts stores rollouts.
type Rollouts interface {
	// CreateRollout stores a rollout, its hosts and the audit row in one transaction. It returns *RolloutBusyError if
	// an active rollout has one of the processes, and ErrExists if the id is taken.
	CreateRollout(ctx context.Context, r *Rollout, row AuditRow) error
	// GetRollout returns a rollout with its hosts in their order. It returns ErrNotFound for an unknown rollout and
	// for a rollout of another app (an empty app matches any).
	GetRollout(ctx context.Context, id, app string) (*Rollout, error)
	// ListRollouts returns up to limit rollouts after the rollout with the given number, newest first, without their
	// hosts. 0 comes before all rollouts.
	ListRollouts(ctx context.Context, f RolloutFilter, after int64, limit int) ([]Rollout, error)
	// OpenRollouts returns the ids of the rollouts that are active or have hosts whose operation is not over.
	OpenRollouts(ctx context.Context) ([]string, error)
	// ChangeRollout reads a rollout, calls change, and stores the state and the hosts that differ, all in one
	// transaction. An error of change is returned and stores nothing. If a rollout becomes active again,
	// ChangeRollout may return
	// *RolloutBusyError.
	ChangeRollout(ctx context.Context, id, app string, change func(r *rollout.Rollout) error) (*Rollout, error)
	// PruneRollouts removes up to limit rollouts that have ended and were created before the given time, oldest
	// first. It returns their number.
	PruneRollouts(ctx context.Context, before time.Time, limit int) (int, error)
}
