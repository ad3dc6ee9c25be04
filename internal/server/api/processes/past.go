package processes

import (
	"context"
	"net/http"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/hosts"
	"drover/internal/server/gate"
	"drover/internal/server/past"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// Timeline has the records of past states, runs of agents and stays of hosts. Events are elsewhere.
type Timeline interface {
	store.Timeline
	store.Runs
	ListFormer(ctx context.Context, limit int) ([]store.FormerAgent, error)
}

// pastQuery is a walk over the processes that a caller may query, at a moment.
type pastQuery struct {
	h *Handler
	events.Reader
	filter store.ObservedFilter
	which  Choice
	states []string
	hosts  hosts.Choice
	past   v1.Past
}

// pastProcess is a process at a moment.
type pastProcess struct {
	key   store.ObservedKey
	agent store.Agent
	past.State
}

// Moment returns the moment of a parameter; the zero time if the parameter is missing. It rejects a moment in the
// future.
func (h *Handler) Moment(p *call.Params, name string) time.Time {
	at := p.Time(name)
	if at.After(h.Now()) {
		p.Fail(call.Invalid(name, "is in the future"))
	}
	return at
}

// atMoment reads the parameters of a list at a moment. It rejects parameters about values that the records do not have.
func (h *Handler) atMoment(c *call.Call, f store.ObservedFilter) *pastQuery {
	p := &c.Params
	q := &pastQuery{
		h: h, Reader: h.events.Reader(&c.Principal), filter: f, which: Choice{version: p.Text("version")},
		states: statesOf(p), hosts: hosts.ChoiceOf(p), past: v1.Past{At: h.Moment(p, "at").UTC()},
	}
	for _, name := range []string{"process_selector", "spec"} {
		if p.Text(name) != "" {
			p.Fail(call.Invalid(name, "the server does not know it for the past: leave it out"))
		}
	}
	q.filter.Spec = false
	q.filter.Within = q.Within(f.Namespace)
	return q
}

// page returns the next processes that exist and match, and the place from which to continue.
func (q *pastQuery) page(ctx context.Context, after store.ObservedKey, limit int) (
	found []pastProcess, next store.ObservedKey, more bool, err error,
) {
	if q.filter.Agents, err = q.ChosenEver(ctx, q.hosts); err != nil {
		return nil, after, false, err
	}
	was := q.h.SnapshotAgents()
	rows, more, err := q.h.Timeline.StatesAt(ctx, q.filter, q.past.At, after, limit)
	if err != nil {
		return nil, after, false, call.Failure("list the processes of the past", err)
	}
	runs, err := q.h.RunsAt(ctx, rows, q.past.At, was)
	if err != nil {
		return nil, after, false, err
	}
	for i := range rows {
		r := &rows[i]
		after = store.ObservedKey{Agent: r.Agent, Process: r.Process}
		agent, err := q.AgentOf(ctx, r.Agent)
		if err != nil {
			return nil, after, false, err
		}
		if !q.At(r.Process).Covers(gate.Host(agent.Agent)) {
			continue
		}
		s := StateAt(q.past.At, &agent, r.Before, r.After, runs[r.Agent])
		if !s.Exists || !q.selects(&s) {
			continue
		}
		agent.Key = r.Agent
		q.past.ClockSeconds = WorseClock(q.past.ClockSeconds, q.h.Directory.Presence(r.Agent, q.h.Now()).Ahead)
		found = append(found, pastProcess{key: after, agent: agent.Agent, State: s})
	}
	return found, after, more, nil
}

// StateAt returns the state of a process at a moment, as past.At does. The process does not exist if its host had not
// joined by then, or had been removed.
func StateAt(at time.Time, agent *store.FormerAgent, before, later *past.Record, run *past.Run) past.State {
	if before == nil && agent.Created.After(at) || !agent.Removed.IsZero() && !at.Before(agent.Removed) {
		return past.State{}
	}
	return past.At(at.UnixMilli(), before, later, run)
}

// selects reports whether a state matches the filters of states and versions.
func (q *pastQuery) selects(s *past.State) bool {
	if len(q.states) > 0 && !slices.Contains(q.states, WordOf(s)) {
		return false
	}
	return q.which.version == "" || s.Known && s.Shown.Version != "" && wildcard.Match(q.which.version, s.Shown.Version)
}

// WorseClock returns the difference of clocks with the larger amount, in seconds. It ignores ahead if that is less than
// a second.
func WorseClock(seconds float64, ahead time.Duration) float64 {
	if ahead.Abs() >= time.Second && ahead.Abs().Seconds() > max(seconds, -seconds) {
		return ahead.Seconds()
	}
	return seconds
}

// FillKeptSince fills in since when records are kept.
func (h *Handler) FillKeptSince(ctx context.Context, p *v1.Past) error {
	oldest, err := h.Timeline.OldestState(ctx)
	if err != nil {
		return call.Failure("read the oldest state", err)
	}
	if !oldest.IsZero() {
		p.KeptSince = &oldest
	}
	return nil
}

// startsApart is how far the start of a run and its first record may be apart, in milliseconds.
const startsApart = 1500

// RunsAt returns the runs of the agents of some rows. A run that goes on has lived until the agent's last message, or
// until the rows were read if the agent is online. was is a snapshot from before the read.
func (h *Handler) RunsAt(ctx context.Context, rows []store.RecordedState, at time.Time, was AgentSnapshot) (
	map[string]*past.Run, error,
) {
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
		return nil, call.Failure("read the runs of agents", err)
	}
	for key, run := range runs {
		p := h.Directory.Presence(key, was.at)
		later := !p.Facts.Started.IsZero() && p.Facts.Started.UnixMilli() > run.Began+startsApart
		if alive := p.Alive(was.at); run.Latest && !later && !alive.IsZero() && !p.Untold && !was.untold[key] {
			run.Last = max(run.Last, alive.UnixMilli())
		}
	}
	return runs, nil
}

// WordOf returns the state as lists show it; empty for a process that does not exist.
func WordOf(s *past.State) string {
	switch {
	case !s.Exists:
		return ""
	case !s.Known:
		return process.StateUnknown
	}
	return s.Shown.State
}

// whyUnknown returns the text for a reason for which a state is unknown.
func whyUnknown(w past.Why) string {
	return map[past.Why]string{
		past.NotKept:  "the server keeps no record of that time",
		past.NotHeard: "no agent ran on the host, or the server has not heard it since",
		past.Starting: "the agent had just started",
		past.Lost:     "records of the host were lost",
	}[w]
}

// ViewUnknown shows why a state is unknown; nil for a known state.
func ViewUnknown(s *past.State) *v1.Unknown {
	if !s.Exists || s.Known {
		return nil
	}
	return &v1.Unknown{Since: call.MilliTime(s.Since), Why: string(s.Why), Text: whyUnknown(s.Why), Last: s.Shown.State}
}

// viewPast shows a process at a moment.
func (h *Handler) viewPast(p *pastProcess) v1.Process {
	host := h.hosts.View(p.agent)
	host.LastSeen = nil
	s := &p.Shown
	v := v1.Process{
		Namespace: p.key.Process.Namespace, Name: p.key.Process.Name, Host: host, State: WordOf(&p.State),
		Stale: !p.Known, Unknown: ViewUnknown(&p.State), RegisteredAt: call.UnixTime(s.RegisteredAt),
	}
	if !p.Known {
		v.Message = v.Unknown.Text
		return v
	}
	v.Message, v.Hosted, v.Want = s.Text, s.Hosted, string(s.Want)
	v.Flapping, v.Restarts, v.Cause = s.Flapping, s.Restarts, CauseOf(s)
	if s.PID > 0 {
		v.LastStartAt = call.UnixTime(s.StartedAt)
		v.Instance = &v1.Instance{PID: s.PID, StartedAt: v.LastStartAt, Version: s.Version, Revision: s.Ran}
	}
	return v
}

// CauseOf returns the cause of a recorded state; nil if there is none.
func CauseOf(s *process.Shown) *v1.Cause {
	if s.Cause == "" && s.Text == "" {
		return nil
	}
	return &v1.Cause{ID: string(s.Cause), Text: s.Text, Since: call.MilliTime(s.CauseSince)}
}

// pastPage reads a page of the processes at a moment, as processPage does for the present.
func (h *Handler) pastPage(ctx context.Context, c *call.Call, f store.ObservedFilter) (call.Reply, error) {
	q := h.atMoment(c, f)
	var after store.ObservedKey
	limit, err := c.Params.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	if err := h.FillKeptSince(ctx, &q.past); err != nil {
		return call.Reply{}, err
	}
	var views []v1.Process
	more, shown, examined := true, 0, limit
	for begun := time.Now(); more && len(views) < limit && shown < MostShown && time.Since(begun) < call.SearchTime; {
		found, next, further, err := q.page(ctx, after, examined)
		if err != nil {
			return call.Reply{}, err
		}
		after, more = next, further
		for i := range found {
			views = append(views, h.viewPast(&found[i]))
			if shown += processWeight(&views[len(views)-1], nil); len(views) == limit && i < len(found)-1 {
				after, more = found[i].key, true
				break
			}
		}
		examined = min(2*examined, call.MaxPage) // what matches is rare
	}
	c.Audit.Targets = len(views)
	var last any
	if more {
		last = after
	}
	body := v1.PastPage{Page: call.PageOf(c, views, last), Past: q.past}
	return call.Reply{Status: http.StatusOK, Body: body, Weight: shown}, nil
}

// countPast counts the processes at a moment. Those whose state is unknown count as stale.
func (h *Handler) countPast(ctx context.Context, c *call.Call, f store.ObservedFilter) (call.Reply, error) {
	q := h.atMoment(c, f)
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	n := v1.ProcessCounts{States: map[string]int{}}
	var after store.ObservedKey
	for more := true; more; {
		found, next, further, err := q.page(ctx, after, call.MaxPage)
		if err != nil {
			return call.Reply{}, err
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
	return call.OK(n)
}
