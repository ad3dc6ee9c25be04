package remote

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"drover/client"
)

// AskedFor is what a call asked for: its operations, or its endpoint if there are none.
func AskedFor(r client.AuditRow) string {
	var detail struct {
		Ops map[string]int `json:"ops"`
	}
	if json.Unmarshal(r.Detail, &detail) != nil || len(detail.Ops) == 0 { // most calls have no detail
		return r.Action
	}
	return strings.Join(slices.Sorted(maps.Keys(detail.Ops)), ", ")
}

// AuditOutcome is how a call ended: "ok", "failed" or "denied".
func AuditOutcome(r client.AuditRow) string {
	switch {
	case !r.Allowed:
		return "denied"
	case r.Code != 0:
		return "failed"
	default:
		return "ok"
	}
}
