package operations

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// RunSchedule begins a run now, with the rights of the caller.
func (h *Handler) RunSchedule(ctx context.Context, c *call.Call) (call.Reply, error) {
	s, err := h.scheduleNamed(ctx, c)
	if err != nil {
		return call.Reply{}, err
	}
	run := store.ScheduleRun{
		Schedule: s.Name, Created: s.Created, Due: h.Now(), State: store.RunRunning, Count: 1,
		User: c.Principal.Name(),
	}
	if err := h.begin(ctx, c, &s, &run); err != nil {
		switch p := call.ProblemOf(err); {
		case errors.Is(p.Cause, store.ErrRunning):
			return call.Reply{}, call.Problemf(http.StatusConflict, "a run of schedule %q goes on: wait for it", s.Name)
		case p.Nothing:
			return call.Reply{}, call.Problemf(http.StatusNotFound, "schedule %q: no process matches", s.Name)
		case errors.Is(p.Cause, store.ErrDecided):
			return call.Reply{}, call.StoreProblem(store.ErrNotFound, "schedule", s.Name)
		}
		return call.Reply{}, err
	}
	if s, err = h.Schedules.GetSchedule(ctx, s.Name, c.App()); err != nil {
		return call.Reply{}, call.StoreProblem(err, "schedule", s.Name)
	}
	answer, err := h.showSchedule(ctx, &s)
	answer.Status = http.StatusAccepted
	return answer, err
}

// begin stores a run and its task or rollout in one transaction, for the caller of a call.
func (h *Handler) begin(ctx context.Context, c *call.Call, s *store.Schedule, run *store.ScheduleRun) error {
	var req Request
	if err := json.Unmarshal(s.Request, &req); err != nil {
		return call.Failure("read the schedule", err)
	}
	if err := req.validate(h.Now()); err != nil {
		return err
	}
	_, err := h.operate(ctx, c, &req, run)
	if err == nil || !call.ProblemOf(err).Nothing {
		return err
	}
	// Patterns match only what the caller may query.
	for _, right := range []access.Operation{access.OperationOf(req.Op), access.OperationOf(process.Query)} {
		if missing := mayNowhere(&c.Principal, right, req.Processes); missing.Any() {
			return call.Forbidden(missing)
		}
	}
	return err
}

// BeginRun stores a run and its task or rollout in one transaction, with the rights of a principal. If the run cannot
// begin, it returns the state of the run and the reason. After an error nobody has decided about the run: the caller
// repeats the call.
func (h *Handler) BeginRun(ctx context.Context, who access.Principal, s *store.Schedule, run store.ScheduleRun) (
	store.RunState, string, error,
) {
	c := &call.Call{Call: &edge.Call{Principal: who, Audit: store.AuditRow{
		At: h.Now(), App: who.App, User: who.User, RequestID: "schedule " + s.Name, Action: "schedules.run",
		Allowed: true,
	}}}
	err := h.begin(ctx, c, s, &run)
	if err == nil {
		return store.RunRunning, "", nil
	}
	p := call.ProblemOf(err)
	if p.Status == http.StatusForbidden {
		c.Audit.Code, c.Audit.Message = p.Status, p.Detail
		h.Record(ctx, c.Call, edge.Ending{Denied: true})
	}
	switch {
	case errors.Is(p.Cause, store.ErrRunning):
		return store.RunSkipped, "an earlier run goes on", nil
	case p.Nothing:
		return store.RunEmpty, "no process matches", nil
	case p.Status == http.StatusConflict:
		return store.RunSkipped, p.Detail, nil
	case p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests:
		if p.Cause != nil {
			return "", "", p.Cause
		}
		return "", "", p
	}
	if p.Broad || p.Status == http.StatusUnprocessableEntity {
		return store.RunFailed, p.Detail, nil
	}
	return store.RunMissed, p.Detail, nil
}
