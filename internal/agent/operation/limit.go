package operation

import (
	"time"

	"drover/internal/process"
	"drover/internal/spec"
)

// Limit returns how long an operation may take from its beginning: the limits of the commands and checks that it will
// run.
func Limit(op process.Op, spec *process.Spec) time.Duration {
	if spec == nil {
		return 0
	}
	command := spec.CommandLimit()
	start := beforeStartTime(spec) + command + checkTime(spec) + extension(spec)
	look := preflightTime(spec)
	switch op.Info().Waits {
	case process.WaitsForStart:
		if op == process.Preflight {
			return look
		}
		if op.Name() == process.Reload {
			if confirmsReload(spec) {
				return look + 2*commandTime(string(process.Reload), spec)
			}
			return look + commandTime(string(process.Reload), spec) + checkTime(spec)
		}
		return start
	case process.WaitsForEnd:
		return stopTime(spec) + extension(spec) + endTime
	case process.WaitsForBoth:
		if spec.RestartCommand() == "" {
			return look + stopTime(spec) + extension(spec) + start
		}
		return look + command + checkTime(spec)
	case process.WaitsForNothing:
	}
	return 0
}

// stopTime is how long a stop takes at most, without the end of leftovers.
func stopTime(spec *process.Spec) time.Duration {
	if spec.Compat != nil {
		return spec.CommandLimit() + spec.StopCheck()
	}
	// The process has the time of the command once more after it.
	limit := 2 * spec.StopLimit()
	if spec.BeforeStop != nil {
		limit += beforeStopTime + spec.BeforeStop.Pause()
	}
	for _, s := range spec.Signals() {
		limit += time.Duration(s.Wait)
	}
	return limit
}

// commandTime is the limit of the command of a step.
func commandTime(step string, spec *process.Spec) time.Duration {
	limit := spec.CommandLimit()
	switch {
	case step == stepBeforeStart:
		return beforeStartTime(spec)
	case step == stepPreflight:
		return preflightTime(spec)
	case step == stepBeforeStop:
		return beforeStopTime
	case step == string(process.Stop) && spec.Compat == nil:
		return spec.StopLimit()
	case step == string(process.Reload):
		return spec.ReloadLimit()
	}
	return limit
}

// checkTime is how long drover watches a start.
func checkTime(spec *process.Spec) time.Duration {
	if alive, apart := spec.Alive(); apart {
		if spec.Foreground() {
			return alive
		}
		return spec.Within() + alive
	}
	return spec.CheckTime()
}

// preflightTime is the time of the preflight command; 0 without one.
func preflightTime(s *process.Spec) time.Duration { return s.Preflight.Limit(spec.DefaultPreflight) }

// beforeStopTime bounds a command before a stop.
const beforeStopTime = time.Minute

// beforeStartTime is the time of the command before a start; 0 without one.
func beforeStartTime(s *process.Spec) time.Duration { return s.BeforeStart.Limit(spec.DefaultTimeout) }
