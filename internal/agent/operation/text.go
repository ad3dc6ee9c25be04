package operation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// Callers of GSE and JOB know these texts and parse the first words of some of them (a failed stop begins with "stop").
// So only the rest of a text may change.

// own reports whether the texts are drover's own and name the fields of the process file: those about a process of such
// a file, unless a caller of GSE or JOB has ordered the operation.
func (n *session) own() bool { return !n.wire && n.spec != nil && n.spec.Compat == nil }

// fieldName returns the name of a command's field.
func (n *session) fieldName(field string) string {
	if n.own() {
		return strings.TrimSuffix(field, "_cmd")
	}
	return field
}

func (n *session) alreadyRunning(name string, pid int) error {
	text := "no need to start the process(%s) that is already running, pid %d"
	if n.own() {
		text = "nothing to start: process %s is already running, pid %d"
	}
	return process.Errorf(process.AlreadyRunning, text, name, pid)
}

func (n *session) notRunning(verb, name string) error {
	text := "no need to %s the process(%s) that is not running"
	if n.own() {
		text = "nothing to %s: process %s is not running"
	}
	return process.Errorf(process.NotRunning, text, verb, name)
}

// besideCopies rejects a start beside the instances that fit the process and that drover does not watch.
func (n *session) besideCopies(fit []instance.UnwatchedCopy) error {
	const most = 5
	var names []string
	for _, c := range fit[:min(len(fit), most)] {
		names = append(names, fmt.Sprintf("pid %d [%s] since %s", c.ID.PID, c.Cmdline, c.Since.UTC().Format(time.RFC3339)))
	}
	if more := len(fit) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	runs, it := "a copy of the process runs", "it"
	if len(fit) > 1 {
		runs, it = "copies of the process run", "one of them"
	}
	command := ""
	if n.subject.Record != nil { // an apply does not start what somebody has stopped
		command = "drover start "
	}
	note, advice := "", ""
	switch {
	case !n.certain(fit):
		advice = fmt.Sprintf("end all but one for %[1]s--take-over, or start all the same with %[1]s--beside", command)
		if n.wish != process.Refuse {
			note = "drover cannot tell which process to take over; "
		}
	case n.wish != process.Refuse:
		note = "other processes of drover take over all that fit; "
		advice = fmt.Sprintf("%s--beside starts all the same", command)
	default:
		advice = fmt.Sprintf("%s--take-over watches %s as the process, --beside starts all the same", command, it)
	}
	return process.Errorf(process.Failed, "nothing was done: %s%s that drover does not watch: %s. %s", note, runs,
		strings.Join(names, "; "), advice).Because(process.CauseCopy)
}

// unsure is the failure of an operation that must not begin because drover cannot tell whether the process runs.
func unsure(seen instance.Sighting) error {
	return process.Errorf(process.Failed,
		"nothing was done, because drover cannot find out whether the process runs: %s", seen.Note).Because(seen.Cause)
}

func postCheck(verb, name, detail string, cause process.CauseID) *process.Error {
	return process.Errorf(process.CheckFailed, "%s process (%s) failed, for post-check status %s", verb, name,
		detail).Because(cause)
}

// postCheckAfter is postCheck after a command, with the command's output.
func postCheckAfter(r *record.CommandResult, verb, name, detail string, cause process.CauseID) error {
	if r == nil || strings.TrimSpace(r.Output) == "" {
		return postCheck(verb, name, detail, cause)
	}
	return postCheck(verb, name, withOutput(detail, r), cause).With(r.Output)
}

// unproven rejects the end of a process that may belong to somebody else.
func unproven(verb string, pid int, doubt string) error {
	return process.Errorf(process.Failed,
		"cannot %s pid %d: drover has not started it, and its name alone does not prove that it is the process: %s",
		verb, pid, doubt).Because(process.CauseOutside)
}

// join joins two texts. Either text may be empty.
func join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + "; " + b
}

func (n *session) emptyCommand(field string) error {
	e := process.Errorf(process.Failed, "%s is empty", n.fieldName(field))
	if n.own() && field == "reload_cmd" {
		e = process.Errorf(process.Failed, "reload is empty: expected a command or a signal; restart the process instead")
	}
	if field == "start_cmd" {
		return e.Because(process.CauseNoStartCommand)
	}
	return e
}

// commandFailed says that a command has failed. For GSE and JOB it puts the command's output into the words that
// callers have always seen. How the command ended and the note follow the output.
func (n *session) commandFailed(field string, r *record.CommandResult, note string) error {
	text := fmt.Sprintf("Script exit code non-zero. Error msessage: [%s] (%s: %s)", r.Output, field, r.Text)
	verb := " failed: "
	if r.TimedOut {
		verb = " "
	}
	command, ofWire := strings.CutSuffix(field, "_cmd")
	switch {
	case !ofWire: // fields that GSE and JOB do not have
		text = withOutput(field+" failed: "+r.Text, r)
	case n.own():
		text = withOutput("the "+command+" command"+verb+r.Text, r)
	case r.TimedOut:
		text = fmt.Sprintf("%s %s. Output: [%s]", field, r.Text, r.Output)
	}
	if note != "" {
		text += "; " + note
	}
	return process.Errorf(process.Failed, "%s", text).Because(causeOf(r)).With(r.Output)
}

// withOutput adds the output of a command, if there is one, to a text.
func withOutput(text string, r *record.CommandResult) string {
	if strings.TrimSpace(r.Output) == "" {
		return text
	}
	return fmt.Sprintf("%s; output: [%s]", text, r.Output)
}

// causeOf classifies the failure of a command. A shell exits with 127 for a command that it cannot find, and with 126
// for a command that it cannot run (POSIX, sh, "Exit status for commands"); the shell of a script does so, too.
func causeOf(r *record.CommandResult) process.CauseID {
	if r.TimedOut {
		return process.CauseCommandTimeout
	}
	return cmp.Or(process.CauseOfStatus(r.Code, r.Output), process.CauseCommandFailed)
}

// succeeded reports whether a command counts as done: it exited with 0, or its status is unknown.
func succeeded(r *record.CommandResult) bool {
	return !r.TimedOut && (!r.Known || r.Code == 0)
}

// successText is "success", followed by the notes that are not empty.
func successText(notes ...string) string {
	notes = slices.DeleteFunc(notes, func(note string) bool { return note == "" })
	if len(notes) == 0 {
		return process.Success
	}
	return process.Success + ": " + strings.Join(notes, "; ")
}

// shortly is a time limit in words: whole seconds as a number of them.
func shortly(d time.Duration) string {
	if d > time.Second {
		d = d.Round(10 * time.Millisecond) // what was measured has digits that nobody needs
	}
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return d.String()
}

// unknownStatus says that a command's exit status is unknown, so that only liveness decided.
func (n *session) unknownStatus(field string, r *record.CommandResult) string {
	if r == nil || r.Known || r.TimedOut {
		return ""
	}
	return fmt.Sprintf("%s %s, so only the state of the process was checked", n.fieldName(field), r.Text)
}

// compatNotes lists what a caller of GSE or JOB has sent and drover does not use, and the defaults that it assumed.
func compatNotes(s *process.Spec) []string {
	notes := unused(s)
	if s.Compat != nil && s.Compat.KindAssumed {
		notes = append(notes, "neither type nor cycle_time was given, so the process is resident (type 1)")
	}
	return notes
}

// unused lists what drover stores and does not use.
func unused(s *process.Spec) (notes []string) {
	if s.Compat == nil {
		return nil
	}
	if s.Compat.Crontab != "" {
		notes = append(notes, "crontab_rule is stored and not used: it is for periodic processes (auto_type 0)")
	}
	if s.Compat.CycleTime > 0 {
		notes = append(notes, "cycle_time is stored and not used: it is for periodic processes (type 0)")
	}
	return notes
}

// limitNotes says which limits of a spec are not in force.
func (o *Operator) limitNotes(spec *process.Spec) []string {
	if o.LimitNotes == nil {
		return nil
	}
	return o.LimitNotes(spec)
}

// lateLimits says which limits a running process does not have yet.
func lateLimits(late map[string]string) (notes []string) {
	for _, limit := range slices.Sorted(maps.Keys(late)) {
		notes = append(notes, fmt.Sprintf("limits.%s takes effect at the next start: %s", limit, late[limit]))
	}
	return notes
}

// Findings are what is wrong with a process besides its state: fields of a spec that this host stores and does not use,
// and log files of a running process that somebody has removed or that have no room.
func (o *Operator) Findings(rec *record.Record, rt *record.Runtime) (all []process.Cause) {
	logged := rt.Process != nil && rt.Run != "" && rec.Spec.Foreground()
	if logged && o.LogRemoved != nil {
		if since := o.LogRemoved(rec.ID); since != 0 {
			all = append(all, process.Cause{ID: process.CauseLogRemoved, Text: LogRemovedText, Since: since})
		}
	}
	if logged && o.LogFull != nil {
		if since := o.LogFull(); since != 0 {
			all = append(all, process.Cause{ID: process.CauseLogFull, Text: logFullText, Since: since})
		}
	}
	own := append(unused(&rec.Spec), o.limitNotes(&rec.Spec)...)
	if notes := append(own, lateLimits(rt.Limits)...); len(notes) > 0 {
		since := 1000 * rec.RegisteredAt
		if len(own) == 0 {
			since = cmp.Or(rt.LimitsSince, since)
		}
		all = append(all, process.Cause{ID: process.CauseNotInForce, Text: strings.Join(notes, "; "), Since: since})
	}
	return all
}

const logFullText = "the file system of its log is full: what it writes is lost"

// LogRemovedText says that somebody has removed the log files of a running process.
const LogRemovedText = "somebody has removed its log files: drover neither sees nor bounds what it writes until a restart"
