package apiv1

import (
	"context"
	"encoding/json"
	"time"

	"drover/internal/server/store"
)

// auditView is one row of the record of calls.
type auditView struct {
	At        time.Time       `json:"at"`
	App       string          `json:"app"`
	User      string          `json:"user"`
	Remote    string          `json:"remote"`
	RequestID string          `json:"request_id"`
	Action    string          `json:"action"`
	Target    string          `json:"target,omitempty"`
	Targets   int             `json:"targets"`
	Allowed   bool            `json:"allowed"`
	Code      int             `json:"code"`
	Message   string          `json:"message,omitempty"`
	Detail    json.RawMessage `json:"detail,omitempty"`
}

// listAudit lists the record of calls, newest first.
func (h *Handler) listAudit(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.AuditFilter{
		Since: p.time("since"), Until: p.time("until"), App: p.text("app"), User: p.text("user"),
		Action:    p.text("action"),
		RequestID: p.text("request_id"), Allowed: p.flag("allowed"),
	}
	var err error
	if f.Limit, err = p.page(&f.Before); err != nil {
		return reply{}, err
	}
	rows, err := h.History.ListAudit(ctx, f)
	if err != nil {
		return reply{}, failure("list the record of calls", err)
	}
	c.audit.Targets = len(rows)
	return ok(pageOfRows(c, rows, f.Limit, viewAudit, func(r store.AuditRow) any { return r.Mark() }))
}

func viewAudit(r store.AuditRow) auditView {
	return auditView{
		At: r.At, App: r.App, User: r.User, Remote: r.Remote, RequestID: r.RequestID, Action: r.Action,
		Target:  r.Target,
		Targets: r.Targets, Allowed: r.Allowed, Code: r.Code, Message: r.Message, Detail: r.Detail,
	}
}
