package apiv1

import (
	"context"
	"net/http"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/gate"
	"drover/internal/server/past"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// Timeline is what the server keeps of the past, beside events.
type Timeline interface {
	store.Timeline
	store.Runs
}

// pastQuery is a walk over the processes that a caller may query, at a moment.
type pastQuery struct {
	eventReader
	filter store.ObservedFilter
	which  processChoice
	states []string
	past   v1.Past
}

// pastProcess is a process at a moment.
type pastProcess struct {
	key   store.ObservedKey
	agent store.Agent
	past.State
}

// moment returns a moment of the past that a parameter names.
func (h *Handler) moment(p *params, name string) time.Time {
	at := p.time(name)
	if at.After(h.Now()) {
		p.fail(invalid(name, "is in the future"))
	}
	return at
}

// atMoment reads the parameters of a list at a moment. It refuses all parameters that need more than the records have.
func (h *Handler) atMoment(c *call, f store.ObservedFilter) *pastQuery {
	p := &c.params
	hosts := p.hosts()
	q := &pastQuery{
		eventReader: eventReader{h: h, who: &c.Principal}, filter: f, which: processChoice{version: p.text("version")},
		states: f.States, past: v1.Past{At: h.moment(p, "at").UTC()},
	}
	var refused *problem
	for _, name := range []string{"process_selector", "spec"} {
		if p.text(name) == "" {
			continue
		}
		if fault := invalid(name, "the server does not know it for the past: leave it out"); refused == nil {
			refused = fault
		} else {
			refused.Detail += "; " + fault.Detail
			refused.Fields = append(refused.Fields, fault.Fields...)
		}
	}
	if refused != nil {
		p.fail(refused)
	}
	q.filter.States, q.filter.Spec = nil, false
	q.filter.Agents = h.chosen(hosts)
	q.filter.Within = q.within(f.Namespace)
	return q
}

// page returns the next processes that exist and match, and the place from which to continue.
func (q *pastQuery) page(ctx context.Context, after store.ObservedKey, limit int) (
	found []pastProcess, next store.ObservedKey, more bool, err error,
) {
	rows, more, err := q.h.Timeline.StatesAt(ctx, q.filter, q.past.At, after, limit)
	if err != nil {
		return nil, after, false, failure("list the processes of the past", err)
	}
	runs, err := q.h.runsAt(ctx, rows, q.past.At)
	if err != nil {
		return nil, after, false, err
	}
	for i := range rows {
		r := &rows[i]
		after = store.ObservedKey{Agent: r.Agent, Process: r.Process}
		agent, _ := q.h.Directory.ByKey(r.Agent)
		if !q.at(r.Process).Covers(gate.Host(agent)) {
			continue
		}
		s := stateAt(q.past.At, &agent, r.Before, r.After, runs[r.Agent])
		if !s.Exists || !q.selects(&s) {
			continue
		}
		if agent.Key == "" {
			agent.Key = r.Agent
		}
		q.past.ClockSeconds = worseClock(q.past.ClockSeconds, q.h.Directory.Presence(r.Agent, q.h.Now()).Ahead)
		found = append(found, pastProcess{key: after, agent: agent, State: s})
	}
	return found, after, more, nil
}

// stateAt is past.At for a process of a host, which may not have joined by then.
func stateAt(at time.Time, agent *store.Agent, before, later *past.Record, run *past.Run) past.State {
	if before == nil && agent.Created.After(at) {
		return past.State{}
	}
	return past.At(at.UnixMilli(), before, later, run)
}

// selects reports whether a state matches the filters of states and versions.
func (q *pastQuery) selects(s *past.State) bool {
	if len(q.states) > 0 && !slices.Contains(q.states, wordOf(s)) {
		return false
	}
	return q.which.version == "" || s.Known && s.Shown.Version != "" && wildcard.Match(q.which.version, s.Shown.Version)
}

// worseClock returns the larger of two differences of clocks, in seconds.
func worseClock(seconds float64, ahead time.Duration) float64 {
	if ahead.Abs() >= time.Second && ahead.Abs().Seconds() > max(seconds, -seconds) {
		return ahead.Seconds()
	}
	return seconds
}

// kept fills in since when records are kept.
func (h *Handler) kept(ctx context.Context, p *v1.Past) error {
	oldest, err := h.Timeline.OldestState(ctx)
	if err != nil {
		return failure("read the oldest state", err)
	}
	if !oldest.IsZero() {
		p.KeptSince = &oldest
	}
	return nil
}

// startsApart is how far the start of a run and its first record may be apart, in milliseconds.
const startsApart = 1500

// runsAt returns the runs of the agents of some rows. A run that goes on has lived until the agent's last message, or
// until now if the agent is online.
func (h *Handler) runsAt(ctx context.Context, rows []store.RecordedState, at time.Time) (map[string]*past.Run, error) {
	var agents []string
	seen := map[string]bool{}
	for i := range rows {
		if key := rows[i].Agent; !seen[key] {
			seen[key] = true
			agents = append(agents, key)
		}
	}
	runs, err := h.Timeline.RunsAt(ctx, agents, at)
	if err != nil {
		return nil, failure("read the runs of agents", err)
	}
	for key, run := range runs {
		p := h.Directory.Presence(key, h.Now())
		later := !p.Facts.Started.IsZero() && p.Facts.Started.UnixMilli() > run.Began+startsApart
		heard := p.LastSeen
		if !p.Away { // as every list of the present, this relies on the link
			heard = h.Now()
		}
		if run.Latest && !later && !heard.IsZero() {
			run.Last = max(run.Last, heard.Add(p.Ahead).UnixMilli())
		}
	}
	return runs, nil
}

// wordOf returns the state as lists show it; empty for a process that does not exist.
func wordOf(s *past.State) string {
	switch {
	case !s.Exists:
		return ""
	case !s.Known:
		return process.StateUnknown
	}
	return s.Shown.State
}

// whyUnknown has the reasons in words.
func whyUnknown(w past.Why) string {
	return map[past.Why]string{
		past.NotKept:  "the server keeps no record of that time",
		past.NotHeard: "no agent ran on the host, or the server has not heard it since",
		past.Starting: "the agent had just started",
		past.Lost:     "records of the host were lost",
	}[w]
}

func viewUnknown(s *past.State) *v1.Unknown {
	if !s.Exists || s.Known {
		return nil
	}
	return &v1.Unknown{Since: instant(s.Since), Why: string(s.Why), Text: whyUnknown(s.Why), Last: s.Shown.State}
}

// viewPast shows a process at a moment.
func (h *Handler) viewPast(p *pastProcess) v1.Process {
	host := h.viewHost(p.agent)
	host.LastSeen = nil
	s := &p.Shown
	v := v1.Process{
		Namespace: p.key.Process.Namespace, Name: p.key.Process.Name, Host: host, State: wordOf(&p.State),
		Stale: !p.Known, Unknown: viewUnknown(&p.State), RegisteredAt: moment(s.RegisteredAt),
	}
	if !p.Known {
		v.Message = v.Unknown.Text
		return v
	}
	v.Message, v.Hosted, v.Want = s.Text, s.Hosted, string(s.Want)
	v.Flapping, v.Restarts, v.Cause = s.Flapping, s.Restarts, causeOf(s)
	if s.PID > 0 {
		v.LastStartAt = moment(s.StartedAt)
		v.Instance = &v1.Instance{PID: s.PID, StartedAt: v.LastStartAt, Version: s.Version, Revision: s.Ran}
	}
	return v
}

// causeOf returns the cause of a recorded state; nil if there is none.
func causeOf(s *process.Shown) *v1.Cause {
	if s.Cause == "" && s.Text == "" {
		return nil
	}
	return &v1.Cause{ID: string(s.Cause), Text: s.Text, Since: instant(s.CauseSince)}
}

// pastPage reads a page of the processes at a moment, as processPage does for the present.
func (h *Handler) pastPage(ctx context.Context, c *call, f store.ObservedFilter) (reply, error) {
	q := h.atMoment(c, f)
	var after store.ObservedKey
	limit, err := c.params.page(&after)
	if err != nil {
		return reply{}, err
	}
	if err := h.kept(ctx, &q.past); err != nil {
		return reply{}, err
	}
	var views []v1.Process
	more, shown := true, 0
	for begun := time.Now(); more && len(views) < limit && shown < mostShown && time.Since(begun) < searchTime; {
		found, next, further, err := q.page(ctx, after, limit-len(views))
		if err != nil {
			return reply{}, err
		}
		for i := range found {
			views = append(views, h.viewPast(&found[i]))
			shown += processWeight(&views[len(views)-1], nil)
		}
		after, more = next, further
	}
	c.Audit.Targets = len(views)
	var last any
	if more {
		last = after
	}
	body := v1.PastPage{Page: pageOf(c, views, last), Past: q.past}
	return reply{status: http.StatusOK, body: body, weight: shown}, nil
}

// countPast counts the processes at a moment. Those whose state is unknown count as stale.
func (h *Handler) countPast(ctx context.Context, c *call, f store.ObservedFilter) (reply, error) {
	q := h.atMoment(c, f)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	n := v1.ProcessCounts{States: map[string]int{}}
	var after store.ObservedKey
	for more := true; more; {
		found, next, further, err := q.page(ctx, after, maxPage)
		if err != nil {
			return reply{}, err
		}
		for i := range found {
			if n.Total++; found[i].Known {
				n.States[found[i].Shown.State]++
			} else {
				n.Stale++
			}
		}
		after, more = next, further
	}
	c.Audit.Targets = n.Total
	return ok(n)
}
