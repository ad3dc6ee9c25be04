package why

import (
	"fmt"
	"time"

	"drover/internal/process"
	"drover/internal/words"
)

// own returns the cause that the agent found. If the agent reports no cause, as earlier versions do, own derives a
// cause from the state. It returns the zero value if there is nothing to explain.
func (f *judgement) own() process.Cause {
	s := f.Status
	if s.Cause.ID != "" {
		return s.Cause
	}
	c := process.Cause{ID: impliedCause(s), Text: s.Message}
	if e, known := f.Lookup(c.ID); known && c.Text == "" {
		c.Text = e.Meaning.In(words.English)
	}
	return c
}

// impliedCause returns the most likely kind of cause for a state that was reported without a cause.
func impliedCause(s *process.Status) process.CauseID {
	switch s.State {
	case process.StateFlapping:
		return process.CauseFlapping
	case process.StateNotReady:
		return process.CauseNotReady
	case process.StateUnhealthy:
		return process.CauseUnhealthy
	case process.StateGivenUp:
		return s.LastExit.Cause()
	case process.StateStopping, process.StateOperating:
		return process.CauseOperating
	case process.StateScheduled:
		return process.CauseWaitsForSchedule
	case process.StateFinished:
		return process.CauseFinished
	case process.StateStopped:
		switch {
		case s.LastStartAt == 0:
			return process.CauseNeverStarted
		case s.Hosted:
			return s.LastExit.Cause()
		case s.Want == process.WantStopped:
			return process.CauseStopped
		}
		return process.CauseUnhosted
	}
	return ""
}

// impact returns what the state means for the process.
func (f *judgement) impact() string {
	s := f.Status
	switch {
	case !f.Agent.Joined:
		return "drover can neither see nor change anything on that host"
	case f.Agent.Away:
		return "drover cannot see its state; the agent continues without the server"
	case s == nil || !s.Known:
		return "drover does not watch it"
	case s.Running() && s.Hosted:
		return "it runs, and drover watches it"
	case s.Running():
		return "it runs, but drover would not relaunch it"
	}
	if s.Cause.ID == process.CauseBreakerOpen {
		return "it is down, and drover withholds its relaunch"
	}
	if s.LastExit != nil && s.Cause.Since != 0 && s.LastExit.At > s.Cause.Since {
		// The cause is as old as the outage, and the process has run in between.
		switch s.State {
		case process.StateGivenUp:
			return "it kept ending, and is down until somebody starts or retries it"
		case process.StateBackoff, process.StateFlapping, process.StateStarting:
			return "it keeps ending, and drover relaunches it"
		}
	}
	switch s.State {
	case process.StateGivenUp:
		return "it is down until somebody starts or retries it"
	case process.StateBackoff, process.StateFlapping:
		return "it is down, and drover will relaunch it"
	case process.StateStarting:
		return "it is down, and drover is starting it"
	case process.StateStopping:
		return "drover is ending it"
	case process.StateOperating, process.StateUnknown:
		return "drover does not watch it at this moment"
	case process.StateScheduled:
		return "it runs by its timetable"
	case process.StateFinished:
		return "it has ended, and drover does not start it again"
	}
	if s.Hosted {
		return "it is down although it is hosted"
	}
	return "it is down, and drover will not start it"
}

// Age formats a duration in its two largest units, such as "2d3h"; a duration below a second is "0s".
func Age(d time.Duration) string {
	seconds := max(int64(d/time.Second), 0)
	units := []struct {
		length int64
		name   string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}}
	for i, u := range units {
		if seconds < u.length && u.length > 1 {
			continue
		}
		text := fmt.Sprintf("%d%s", seconds/u.length, u.name)
		if i+1 < len(units) {
			if rest := seconds % u.length / units[i+1].length; rest > 0 {
				text += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0s"
}

// RunTime is Age, with tenths of a second below 10 s: a process that ended at once had a run time, too.
func RunTime(d time.Duration) string {
	if d < 10*time.Second {
		return process.Round(d).String()
	}
	return Age(d)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// millis converts a time to Unix milliseconds; the zero time is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
