package events

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// History reads the record of calls.
type History interface {
	ListAudit(ctx context.Context, filter store.AuditFilter) ([]store.AuditRow, error)
}

// ListAudit lists the audit log, newest first. A caller who is not an administrator gets only its own rows.
func (h *Handler) ListAudit(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	f := store.AuditFilter{
		Since: p.Time("since"), Until: p.Time("until"), App: p.Text("app"), User: p.Text("user"),
		Action:    p.Text("action"),
		RequestID: p.Text("request_id"), Allowed: p.Flag("allowed"), Remote: p.Text("address"),
	}
	if changes := p.Flag("changes"); changes != nil && *changes {
		f.Without = h.Reads()
	}
	if !c.Principal.ReadsAudit() {
		if f.App != "" && f.App != c.Principal.App {
			return call.Reply{}, call.Problemf(http.StatusForbidden, "%s is neither an administrator nor an auditor, and sees only the records of app %s",
				c.Principal.Who(), edge.Clip(c.Principal.App))
		}
		f.App = c.Principal.App
	}
	var err error
	if f.Limit, err = p.Page(&f.Before); err != nil {
		return call.Reply{}, err
	}
	rows, err := h.History.ListAudit(ctx, f)
	if err != nil {
		return call.Reply{}, call.Failure("list the record of calls", err)
	}
	c.Audit.Targets = len(rows)
	return call.OK(call.PageOfRows(c, rows, f.Limit, viewAudit, func(r store.AuditRow) any { return r.Mark() }))
}

func viewAudit(r store.AuditRow) v1.AuditRow {
	var detail struct {
		Console *edge.Console `json:"console"`
	}
	if json.Unmarshal(r.Detail, &detail) != nil { // most calls have no detail
		detail.Console = nil
	}
	via, reason := v1.ViaAPI, ""
	switch {
	case detail.Console != nil:
		via, reason = v1.ViaConsole, detail.Console.Reason
	case strings.HasPrefix(r.Action, "console."):
		via = v1.ViaConsole
	case r.Remote == "socket":
		via = v1.ViaSocket
	}
	return v1.AuditRow{
		Via: via, Reason: reason,
		At: r.At, App: r.App, User: r.User, Remote: r.Remote, RequestID: r.RequestID, Action: r.Action,
		Target:  r.Target,
		Targets: r.Targets, Allowed: r.Allowed, Code: r.Code, Message: r.Message, Detail: r.Detail,
	}
}
