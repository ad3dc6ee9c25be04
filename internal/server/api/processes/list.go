package processes

import (
	"context"
	"net/http"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// Secret stands for a value of a spec that the caller may not see.
const Secret = plan.Secret

func (h *Handler) viewProcess(o store.Observed, host v1.Host) v1.Process {
	v := v1.Process{
		Namespace: o.Process.Namespace, Name: o.Process.Name, Host: host,
		State: o.Status.State, Stale: !host.Online || !h.Fullness.FullSince().IsZero(), Message: o.Status.Message,
		Hosted: o.Status.Hosted, Want: string(o.Status.Want),
		RegisteredAt: call.UnixTime(o.Status.RegisteredAt), LastStartAt: call.UnixTime(o.Status.LastStartAt),
		ReportedAt:    call.UnixTime(o.Status.ReportedAt),
		ProcessDetail: viewDetail(&o.Status),
	}
	if o.Spec != nil {
		v.Spec, v.Revision = o.Spec.Unnumbered(), o.Spec.Revision
	}
	if i := o.Status.Instance; o.Status.Running() {
		v.Instance = &v1.Instance{
			PID: i.PID, Cmdline: i.Cmdline, StartedAt: call.UnixTime(i.StartedAt), CPU: i.CPU, Mem: i.Mem,
			RSS: i.RSS << 10, Threads: i.Threads, Version: i.Version, Health: i.Health, Revision: i.Revision,
		}
	}
	return v
}

func viewDetail(s *process.Status) v1.ProcessDetail {
	v := v1.ProcessDetail{
		Flapping: s.Flapping, Restarts: s.Restarts, LastExit: events.ViewExit(s.LastExit),
		Health: viewAnswer(s.Health), Version: viewAnswer(s.Version), NextRun: call.MilliTime(s.NextRun),
	}
	if s.Cause.ID != "" || s.Cause.Text != "" {
		cause := events.ViewCause(s.Cause)
		v.Cause = &cause
	}
	v.Further = events.ViewCauses(s.Further)
	for _, d := range s.Config {
		v.Config = append(v.Config, v1.ConfigDrift{
			Path: d.Path, Want: d.Want, Have: d.Have, Problem: d.Problem,
			Since: call.MilliTime(d.Since),
		})
	}
	if u := s.Usage; u != nil {
		v.Usage = &v1.Usage{
			CPU: u.CPU, Mem: u.Mem, RSS: u.RSS, Processes: u.Processes, Files: u.Files, At: call.MilliTime(u.At),
		}
	}
	for _, r := range s.Runs {
		v.Runs = append(v.Runs, v1.Run{
			StartedAt: call.MilliTime(r.Started), EndedAt: call.MilliTime(r.Ended), PID: r.PID,
			Exit: events.ViewExit(r.Exit), Output: r.Output,
		})
	}
	return v
}

func viewAnswer(a *process.Answer) *v1.Answer {
	if a == nil {
		return nil
	}
	return &v1.Answer{
		OK: a.OK, Text: a.Text, At: call.MilliTime(a.At), Failures: a.Failures, Bad: a.Bad,
		Since: call.MilliTime(a.Since),
	}
}

// List lists the processes that the caller may query.
func (h *Handler) List(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	switch at := p.Given("at"); {
	case p.Given("group") && !at:
		return h.listGroups(ctx, c)
	case fromPicture(p) && !at:
		return h.listPicture(ctx, c)
	}
	f := store.ObservedFilter{
		Namespace: p.Text("namespace"), Name: p.Text("name"), Copies: true,
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	if p.Given("at") {
		return h.pastPage(ctx, c, f)
	}
	if spec := p.Flag("spec"); spec != nil {
		f.Spec = *spec
	}
	return h.processPage(ctx, c, f)
}

// Get lists one process, or its copies, on all hosts that know it.
func (h *Handler) Get(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := process.ID{Namespace: c.Request.PathValue("namespace"), Name: c.Request.PathValue("name")}
	c.Audit.Target = edge.Clip(id.String())
	if c.Principal.On(access.OperationOf(process.Query), id.Namespace).Nowhere() {
		return call.Reply{}, call.Forbidden(access.Missing{
			Operation: access.OperationOf(process.Query), Subject: id.String(),
		})
	}
	answer, err := h.processPage(ctx, c, store.ObservedFilter{Process: id, Copies: true, Spec: true})
	if found, ok := answer.Body.(v1.Page[v1.Process]); ok && err == nil && len(found.Items) == 0 &&
		found.NextCursor == "" && !c.Params.Given("cursor") {
		return call.Reply{}, unknownProcess(id, ChoiceOf(&c.Params))
	}
	return answer, err
}

// unknownProcess returns the problem of a process that no host has, or that no host has in the chosen states, versions
// or labels.
func unknownProcess(id process.ID, which Choice) error {
	if which.Any() {
		return call.Problemf(http.StatusNotFound, "no host knows a process %q", id.String())
	}
	return call.Problemf(http.StatusNotFound, "no process %q matches process_selector, version and state", id.String())
}

// MostShown is the largest size of a page of processes, in bytes. The page stays in memory while a slow caller reads
// it.
const MostShown = 8 << 20

// processWeight returns the approximate size of a process on a page, in bytes.
func processWeight(v *v1.Process, spec *process.Spec) int {
	n := len(v.Message) + process.Size(spec)
	for _, d := range v.Config {
		n += len(d.Path) + len(d.Problem)
	}
	for _, r := range v.Runs {
		n += len(r.Output)
	}
	return n
}

// processPage reads a page of processes. For up to SearchTime it skips processes that the caller may not see. A page is
// shorter than its limit if that time ends, or if its processes are large.
func (h *Handler) processPage(ctx context.Context, c *call.Call, f store.ObservedFilter) (call.Reply, error) {
	p := &c.Params
	choice, which := hosts.ChoiceOf(p), ChoiceOf(p)
	var after store.ObservedKey
	limit, err := p.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	f.Agents = h.hosts.KeysOf(choice)
	shows := f.Spec
	which.Narrow(&f)
	r := h.events.Reader(&c.Principal)
	if f.Process == (process.ID{}) {
		f.Within = r.Within(f.Namespace)
	}
	var views []v1.Process
	reaches := access.NewReaches(c.Principal)
	more, shown := true, 0
	for begun := time.Now(); more && len(views) < limit && shown < MostShown && time.Since(begun) < call.SearchTime; {
		was, rows, further, err := h.listObserved(ctx, f, after, limit)
		if err != nil {
			return call.Reply{}, call.Failure("list the processes", err)
		}
		more = further
		for i, o := range rows {
			agent, _ := h.Directory.ByKey(o.Agent)
			if !r.At(o.Process).Covers(gate.Host(agent)) || !which.Matches(&o) {
				continue
			}
			if !shows {
				o.Spec = nil
			}
			if o.Spec != nil && !reaches.Sets(o.Process.Namespace).Covers(gate.Host(agent)) {
				o.Spec = plan.Hidden(o.Spec)
			}
			views = append(views, h.viewProcess(o, h.hostOf(agent, was)))
			if shown += processWeight(&views[len(views)-1], o.Spec); len(views) == limit || shown >= MostShown {
				rows, more = rows[:i+1], true
				break
			}
		}
		if len(rows) > 0 {
			last := rows[len(rows)-1]
			after = store.ObservedKey{Agent: last.Agent, Process: last.Process}
		}
	}
	c.Audit.Targets = len(views)
	var last any
	if more {
		last = after
	}
	return call.Reply{Status: http.StatusOK, Body: call.PageOf(c, views, last), Weight: shown}, nil
}

// Count counts the processes that the caller may query.
func (h *Handler) Count(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	f := store.ObservedFilter{Namespace: p.Text("namespace"), Name: p.Text("name"), Copies: true}
	if p.Given("at") {
		c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
		return h.countPast(ctx, c, f)
	}
	choice, which := hosts.ChoiceOf(p), ChoiceOf(p)
	if err := p.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	f.Agents = h.hosts.KeysOf(choice)
	which.Narrow(&f)
	n := v1.ProcessCounts{States: map[string]int{}}
	r := h.events.Reader(&c.Principal)
	f.Within = r.Within(f.Namespace)
	was := h.SnapshotAgents()
	err := h.EachObserved(ctx, f, func(o *store.Observed) {
		agent, _ := h.Directory.ByKey(o.Agent)
		switch {
		case !r.At(o.Process).Covers(gate.Host(agent)) || !which.Matches(o):
			return
		case was.untold[o.Agent] || h.Directory.Presence(o.Agent, h.Now()).Away:
			n.Stale++
		default:
			n.States[o.Status.State]++
		}
		n.Total++
	})
	if err != nil {
		return call.Reply{}, err
	}
	c.Audit.Targets = n.Total
	return call.OK(n)
}

// EachObserved calls fn for every process of a filter. It reads pages, so that no read of the database takes long.
func (h *Handler) EachObserved(ctx context.Context, f store.ObservedFilter, fn func(*store.Observed)) error {
	var after store.ObservedKey
	for {
		rows, more, err := h.Listing.ListObserved(ctx, f, after, call.MaxPage)
		if err != nil {
			return call.Failure("read the processes", err)
		}
		for i := range rows {
			fn(&rows[i])
		}
		if !more || len(rows) == 0 {
			return nil
		}
		last := &rows[len(rows)-1]
		after = store.ObservedKey{Agent: last.Agent, Process: last.Process}
	}
}
