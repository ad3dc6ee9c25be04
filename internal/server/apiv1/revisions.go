package apiv1

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/spelling"
)

// maxMessage is the longest message of a revision, in bytes.
const maxMessage = 500

// message returns the text of the caller about a change.
func (p *params) message() string {
	text := p.text("message")
	switch {
	case len(text) > maxMessage:
		p.fail(invalid("message", "is %d bytes long: expected at most %d", len(text), maxMessage))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		p.fail(invalid("message", "holds a control character or is not valid UTF-8: expected one line of text"))
	}
	return text
}

// revision returns the number of a revision; 0 if it is missing.
func (p *params) revision(name string) int64 {
	v := p.text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		p.fail(invalid(name, "is %.40q: expected the number of a revision, from 1", v))
	}
	return n
}

// placedAt returns the processes of a namespace by a revision, as far as the caller may query them. Their status is
// empty.
func (h *Handler) placedAt(ctx context.Context, c *call, namespace string, revision int64) (
	all []plan.Known, err error,
) {
	reach, err := mayRead(c, namespace)
	if err != nil {
		return nil, err
	}
	placed, err := h.Revisions.PlacedAt(ctx, namespace, revision)
	if errors.Is(err, store.ErrNotFound) {
		return nil, problemf(http.StatusNotFound, "the server does not have revision %d of namespace %q", revision,
			namespace)
	}
	if err != nil {
		return nil, failure("read the revision", err)
	}
	for _, p := range placed {
		agent, found := h.Directory.ByKey(p.Agent)
		if found && p.Spec != nil && reach.Covers(gate.Host(agent)) {
			all = append(all, plan.Known{
				Process: process.ID{Namespace: namespace, Name: p.Name}, Agent: p.Agent, Host: nameOf(agent),
				Spec: p.Spec,
			})
		}
	}
	return all, nil
}

// listRevisions lists the revisions of a namespace, newest first, with the changes on hosts that the caller may query.
func (h *Handler) listRevisions(ctx context.Context, c *call) (reply, error) {
	namespace := c.subject("namespace")
	f := store.RevisionFilter{Namespace: namespace}
	limit, err := c.params.page(&f.Before)
	if err != nil {
		return reply{}, err
	}
	reach, err := mayRead(c, namespace)
	if err != nil {
		return reply{}, err
	}
	if !reach.Everywhere() {
		f.Sees = func(key string) bool {
			agent, found := h.Directory.ByKey(key)
			return found && reach.Covers(gate.Host(agent))
		}
	}
	rows, next, err := h.Revisions.ListRevisions(ctx, f, limit)
	if err != nil {
		return reply{}, failure("list the revisions", err)
	}
	c.Audit.Targets = len(rows)
	var last any
	if next != 0 {
		last = next
	}
	return ok(pageOf(c, viewed(rows, viewRevision), last))
}

func viewRevision(r store.Revision) v1.Revision {
	v := v1.Revision{
		Number: r.Number, At: r.At, App: r.App, User: r.User, Through: r.Through, Message: r.Message, Operation: r.Task,
		Changes: []v1.RevisionChange{},
	}
	for _, c := range r.Changes {
		change := v1.RevisionChange{Process: c.Name, Action: v1.ActionChange, Hosts: c.Hosts}
		switch {
		case c.From == nil:
			change.Action = v1.ActionCreate
		case c.To == nil:
			change.Action = v1.ActionRemove
		default:
			for _, f := range plan.Fields(c.From, c.To) {
				change.Fields = append(change.Fields, v1.RevisedField{Path: f.Path, Class: f.Class})
			}
		}
		v.Changes = append(v.Changes, change)
	}
	return v
}

// compareRevisions returns the difference between two revisions of a namespace, or between a revision and the present
// state, in the form of a plan.
func (h *Handler) compareRevisions(ctx context.Context, c *call) (reply, error) {
	namespace := c.subject("namespace")
	from, to := c.params.revision("from"), c.params.revision("to")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if from == 0 {
		return reply{}, invalid("from", "is missing: expected the number of a revision")
	}
	before, err := h.placedAt(ctx, c, namespace, from)
	if err != nil {
		return reply{}, err
	}
	after := func() ([]plan.Known, error) { return h.known(ctx, c, namespace) }
	if to != 0 {
		after = func() ([]plan.Known, error) { return h.placedAt(ctx, c, namespace, to) }
	}
	present, err := after()
	if err != nil {
		return reply{}, err
	}
	changes := plan.Compare(before, present)
	if !c.Principal.Sets(namespace).Everywhere() {
		hideChanges(changes)
	}
	c.Audit.Targets = len(changes)
	return ok(v1.Plan{Namespace: namespace, Changes: changes})
}

// undoRollout begins a rollout that brings back the specs that hosts had before an apply: on all hosts at once, unless
// the parameters have a plan.
func (h *Handler) undoRollout(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	o, wrong := h.planOptions(&c.params)
	if err := together(c.params.done(), wrong); err != nil {
		return reply{}, err
	}
	p, err := o.plan(atOnce())
	if err != nil {
		return reply{}, err
	}
	if p.UndoOnFailure {
		return reply{}, invalid("undo_on_failure", "is for an apply, not for its undo")
	}
	undo, err := h.undo(ctx, c, id, p, o.at, h.undoneBy(c))
	if err != nil {
		return reply{}, err
	}
	return reply{
		status: http.StatusAccepted, body: viewRollout(undo), location: "/rollouts/" + url.PathEscape(undo.ID),
	}, nil
}

// atOnce is the plan of an undo, unless somebody gives another one. A host that was away has nothing to take back.
func atOnce() *v1.RolloutPlan {
	return &v1.RolloutPlan{Batch: v1.HostCount{Percent: 100}, SkipAway: true}
}

// UndoFailed undoes a rollout whose plan says so, with the rights of a principal. If nothing can undo it, UndoFailed
// returns why. After an error the caller tries again: nobody has decided.
func (h *Handler) UndoFailed(ctx context.Context, who access.Principal, id string) (refused string, err error) {
	c := &call{Call: &edge.Call{Principal: who, Audit: store.AuditRow{
		At: h.Now(), App: who.App, User: who.User, RequestID: "rollout " + id, Action: "rollouts.undo", Allowed: true,
	}}}
	if _, err = h.undo(ctx, c, id, atOnce(), time.Time{}, h.undoneByItself); err == nil {
		return "", nil
	}
	p := problemOf(err)
	if p.Status == http.StatusForbidden {
		c.Audit.Code, c.Audit.Message = p.Status, p.Detail
		h.Record(ctx, c.Call, edge.Ending{Denied: true})
	}
	if p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests {
		return "", cmp.Or(p.cause, error(p))
	}
	return p.Detail, nil
}

// undo stores a rollout that brings back what hosts had before another one. ending ends that one, if it is paused.
func (h *Handler) undo(ctx context.Context, c *call, id string, p *v1.RolloutPlan, at time.Time, ending undoing) (
	*store.Rollout, error,
) {
	r, err := h.Rollouts.GetRollout(ctx, id, c.app())
	if err != nil {
		return nil, h.onlyOwn(ctx, c, id, stored(err, "rollout", id))
	}
	if err := undoable(r); err != nil {
		return nil, err
	}
	former, err := h.Rollouts.RolloutSteps(ctx, id)
	if err != nil {
		return nil, failure("read the rollout", err)
	}
	known, err := h.known(ctx, c, r.Steps[0].Process.Namespace)
	if err != nil {
		return nil, err
	}
	steps, changed, removed, err := h.stepsBack(ctx, r, former, known)
	if err != nil {
		return nil, err
	}
	if err := h.mayApply(c, steps); err != nil { // first, because a host that the caller may not see is no removal
		return nil, err
	}
	if err := notAsLeft(id, changed, removed); err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return nil, h.nothingToUndo(ctx, c, id)
	}
	undo := h.newRollout(c, store.OpApply)
	undo.Through, undo.Message, undo.Undoes = v1.ThroughUndo, "undo of "+r.ID, r.ID
	undo.Ends = ending(r, undo.ID)
	h.lay(undo, p, at, steps)
	if err := h.selectAsBefore(ctx, c, undo, known); err != nil {
		return nil, err
	}
	return undo, h.store(ctx, c, []*store.Rollout{undo})
}

// sameBegun reports whether the same hosts of a rollout have begun at the same times.
func sameBegun(a, b []rollout.Host) bool {
	return slices.EqualFunc(a, b, func(a, b rollout.Host) bool { return a.Begun.Equal(b.Begun) })
}

// undoing returns the change that ends a rollout for its undo, which has an id; nil if the rollout has ended.
type undoing func(r *store.Rollout, undo string) *store.RolloutEnd

// undoneBy is the undo by a caller. It fails if the rollout has gone on since the caller read it.
func (h *Handler) undoneBy(c *call) undoing {
	return func(r *store.Rollout, _ string) *store.RolloutEnd {
		if !r.State.Active() {
			return nil
		}
		return &store.RolloutEnd{RolloutChange: h.changeBy(c), Change: func(now *rollout.Rollout) error {
			if !sameBegun(now.Hosts, r.Hosts) {
				return problemf(http.StatusConflict, "rollout %s went on meanwhile: undo it again", r.ID)
			}
			return aborted("undone by " + c.Principal.Name())(now)
		}}
	}
}

// undoneByItself is the undo that the plan of a rollout asks for. It fails if somebody has changed that.
func (h *Handler) undoneByItself(r *store.Rollout, undo string) *store.RolloutEnd {
	by := store.RolloutChange{At: h.Now(), By: process.Actor{Kind: process.ActorPolicy}}
	return &store.RolloutEnd{RolloutChange: by, Change: func(now *rollout.Rollout) error {
		if !now.Undoing() || !sameBegun(now.Hosts, r.Hosts) {
			return problemf(http.StatusConflict, "somebody has changed rollout %s meanwhile", r.ID)
		}
		return aborted(now.Reason + ": undone by rollout " + undo)(now)
	}}
}

// placedBefore returns the specs that hosts should have had before the rollout of an apply, if the rollout has missed
// hosts: a host that was away may never have reported the former spec.
func (h *Handler) placedBefore(ctx context.Context, r *store.Rollout) (map[store.ObservedKey]*process.Spec, error) {
	if !slices.ContainsFunc(r.Hosts, func(x rollout.Host) bool { return !x.Begun.IsZero() && missed(&x) }) {
		return nil, nil //nolint:nilnil // nobody asks
	}
	f, first := store.RevisionFilter{Namespace: r.Steps[0].Process.Namespace}, int64(0)
	for more := true; more; {
		rows, next, err := h.Revisions.ListRevisions(ctx, f, maxPage)
		if err != nil {
			return nil, failure("list the revisions", err)
		}
		for i := range rows {
			if more = !rows[i].At.Before(r.Created); !more {
				break
			}
			if store.RolloutOf(rows[i].Task) == r.ID {
				first = rows[i].Number
			}
		}
		f.Before, more = next, more && next != 0
	}
	if first <= 1 {
		return nil, nil //nolint:nilnil // nothing was placed
	}
	placed, err := h.Revisions.PlacedAt(ctx, f.Namespace, first-1)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, failure("read the revision", err)
	}
	all := map[store.ObservedKey]*process.Spec{}
	for _, p := range placed {
		all[store.ObservedKey{Agent: p.Agent, Process: process.ID{Namespace: f.Namespace, Name: p.Name}}] = p.Spec
	}
	return all, nil
}

// removedFrom returns the processes that somebody has removed by hand from the hosts of a rollout.
func (h *Handler) removedFrom(ctx context.Context, r *store.Rollout) (map[store.ObservedKey]bool, error) {
	agents := make([]string, len(r.Hosts))
	for i := range r.Hosts {
		agents[i] = r.Hosts[i].Agent
	}
	removed, err := h.Upkeep.RemovedOn(ctx, agents)
	if err != nil {
		return nil, failure("read the rollout", err)
	}
	all := map[store.ObservedKey]bool{}
	for _, key := range removed {
		all[key] = true
	}
	return all, nil
}

// missed reports whether a rollout has not reached a host of a batch that has begun.
func missed(x *rollout.Host) bool {
	return x.Cause == rollout.CauseAway || x.Cause == rollout.CauseCancelled
}

// aborted ends a rollout for a reason.
func aborted(reason string) func(*rollout.Rollout) error {
	return func(r *rollout.Rollout) error {
		err := r.Abort()
		if err == nil {
			r.Reason = reason
		}
		return err
	}
}

// undoable rejects the undo of a rollout that is under way, or of an operation.
func undoable(r *store.Rollout) error {
	begun := r.Counts()[rollout.Begun]
	switch {
	case r.Op.Name() == process.Upgrade:
		return problemf(http.StatusUnprocessableEntity,
			"nothing undoes an upgrade: sign the earlier version with --downgrade, and upgrade the hosts to it")
	case r.Op != store.OpApply:
		return problemf(http.StatusUnprocessableEntity,
			"rollout %s is of the operation %s, which nothing undoes: expected the rollout of an apply", r.ID, r.Op)
	case r.State == rollout.Scheduled:
		return problemf(http.StatusConflict, "rollout %s is scheduled and has changed nothing: end it with "+
			"'drover rollout abort %s'", r.ID, r.ID)
	case r.State == rollout.Running:
		return problemf(http.StatusConflict, "rollout %s is running: pause it with 'drover rollout pause %s', "+
			"or end it with 'drover rollout abort %s'", r.ID, r.ID, r.ID)
	case begun > 0:
		return problemf(http.StatusConflict, "rollout %s is still under way on %s: wait for them", r.ID,
			process.Count(begun, "host", "hosts"))
	}
	return nil
}

// notAsLeft refuses the undo of a rollout after which somebody has changed or removed processes.
func notAsLeft(id string, changed, removed []string) error {
	switch {
	case len(removed) == 0 && len(changed) == 0:
		return nil
	case len(removed) == 0:
		return problemf(http.StatusConflict,
			"%s changed since rollout %s, such as %s: apply the file that you want instead",
			process.Count(len(changed), "process has", "processes have"), id, changed[0])
	case len(changed) == 0:
		return problemf(http.StatusConflict,
			"%s removed since rollout %s, such as %s: apply the file that you want instead",
			process.Count(len(removed), "process was", "processes were"), id, removed[0])
	}
	return problemf(http.StatusConflict,
		"%d processes were changed or removed since rollout %s, such as %s: apply the file that you want instead",
		len(changed)+len(removed), id, changed[0])
}

// stepsBack returns the steps that bring back the specs of the hosts that a rollout has reached. Hosts that were away
// or cancelled have steps without effect there, because by the revision of their batch they should have the new specs.
// The processes that are gone have such steps, too, so that no file says that the host should have them. changed are
// processes, with their hosts, whose specs are neither those of the rollout nor the former ones. removed are those that
// somebody has removed since, and that the undo would bring back.
func (h *Handler) stepsBack(ctx context.Context, r *store.Rollout, former []store.RolloutStep, known []plan.Known) (
	steps []plan.Step, changed, removed []string, err error,
) {
	before, err := h.placedBefore(ctx, r)
	if err != nil {
		return nil, nil, nil, err
	}
	gone, err := h.removedFrom(ctx, r)
	if err != nil {
		return nil, nil, nil, err
	}
	var wanted []plan.Wanted
	var without []plan.Step
	present := map[store.ObservedKey]*process.Spec{}
	for i := range known {
		if k := &known[i]; k.Spec != nil {
			present[store.ObservedKey{Agent: k.Agent, Process: k.Process}] = k.Spec.Unnumbered()
		}
	}
	reached := map[store.ObservedKey]bool{}
	for i := range r.Hosts {
		x := &r.Hosts[i]
		if _, joined := h.Directory.ByKey(x.Agent); x.Begun.IsZero() || x.Cause == rollout.CauseChanged || !joined {
			continue
		}
		for _, at := range x.Steps {
			s := &former[at]
			key := store.ObservedKey{Agent: x.Agent, Process: s.Process}
			now := present[key]
			switch place := s.Process.String() + " on " + x.Name; {
			case now == nil && s.Spec != nil && s.Former != nil && !missed(x):
				removed = append(removed, place)
			case now != nil && !isOf(s, now):
				changed = append(changed, place)
			}
			reached[key] = true
			back := plan.Step{Op: process.Stop, Process: s.Process, Agent: x.Agent, Host: x.Name, Removes: true}
			stays := missed(x) && now == nil && gone[key] // somebody removed it before the rollout came to the host
			if old := cmp.Or(s.Former, before[key]); old != nil && (s.Former != nil || missed(x)) && !stays {
				of, _ := old.CopyOf(s.Process)
				back.Op, back.Removes, back.Spec = process.Update, false, old.Unnumbered()
				wanted = append(wanted, plan.Wanted{
					Process: s.Process, Agent: x.Agent, Host: x.Name, Spec: back.Spec, Entry: of.Name,
				})
			}
			if missed(x) || gone[key] {
				without = append(without, back)
			}
		}
	}
	known = slices.DeleteFunc(slices.Clone(known), func(k plan.Known) bool {
		return !reached[store.ObservedKey{Agent: k.Agent, Process: k.Process}]
	})
	_, steps = plan.Make(wanted, known, plan.Options{Prune: plan.PruneAll})
	made := map[store.ObservedKey]bool{}
	for _, s := range steps {
		made[store.ObservedKey{Agent: s.Agent, Process: s.Process}] = true
	}
	without = slices.DeleteFunc(without, func(s plan.Step) bool {
		return made[store.ObservedKey{Agent: s.Agent, Process: s.Process}]
	})
	return append(steps, without...), changed, removed, nil
}

// isOf reports whether a spec is the one that a step has brought, or the one before it.
func isOf(s *store.RolloutStep, now *process.Spec) bool {
	return s.Spec != nil && s.Spec.Unnumbered().Same(now) || s.Former != nil && s.Former.Unnumbered().Same(now)
}

// orderFaults checks after of the processes of a file against those that hosts have and the peers that the caller
// brings: each name is a process, and none waits for itself over others, also over those of other namespaces.
func (h *Handler) orderFaults(ctx context.Context, c *call, f *filed) (processfile.Faults, error) {
	o := ordering{
		h: h, c: c, specs: map[process.ID]*process.Spec{}, copies: map[process.ID][]process.ID{},
		seen: map[process.ID]bool{}, peers: f.peers,
	}
	for i := range f.known {
		o.specs[f.known[i].Process] = f.known[i].Spec
	}
	entries := map[process.ID]string{}
	for _, d := range f.docs { // which also have processes that no host has yet
		for i := range d.Processes {
			entry := &d.Processes[i]
			spec := processfile.ToSpec(entry.Spec)
			for _, p := range processfile.Expand(*entry) {
				id := process.ID{Namespace: d.Namespace, Name: p.Name}
				o.specs[id], entries[id] = &spec, entry.Name
			}
		}
	}
	for id, spec := range o.specs {
		if of, number := spec.CopyOf(id); number > 0 {
			o.copies[of] = append(o.copies[of], id)
		}
	}
	var faults processfile.Faults
	unknown, err := o.unknown(ctx, f.docs)
	if err != nil {
		return nil, err
	}
	for _, path := range processfile.Circles(o.specs, o.copies) {
		own := slices.IndexFunc(path, func(step string) bool {
			namespace, name, _ := strings.Cut(step, "/")
			return entries[process.ID{Namespace: namespace, Name: name}] != ""
		})
		if own < 0 {
			continue // others wait for each other
		}
		namespace, name, _ := strings.Cut(path[own], "/")
		at := "processes." + entries[process.ID{Namespace: namespace, Name: name}] + ".after"
		if !slices.ContainsFunc(faults, func(f processfile.Fault) bool { return f.Path == at }) {
			faults = append(faults, processfile.Fault{
				Path: at, Text: "the process waits for itself: " + strings.Join(path, " → "),
			})
		}
	}
	return append(faults, unknown...), nil
}

// ordering has the specs that decide the order of processes. copies has the copies of those that have some, seen what
// was read of other namespaces.
type ordering struct {
	h      *Handler
	c      *call
	specs  map[process.ID]*process.Spec
	copies map[process.ID][]process.ID
	seen   map[process.ID]bool
	// peers are the processes of other namespaces that the caller brings.
	peers map[process.ID]bool
}

// unknown finds the names in after that are no process, neither of the documents of a namespace.
func (o *ordering) unknown(ctx context.Context, docs []processfile.Document) (faults processfile.Faults, err error) {
	told := map[string]bool{}
	for _, d := range docs {
		for i := range d.Processes {
			p := &d.Processes[i]
			of := process.ID{Namespace: d.Namespace, Name: p.Name}
			for _, name := range slices.Sorted(maps.Keys(p.After)) {
				at := "processes." + p.Name + ".after." + name
				known, err := o.known(ctx, process.Peer(of, name), d.Namespace)
				if err != nil {
					return nil, err
				}
				if known || told[at] {
					continue
				}
				told[at] = true
				near, err := o.near(ctx, process.Peer(of, name), of, strings.Contains(name, "/"))
				if err != nil {
					return nil, err
				}
				f := processfile.Fault{Path: at, Text: "no file and no host has this process"}
				if len(near) > 0 {
					f.Text += ", did you mean " + process.OrList(near) + "?"
				}
				faults = append(faults, f)
			}
		}
	}
	return faults, nil
}

// known reports whether there is a process or its copies. The processes of the namespace home were read.
func (o *ordering) known(ctx context.Context, id process.ID, home string) (bool, error) {
	if err := o.read(ctx, id, home); err != nil {
		return false, err
	}
	return o.specs[id] != nil || len(o.copies[id]) > 0 || o.peers[id], nil
}

// near returns the names that a name in after of a process may mean, as far as the caller may query them.
func (o *ordering) near(ctx context.Context, id, of process.ID, whole bool) ([]string, error) {
	names := map[string]bool{}
	add := func(p process.ID) {
		base, _ := process.CutCopy(p.Name)
		if p.Namespace == id.Namespace && p != of {
			names[base] = true
		}
	}
	for p := range o.specs {
		add(p)
	}
	for p := range o.peers {
		add(p)
	}
	if id.Namespace != of.Namespace {
		reach := o.c.Principal.On(access.OperationOf(process.Query), id.Namespace)
		err := o.h.eachObserved(ctx, store.ObservedFilter{Namespace: id.Namespace}, func(row *store.Observed) {
			if agent, joined := o.h.Directory.ByKey(row.Agent); joined && reach.Covers(gate.Host(agent)) {
				add(row.Process)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	near := spelling.Nearest(id.Name, slices.Sorted(maps.Keys(names)))
	for i := range near {
		if whole {
			near[i] = id.Namespace + "/" + near[i]
		}
	}
	return near, nil
}

// read reads a process of another namespace and its copies, as far as the caller may query them, and those that they
// are after in turn. The processes of the namespace home are known.
func (o *ordering) read(ctx context.Context, id process.ID, home string) error {
	for next := []process.ID{id}; len(next) > 0; {
		id, next = next[0], next[1:]
		if id.Namespace == home || o.seen[id] {
			continue
		}
		o.seen[id] = true
		reach := o.c.Principal.On(access.OperationOf(process.Query), id.Namespace)
		f := store.ObservedFilter{Process: id, Copies: true, Spec: true}
		err := o.h.eachObserved(ctx, f, func(row *store.Observed) {
			agent, joined := o.h.Directory.ByKey(row.Agent)
			if !joined || !reach.Covers(gate.Host(agent)) {
				return
			}
			spec := cmp.Or(row.Spec, &process.Spec{})
			if of, number := spec.CopyOf(row.Process); number > 0 && o.specs[row.Process] == nil {
				o.copies[of] = append(o.copies[of], row.Process)
			}
			o.specs[row.Process] = spec
			for name := range spec.After {
				next = append(next, process.Peer(row.Process, name))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nothingToUndo says why a rollout has nothing to undo: mostly somebody has undone it already.
func (h *Handler) nothingToUndo(ctx context.Context, c *call, id string) error {
	list, err := h.Rollouts.ListRollouts(ctx, store.RolloutFilter{Sight: c.sight()}, 0, maxPage)
	if err != nil {
		return failure("list the rollouts", err)
	}
	for i := range list {
		if r := &list[i]; r.Undoes == id {
			return problemf(http.StatusConflict, "rollout %s is undone already: by rollout %s, which %s began at %s", id, r.ID,
				beganBy(r.App, r.User), r.Created.UTC().Format(time.RFC3339))
		}
	}
	return problemf(http.StatusConflict, "rollout %s has changed nothing that is still so", id)
}
