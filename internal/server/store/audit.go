package store

import (
	"context"
	"encoding/json"
	"time"
)

// AuditRow records one call or one denial. It never holds a secret.
type AuditRow struct {
	// Num is given by the store; rows that were stored later have greater ones.
	Num       int64
	At        time.Time
	App       string
	User      string
	Remote    string
	RequestID string
	Action    string // the endpoint's name
	Target    string // what was acted on, shortened
	Targets   int    // how many
	Allowed   bool   // false: the credentials or the rights were not enough
	Code      int    // what the caller was answered; 0 is success
	Message   string
	Detail    json.RawMessage
}

// AuditFilter says which rows are wanted; what is zero does not count.
type AuditFilter struct {
	// Since and Until bound the time of the call: Since is included, Until is not.
	Since, Until time.Time
	App          string
	User         string
	Action       string
	RequestID    string
	Allowed      *bool
	// Before is the mark of the last row of the page before.
	Before AuditMark
	// Limit is how many rows are returned at most; none when it is not positive.
	Limit int
}

// AuditMark is the place of a row in the order in which they are listed.
type AuditMark struct {
	At  time.Time
	Num int64
}

// Mark returns the row's place.
func (r *AuditRow) Mark() AuditMark { return AuditMark{r.At, r.Num} }

// Audit is the record of calls.
type Audit interface {
	// PutAudit appends rows, whose Num does not count.
	PutAudit(ctx context.Context, rows ...AuditRow) error
	// ListAudit returns the rows that the filter lets pass, newest first.
	ListAudit(ctx context.Context, filter AuditFilter) ([]AuditRow, error)
}
