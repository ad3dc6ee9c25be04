package operations

import (
	"fmt"
	"strconv"
	"time"

	v1 "drover/api/v1"
	"drover/internal/processfile"
	"drover/internal/server/api/call"
	"drover/internal/spec"
)

// checkPlan notes the faults of the values of a rollout plan that were read, so that a caller with other faults learns
// of them, too.
func checkPlan(p *call.Params, o *PlanOptions) {
	var given v1.RolloutPlan
	for _, change := range o.changes {
		change(&given)
	}
	_, unread := spec.ParseHostCount(p.Values.Get("batch"))
	for _, f := range processfile.CheckRollout(&given) {
		if p.Values.Get(f.Path) != "" && (f.Path != "batch" || unread == nil) {
			p.Fail(call.Invalid(f.Path, "%s", f.Text))
		}
	}
}

// PlanOptions are what the parameters of an apply say about its rollouts.
type PlanOptions struct {
	changes []func(*v1.RolloutPlan)
	At      time.Time
}

// PlanOptionsOf reads the parameters of an apply that override the rollouts of the file.
func (h *Handler) PlanOptionsOf(p *call.Params) (o PlanOptions, err error) {
	read := func(name string, set func(text string) (func(*v1.RolloutPlan), error)) {
		text := p.Text(name)
		if text == "" {
			return
		}
		change, err := set(text)
		if err != nil {
			p.Fail(call.Invalid(name, "is %v", err))
			return
		}
		o.changes = append(o.changes, change)
	}
	for name, field := range map[string]func(*v1.RolloutPlan) *v1.HostCount{
		"batch":           func(p *v1.RolloutPlan) *v1.HostCount { return &p.Batch },
		"max_failures":    func(p *v1.RolloutPlan) *v1.HostCount { return &p.MaxFailures },
		"max_unavailable": func(p *v1.RolloutPlan) *v1.HostCount { return &p.MaxUnavailable },
	} {
		read(name, func(text string) (func(*v1.RolloutPlan), error) {
			n, err := spec.ParseHostCount(text)
			if err == nil && name == "max_unavailable" && n.IsZero() {
				err = fmt.Errorf("%s: expected 1 or more, because one process at least is down meanwhile", text)
			}
			return func(p *v1.RolloutPlan) { *field(p) = n }, err
		})
	}
	for name, field := range map[string]func(*v1.RolloutPlan) *v1.Duration{
		"bake":  func(p *v1.RolloutPlan) *v1.Duration { return &p.Bake },
		"pause": func(p *v1.RolloutPlan) *v1.Duration { return &p.Pause },
	} {
		read(name, func(text string) (func(*v1.RolloutPlan), error) {
			d, err := spec.ParseDuration(text)
			return func(p *v1.RolloutPlan) { *field(p) = d }, err
		})
	}
	read("canary", func(text string) (func(*v1.RolloutPlan), error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			err = fmt.Errorf("%.40q: expected a number of hosts", text)
		}
		return func(p *v1.RolloutPlan) { p.Canary = n }, err
	})
	for name, field := range map[string]func(*v1.RolloutPlan) *string{
		"canary_select": func(p *v1.RolloutPlan) *string { return &p.CanarySelect },
		"order":         func(p *v1.RolloutPlan) *string { return &p.Order },
		"spread":        func(p *v1.RolloutPlan) *string { return &p.Spread },
	} {
		read(name, func(text string) (func(*v1.RolloutPlan), error) {
			return func(p *v1.RolloutPlan) { *field(p) = text }, nil
		})
	}
	for name, field := range map[string]func(*v1.RolloutPlan) *bool{
		"skip_away":       func(p *v1.RolloutPlan) *bool { return &p.SkipAway },
		"canary_approval": func(p *v1.RolloutPlan) *bool { return &p.CanaryApproval },
		"undo_on_failure": func(p *v1.RolloutPlan) *bool { return &p.UndoOnFailure },
	} {
		if yes := p.Flag(name); yes != nil {
			o.changes = append(o.changes, func(p *v1.RolloutPlan) { *field(p) = *yes })
		}
	}
	if p.Fault != nil {
		checkPlan(p, &o)
	}
	o.At, err = Beginning(p.Text("at"), h.Now())
	return o, err
}

// Plan returns the rollout plan of a process: the plan of the file, which may be nil, with the parameters on top; nil
// if neither asks for a rollout.
func (o *PlanOptions) Plan(file *v1.RolloutPlan) (*v1.RolloutPlan, error) {
	switch {
	case len(o.changes) == 0 && (file != nil || o.At.IsZero()):
		return file, nil
	case len(o.changes) == 0:
		return nil, call.Invalid("at", "is for a rollout: expected batch beside it, or rollout in the file")
	}
	var p v1.RolloutPlan
	if file != nil {
		p = *file
	}
	for _, change := range o.changes {
		change(&p)
	}
	if faults := processfile.CheckRollout(&p); len(faults) > 0 {
		return nil, call.InvalidFile("", faults)
	}
	return &p, nil
}
