package supervisor

import (
	"strings"
	"time"

	"drover/internal/clip"

	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// How much of an output is told as evidence.
const (
	proofLines = 5
	proofBytes = 1000
)

// attest adds to the cause of an end what its event knows besides: how long the instance had run, and what it wrote
// last, to its output or to the log.
func (r *runner) attest(e *process.Event, log string) {
	if ran := time.Duration(e.RunTime) * time.Millisecond; ran > 0 {
		r.runtime.Cause.Evidence = append(r.runtime.Cause.Evidence, "it had run for "+ran.Round(time.Second).String())
	}
	if text := lastLines(e.Output); text != "" {
		from := "its last output"
		if log != "" {
			from = "the end of its log " + log
		}
		r.runtime.Cause.Evidence = append(r.runtime.Cause.Evidence, from+":\n"+text)
	}
}

// lastLines returns the end of an output.
func lastLines(output string) string {
	if binary(output) {
		return "(binary)"
	}
	output = strings.TrimSpace(output)
	output = clip.Tail(output, proofBytes)
	lines := strings.Split(output, "\n")
	return strings.Join(lines[max(0, len(lines)-proofLines):], "\n")
}

// blameOperation notes that an operation on the process has not done what it was asked for. That stands until another
// one ends well, or until something else happens to the process.
func (r *runner) blameOperation(e *specstore.Entry, result *operation.Result) {
	o := result.Outcome
	failed := o.Fault == process.Failed || o.Fault == process.CheckFailed
	if !failed || o.Cause == "" || !e.Op.Info().Acts {
		return
	}
	line, rest := headline(o.Text, result.Wrote)
	r.blame(o.Cause, line)
	r.runtime.Cause.Evidence = append([]string{by(string(e.Op)+" requested", e.Actor)}, rest...)
}
