package ui

import (
	v1 "drover/api/v1"
	"drover/internal/words"
)

// taskAllows reports whether a task can be done again for what has failed (R), or has something to cancel (K).
func taskAllows(t *v1.Task, key string) bool {
	switch key {
	case "R":
		return t.Done() && t.Counts.Failed > 0 && isOp(t.Op)
	case "K":
		return !t.Done()
	}
	return false
}

// taskWord is what a key does with a task.
func taskWord(key string) words.Text {
	if key == "K" {
		return words.Act.CancelTask
	}
	return words.Screen.FailedAgain
}

// cancelTask is the op of the dialog that cancels what has not begun of a task.
const cancelTask = "cancel"

// onTheTask opens the dialog that a key of a task asks for.
func (s State) onTheTask(t *v1.Task, key string) (State, []Do) {
	switch {
	case s.readOnly:
		s.note = words.Screen.ReadOnly.In(s.lang)
	case !taskAllows(t, key):
		s.note = words.Screen.NotForTask.In(s.lang, "op", taskWord(key).In(s.lang),
			"state", words.State(t.State).In(s.lang))
	case key == "R":
		s.note = words.Screen.Asking.In(s.lang)
		return s, []Do{Choose{Op: t.Op, failedOf: t.ID}}
	default:
		s.dialog = &dialog{op: cancelTask, task: t}
	}
	return s, nil
}

// cancelled tells what became of the cancellation of a task.
func (s State) cancelled(m Cancelled) (State, []Do) {
	s.sending--
	if s.leaving {
		return s, []Do{Leave{}}
	}
	s.note = m.Err
	if m.Err == "" {
		s.note = words.Screen.WasCancelled.In(s.lang, "task", m.ID, "n", m.Answer.Cancelled+m.Answer.Asked,
			"begun", m.Answer.Begun)
	}
	return s.ask()
}
