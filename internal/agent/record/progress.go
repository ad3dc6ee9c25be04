package record

import (
	"time"

	"drover/internal/agent/instance"
)

// Phase says how far the command of a step has come. A released command is forked and recorded and may have run; its
// proof tells whether it has passed its gate. A step that is not on record has not run: if the agent dies, its child
// ends at the gate.
type Phase string

// The phases, in order.
const (
	Released Phase = "released"
	Done     Phase = "done"
)

// Step is one command of an operation, or of a relaunch.
type Step struct {
	Name  string            `json:"name"`
	Phase Phase             `json:"phase"`
	Run   string            `json:"run"`
	Child instance.Identity `json:"child"`
	// Until is when the command's time is up, since boot.
	Until  time.Duration  `json:"until"`
	Result *CommandResult `json:"result,omitempty"`
	// DoneAt is when the command was seen to have ended, since boot.
	DoneAt time.Duration `json:"done_at,omitempty"`
}

// CommandResult is how a command ended.
type CommandResult struct {
	// Known says that the exit status is known. Code is 128 + n if signal n ended the command.
	Known    bool `json:"known"`
	Code     int  `json:"code"`
	TimedOut bool `json:"timed_out,omitempty"`
	// Text says in words how the command ended. Output is its shortened output.
	Text   string `json:"text"`
	Output string `json:"output,omitempty"`
}

// Progress is how far an operation has come.
type Progress struct {
	// Checked says that the pre-check has passed; Before is the instance that ran then.
	Checked bool               `json:"checked,omitempty"`
	Before  *instance.Identity `json:"before,omitempty"`
	// Run and PIDFile describe Before: see Runtime.
	Run     string `json:"run,omitempty"`
	PIDFile string `json:"pid_file,omitempty"`
	Steps   []Step `json:"steps,omitempty"`
	// Members are the processes that belonged to the instance before it was ended or replaced.
	Members []instance.Identity `json:"noted,omitempty"`
	// Earlier is for the readiness test of the process that starts.
	Earlier Before `json:"earlier,omitzero"`
	// Ready says that the process was seen ready: its word may be lost with the agent that heard it.
	Ready bool `json:"ready,omitempty"`
}
