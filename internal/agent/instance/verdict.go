package instance

import (
	"slices"
	"strconv"

	"drover/internal/process"
	"drover/internal/spec"
)

// Verdict judges an end by the policy of relaunches: whether the process has succeeded, and whether the policy forbids
// a relaunch after such an end. An end that nobody saw is a failure.
func Verdict(s *process.Spec, e *process.Exit) (success, forbidden bool) {
	p := s.Restarts()
	if e == nil || !e.Known {
		return false, p.When == process.Never
	}
	end := spec.Status(strconv.Itoa(e.Code))
	if e.Signal != 0 {
		end = spec.Status(process.SignalName(e.Signal))
	}
	return slices.Contains(p.SuccessCodes, end), p.When == process.Never || slices.Contains(p.NeverOn, end)
}
