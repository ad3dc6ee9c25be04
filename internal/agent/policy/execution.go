package policy

import (
	"fmt"
	"slices"
	"strings"

	"drover/internal/process"
)

// rights rejects what gives a process more than the rights of its account.
func (r *rules) rights(e *process.Execution) *refusal {
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

// variables rejects variables by which a loader or a shell runs other files than the command names.
func (r *rules) variables(e *process.Execution) *refusal {
	if len(r.paths) == 0 {
		return nil
	}
	names := make([]string, 0, len(e.Environment))
	for name := range e.Environment {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, "LD_") || slices.Contains([]string{"BASH_ENV", "ENV", "GCONV_PATH", "PATH"}, name) {
			return &refusal{
				r.paths[0].line,
				fmt.Sprintf("environment has %s, which can lead out of the paths: not where paths are given", name),
			}
		}
	}
	return nil
}
