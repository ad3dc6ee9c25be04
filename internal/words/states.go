package words

// doneWithFailures is what lists show of a task or a rollout that is done on some targets only.
const doneWithFailures = "done-with-failures"

// Result returns the state of a task or a rollout, as lists show it.
func Result(state string, failed int) string {
	if state == "done" && failed > 0 {
		return doneWithFailures
	}
	return state
}

// State returns the word of a state of a process, a host, a task, a rollout or an outcome; the id itself if it has no
// word.
func State(id string) Text { return Text{"state", id} }

// EventState returns the state that an event leads to, as lists of processes name it. Some kinds are such a state of a
// process that runs on.
func EventState(kind, to string) string {
	switch kind {
	case "unhealthy", "not-ready", "flapping":
		return kind
	}
	return to
}

// Class says how good a state is. It is the name of the class in the style sheet of the console.
type Class string

// The classes of states. Idle is neither good nor bad, and Unsure is a state that nobody knows at present.
const (
	Good   Class = "good"
	Busy   Class = "busy"
	Warn   Class = "warn"
	Bad    Class = "bad"
	Unsure Class = "unsure"
	Idle   Class = "idle"
)

// ClassOf returns the class of a state, an outcome or a severity by its id.
func ClassOf(id string) Class {
	switch id {
	case "running", "online", "ok", "done", "ready", "open", "enabled", "present":
		return Good
	case "starting", "stopping", "operating", "pending", "begun", "baking", "next":
		return Busy
	case "unhealthy", "not-ready", "warning", "held", "paused", "agent-unavailable", "relaunched":
		return Warn
	case "flapping", "backoff", "given-up", "failed", "failing", "critical", "check-failed", "aborted", "denied",
		"problem", "not-serving", doneWithFailures:
		return Bad
	case "unknown", "away", "stale":
		return Unsure
	}
	return Idle
}

// Mark is the shape of a class, the same on pages and terminals.
func (c Class) Mark() string {
	switch c {
	case Good:
		return "●"
	case Busy:
		return "◐"
	case Warn:
		return "▲"
	case Bad:
		return "✖"
	case Unsure:
		return "?"
	case Idle:
	}
	return "■"
}
