package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"drover/internal/process"
)

// MaxUsageSteps is the largest number of steps of an answer.
const MaxUsageSteps = 288

const (
	maxUsage = 64 << 10
	// mostMemory, in bytes, and mostFiles are more than a machine has.
	mostMemory = 1 << 50
	mostFiles  = 1 << 30
	// lastMoment is the end of the year 9999 in Unix milliseconds: JSON has no later times.
	lastMoment = 253402300799000
)

// UsageQuestion asks what a process has used. The agent then measures the process more often for a minute.
type UsageQuestion struct {
	Process process.ID `json:"process"`
	// Seconds is the length of the window: see UsageStepOf.
	Seconds int `json:"seconds"`
}

// UsageStepOf returns the length of the steps of a window; 0 if agents know no such window.
func UsageStepOf(window time.Duration) time.Duration {
	return map[time.Duration]time.Duration{
		15 * time.Minute: 5 * time.Second, time.Hour: 30 * time.Second, 24 * time.Hour: 5 * time.Minute,
	}[window]
}

// UsageAnswer has the steps of the window in which the process was measured, the oldest first.
type UsageAnswer struct {
	// End is when the newest step of the window ends, in Unix milliseconds by the clock of the host.
	End   int64       `json:"end,omitempty"`
	Steps []UsageStep `json:"steps,omitempty"`
	// Error says, in a caller's words, why there is no answer.
	Error string `json:"error,omitempty"`
}

// UsageStep is what a process with its whole tree used in a step of a window.
type UsageStep struct {
	// Before is the number of steps from this one to the newest; 0 for the newest, which may go on.
	Before int `json:"b"`
	// CPU is the mean, in percent of the whole machine. Memory, in bytes, and Files are the largest that the agent has
	// seen; Files is 0 if that is not known.
	CPU    float64 `json:"c"`
	Memory int64   `json:"m"`
	Files  int     `json:"f,omitempty"`
	// Restarted tells that another instance began in the step.
	Restarted bool `json:"r,omitempty"`
}

// ReadUsageAnswer decodes the answer of an agent to a question. It rejects an answer beyond the bounds, and steps that
// are not in their order.
func ReadUsageAnswer(data []byte, q UsageQuestion) (UsageAnswer, error) {
	if len(data) > maxUsage {
		return UsageAnswer{}, fmt.Errorf("cannot read answer: %d bytes, expected at most %d", len(data), maxUsage)
	}
	if weight := Weight(data); weight > MaxWeight {
		return UsageAnswer{}, fmt.Errorf("cannot read answer: it would take %d bytes of memory, expected at most %d", weight,
			MaxWeight)
	}
	var a UsageAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return UsageAnswer{}, fmt.Errorf("cannot read answer: %w", err)
	}
	window := time.Duration(q.Seconds) * time.Second
	before := MaxUsageSteps
	if step := UsageStepOf(window); step > 0 {
		before = int(window / step)
	}
	for i, s := range a.Steps {
		switch {
		case s.Before < 0 || s.Before >= before:
			return UsageAnswer{}, fmt.Errorf("cannot read answer: its step %d is %d steps before the last, expected 0 to %d", i,
				s.Before, before-1)
		case s.CPU < 0 || s.CPU > 100 || s.Memory < 0 || s.Memory > mostMemory || s.Files < 0 || s.Files > mostFiles:
			return UsageAnswer{}, fmt.Errorf("cannot read answer: its step %d has figures that no machine has", i)
		}
		before = s.Before
	}
	if a.End < 0 || a.End > lastMoment || a.End == 0 && len(a.Steps) > 0 {
		return UsageAnswer{}, fmt.Errorf("cannot read answer: its end is %d, expected milliseconds up to the year 9999", a.End)
	}
	a.Error = LiveText(a.Error)
	return a, nil
}
