package webui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/words"
)

// maxCSV is the largest number of rows of an audit log in one file.
const maxCSV = 100_000

// auditRow is a record as the page shows it.
type auditRow struct {
	v1.AuditRow
	// Did says in words what the call did, and Outcome how the call ended. Task is the id of the task that the call
	// began; it may be empty.
	Did, Outcome, Task string
}

func auditOf(r v1.AuditRow) auditRow {
	var detail struct {
		Ops  map[string]int `json:"ops"`
		Task string         `json:"task"`
	}
	if json.Unmarshal(r.Detail, &detail) != nil { // most calls have no detail
		detail.Ops = nil
	}
	row := auditRow{AuditRow: r, Outcome: "ok", Task: detail.Task}
	row.Did = words.AskedFor(r.Action, slices.Collect(maps.Keys(detail.Ops)))
	switch {
	case !r.Allowed:
		row.Outcome = "denied"
	case r.Code != 0:
		row.Outcome = "failed"
	}
	return row
}

// auditParameters are the parameters of the page.
func auditParameters() []string {
	return []string{"user", "app", "action", "address", "request_id", "changes", "allowed", "since", "until"}
}

// auditFilter reads the filter of a list of records.
func auditFilter(q url.Values, now time.Time) (f client.AuditFilter, err error) {
	f = client.AuditFilter{
		User: q.Get("user"), App: q.Get("app"), Action: q.Get("action"), Address: q.Get("address"),
		RequestID: q.Get("request_id"), Changes: q.Get("changes") != "",
	}
	if text := q.Get("allowed"); text != "" {
		allowed, err := strconv.ParseBool(text)
		if err != nil {
			return f, badParameter("allowed", text, "true or false")
		}
		f.Allowed = &allowed
	}
	if f.Since, err = moments(q, "since", now); err != nil {
		return f, err
	}
	f.Until, err = moments(q, "until", now)
	return f, err
}

// moments reads a time: RFC 3339, or an age. It is a form that drover audit takes, too, and needs no time zone.
func moments(q url.Values, name string, now time.Time) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d.Abs()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = badParameter(name, text, "a length of time such as 24h, or a time such as 2026-11-20T08:00:00Z")
	}
	return t, err
}

// badParameter is the error of a filter that cannot be read.
func badParameter(name, text, expected string) error {
	return badField(name, fmt.Errorf("%.100q does not fit: expected %s", text, expected))
}

// badField is the error of a field that cannot be read, with what is wrong with it.
func badField(name string, err error) error {
	return &v1.Problem{Status: http.StatusBadRequest, Title: "Bad Request", Detail: name + ": " + err.Error()}
}

// badForm is the error of a form with all the faults of its fields; nil if there are none.
func badForm(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return &v1.Problem{Status: http.StatusBadRequest, Title: "Bad Request", Detail: errors.Join(faults...).Error()}
}

// auditCommand is the command that lists the same records; empty if there is none.
func auditCommand(q url.Values, allowed *bool) string {
	if allowed != nil && *allowed {
		return ""
	}
	var text strings.Builder
	text.WriteString("drover audit")
	for _, flag := range [][2]string{
		{"user", "user"},
		{"app", "app"},
		{"action", "action"},
		{"address", "address"},
		{"request_id", "request"},
		{"since", "since"},
		{"until", "until"},
	} {
		if value := q.Get(flag[0]); value != "" {
			text.WriteString(" --" + flag[1] + " " + quote(value))
		}
	}
	if allowed != nil {
		text.WriteString(" --denied")
	}
	if q.Get("changes") != "" {
		text.WriteString(" --changes")
	}
	return text.String()
}

// audit lists who did what, the newest first.
func (v *view) audit(ctx context.Context) error {
	q := v.r.URL.Query()
	body := map[string]any{
		"Filter": q, "Query": v.r.URL.RawQuery, "All": v.who.ReadsAudit(), "File": path("audit.csv") + "?" + q.Encode(),
		"Actions": words.IDs("action"),
	}
	err := v.checkParameters(auditParameters())
	var f client.AuditFilter
	if err == nil {
		f, err = auditFilter(q, v.Now())
	}
	if err != nil {
		return v.badFilter(err, "audit", body)
	}
	f.Limit = perPage*2 + 1
	found, more, err := some(v.client.Audit(ctx, f), perPage*2)
	if err != nil {
		return v.badFilter(err, "audit", body)
	}
	rows := make([]auditRow, len(found))
	for i := range found {
		rows[i] = auditOf(found[i])
	}
	if more { // the next page begins with the last row, because rows may have the same time
		older := maps.Clone(q)
		older.Set("until", rows[len(rows)-1].At.UTC().Add(1).Format(time.RFC3339Nano))
		body["Older"] = path("audit") + "?" + older.Encode()
	}
	body["Rows"], body["Command"] = rows, auditCommand(q, f.Allowed)
	v.render(http.StatusOK, "audit", body)
	return nil
}

// auditFile sends the records of a filter as a file for a spreadsheet, the newest first.
func (v *view) auditFile(ctx context.Context) error {
	f, err := auditFilter(v.r.URL.Query(), v.Now())
	if err != nil {
		return err
	}
	f.Limit = maxCSV
	return sendCSV(v, "audit.csv", []string{
		"time", "user", "app", "address", "via", "operation", "action", "target", "targets", "outcome", "code",
		"message", "reason", "task", "request_id",
	}, v.client.Audit(ctx, f), func(r v1.AuditRow) []string {
		row := auditOf(r)
		return []string{
			r.At.UTC().Format(time.RFC3339), r.User, r.App, r.Remote, r.Via, row.Did, r.Action, r.Target,
			strconv.Itoa(r.Targets), row.Outcome, strconv.Itoa(r.Code), r.Message, r.Reason, row.Task, r.RequestID,
		}
	})
}
