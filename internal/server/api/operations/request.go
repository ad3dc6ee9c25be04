package operations

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/processes"
	"drover/internal/server/task"
	"drover/internal/spec"
)

// Request is v1.Request with lists whose decoding stops at their limits.
type Request struct {
	Op      process.Op                         `json:"op"`
	Targets call.List[processes.TargetRequest] `json:"targets"`
	// Processes are patterns, which expand turns into targets. Hosts and Labels narrow them.
	Processes call.List[string] `json:"processes"`
	Hosts     call.List[string] `json:"hosts"`
	Labels    *string           `json:"labels"`
	// Select is an expression that the hosts of every target must match; nil for any host.
	Select *string `json:"select"`
	choice hosts.Choice
	labels selector.Selector
	// Selection is the id of a selection of the caller, which takeSelection turns into targets.
	Selection string `json:"selection"`
	Signal    string `json:"signal"`
	Scope     string `json:"scope"`
	// TakeOver and Beside say what a start does beside unwatched copies; at most one of them is set.
	TakeOver bool `json:"take_over"`
	Beside   bool `json:"beside"`
	// Force is for a restart or a reload that goes past the preflight.
	Force bool `json:"force"`
	// SpecJSON is the spec in the form of files, and Spec the same in the form of agents.
	SpecJSON json.RawMessage `json:"spec"`
	Spec     *process.Spec   `json:"-"`
	// HostTimeout is how many seconds each host has to accept its items; nil means the longest time.
	HostTimeout *int `json:"host_timeout_seconds"`
	// Rollout is nil if all hosts begin at once.
	Rollout       *v1.RolloutPlan `json:"rollout"`
	OneOf         bool            `json:"one_of"`
	AgainWhenLost bool            `json:"again_when_lost"`
	// At is when the rollout begins; empty means at once.
	At string `json:"at"`
	// dry tells that the server answers what the request would do, and stores nothing.
	dry bool
}

// readForce completes an operation that goes past the preflight.
func (r *Request) readForce() error {
	forced := process.ForcedOp(r.Op)
	if r.Force && forced == r.Op {
		return call.Invalid("force", "is not for the operation %s", r.Op)
	}
	if r.Force {
		r.Op = forced
	}
	return nil
}

// readBeside completes a start with what it does beside unwatched copies.
func (r *Request) readBeside() error {
	switch {
	case r.TakeOver && r.Op != process.Start:
		return call.Invalid("take_over", "is not for the operation %s", r.Op)
	case r.Beside && r.Op != process.Start:
		return call.Invalid("beside", "is not for the operation %s", r.Op)
	case r.TakeOver && r.Beside:
		return call.Invalid("beside", "stands beside take_over: expected one of them")
	case r.TakeOver:
		r.Op = process.StartOp(process.TakeOver)
	case r.Beside:
		r.Op = process.StartOp(process.StartBeside)
	}
	return nil
}

// checkHidden rejects a spec with hidden values: the caller has copied it from an answer that hides values. Call
// checkHidden after the check of rights.
func (r *Request) checkHidden() error {
	if r.Spec == nil {
		return nil
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(r.Spec.Environment)) {
		if r.Spec.Environment[name] == processes.Secret {
			faults = append(faults, call.Invalid("spec.environment."+name,
				"is %s, which stands for a stored value: expected the value", processes.Secret))
		}
	}
	return call.Together(faults...)
}

// readPlan checks the plan of a rollout of an operation, and reports all of its faults.
func (r *Request) readPlan(now time.Time) error {
	_, err := Beginning(r.At, now)
	faults := []error{r.readOneOf(), err}
	switch {
	case r.Rollout == nil && r.At != "":
		faults = append(faults, call.Invalid("at", "is for a rollout: expected rollout beside it"))
	case r.Rollout == nil:
		return call.Together(faults...)
	case r.known() && !r.Op.Info().RollsOut:
		faults = append(faults, call.Invalid("rollout", "is not for the operation %s: expected start, stop, restart, reload, "+
			"kill, signal, host, unhost, retry or unregister", r.Op))
	case r.SpecJSON != nil:
		faults = append(faults, call.Invalid("spec", "is not for a rollout: every host uses its stored spec"))
	}
	if plan := processfile.CheckRolloutOf(r.Op.Info(), r.Rollout); len(plan) > 0 {
		faults = append(faults, call.InvalidFile("rollout", plan))
	}
	return call.Together(faults...)
}

// readOneOf checks an operation on one host.
func (r *Request) readOneOf() error {
	var faults []error
	switch {
	case !r.OneOf && r.AgainWhenLost:
		return call.Invalid("again_when_lost", "is for one_of: expected one_of beside it")
	case !r.OneOf:
		return nil
	case r.known() && !r.Op.Info().RollsOut:
		faults = append(faults, call.Invalid("one_of", "is not for the operation %s: expected start, stop, restart, reload, "+
			"kill, signal, host, unhost, retry or unregister", r.Op))
	}
	if r.Rollout != nil {
		faults = append(faults, call.Invalid("one_of", "stands beside rollout: expected one of them"))
	}
	if r.SpecJSON != nil {
		faults = append(faults, call.Invalid("spec", "is not for one_of: the host uses its stored spec"))
	}
	return call.Together(faults...)
}

// oneProcess checks that an operation on one host is about one process. Several processes could begin on different
// hosts.
func (r *Request) oneProcess() error {
	first := r.Targets[0].ID()
	for i := range r.Targets {
		if id := r.Targets[i].ID(); r.OneOf && id != first {
			return call.Invalid("one_of", "is for one process: the request is about %s and %s", first, id)
		}
	}
	return nil
}

// longestHostTimeout is in seconds.
const longestHostTimeout = int(task.WaitLimit / time.Second)

// hostTimeout returns the host timeout of the task.
func (r *Request) hostTimeout() time.Duration {
	if r.HostTimeout == nil {
		return 0
	}
	return time.Duration(*r.HostTimeout) * time.Second
}

// Accepting turns an error of the engine that rejects an operation into a problem.
func Accepting(err error) error {
	if busy, ok := errors.AsType[*task.BusyError](err); ok {
		p := call.Problemf(http.StatusTooManyRequests, "%v", busy)
		p.RetryAfter = busy.Seconds()
		return p
	}
	return call.Failure("accept the operation", err)
}

// validate reports the faults of the request, and completes its spec.
func (r *Request) validate(now time.Time) error {
	var faults []error
	if !r.known() {
		faults = append(faults, call.Invalid("op", "is %.40q: expected one of %s", r.Op,
			strings.Join(call.Supported(), ", ")))
	}
	faults = append(faults, r.readProcesses(), r.readTargets())
	if r.Select != nil {
		var err error
		if r.choice.Selector, err = selector.Parse(*r.Select); err != nil {
			faults = append(faults, call.Invalid("select", "%v", err))
		}
	}
	if n := r.HostTimeout; n != nil && (*n < 1 || *n > longestHostTimeout) {
		faults = append(faults, call.Invalid("host_timeout_seconds", "is %d: expected 1 to %d", *n, longestHostTimeout))
	}
	// The first of these completes the operation.
	faults = append(faults, r.readSignal(), r.readSpec(), r.readPlan(now), r.readBeside(), r.readForce())
	return call.Together(faults...)
}

// known reports whether this API offers the operation. The fields of another operation are not checked.
func (r *Request) known() bool { return r.Op.Info().OwnAPI }

// readTargets checks the names of processes and hosts.
func (r *Request) readTargets() error {
	if n := len(r.Targets); n == 0 && len(r.Processes) == 0 && r.Selection == "" || n > processes.MaxTargets {
		return call.Invalid("targets", "has %d entries: expected 1 to %d", n, processes.MaxTargets)
	}
	var faults []error
	for i := range r.Targets {
		if err := process.ValidateID(r.Targets[i].ID()); err != nil {
			faults = append(faults, call.InvalidPart(fmt.Sprintf("targets[%d].", i), "meta.", err))
		}
		faults = append(faults, call.CheckHosts(fmt.Sprintf("targets[%d].hosts", i), r.Targets[i].Hosts))
		if len(faults) > call.MostFaults {
			break
		}
	}
	return call.Together(faults...)
}

// readProcesses checks the patterns of processes, and what narrows them.
func (r *Request) readProcesses() (err error) {
	if r.Selection != "" && (len(r.Targets)+len(r.Processes) > 0 || r.Select != nil || r.SpecJSON != nil) {
		return call.Invalid("selection", "stands beside targets, processes, select or spec: expected one of them")
	}
	if len(r.Processes) == 0 {
		switch {
		case r.Hosts != nil:
			return call.Invalid("hosts", "is for processes: expected processes beside it, or hosts in each target")
		case r.Labels != nil:
			return call.Invalid("labels", "is for processes: expected processes beside it")
		}
		return nil
	}
	faults := []error{call.CheckProcesses("processes", r.Processes), call.CheckHosts("hosts", r.Hosts)}
	if len(r.Targets) > 0 {
		faults = append(faults, call.Invalid("processes", "stands beside targets: expected one of them"))
	}
	if r.SpecJSON != nil {
		faults = append(faults, call.Invalid("spec", "is not for processes: expected targets"))
	}
	if r.Labels != nil {
		if r.labels, err = selector.Parse(*r.Labels); err != nil {
			faults = append(faults, call.Invalid("labels", "%v", err))
		}
	}
	return call.Together(faults...)
}

// readSignal completes the operation with the signal that it sends.
func (r *Request) readSignal() error {
	var faults []error
	if r.known() && r.Op != process.Signal {
		for _, field := range [][2]string{{"signal", r.Signal}, {"scope", r.Scope}} {
			if field[1] != "" {
				faults = append(faults, call.Invalid(field[0], "is not for the operation %s", r.Op))
			}
		}
		return call.Together(faults...)
	}
	name, err := spec.SignalName(r.Signal)
	if err != nil && (r.known() || r.Signal != "") {
		faults = append(faults, call.Invalid("signal", "is %.40q: expected the name of a signal, such as HUP or USR1", r.Signal))
	}
	if r.Scope != "" && r.Scope != v1.ScopeProcess && r.Scope != v1.ScopeTree {
		faults = append(faults, call.Invalid("scope", "is %.40q: expected %s or %s", r.Scope, v1.ScopeProcess,
			v1.ScopeTree))
	}
	if len(faults) == 0 && r.known() {
		r.Op = process.SignalOp(name, r.Scope == v1.ScopeTree)
	}
	return call.Together(faults...)
}

// readSpec reads the given spec.
func (r *Request) readSpec() error {
	var given *v1.Spec
	var err error
	if r.SpecJSON != nil {
		if given, err = processfile.ReadSpecJSON(r.SpecJSON); err != nil {
			return call.InvalidFile("spec", err)
		}
	}
	if given == nil {
		if r.Op.Info().Spec == process.SpecSent {
			return call.Invalid("spec", "is missing: %s needs one", r.Op)
		}
		return nil
	}
	var wrong []error
	for i := range r.Targets {
		if faults := processfile.CheckName(r.Targets[i].Name, *given); len(faults) > 0 && len(wrong) < call.MostFaults {
			wrong = append(wrong, call.Invalid(fmt.Sprintf("targets[%d].name", i), "%s", faults[0].Text))
		}
	}
	spec := processfile.Canonical(*given)
	r.Spec = &spec
	if faults := processfile.FaultsOf(r.Spec, r.Op); r.known() && len(faults) > 0 {
		wrong = append(wrong, call.InvalidFile("spec", faults))
	}
	return call.Together(wrong...)
}
