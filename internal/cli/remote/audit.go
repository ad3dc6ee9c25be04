package remote

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/words"
)

// AskedFor is what a call asked for, as ids of actions.
func AskedFor(r v1.AuditRow) string {
	var detail struct {
		Ops map[string]int `json:"ops"`
	}
	if json.Unmarshal(r.Detail, &detail) != nil { // most calls have no detail
		return r.Action
	}
	return words.AskedFor(r.Action, slices.Collect(maps.Keys(detail.Ops)))
}

// AuditOutcome is how a call ended: "ok", "failed" or "denied".
func AuditOutcome(r v1.AuditRow) string {
	switch {
	case !r.Allowed:
		return "denied"
	case r.Code != 0:
		return "failed"
	default:
		return "ok"
	}
}
