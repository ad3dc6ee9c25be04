package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"

	v1 "drover/api/v1"
)

// AuditFilter selects rows. An empty field matches all.
type AuditFilter struct {
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
	App          string
	User         string
	Action       string
	// Changes leaves out the calls that only read, such as lists, and dry runs.
	Changes   bool
	RequestID string
	// Address is the address of the caller, without a port.
	Address string
	Allowed *bool
	// Limit is the largest number of rows; 0 means no limit.
	Limit int
}

// Audit lists the audit log, newest first. A caller who is not an administrator gets its own rows.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[v1.AuditRow, error] {
	query := url.Values{}
	for name, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			query.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	set(query, "app", f.App)
	set(query, "user", f.User)
	set(query, "action", f.Action)
	set(query, "request_id", f.RequestID)
	if f.Changes {
		query.Set("changes", "true")
	}
	set(query, "address", f.Address)
	if f.Allowed != nil {
		query.Set("allowed", strconv.FormatBool(*f.Allowed))
	}
	return pages[v1.AuditRow](ctx, c, at(v1.RouteListAudit), query, f.Limit)
}
