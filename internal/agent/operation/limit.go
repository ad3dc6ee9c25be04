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
	command := seconds(spec.Policy.OpTimeout)
	start := hookTime(spec.BeforeStart) + command + checkTime(spec) + extension(spec)
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
		if spec.Commands.Restart == "" {
			return look + stopTime(spec) + extension(spec) + start
		}
		return look + command + checkTime(spec)
	case process.WaitsForNothing:
	}
	return 0
}

// stopTime is how long a stop takes at most, without the end of leftovers.
func stopTime(spec *process.Spec) time.Duration {
	p := spec.Stop
	if p == nil {
		return seconds(spec.Policy.OpTimeout) + seconds(spec.Policy.StopCheck)
	}
	// The process has the time of the command once more after it.
	limit := hookTime(spec.BeforeStop) + 2*milliseconds(p.Timeout)
	for _, s := range p.Signals {
		limit += milliseconds(s.Wait)
	}
	return limit
}

// commandTime is the limit of the command of a step.
func commandTime(step string, spec *process.Spec) time.Duration {
	limit := seconds(spec.Policy.OpTimeout)
	switch {
	case step == stepBeforeStart:
		return hookTime(spec.BeforeStart)
	case step == stepPreflight:
		return preflightTime(spec)
	case step == stepBeforeStop:
		return beforeStopTime
	case step == string(process.Stop) && spec.Stop != nil:
		return milliseconds(spec.Stop.Timeout)
	case step == string(process.Reload) && spec.Timeouts.Reload > 0:
		return milliseconds(spec.Timeouts.Reload)
	}
	return limit
}

// checkTime is how long drover watches a start.
func checkTime(spec *process.Spec) time.Duration {
	if r := spec.Ready; r != nil && r.Alive != nil {
		if spec.Foreground() {
			return milliseconds(*r.Alive)
		}
		return Within(spec) + milliseconds(*r.Alive)
	}
	return seconds(max(spec.Policy.StartCheckBegin, spec.Policy.StartCheckEnd))
}

// Within is how long a process may wait for its readiness, and for the processes that it is after.
func Within(s *process.Spec) time.Duration {
	if s.Ready == nil || s.Ready.Within == 0 {
		return defaultWithin
	}
	return milliseconds(s.Ready.Within)
}

// hookTime is the time of a hook; 0 without a hook.
func hookTime(h *process.Hook) time.Duration {
	switch {
	case h == nil:
		return 0
	case h.Time == 0:
		return defaultHookTime
	}
	return milliseconds(h.Time)
}

// preflightTime is the time of the preflight command; 0 without one.
func preflightTime(spec *process.Spec) time.Duration {
	if h := spec.Preflight; h != nil && h.Time == 0 {
		return defaultPreflightTime
	}
	return hookTime(spec.Preflight)
}

const (
	// defaultPreflightTime bounds a preflight command that has no limit of its own.
	defaultPreflightTime = 30 * time.Second
	// defaultHookTime bounds a command before a start that has no limit of its own.
	defaultHookTime = time.Minute
	// defaultWithin is the time of a readiness test that says none.
	defaultWithin = 30 * time.Second
	// beforeStopTime bounds a command before a stop.
	beforeStopTime = time.Minute
)

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
