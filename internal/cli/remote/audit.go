package remote

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"drover/client"
)

// dryRun ends the action of a call that only shows what it would do.
const dryRun = ".dry-run"

// AskedFor is what a call asked for: its operations, or its endpoint if there are none.
func AskedFor(r client.AuditRow) string {
	var detail struct {
		Ops map[string]int `json:"ops"`
	}
	if json.Unmarshal(r.Detail, &detail) != nil || len(detail.Ops) == 0 { // most calls have no detail
		return r.Action
	}
	ops := slices.Sorted(maps.Keys(detail.Ops))
	if strings.HasSuffix(r.Action, dryRun) {
		for i := range ops {
			ops[i] += dryRun
		}
	}
	return strings.Join(ops, ", ")
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
