package operation

import (
	"time"

	"drover/internal/process"
)

// Limit returns how long an operation may take from its beginning: the limits of the commands and checks that it will
// run.
func Limit(op process.Op, spec *process.Spec) time.Duration {
	if spec == nil {
		return 0
	}
	p := spec.Policy
	command := seconds(p.OpTimeout)
	startCheck, stopCheck := seconds(max(p.StartCheckBegin, p.StartCheckEnd)), seconds(p.StopCheck)
	switch op.Info().Waits {
	case process.WaitsForStart:
		return command + startCheck
	case process.WaitsForEnd:
		return command + stopCheck + endTime
	case process.WaitsForBoth:
		if spec.Commands.Restart == "" {
			return 2*command + stopCheck + startCheck
		}
		return command + startCheck
	case process.WaitsForNothing:
	}
	return 0
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
