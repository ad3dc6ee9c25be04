package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/operations"
	"drover/internal/server/api/processes"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// hideChanges removes the values of environments from a plan.
func hideChanges(changes []v1.Change) {
	for i := range changes {
		for j := range changes[i].Fields {
			if f := &changes[i].Fields[j]; strings.HasPrefix(f.Path, "environment.") {
				for _, value := range []*any{&f.From, &f.To} {
					if *value != nil {
						*value = processes.Secret
					}
				}
			}
		}
	}
}

// applyRequest is the request of a Put, and the present state that the server compares with it.
type applyRequest struct {
	dry        bool
	tag        string
	docs       []processfile.Document
	options    plan.Options
	rolls      operations.PlanOptions
	peers      map[process.ID]bool
	reported   []plan.Known
	resolved   []plan.Wanted
	selections []store.Selection
	// unfiled are the processes that already have the spec of the file although no file brought that spec. removed are
	// the processes that somebody has removed already, and that a file with prune no longer has.
	unfiled []store.Placement
	removed []plan.Known
}

// readApply reads the call and the present state of its namespace. It sets the revision that the task depends on.
func (h *Handler) readApply(ctx context.Context, c *call.Call, t *store.Task, namespace string) (
	f applyRequest, err error,
) {
	dry := c.Params.Flag("dry_run")
	f.dry = dry != nil && *dry
	t.Message, t.Through = messageOf(&c.Params), cmp.Or(c.Params.Choice("through", v1.ThroughApply, v1.ThroughEdit), v1.ThroughApply)
	var faults [5]error
	var wrong processfile.Faults
	f.options, faults[0] = applyOptions(c)
	f.rolls, faults[1] = h.operations.PlanOptionsOf(&c.Params)
	f.peers, faults[2] = peersOf(c)
	faults[3] = c.Params.Done()
	f.docs, wrong, faults[4] = readFile(ctx, c, namespace)
	err = call.Together(faults[:]...)
	switch {
	case err != nil && len(call.ProblemOf(err).Fields) == 0:
		return f, err
	case len(f.docs) == 0:
		return f, call.Together(err, call.Faulty(wrong))
	}
	fleet.AwaitTold(ctx, h.Directory, h.Now)
	latest, known, failed := h.latestSpecs(ctx, c, namespace)
	if failed != nil {
		return f, cmp.Or(err, failed)
	}
	f.reported, f.tag = known, h.etag(fileOf(namespace, known, latest))
	if err == nil && len(wrong) == 0 {
		t.ExpectedRevision, err = h.matched(ctx, c, namespace, f.tag, latest)
	}
	if err != nil && len(call.ProblemOf(err).Fields) == 0 {
		return f, err
	}
	wanted, found, failed := h.inOrder(ctx, c, namespace, &f)
	if err = call.Together(err, failed, call.Faulty(wrong.With(found))); err != nil {
		return f, err
	}
	f.resolved = wanted
	if f.selections, err = h.operations.Selected(ctx, namespace, f.reported); err != nil {
		return f, err
	}
	if err := h.readUnfiled(ctx, namespace, &f); err != nil {
		return f, err
	}
	return f, h.readGone(ctx, c, namespace, &f)
}

// readUnfiled finds the processes that have the spec of the file although no file brought that spec.
func (h *Handler) readUnfiled(ctx context.Context, namespace string, f *applyRequest) error {
	unfiled, err := h.Upkeep.Unfiled(ctx, namespace)
	if err != nil {
		return call.Failure("read what no file has", err)
	}
	if len(unfiled) == 0 {
		return nil
	}
	wanted, of := map[store.ObservedKey]*process.Spec{}, map[store.ObservedKey]*store.Placement{}
	for _, w := range f.resolved {
		wanted[store.ObservedKey{Agent: w.Agent, Process: w.Process}] = w.Spec
	}
	for i := range unfiled {
		of[store.ObservedKey{Agent: unfiled[i].Agent, Process: unfiled[i].Process}] = &unfiled[i]
	}
	for i := range f.reported {
		k := &f.reported[i]
		key := store.ObservedKey{Agent: k.Agent, Process: k.Process}
		if p := of[key]; p != nil && wanted[key] != nil && p.Spec.Same(k.Spec) && p.Spec.Same(wanted[key]) {
			k.Unfiled = true
			f.unfiled = append(f.unfiled, *p)
		}
	}
	return nil
}

// readGone finds the processes that the file removes and somebody has removed already.
func (h *Handler) readGone(ctx context.Context, c *call.Call, namespace string, f *applyRequest) error {
	if f.options.Prune == plan.PruneNone {
		return nil
	}
	wanted, names := map[store.ObservedKey]bool{}, map[string]string{}
	for _, w := range f.resolved {
		wanted[store.ObservedKey{Agent: w.Agent, Process: w.Process}] = true
	}
	reach := c.Principal.On(access.OperationOf(process.Unregister), namespace)
	for a := range h.Directory.After(fleet.Place{}) {
		if reach.Covers(gate.Host(a)) {
			names[a.Key] = hosts.NameOf(a)
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(names)), hostsPerRead) {
		removed, err := h.Upkeep.RemovedOn(ctx, part)
		if err != nil {
			return call.Failure("read what no file has", err)
		}
		for _, key := range removed {
			if key.Process.Namespace == namespace && !wanted[key] {
				f.removed = append(f.removed, plan.Known{
					Process: key.Process, Agent: key.Agent, Host: names[key.Agent], Gone: true,
				})
			}
		}
	}
	return nil
}

// file stores that the unfiled processes belong to the file from now on, and that the removed processes do not.
func (h *Handler) file(ctx context.Context, c *call.Call, namespace string, f *applyRequest) error {
	if len(f.unfiled)+len(f.removed) == 0 {
		return nil
	}
	steps := make([]plan.Step, len(f.unfiled))
	for i := range f.unfiled {
		p := &f.unfiled[i]
		steps[i] = plan.Step{Op: process.Start, Process: p.Process, Agent: p.Agent}
	}
	gone := make([]store.ObservedKey, len(f.removed))
	for i := range f.removed {
		gone[i] = store.ObservedKey{Agent: f.removed[i].Agent, Process: f.removed[i].Process}
	}
	if err := h.operations.MayApply(c, steps); err != nil {
		return err
	}
	if err := h.Upkeep.File(ctx, namespace, f.unfiled, gone); err != nil {
		return call.Failure("record the file", err)
	}
	return nil
}

// Put makes the processes of a namespace as a process file says.
func (h *Handler) Put(ctx context.Context, c *call.Call) (call.Reply, error) {
	namespace := c.Subject("namespace")
	t := h.NewTask(c.Call)
	f, err := h.readApply(ctx, c, t, namespace)
	if err != nil {
		return call.Reply{}, err
	}
	changes, steps := plan.Make(f.resolved, slices.Concat(f.reported, f.removed), f.options)
	rollouts, err := h.rollouts(c, t, &f.rolls, steps)
	if err != nil {
		return call.Reply{}, err
	}
	if !c.Principal.Sets(namespace).Everywhere() {
		hideChanges(changes)
	}
	answer := v1.Plan{Namespace: namespace, Changes: changes}
	selections := h.selectionsOf(t, f.docs, f.resolved, f.selections, f.options.Prune != plan.PruneNone)
	refusal := h.operations.MaySelect(c, selections, f.selections)
	if !f.dry {
		err := cmp.Or(refusal, h.operations.MayApply(c, steps))
		if err == nil {
			err = h.file(ctx, c, namespace, &f)
		}
		if err != nil {
			return call.Reply{}, err
		}
	}
	switch {
	case f.dry || len(steps) == 0 && selections == nil:
		c.Response.Header().Set("ETag", f.tag)
		answer.Rollouts = operations.ViewPlanned(rollouts)
		err = h.foresee(ctx, c, &answer, steps, rollouts, refusal)
		return call.Reply{Status: http.StatusOK, Body: answer}, err
	case len(steps) == 0:
		return call.Reply{Status: http.StatusOK, Body: answer}, h.putSelections(ctx, c, t, f.resolved, selections)
	}
	if len(rollouts) > 0 {
		selectionsByRollout(rollouts, selections, f.selections, f.reported)
		return h.rollOut(ctx, c, answer, rollouts)
	}
	t.Selections = selections
	return h.apply(ctx, c, t, answer, steps)
}

// inOrder returns the processes of a file on each host, and the faults of their hosts and of the processes that they
// wait for.
func (h *Handler) inOrder(ctx context.Context, c *call.Call, namespace string, f *applyRequest) (
	[]plan.Wanted, processfile.Faults, error,
) {
	wanted, faults, err := h.resolveFile(c, namespace, f.docs, f.reported)
	if err != nil {
		return nil, nil, err
	}
	further, err := h.orderFaults(ctx, c, f)
	return wanted, append(faults, further...), err
}

// applyOptions reads the options of an apply.
func applyOptions(c *call.Call) (o plan.Options, err error) {
	o.Prune = plan.Prune(c.Params.Choice("prune", string(plan.PruneOwn), string(plan.PruneAll)))
	if no := c.Params.Flag("no_restart"); no != nil {
		o.NoRestart = *no
	}
	if force := c.Params.Flag("force"); force != nil {
		o.Force = *force
	}
	if o.Beside, err = besideOf(c); err != nil {
		c.Params.List("pid") // what it takes depends on the other
		return o, err
	}
	o.PIDs, err = pidsOf(c, o.Beside)
	return o, err
}

// readFile reads the file in the body of a call.
func readFile(ctx context.Context, c *call.Call, namespace string) (
	docs []processfile.Document, faults processfile.Faults, other error,
) {
	text, err := c.Body(ctx)
	if err != nil {
		return nil, nil, err
	}
	var named struct{ Namespace string }
	if json.Unmarshal(text, &named) == nil && named.Namespace != "" && named.Namespace != namespace {
		other = call.Invalid("namespace", "is %.100q: expected %.100q, as in the path", named.Namespace, namespace)
	}
	docs, err = processfile.ReadJSON(text)
	faults, _ = errors.AsType[processfile.Faults](err)
	return docs, faults, other
}

// matched checks If-Match against the tag and the latest revision of a namespace. It returns that revision if the
// caller depends on it.
func (h *Handler) matched(ctx context.Context, c *call.Call, namespace, tag string, latest int64) (
	*store.ExpectedRevision, error,
) {
	match := c.Request.Header.Get("If-Match")
	switch {
	case match == "" || match == "*":
		return nil, nil //nolint:nilnil // the caller depends on nothing
	case len(match) < 2 || match[0] != '"' || strings.IndexByte(match[1:], '"') != len(match)-2:
		return nil, call.Problemf(http.StatusBadRequest, "the header If-Match is %.80q: expected a tag in quotes as in ETag, or *",
			match)
	case match != tag && match != fmt.Sprintf(`"%d"`, latest):
		return nil, changedMeanwhile(namespace)
	}
	return &store.ExpectedRevision{Namespace: namespace, Number: latest}, h.checkNoOpenOperation(ctx, namespace)
}

// changedMeanwhile is the problem of a caller whose plan is for an earlier state of a namespace.
func changedMeanwhile(namespace string) error {
	return call.Problemf(http.StatusPreconditionFailed,
		"somebody else has changed namespace %q since the plan was made: look at the plan again", namespace)
}

// checkNoOpenOperation fails if an operation is under way that changes the specs that hosts report now.
func (h *Handler) checkNoOpenOperation(ctx context.Context, namespace string) error {
	task, err := h.Revisions.OpenRevision(ctx, namespace)
	switch {
	case err != nil:
		return call.Failure("look for open operations", err)
	case task != "":
		return call.Problemf(http.StatusPreconditionFailed,
			"operation %s changes namespace %q: wait for its end, and look at the plan again", task, namespace)
	}
	return nil
}

// resolveFile returns the processes of a file on each host, and their faults.
func (h *Handler) resolveFile(c *call.Call, namespace string, docs []processfile.Document,
	known []plan.Known,
) ([]plan.Wanted, processfile.Faults, error) {
	r := resolver{
		h: h, reach: c.Principal.On(access.OperationOf(process.Query), namespace), namespace: namespace,
		sets:        c.Principal.Sets(namespace),
		storedSpecs: map[store.ObservedKey]*process.Spec{}, entries: map[store.ObservedKey]*processfile.Named{},
	}
	for i := range known {
		r.storedSpecs[store.ObservedKey{Agent: known[i].Agent, Process: known[i].Process}] = known[i].Spec
	}
	for _, d := range docs {
		for i := range d.Processes {
			r.process(&d.Processes[i])
		}
	}
	if len(r.all) > call.MaxItems {
		return nil, nil, call.Invalid("processes", "make more than %d operations in all", call.MaxItems)
	}
	return r.all, r.faults, nil
}

// apply stores the operation that carries out the steps.
func (h *Handler) apply(
	ctx context.Context, c *call.Call, t *store.Task, answer v1.Plan, steps []plan.Step,
) (call.Reply, error) {
	requests, ops := operations.RequestsFor(steps)
	if err := h.operations.CheckBreadth(operations.HostsIn(requests), store.OpApply); err != nil {
		return call.Reply{}, err
	}
	t.ID, t.Requests, t.Ordered, t.Exclusive = operations.NewTaskID(), requests, true, true
	subject := edge.Clip(requests[0].Process.String())
	c.Operates(subject, len(steps), t.ID, ops)
	err := h.Submit(ctx, c.Call, t)
	_, busy := errors.AsType[*store.RolloutBusyError](err)
	switch {
	case errors.Is(err, store.ErrRevised):
		return call.Reply{}, changedMeanwhile(requests[0].Process.Namespace)
	case busy:
		return call.Reply{}, operations.RefusedRollout(err, "")
	case err != nil:
		return call.Reply{}, operations.Accepting(err)
	}
	view := operations.ViewTask(store.TaskSummary{
		ID: t.ID, App: t.App, User: t.User, RequestID: t.RequestID, Created: t.Created, Op: requests[0].Op,
		Process: requests[0].Process, Requests: len(requests), Keys: len(steps), Open: len(steps),
	})
	answer.Operation = &view
	return call.Reply{
		Status: http.StatusAccepted, Body: answer, Location: "/tasks/" + url.PathEscape(t.ID),
	}, nil
}

// pidsOf reads the pids of the copies to take over.
func pidsOf(c *call.Call, wish process.Beside) (map[string]plan.PID, error) {
	pids := map[string]plan.PID{}
	for _, word := range c.Params.List("pid") {
		name, text, _ := strings.Cut(word, ":")
		pid, ok := plan.ReadPID(text)
		switch {
		case !ok || name == "":
			return nil, call.Invalid("pid", "has %q: expected PROCESS:PID:BEGAN", word)
		case wish != process.TakeOver && wish != process.Adopt:
			return nil, call.Invalid("pid", "stands without take_over")
		}
		pids[name] = pid
	}
	return pids, nil
}

// peersOf reads the processes of other namespaces that the caller brings by calls of their own.
func peersOf(c *call.Call) (map[process.ID]bool, error) {
	peers := map[process.ID]bool{}
	for _, word := range c.Params.List("peer") {
		namespace, name, _ := strings.Cut(word, "/")
		id := process.ID{Namespace: namespace, Name: name}
		if process.ValidateID(id) != nil {
			return nil, call.Invalid("peer", "has %.100q: expected NAMESPACE/NAME", word)
		}
		peers[id] = true
	}
	return peers, nil
}

// besideOf reads what a start does beside an unwatched copy.
func besideOf(c *call.Call) (process.Beside, error) {
	wish := map[string]process.Beside{
		"true": process.TakeOver, "only": process.Adopt,
	}[c.Params.Choice("take_over", "true", "only", "false")]
	switch beside := c.Params.Flag("beside"); {
	case beside == nil || !*beside:
		return wish, nil
	case wish != process.Refuse:
		return "", call.Invalid("beside", "stands beside take_over: expected one of them")
	}
	return process.StartBeside, nil
}
