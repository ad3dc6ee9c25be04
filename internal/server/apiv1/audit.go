package apiv1

import (
	"context"

	v1 "drover/api/v1"
	"drover/internal/server/store"
)

// listAudit lists the audit log, newest first.
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
	c.Audit.Targets = len(rows)
	return ok(pageOfRows(c, rows, f.Limit, viewAudit, func(r store.AuditRow) any { return r.Mark() }))
}

func viewAudit(r store.AuditRow) v1.AuditRow {
	return v1.AuditRow{
		At: r.At, App: r.App, User: r.User, Remote: r.Remote, RequestID: r.RequestID, Action: r.Action,
		Target:  r.Target,
		Targets: r.Targets, Allowed: r.Allowed, Code: r.Code, Message: r.Message, Detail: r.Detail,
	}
}
