package policy

import (
	"fmt"
	"maps"
	"slices"

	"drover/internal/process"
)

// rights rejects what gives a process more than the rights of its account.
func (r *rules) rights(e *process.Spec) *refusal {
	if len(r.users) == 0 {
		return nil
	}
	for _, more := range []struct {
		field string
		set   bool
	}{
		{"group", e.Group != ""},
		{"groups", len(e.Groups) > 0},
		{"capabilities", len(e.Capabilities) > 0},
		{"nice", e.Nice != nil && *e.Nice < 0},
		{"oom_score_adjust", e.OOMScoreAdjust != nil && *e.OOMScoreAdjust < 0},
	} {
		if more.set {
			return &refusal{
				r.users[0].line, more.field + " gives more than the rights of the account: not where users are given",
			}
		}
	}
	return nil
}

// checkVariables rejects variables of a spec that the policy does not name. Loaders, shells and interpreters run other
// files than the command names if a variable tells them to, and nobody knows all such variables.
func (r *rules) checkVariables(e *process.Spec) *refusal {
	line := 0
	switch {
	case len(r.variables) > 0:
		line = r.variables[0].line
	case len(r.paths) > 0:
		line = r.paths[0].line
	default:
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(e.Environment)) {
		if !matchesAny(r.variables, name) {
			return &refusal{
				line, fmt.Sprintf("environment has %s, which no line variables names: where paths are given a variable "+
					"may lead out of them", name),
			}
		}
	}
	return nil
}
