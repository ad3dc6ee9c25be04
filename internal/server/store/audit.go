package store

import (
	"context"
	"encoding/json"
	"time"
)

// AuditRow records one call or one denial. It never holds a secret.
type AuditRow struct {
	// Num is set by the store; a row that was stored later has a greater number.
	Num       int64
	At        time.Time
	App       string
	User      string
	Remote    string
	RequestID string
	Action    string // the endpoint's name
	Target    string // the subject of the call, shortened
	Targets   int    // how many
	Allowed   bool   // false: the credentials or the rights were not enough
	Code      int    // the code in the answer; 0 is success
	Message   string
	Detail    json.RawMessage
}

// AuditFilter selects rows; a zero field matches all.
type AuditFilter struct {
	// Since and Until bound the time of the call: Since is inclusive, Until exclusive.
	Since, Until time.Time
	App          string
	User         string
	Action       string
	// Without leaves out the rows of these actions.
	Without   []string
	RequestID string
	Remote    string
	Allowed   *bool
	// Before is the mark of the last row of the previous page.
	Before AuditMark
	// Limit is the largest number of returned rows; zero or less returns no rows.
	Limit int
}

// AuditMark is the place of a row in the order of lists.
type AuditMark struct {
	At  time.Time
	Num int64
}

// Mark returns the place of the row.
func (r *AuditRow) Mark() AuditMark { return AuditMark{r.At, r.Num} }

// Audit is the audit log.
type Audit interface {
	// PutAudit appends rows. It ignores their Num.
	PutAudit(ctx context.Context, rows ...AuditRow) error
	// ListAudit returns the rows that match the filter, newest first.
	ListAudit(ctx context.Context, filter AuditFilter) ([]AuditRow, error)
}
