package apiv1

import (
	"context"
	"net/http"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// moment returns Unix seconds as a time; nil if the value is not positive or is after lastMoment.
func moment(seconds int64) *time.Time {
	if seconds <= 0 || seconds > lastMoment {
		return nil
	}
	t := time.Unix(seconds, 0).UTC()
	return &t
}

func (h *Handler) viewProcess(o store.Observed, host v1.Host) v1.Process {
	v := v1.Process{
		Namespace: o.Process.Namespace, Name: o.Process.Name, Host: host,
		State: o.Status.State, Stale: !host.Online || !h.Fullness.FullSince().IsZero(), Message: o.Status.Message,
		Hosted: o.Status.Hosted, Want: string(o.Status.Want),
		RegisteredAt: moment(o.Status.RegisteredAt), LastStartAt: moment(o.Status.LastStartAt),
		ReportedAt:    moment(o.Status.ReportedAt),
		ProcessDetail: viewDetail(&o.Status),
	}
	if o.Spec != nil {
		spec := processfile.FromSpec(o.Spec)
		v.Spec, v.Revision = &spec, o.Spec.Revision
	}
	if i := o.Status.Instance; o.Status.Running() {
		v.Instance = &v1.Instance{
			PID: i.PID, Cmdline: i.Cmdline, StartedAt: moment(i.StartedAt), CPU: i.CPU, Mem: i.Mem, RSS: i.RSS << 10,
			Threads: i.Threads, Version: i.Version, Health: i.Health, Revision: i.Revision,
		}
	}
	return v
}

func viewDetail(s *process.Status) v1.ProcessDetail {
	v := v1.ProcessDetail{
		Flapping: s.Flapping, Restarts: s.Restarts, LastExit: viewExit(s.LastExit),
		Health: viewAnswer(s.Health), Version: viewAnswer(s.Version), NextRun: instant(s.NextRun),
	}
	if s.Cause.ID != "" || s.Cause.Text != "" {
		cause := viewCause(s.Cause)
		v.Cause = &cause
	}
	v.Further = viewCauses(s.Further)
	for _, d := range s.Config {
		v.Config = append(v.Config, v1.Drift{
			Path: d.Path, Want: d.Want, Have: d.Have, Problem: d.Problem,
			Since: instant(d.Since),
		})
	}
	if u := s.Usage; u != nil {
		v.Usage = &v1.Usage{CPU: u.CPU, Mem: u.Mem, Processes: u.Processes, Files: u.Files, At: instant(u.At)}
	}
	for _, r := range s.Runs {
		v.Runs = append(v.Runs, v1.Run{
			StartedAt: instant(r.Started), EndedAt: instant(r.Ended), PID: r.PID,
			Exit: viewExit(r.Exit), Output: r.Output,
		})
	}
	return v
}

func viewAnswer(a *process.Answer) *v1.Answer {
	if a == nil {
		return nil
	}
	return &v1.Answer{
		OK: a.OK, Text: a.Text, At: instant(a.At), Failures: a.Failures, Bad: a.Bad,
		Since: instant(a.Since),
	}
}

// listProcesses lists the processes that the caller may query.
func (h *Handler) listProcesses(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.ObservedFilter{
		Namespace: p.text("namespace"), Name: p.text("name"), Copies: true, States: p.list("state"),
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	if p.given("at") {
		return h.pastPage(ctx, c, f)
	}
	if spec := p.flag("spec"); spec != nil {
		f.Spec = *spec
	}
	return h.processPage(ctx, c, f)
}

// getProcess lists one process, or its copies, on all hosts that know it.
func (h *Handler) getProcess(ctx context.Context, c *call) (reply, error) {
	id := process.ID{Namespace: c.r.PathValue("namespace"), Name: c.r.PathValue("name")}
	c.Audit.Target = edge.Clip(id.String())
	if c.Principal.On(access.OperationOf(process.Query), id.Namespace).Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.OperationOf(process.Query), Subject: id.String()})
	}
	answer, err := h.processPage(ctx, c, store.ObservedFilter{Process: id, Copies: true, Spec: true})
	if found, ok := answer.body.(v1.Page[v1.Process]); ok && err == nil && len(found.Items) == 0 &&
		found.NextCursor == "" && !c.params.given("cursor") {
		return reply{}, problemf(http.StatusNotFound, "no host knows a process %q", id.String())
	}
	return answer, err
}

// processChoice selects processes by their own labels and their version. The zero choice selects all.
type processChoice struct {
	labels selector.Selector
	// version is a pattern.
	version string
}

// processes reads the parameters that select processes.
func (p *params) processes() processChoice {
	return processChoice{labels: p.selector("process_selector"), version: p.text("version")}
}

// matches reports whether the choice has a process. Only a running process has a version.
func (s *processChoice) matches(o *store.Observed) bool {
	if s.version != "" &&
		(!o.Status.Running() || o.Status.Instance.Version == "" || !wildcard.Match(s.version, o.Status.Instance.Version)) {
		return false
	}
	if s.labels.IsZero() {
		return true
	}
	if o.Spec == nil {
		return false
	}
	labels := processfile.FromSpec(o.Spec).Labels
	return s.labels.Matches(func(key string) (value string, found bool) {
		value, found = labels[key]
		return value, found
	})
}

// given reports whether a parameter is present.
func (p *params) given(name string) bool { return p.values.Has(name) }

// mostShown is the largest size of a page of processes, in bytes. The page stays in memory while a slow caller reads
// it.
const mostShown = 8 << 20

// processWeight returns the approximate size of a process on a page, in bytes.
func processWeight(v *v1.Process, spec *process.Spec) int {
	n := len(v.Message) + spec.Size()
	for _, d := range v.Config {
		n += len(d.Path) + len(d.Problem)
	}
	for _, r := range v.Runs {
		n += len(r.Output)
	}
	return n
}

// processPage reads a page of processes. For up to searchTime it skips processes that the caller may not see. A page is
// shorter than its limit if that time ends, or if its processes are large.
func (h *Handler) processPage(ctx context.Context, c *call, f store.ObservedFilter) (reply, error) {
	p := &c.params
	hosts, which := p.hosts(), p.processes()
	var after store.ObservedKey
	limit, err := p.page(&after)
	if err != nil {
		return reply{}, err
	}
	f.Agents = h.chosen(hosts)
	shows := f.Spec
	f.Spec = f.Spec || !which.labels.IsZero()
	r := eventReader{h: h, who: &c.Principal}
	if f.Process == (process.ID{}) {
		f.Within = r.within(f.Namespace)
	}
	var views []v1.Process
	starts, start := access.NewReaches(c.Principal), access.OperationOf(process.Start)
	more, shown := true, 0
	for begun := time.Now(); more && len(views) < limit && shown < mostShown && time.Since(begun) < searchTime; {
		rows, further, err := h.Listing.ListObserved(ctx, f, after, limit)
		if err != nil {
			return reply{}, failure("list the processes", err)
		}
		more = further
		for i, o := range rows {
			agent, _ := h.Directory.ByKey(o.Agent)
			if !r.at(o.Process).Covers(gate.Host(agent)) || !which.matches(&o) {
				continue
			}
			if !shows {
				o.Spec = nil
			}
			if o.Spec != nil && !starts.On(start, o.Process.Namespace).Covers(gate.Host(agent)) {
				o.Spec = hidden(o.Spec)
			}
			views = append(views, h.viewProcess(o, h.viewHost(agent)))
			if shown += processWeight(&views[len(views)-1], o.Spec); len(views) == limit || shown >= mostShown {
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
	return reply{status: http.StatusOK, body: pageOf(c, views, last), weight: shown}, nil
}

// forbidden is the problem of a missing right.
func forbidden(m access.Missing) error {
	if m.More > 0 {
		return problemf(http.StatusForbidden, "not allowed: %s, and %d more", m.What(), m.More)
	}
	return problemf(http.StatusForbidden, "not allowed: %s", m.What())
}

// countProcesses counts the processes that the caller may query.
func (h *Handler) countProcesses(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.ObservedFilter{Namespace: p.text("namespace"), Name: p.text("name"), Copies: true}
	if p.given("at") {
		c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
		return h.countPast(ctx, c, f)
	}
	hosts, which := p.hosts(), p.processes()
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	f.Agents, f.Spec = h.chosen(hosts), !which.labels.IsZero()
	n := v1.ProcessCounts{States: map[string]int{}}
	r := eventReader{h: h, who: &c.Principal}
	f.Within = r.within(f.Namespace)
	err := h.eachObserved(ctx, f, func(o *store.Observed) {
		agent, _ := h.Directory.ByKey(o.Agent)
		switch {
		case !r.at(o.Process).Covers(gate.Host(agent)) || !which.matches(o):
			return
		case h.Directory.Presence(o.Agent, h.Now()).Away:
			n.Stale++
		default:
			n.States[o.Status.State]++
		}
		n.Total++
	})
	if err != nil {
		return reply{}, err
	}
	c.Audit.Targets = n.Total
	return ok(n)
}

// eachObserved calls fn for every process of a filter. It reads pages, so that no read of the database takes long.
func (h *Handler) eachObserved(ctx context.Context, f store.ObservedFilter, fn func(*store.Observed)) error {
	var after store.ObservedKey
	for {
		rows, more, err := h.Listing.ListObserved(ctx, f, after, maxPage)
		if err != nil {
			return failure("read the processes", err)
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
