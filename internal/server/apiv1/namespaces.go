package apiv1

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
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
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// getNamespace returns the processes of a namespace as a process file, as far as the caller may query them: as hosts
// have them now, or as they are by a revision.
func (h *Handler) getNamespace(ctx context.Context, c *call) (reply, error) {
	namespace := c.subject("namespace")
	revision := c.params.revision("revision")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if revision != 0 {
		placed, err := h.placedAt(ctx, c, namespace, revision)
		if err != nil {
			return reply{}, err
		}
		return h.shownFile(c, namespace, placed, nil, revision)
	}
	latest, known, err := h.present(ctx, c, namespace)
	if err != nil {
		return reply{}, err
	}
	if len(known) == 0 {
		return reply{}, problemf(http.StatusNotFound, "no host knows a process of namespace %q", namespace)
	}
	c.w.Header().Set("ETag", h.etag(fileOf(namespace, known, latest)))
	standing, err := h.selected(ctx, namespace, known)
	if err != nil {
		return reply{}, err
	}
	return h.shownFile(c, namespace, known, standing, latest)
}

// shownFile replies with processes as a file for the caller. A process that a host has by a selection in force is shown
// as the selection has it: a host that differs is a deviation from the file.
func (h *Handler) shownFile(c *call, namespace string, known []plan.Known, standing []store.Selection, revision int64,
) (reply, error) {
	set := c.Principal.Sets(namespace)
	placed := make([]processfile.Placed, 0, len(known))
	for _, k := range known {
		if agent, _ := h.Directory.ByKey(k.Agent); !set.Covers(gate.Host(agent)) {
			k.Spec = plan.Hidden(k.Spec)
		}
		if k.Selector == "" {
			placed = append(placed, processfile.Placed{
				Name: k.Process.Name, Host: k.Host, Spec: processfile.FromSpec(k.Spec),
			})
		}
	}
	query := c.Principal.On(access.OperationOf(process.Query), namespace)
	for _, s := range standing {
		sees, sets, err := h.covered(s.Selector, query, set)
		switch {
		case err != nil:
			return reply{}, failure("read a selection", err)
		case !sees:
			continue
		case !sets:
			s.Spec = plan.Hidden(s.Spec)
		}
		placed = append(placed, processfile.Placed{
			Name: s.Process.Name, Select: s.Selector, Spec: processfile.FromSpec(s.Spec),
		})
	}
	c.Audit.Targets = len(known)
	file := processfile.Group(namespace, placed)
	file.Revision = revision
	text, _ := json.Marshal(file) // a file always encodes
	return reply{status: http.StatusOK, body: file, weight: len(text)}, nil
}

// covered reports whether one reach covers a host that an expression matches, and another one all of them. If no host
// matches, both must cover every host.
func (h *Handler) covered(text string, one, all access.Reach) (sees, sets bool, err error) {
	matching, err := h.matching(text)
	if err != nil {
		return false, false, err
	}
	sees, sets = one.Everywhere(), true
	none := true
	for a := range matching {
		none = false
		sees, sets = sees || one.Covers(gate.Host(a)), sets && all.Covers(gate.Host(a))
	}
	return sees, sets && (!none || all.Everywhere()), nil
}

// present returns the latest revision of a namespace, and the processes of which hosts have reported the spec. A
// revision that comes meanwhile is not the one that it returns.
func (h *Handler) present(ctx context.Context, c *call, namespace string) (int64, []plan.Known, error) {
	latest, err := h.Revisions.LatestRevision(ctx, namespace)
	if err != nil {
		return 0, nil, failure("read the revision", err)
	}
	known, err := h.known(ctx, c, namespace)
	return latest, known, err
}

// known returns the processes of a namespace that the caller may query.
func (h *Handler) known(ctx context.Context, c *call, namespace string) (all []plan.Known, err error) {
	reach, err := mayRead(c, namespace)
	if err != nil {
		return nil, err
	}
	was := h.heard()
	err = h.eachObserved(ctx, store.ObservedFilter{Namespace: namespace, Spec: true}, func(o *store.Observed) {
		agent, found := h.Directory.ByKey(o.Agent)
		if found && o.Spec != nil && o.Process.Namespace == namespace && reach.Covers(gate.Host(agent)) {
			all = append(all, plan.Known{
				Process: o.Process, Agent: o.Agent, Host: nameOf(agent), Spec: o.Spec, Status: o.Status,
				Untold: was.untold[o.Agent],
			})
		}
	})
	return all, err
}

// fileOf returns processes as a file, by a revision.
func fileOf(namespace string, known []plan.Known, revision int64) v1.File {
	placed := make([]processfile.Placed, 0, len(known))
	for i := range known {
		placed = append(placed, processfile.Placed{
			Name: known[i].Process.Name, Host: known[i].Host, Spec: processfile.FromSpec(known[i].Spec),
		})
	}
	file := processfile.Group(namespace, placed)
	file.Revision = revision
	return file
}

// etag returns the tag of a file: its revision, and a digest of what hosts have. The digest has a key, because the file
// has values that not every caller may see.
func (h *Handler) etag(f v1.File) string {
	text, _ := json.Marshal(f) // a file always encodes
	mac := hmac.New(sha256.New, h.CursorSecret)
	mac.Write([]byte("drover etag\x00"))
	mac.Write(text)
	return fmt.Sprintf(`"%d-%s"`, f.Revision, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12]))
}

const secret = plan.Secret

// filed is what a call of putNamespace asks for, and what there is.
type filed struct {
	dry      bool
	tag      string
	docs     []processfile.Document
	options  plan.Options
	rolls    planOptions
	peers    map[process.ID]bool
	known    []plan.Known
	wanted   []plan.Wanted
	standing []store.Selection
	// unfiled are the processes that have the spec of the file, and no file has brought it. gone are those that
	// somebody has removed, and that a file with prune does not have any more.
	unfiled []store.Placement
	gone    []plan.Known
}

// readFiled reads the call, and what its namespace has. It sets the revision that the task depends on.
func (h *Handler) readFiled(ctx context.Context, c *call, t *store.Task, namespace string) (f filed, err error) {
	dry := c.params.flag("dry_run")
	f.dry = dry != nil && *dry
	t.Message, t.Through = c.params.message(), cmp.Or(c.params.choice("through", v1.ThroughApply, v1.ThroughEdit), v1.ThroughApply)
	var faults [5]error
	var wrong processfile.Faults
	f.options, faults[0] = applyOptions(c)
	f.rolls, faults[1] = h.planOptions(&c.params)
	f.peers, faults[2] = peersOf(c)
	faults[3] = c.params.done()
	f.docs, wrong, faults[4] = readFile(ctx, c, namespace)
	err = together(faults[:]...)
	switch {
	case err != nil && len(problemOf(err).Fields) == 0:
		return f, err
	case len(f.docs) == 0:
		return f, together(err, faulty(wrong))
	}
	fleet.AwaitTold(ctx, h.Directory, h.Now)
	latest, known, failed := h.present(ctx, c, namespace)
	if failed != nil {
		return f, cmp.Or(err, failed)
	}
	f.known, f.tag = known, h.etag(fileOf(namespace, known, latest))
	if err == nil && len(wrong) == 0 {
		t.Known, err = h.matched(ctx, c, namespace, f.tag, latest)
	}
	if err != nil && len(problemOf(err).Fields) == 0 {
		return f, err
	}
	wanted, found, failed := h.inOrder(ctx, c, namespace, &f)
	if err = together(err, failed, faulty(wrong.With(found))); err != nil {
		return f, err
	}
	f.wanted = wanted
	if f.standing, err = h.selected(ctx, namespace, f.known); err != nil {
		return f, err
	}
	if err := h.readUnfiled(ctx, namespace, &f); err != nil {
		return f, err
	}
	return f, h.readGone(ctx, c, namespace, &f)
}

// readUnfiled marks the processes whose spec no file has.
func (h *Handler) readUnfiled(ctx context.Context, namespace string, f *filed) error {
	unfiled, err := h.Upkeep.Unfiled(ctx, namespace)
	if err != nil {
		return failure("read what no file has", err)
	}
	if len(unfiled) == 0 {
		return nil
	}
	wanted, of := map[store.ObservedKey]*process.Spec{}, map[store.ObservedKey]*store.Placement{}
	for _, w := range f.wanted {
		wanted[store.ObservedKey{Agent: w.Agent, Process: w.Process}] = w.Spec
	}
	for i := range unfiled {
		of[store.ObservedKey{Agent: unfiled[i].Agent, Process: unfiled[i].Process}] = &unfiled[i]
	}
	for i := range f.known {
		k := &f.known[i]
		key := store.ObservedKey{Agent: k.Agent, Process: k.Process}
		if p := of[key]; p != nil && wanted[key] != nil && p.Spec.Same(k.Spec) && p.Spec.Same(wanted[key]) {
			k.Unfiled = true
			f.unfiled = append(f.unfiled, *p)
		}
	}
	return nil
}

// readGone finds what the file removes, and somebody has removed already.
func (h *Handler) readGone(ctx context.Context, c *call, namespace string, f *filed) error {
	if f.options.Prune == plan.PruneNone {
		return nil
	}
	wanted, names := map[store.ObservedKey]bool{}, map[string]string{}
	for _, w := range f.wanted {
		wanted[store.ObservedKey{Agent: w.Agent, Process: w.Process}] = true
	}
	reach := c.Principal.On(access.OperationOf(process.Unregister), namespace)
	for a := range h.Directory.After(fleet.Place{}) {
		if reach.Covers(gate.Host(a)) {
			names[a.Key] = nameOf(a)
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(names)), hostsPerRead) {
		removed, err := h.Upkeep.RemovedOn(ctx, part)
		if err != nil {
			return failure("read what no file has", err)
		}
		for _, key := range removed {
			if key.Process.Namespace == namespace && !wanted[key] {
				f.gone = append(f.gone, plan.Known{
					Process: key.Process, Agent: key.Agent, Host: names[key.Agent], Gone: true,
				})
			}
		}
	}
	return nil
}

// file records that a file has what hosts have already, and has no more what they have no more.
func (h *Handler) file(ctx context.Context, c *call, namespace string, f *filed) error {
	if len(f.unfiled)+len(f.gone) == 0 {
		return nil
	}
	steps := make([]plan.Step, len(f.unfiled))
	for i := range f.unfiled {
		p := &f.unfiled[i]
		steps[i] = plan.Step{Op: process.Start, Process: p.Process, Agent: p.Agent}
	}
	gone := make([]store.ObservedKey, len(f.gone))
	for i := range f.gone {
		gone[i] = store.ObservedKey{Agent: f.gone[i].Agent, Process: f.gone[i].Process}
	}
	if err := h.mayApply(c, steps); err != nil {
		return err
	}
	if err := h.Upkeep.File(ctx, namespace, f.unfiled, gone); err != nil {
		return failure("record the file", err)
	}
	return nil
}

// putNamespace makes the processes of a namespace as a process file says.
func (h *Handler) putNamespace(ctx context.Context, c *call) (reply, error) {
	namespace := c.subject("namespace")
	t := h.NewTask(c.Call)
	f, err := h.readFiled(ctx, c, t, namespace)
	if err != nil {
		return reply{}, err
	}
	changes, steps := plan.Make(f.wanted, slices.Concat(f.known, f.gone), f.options)
	rollouts, err := h.rollouts(c, t, &f.rolls, steps)
	if err != nil {
		return reply{}, err
	}
	if !c.Principal.Sets(namespace).Everywhere() {
		hideChanges(changes)
	}
	answer := v1.Plan{Namespace: namespace, Changes: changes}
	selections := h.selectionsOf(t, f.docs, f.wanted, f.standing, f.options.Prune != plan.PruneNone)
	refusal := h.maySelect(c, selections, f.standing)
	if !f.dry {
		err := cmp.Or(refusal, h.mayApply(c, steps))
		if err == nil {
			err = h.file(ctx, c, namespace, &f)
		}
		if err != nil {
			return reply{}, err
		}
	}
	switch {
	case f.dry || len(steps) == 0 && selections == nil:
		c.w.Header().Set("ETag", f.tag)
		answer.Rollouts = viewPlanned(rollouts)
		err = h.foresee(ctx, c, &answer, steps, rollouts, refusal)
		return reply{status: http.StatusOK, body: answer}, err
	case len(steps) == 0:
		return reply{status: http.StatusOK, body: answer}, h.putSelections(ctx, c, t, f.wanted, selections)
	}
	if len(rollouts) > 0 {
		selectionsByRollout(rollouts, selections, f.standing, f.known)
		return h.rollOut(ctx, c, answer, rollouts)
	}
	t.Selections = selections
	return h.apply(ctx, c, t, answer, steps)
}

// inOrder returns the processes of a file, on each host, and what is wrong with their hosts and what they wait for.
func (h *Handler) inOrder(ctx context.Context, c *call, namespace string, f *filed) (
	[]plan.Wanted, processfile.Faults, error,
) {
	wanted, faults, err := h.wanted(c, namespace, f.docs, f.known)
	if err != nil {
		return nil, nil, err
	}
	further, err := h.orderFaults(ctx, c, f)
	return wanted, append(faults, further...), err
}

// applyOptions reads the options of an apply.
func applyOptions(c *call) (o plan.Options, err error) {
	o.Prune = plan.Prune(c.params.choice("prune", string(plan.PruneOwn), string(plan.PruneAll)))
	if no := c.params.flag("no_restart"); no != nil {
		o.NoRestart = *no
	}
	if force := c.params.flag("force"); force != nil {
		o.Force = *force
	}
	if o.Beside, err = besideOf(c); err != nil {
		c.params.list("pid") // what it takes depends on the other
		return o, err
	}
	o.PIDs, err = pidsOf(c, o.Beside)
	return o, err
}

// readFile reads the file in the body of a call.
func readFile(ctx context.Context, c *call, namespace string) (
	docs []processfile.Document, faults processfile.Faults, other error,
) {
	text, err := c.body(ctx)
	if err != nil {
		return nil, nil, err
	}
	var named struct{ Namespace string }
	if json.Unmarshal(text, &named) == nil && named.Namespace != "" && named.Namespace != namespace {
		other = invalid("namespace", "is %.100q: expected %.100q, as in the path", named.Namespace, namespace)
	}
	docs, err = processfile.ReadJSON(text)
	faults, _ = errors.AsType[processfile.Faults](err)
	return docs, faults, other
}

// matched checks If-Match against the tag and the latest revision of a namespace. It returns that revision if the
// caller depends on it.
func (h *Handler) matched(ctx context.Context, c *call, namespace, tag string, latest int64) (
	*store.KnownRevision, error,
) {
	match := c.r.Header.Get("If-Match")
	switch {
	case match == "" || match == "*":
		return nil, nil //nolint:nilnil // the caller depends on nothing
	case len(match) < 2 || match[0] != '"' || strings.IndexByte(match[1:], '"') != len(match)-2:
		return nil, problemf(http.StatusBadRequest, "the header If-Match is %.80q: expected a tag in quotes as in ETag, or *",
			match)
	case match != tag && match != fmt.Sprintf(`"%d"`, latest):
		return nil, changedMeanwhile(namespace)
	}
	return &store.KnownRevision{Namespace: namespace, Number: latest}, h.settled(ctx, namespace)
}

// changedMeanwhile is the problem of a caller whose plan is for an earlier state of a namespace.
func changedMeanwhile(namespace string) error {
	return problemf(http.StatusPreconditionFailed,
		"somebody else has changed namespace %q since the plan was made: look at the plan again", namespace)
}

// settled checks that no operation is under way after which hosts have other specs than they report now.
func (h *Handler) settled(ctx context.Context, namespace string) error {
	task, err := h.Revisions.OpenRevision(ctx, namespace)
	switch {
	case err != nil:
		return failure("look for open operations", err)
	case task != "":
		return problemf(http.StatusPreconditionFailed,
			"operation %s changes namespace %q: wait for its end, and look at the plan again", task, namespace)
	}
	return nil
}

// wanted returns the processes of a file, on each host, and what is wrong with them.
func (h *Handler) wanted(c *call, namespace string, docs []processfile.Document,
	known []plan.Known,
) ([]plan.Wanted, processfile.Faults, error) {
	r := resolver{
		h: h, reach: c.Principal.On(access.OperationOf(process.Query), namespace), namespace: namespace,
		sets:   c.Principal.Sets(namespace),
		stored: map[store.ObservedKey]*process.Spec{}, seen: map[store.ObservedKey]*processfile.Named{},
	}
	for i := range known {
		r.stored[store.ObservedKey{Agent: known[i].Agent, Process: known[i].Process}] = known[i].Spec
	}
	for _, d := range docs {
		for i := range d.Processes {
			r.process(&d.Processes[i])
		}
	}
	if len(r.all) > maxItems {
		return nil, nil, invalid("processes", "make more than %d operations in all", maxItems)
	}
	return r.all, r.faults, nil
}

// resolver finds the hosts of the processes of a file.
type resolver struct {
	h *Handler
	// reach are the hosts that the caller may query, sets those on which the caller may set a spec.
	reach, sets access.Reach
	namespace   string
	stored      map[store.ObservedKey]*process.Spec
	// seen has the entry of each process on each host.
	seen   map[store.ObservedKey]*processfile.Named
	all    []plan.Wanted
	faults processfile.Faults
}

func (r *resolver) fail(p *processfile.Named, path, format string, args ...any) {
	r.faults = append(r.faults, processfile.Fault{
		Path: "processes." + p.Name + "." + path, Text: fmt.Sprintf(format, args...),
	})
}

// process adds the processes of an entry on each of its hosts.
func (r *resolver) process(p *processfile.Named) {
	if len(r.all) > maxItems {
		return // wanted reports it
	}
	all := processfile.Expand(*p)
	specs := make([]*process.Spec, len(all))
	for i := range all {
		if specs[i] = specs[0]; i == 0 || p.RuntimeDirectory != "" { // else the copies are equal
			specs[i] = new(processfile.ToSpec(all[i].Spec))
		}
	}
	for _, f := range processfile.FaultsOf(specs[0], process.Start) {
		r.fail(p, f.Path, "%s", f.Text)
	}
	for _, c := range choicesIn(p.Hosts) {
		field := c.field
		agents := r.h.visible(c.hostChoice, r.reach)
		if len(agents) == 0 {
			r.fail(p, field, "is %.100q: no host has this name or matches it%s", c.String(),
				r.h.sameAddress(c.names, r.reach))
		}
		for _, a := range agents {
			for i := range all {
				r.on(a, all[i].Name, p, field, specs[i])
			}
			if len(r.all) > maxItems {
				return
			}
		}
	}
}

// on adds one process of an entry on a host that a field names.
func (r *resolver) on(a store.Agent, name string, p *processfile.Named, field string, spec *process.Spec) {
	id := process.ID{Namespace: r.namespace, Name: name}
	key := store.ObservedKey{Agent: a.Key, Process: id}
	if first := r.seen[key]; first != nil {
		switch {
		case first == p:
		case first.Name == p.Name:
			r.fail(p, field, "another document has the process for host %s, too", nameOf(a))
		default:
			r.fail(p, field, "processes.%s has %s for host %s, too", first.Name, name, nameOf(a))
		}
		return
	}
	r.seen[key] = p
	if !r.sets.Covers(gate.Host(a)) {
		spec = plan.Guessed(spec)
	}
	own, unknown := plan.Revealed(spec, r.stored[key])
	if unknown != "" {
		r.fail(p, "environment."+unknown, "is %s, and host %s has no value: expected the value", secret, nameOf(a))
	}
	r.all = append(r.all, plan.Wanted{
		Process: id, Agent: a.Key, Host: nameOf(a), Spec: own, Selector: canonical(p.Hosts.Select), Entry: p.Name,
	})
}

// apply stores the operation that carries out the steps.
func (h *Handler) apply(ctx context.Context, c *call, t *store.Task, answer v1.Plan, steps []plan.Step) (reply, error) {
	requests, ops := requestsFor(steps)
	if err := h.narrow(hostsIn(requests), store.OpApply); err != nil {
		return reply{}, err
	}
	t.ID, t.Requests, t.Ordered, t.Exclusive = newTaskID(), requests, true, true
	subject := edge.Clip(requests[0].Process.String())
	c.Operates(subject, len(steps), t.ID, ops)
	err := h.Submit(ctx, c.Call, t)
	_, busy := errors.AsType[*store.RolloutBusyError](err)
	switch {
	case errors.Is(err, store.ErrRevised):
		return reply{}, changedMeanwhile(requests[0].Process.Namespace)
	case busy:
		return reply{}, refusedRollout(err, "")
	case err != nil:
		return reply{}, accepting(err)
	}
	view := viewOperation(store.TaskSummary{
		ID: t.ID, App: t.App, User: t.User, RequestID: t.RequestID, Created: t.Created, Op: requests[0].Op,
		Process: requests[0].Process, Requests: len(requests), Keys: len(steps), Open: len(steps),
	})
	answer.Operation = &view
	return reply{
		status: http.StatusAccepted, body: answer, location: "/operations/" + url.PathEscape(t.ID),
	}, nil
}

// requestsFor groups steps into requests, and counts the operations.
func requestsFor(steps []plan.Step) (list []store.Request, ops map[process.Op]int) {
	type kind struct {
		op      process.Op
		id      process.ID
		spec    *process.Spec
		removes bool
	}
	place := map[kind]int{}
	ops = map[process.Op]int{}
	for _, s := range steps {
		k := kind{s.Op, s.Process, s.Spec, s.Removes}
		i, ok := place[k]
		if !ok {
			i = len(list)
			place[k] = i
			list = append(list, store.Request{Op: s.Op, Process: s.Process, Spec: s.Spec, Removes: s.Removes})
		}
		list[i].Targets = append(list[i].Targets, store.Target{
			Key: store.ResultKey(s.Process, s.Host), Asked: s.Host, Agent: s.Agent,
		})
		ops[s.Op]++
	}
	return list, ops
}
