package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
)

// RolloutMark begins the id of every rollout.
const RolloutMark = "ro-"

// OpApply is the Op of a rollout that carries out the plan of an apply.
const OpApply process.Op = v1.OpApply

// Rollout is a stored rollout of one operation or apply.
type Rollout struct {
	rollout.Rollout
	// Number is the rollout's place in lists: a later rollout has a higher number.
	Number    int64
	ID        string
	App       string
	User      string
	RequestID string
	Created   time.Time
	// Op is the operation, or OpApply.
	Op process.Op
	// Steps are the operations of all hosts, in their order on each host.
	Steps       []RolloutStep
	HostTimeout time.Duration
	// Selector is the expression that selected the hosts; empty if there was none.
	Selector string
	// Total is the number of hosts. States counts them by state; only lists have it.
	Total  int
	States map[rollout.HostState]int
	// Undoes is the id of the rollout that this one undoes; empty if there is none. Ends is the change that ends that
	// rollout in the same transaction; nil if it has ended. Only CreateRollouts takes Ends.
	Undoes string
	Ends   *RolloutEnd
	// Schedule is the schedule that the rollout is a run of; empty if there is none. Run is the run that begins with
	// the rollout; only CreateRollouts takes it.
	Schedule string
	Run      *ScheduleRun
	// Through and Message go to the revisions that the batches make.
	Through, Message string
	// Selections is what the rollout changes in the selections in force once it is done, and Former what brings back
	// those that it found; both nil for nothing. Only CreateRollouts takes them.
	Selections, Former *SelectionChange
	// ExpectedRevision is the revision of a namespace that the caller knows, if the rollout depends on it. The store
	// does not keep it.
	ExpectedRevision *ExpectedRevision
}

// RolloutStep is an operation on a process of some hosts of a rollout.
type RolloutStep struct {
	Op      process.Op
	Process process.ID
	// Removes tells that the step is the first part of the removal of the process.
	Removes bool
	// Spec is nil if the hosts use the spec that they have. Former is the spec that they had before; nil if there was
	// none. Only RolloutSteps has both.
	Spec, Former *process.Spec
}

// Processes returns the processes of the rollout, each once, in their order.
func (r *Rollout) Processes() []process.ID {
	var list []process.ID
	for i := range r.Steps {
		list = append(list, r.Steps[i].Process)
	}
	process.SortIDs(list)
	return slices.Compact(list)
}

// Agents returns the keys of its hosts, in their order.
func (r *Rollout) Agents() []string {
	list := make([]string, len(r.Hosts))
	for i := range r.Hosts {
		list[i] = r.Hosts[i].Agent
	}
	return list
}

// BatchTask returns the id of the task of a batch. A batch has only one task, because the store rejects a second one
// of the same id.
func (r *Rollout) BatchTask(batch int) string { return r.ID + "-" + strconv.Itoa(batch) }

// removalMark ends the id of a task that removes what the batch of an apply has stopped.
const removalMark = "-unregister"

// RemovalTask returns the id of the task that removes what the task of a batch has stopped.
func RemovalTask(batch string) string { return batch + removalMark }

// RolloutOf returns the id of the rollout that may have a task, by the id of the task; empty for other tasks.
func RolloutOf(task string) string {
	task = strings.TrimSuffix(task, removalMark)
	if i := strings.LastIndexByte(task, '-'); i > 0 && strings.HasPrefix(task, RolloutMark) {
		return task[:i]
	}
	return ""
}

// ItemKey returns the key of a result of drover's own API. Its separators do not occur in its parts, so two targets
// never share a key.
func ItemKey(id process.ID, host string) string {
	part := func(s string) string { return strings.ReplaceAll(url.PathEscape(s), "@", "%40") }
	return part(id.Namespace) + "/" + part(id.Name) + "@" + host
}

// RolloutChange says when somebody changes a rollout, and who.
type RolloutChange struct {
	At time.Time
	By process.Actor
}

// RolloutEnd is a change that ends a rollout.
type RolloutEnd struct {
	RolloutChange
	Change func(r *rollout.Rollout) error
}

// RolloutStream is the stream of the events of a rollout.
func RolloutStream(id string) string { return "rollout-" + id }

// Event returns the event that tells of a change from a former state: the event of its first process on its first host.
// seq is its number among the events of the rollout. ok is false if nobody waits for the change. The end of a run on
// one host, or of a schedule, is no event: its task, or its schedule, tells how it has ended.
func (r *Rollout) Event(from rollout.State, by RolloutChange, seq uint64) (e NewEvent, ok bool, err error) {
	text := cmp.Or(r.Reason, string(r.State))
	switch to := r.State; {
	case to == from || len(r.Hosts) == 0 || len(r.Steps) == 0:
		return e, false, nil
	case to == rollout.Paused:
		e.Kind = process.EventRolloutPaused
	case to == rollout.Held:
		e.Kind = process.EventRolloutHeld
	case to == rollout.Aborted:
		e.Kind = process.EventRolloutAborted
	case to == rollout.Done && !r.Plan.OneOf && r.Schedule == "":
		e.Kind, text = process.EventRolloutDone, r.ended()
		if r.TooManyFailed() {
			e.Kind = process.EventRolloutFailed
		}
	case to == rollout.Running && from != rollout.Scheduled:
		e.Kind, text = process.EventRolloutResumed, "goes on"
	default:
		return e, false, nil
	}
	e.Stream, e.Seq, e.At, e.Actor = RolloutStream(r.ID), seq, by.At.UnixMilli(), by.By
	e.Process = r.Processes()[0]
	e.Cause.Text = text + "; rollout " + r.ID
	body, err := json.Marshal(&e.Event)
	if err != nil {
		return e, false, fmt.Errorf("cannot encode the event of a rollout: %w", err)
	}
	e.Body = string(body)
	return e, true, nil
}

// ended tells the result of a rollout that is done.
func (r *Rollout) ended() string {
	counts := r.Counts()
	text := fmt.Sprintf("done on %d of %d hosts", counts[rollout.Succeeded], len(r.Hosts))
	if n := counts[rollout.Failed]; n > 0 {
		text += fmt.Sprintf("; %d failed", n)
	}
	if n := counts[rollout.Skipped]; n > 0 {
		text += fmt.Sprintf("; %d skipped", n)
	}
	return text
}

// RolloutBusyError rejects a rollout because another one is active over one of its processes. Host is a host that two
// upgrades share; empty for other rollouts.
type RolloutBusyError struct {
	ID      string
	Process process.ID
	Host    string
	State   rollout.State
}

// Error returns the text for the caller.
func (e *RolloutBusyError) Error() string {
	state := map[rollout.State]string{
		rollout.Paused: "is paused: resume it with 'drover rollout resume ",
		rollout.Held:   "waits for an approval: approve it with 'drover rollout approve ",
	}[e.State]
	if state == "" {
		state = "is not finished: wait for it with 'drover rollout watch "
	}
	over := e.Process.String()
	if e.Host != "" {
		over += " on " + e.Host
	}
	return fmt.Sprintf("rollout %s over %s %s%s', or end it with 'drover rollout abort %s'", e.ID, over, state, e.ID, e.ID)
}

// RolloutFilter selects rollouts. An empty field matches all.
type RolloutFilter struct {
	Sight Sight
	State rollout.State
	// Active selects the rollouts that may still begin a batch.
	Active bool
	// Namespace is a pattern that one of the processes must match.
	Namespace string
	// Agents are keys, one of which must be a host of the rollout; empty but not nil matches no rollout.
	Agents []string
}

// RolloutLister lists rollouts.
type RolloutLister interface {
	// ListRollouts returns up to limit rollouts after the rollout with the given number, newest first, without their
	// hosts. 0 comes before all rollouts.
	ListRollouts(ctx context.Context, f RolloutFilter, after int64, limit int) ([]Rollout, error)
}

// Rolling returns the processes of active rollouts, each with the refusal of a further rollout. Hosts get these
// processes from the rollout alone. Upgrades of agents are not among them: see Upgrading.
func Rolling(ctx context.Context, l RolloutLister) (map[process.ID]*RolloutBusyError, error) {
	all := map[process.ID]*RolloutBusyError{}
	err := eachActive(ctx, l, RolloutFilter{}, func(r *Rollout) {
		for _, id := range r.Processes() {
			if id != process.AgentID() {
				all[id] = &RolloutBusyError{ID: r.ID, Process: id, State: r.State}
			}
		}
	})
	return all, err
}

// Upgrading returns the active rollouts that upgrade one of some agents, oldest first and without their hosts.
func Upgrading(ctx context.Context, l RolloutLister, agents []string) (list []Rollout, err error) {
	f := RolloutFilter{Namespace: process.AgentID().Namespace, Agents: agents}
	err = eachActive(ctx, l, f, func(r *Rollout) {
		if slices.Contains(r.Processes(), process.AgentID()) {
			list = append(list, *r)
		}
	})
	slices.Reverse(list)
	return list, err
}

// eachActive calls fn for the active rollouts that a filter selects, newest first.
func eachActive(ctx context.Context, l RolloutLister, f RolloutFilter, fn func(r *Rollout)) error {
	const page = 100
	f.Active = true
	for after := int64(0); ; {
		list, err := l.ListRollouts(ctx, f, after, page)
		if err != nil {
			return err
		}
		for i := range list {
			after = list[i].Number
			fn(&list[i])
		}
		if len(list) < page {
			return nil
		}
	}
}

// Rollouts stores rollouts.
type Rollouts interface {
	// CreateRollouts stores rollouts, their hosts and the audit row in one transaction: all of them or none. It returns
	// *RolloutBusyError if an active rollout has one of the processes (of upgrades: one of the hosts), ErrExists if an
	// id is taken, and ErrRevised if a Rollout.Known is not the latest revision. Rollout.Ends comes first, as by
	// ChangeRollout.
	CreateRollouts(ctx context.Context, list []*Rollout, row AuditRow) error
	// GetRollout returns a rollout with its hosts in their order. It returns ErrNotFound for an unknown rollout and
	// for a rollout of another app (an empty app matches any).
	GetRollout(ctx context.Context, id, app string) (*Rollout, error)
	RolloutLister
	// OpenRollouts returns the ids of the rollouts that may go on now by themselves: those that run, those that were
	// to begin by now, those with hosts whose operation or bake is not over, and paused ones whose plan may undo them.
	// next is when the next one is to begin; zero if there is none.
	OpenRollouts(ctx context.Context, now time.Time) (open []string, next time.Time, err error)
	// ChangeRollout reads a rollout, calls change, and stores the state, the plan and the hosts that differ, all in one
	// transaction. An error of change is returned and stores nothing. If a rollout becomes active again,
	// ChangeRollout may return *RolloutBusyError. When the rollout is done for the first time without too many
	// failures, its Selections come into force, but for entries whose selections are not those of Former any more: a
	// later apply has changed them. A change of the state stores the event of it (Rollout.Event).
	ChangeRollout(ctx context.Context, id, app string, by RolloutChange, change func(r *rollout.Rollout) error,
	) (*Rollout, error)
	// PruneRollouts removes up to limit rollouts that have ended and were created before the given time, oldest
	// first. It returns their number.
	PruneRollouts(ctx context.Context, before time.Time, limit int) (int, error)
}

// RolloutSteps has the specs of rollouts, which only the beginning of a batch needs.
type RolloutSteps interface {
	// RolloutSteps returns the steps of a rollout with their specs, in their order; none for an unknown rollout. Equal
	// specs are the same pointer. Callers must not change them.
	RolloutSteps(ctx context.Context, id string) ([]RolloutStep, error)
	// FormerSelections returns the change that undoes what a rollout has changed in the selections in force; nil if it
	// has changed none so far.
	FormerSelections(ctx context.Context, id string) (*SelectionChange, error)
	// AbortedRollouts returns the rollouts among ids that were aborted, unordered.
	AbortedRollouts(ctx context.Context, ids []string) ([]string, error)
}
