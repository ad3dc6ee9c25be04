package ui

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/cli/term"
	"drover/internal/words"
)

// dialog asks for the confirmation of an operation: on processes, on those that the server holds, on a rollout or on a
// task.
type dialog struct {
	op      string
	targets []v1.Process
	held    *v1.Selection
	all     *everything
	rollout *v1.Rollout
	task    *v1.Task
	// batches are how the operation goes through its hosts, as flags of drover restart; empty means all at once.
	batches string
	// confirm tells that the focus is on the operation, not on Cancel. typed is the number that a person has typed.
	confirm bool
	typed   string
}

// count is the number that a person confirms: of processes, or of the hosts of a rollout.
func (d *dialog) count() int {
	switch {
	case d.task != nil:
		return 0
	case d.rollout != nil:
		return stepBy(d.op).hosts(d.rollout.Counts)
	case d.held != nil:
		return d.held.Targets
	}
	return len(d.targets)
}

// mustType reports whether the number must be typed.
func (d *dialog) mustType() bool { return d.op == "kill" || d.count() > term.TypeAbove }

// blocked reports whether the server would refuse the operation for some of the processes.
func (d *dialog) blocked() bool {
	return d.held != nil && (d.held.DeniedCount > 0 || d.held.Targets == 0)
}

// opOf is the operation of a key.
func opOf(key string) string {
	switch key {
	case "r":
		return "restart"
	case "s":
		return "stop"
	case "S":
		return "start"
	case "o":
		return "reload"
	case "R":
		return "retry"
	case "K":
		return "kill"
	}
	return ""
}

// wordOf is the word of an operation.
func wordOf(op string) words.Text {
	switch op {
	case "restart":
		return words.Act.Restart
	case "stop":
		return words.Act.Stop
	case "start":
		return words.Act.Start
	case "reload":
		return words.Act.Reload
	case "retry":
		return words.Act.Retry
	case "kill":
		return words.Act.Kill
	case cancelTask:
		return words.Act.CancelTask
	case "host":
		return words.Act.Host
	case "unhost":
		return words.Act.Unhost
	}
	if one := stepBy(op); one != nil {
		return one.word
	}
	return words.Action(op)
}

// isOp reports whether the screen has an operation.
func isOp(op string) bool {
	return slices.ContainsFunc([]string{"r", "s", "S", "o", "R", "K"}, func(key string) bool { return opOf(key) == op })
}

// act opens the dialog of an operation: on the marked processes, else on the selected one.
func (s State) act(op string) (State, []Do) {
	if s.readOnly {
		s.note = words.Screen.ReadOnly.In(s.lang)
		return s, nil
	}
	if s.allMarked() {
		s.note = words.Screen.Asking.In(s.lang)
		return s, []Do{Choose{Op: op, all: s.all}}
	}
	targets := s.targets()
	if len(targets) == 0 {
		s.note = words.Screen.NoneChosen.In(s.lang)
		return s, nil
	}
	s.dialog = dialog{op: op, targets: targets}.proposed()
	return s, nil
}

// targets are what an operation is for: the process that is described or explained, else in a list of processes the
// marked ones, else the selected one.
func (s State) targets() (all []v1.Process) {
	if (s.here.kind == describe || s.here.kind == why) && len(s.items) > 0 {
		switch v := s.items[0].(type) {
		case v1.Process:
			return []v1.Process{v}
		case v1.Why:
			if len(v.Findings) == 1 {
				return []v1.Process{processOf(&v.Findings[0])}
			}
		}
	}
	if s.here.kind != processes {
		return nil
	}
	all = s.markedOnes()
	if p, ok := s.selected().(v1.Process); ok && len(all) == 0 {
		return []v1.Process{p}
	}
	return all
}

// markedOnes are the processes that are marked one by one.
func (s *State) markedOnes() (all []v1.Process) {
	for _, key := range slices.Sorted(maps.Keys(s.marked)) {
		all = append(all, s.marked[key])
	}
	return all
}

// allMarked reports whether all that match the filter of the list are marked.
func (s *State) allMarked() bool {
	return s.all != nil && s.here.kind == processes && s.all.filter == s.here.filter && s.all.wrong == s.here.wrong
}

// isMarked reports whether a process is marked.
func (s *State) isMarked(p v1.Process) bool {
	if s.allMarked() {
		_, left := s.all.except[keyOf(p)]
		return !left
	}
	_, ok := s.marked[keyOf(p)]
	return ok
}

// marks is the number of marked processes. That of all matching ones is as old as the list.
func (s *State) marks() int {
	switch {
	case !s.allMarked():
		return len(s.marked)
	case s.here.wrong:
		return s.wrongOf - len(s.all.except)
	case s.counts != nil:
		return s.counts.Total - len(s.all.except)
	}
	return len(s.items) - len(s.all.except)
}

// mark marks the selected process, or takes its mark off, and goes a row down.
func (s State) mark() (State, []Do) {
	p, ok := s.selected().(v1.Process)
	if !ok {
		s.note = words.Screen.NotHere.In(s.lang)
		return s, nil
	}
	if s.allMarked() {
		all := *s.all
		all.except = toggled(all.except, p)
		s.all = &all
	} else {
		s.marked = toggled(s.marked, p)
	}
	if s.here.row+1 < len(s.items) {
		return s.move(1)
	}
	return s, nil
}

// toggled returns a set with a process, or without it if the set had it.
func toggled(set map[string]v1.Process, p v1.Process) map[string]v1.Process {
	next := maps.Clone(set)
	if next == nil {
		next = map[string]v1.Process{}
	}
	if _, was := next[keyOf(p)]; was {
		delete(next, keyOf(p))
	} else {
		next[keyOf(p)] = p
	}
	return next
}

// markAll marks all processes that match, or takes all marks off.
func (s State) markAll() (State, []Do) {
	switch {
	case s.here.kind != processes:
		s.note = words.Screen.NotHere.In(s.lang)
	case s.allMarked() || len(s.marked) > 0:
		s.marked, s.all = nil, nil
	default:
		s.all = &everything{filter: s.here.filter, wrong: s.here.wrong}
	}
	return s, nil
}

// chosen opens the dialog of an operation on what the server holds.
func (s State) chosen(m Chosen) (State, []Do) {
	switch {
	case m.Err != "":
		s.note = m.Err
	case !s.stillAbout(m) || s.prompt != nil || s.dialog != nil:
		s.note = "" // the person has gone on to something else
	default:
		s.note, s.dialog = "", dialog{op: m.Op, held: &m.Selection, all: m.all}.proposed()
	}
	return s, nil
}

// stillAbout reports whether the screen still shows the marks or the task that the server was asked about.
func (s *State) stillAbout(m Chosen) bool {
	if m.failedOf == "" {
		return m.all == s.all && s.allMarked()
	}
	t := s.onTask()
	return t != nil && t.ID == m.failedOf
}

// inDialog takes a key while the dialog is open.
func (s State) inDialog(key, text string) (State, []Do) {
	d := *s.dialog
	switch key {
	case "esc", "q":
		s.dialog = nil
		return s, nil
	case "tab", "shift+tab", "left", "right":
		d.confirm = !d.confirm
	case "backspace":
		d.typed = d.typed[:max(0, len(d.typed)-1)]
	case "enter":
		if d.confirm && d.ready() {
			return s.submit(&d)
		}
		if !d.confirm {
			s.dialog = nil
			return s, nil
		}
		if !d.blocked() {
			s.note = words.Act.WrongCount.In(s.lang)
		}
	case "y":
		if !d.mustType() && d.ready() {
			return s.submit(&d)
		}
	case "C":
		return s.copied(words.Screen.CopiedCommand, d.command(s.suffix))
	case "b":
		if d.spreads() {
			return s.askBatches(), nil
		}
	default:
		if d.mustType() && strings.Trim(text, "0123456789") == "" && len(d.typed)+len(text) < 10 {
			d.typed += text
			d.confirm = d.ready()
		}
	}
	s.dialog = &d
	return s, nil
}

// ready reports whether the number is typed, if it must be, and nothing else forbids the operation.
func (d *dialog) ready() bool {
	return !d.blocked() && (!d.mustType() || d.typed == strconv.Itoa(d.count()))
}

func (s State) submit(d *dialog) (State, []Do) {
	s.dialog = nil
	s.sending++
	one := Submit{Op: d.op, Targets: d.targets}
	one.plan, _ = planOf(d.batches, s.lang) // spread has read it
	switch {
	case d.task != nil:
		return s, []Do{Cancel{d.task.ID}}
	case d.rollout != nil:
		return s, []Do{Step{d.op, d.rollout.ID}}
	case d.held != nil:
		one.Selection = d.held.ID
		for _, item := range s.items {
			if p, ok := item.(v1.Process); ok && d.all != nil && s.isMarked(p) {
				one.Rows = append(one.Rows, keyOf(p))
			}
		}
	}
	for _, p := range d.targets {
		one.Rows = append(one.Rows, keyOf(p))
	}
	return s, []Do{one}
}

// byProcess are the targets of a request.
func byProcess(all []v1.Process) (targets []v1.Target) {
	place := map[string]int{}
	for _, p := range all {
		id := p.Namespace + "/" + p.Name
		i, ok := place[id]
		if !ok {
			i = len(targets)
			place[id] = i
			targets = append(targets, v1.Target{Namespace: p.Namespace, Name: p.Name})
		}
		targets[i].Hosts = append(targets[i].Hosts, p.Host.ID)
	}
	return targets
}

// command is the command line that does the same as the dialog: one for each set of hosts; empty if there is none.
func (d *dialog) command(suffix string) string {
	switch {
	case d.task != nil:
		return "drover task cancel " + term.ShellWord(d.task.ID) + suffix
	case d.rollout != nil:
		return "drover rollout " + d.op + " " + term.ShellWord(d.rollout.ID) + suffix
	case d.held != nil && (d.all == nil || d.all.wrong || len(d.all.except) > 0):
		return ""
	}
	if d.batches != "" {
		suffix = " " + d.batches + suffix
	}
	if d.held != nil {
		line := "drover " + d.op
		if f, err := parse(place{kind: processes, filter: d.all.filter}, words.English); err == nil && f.name == "" {
			line += " '*/*'"
		}
		return line + filterWords(processes, d.all.filter) + suffix
	}
	var lines []string
	place := map[string]int{}
	for _, t := range byProcess(d.targets) {
		where := " --hosts " + term.ShellWord(strings.Join(t.Hosts, ","))
		i, ok := place[where]
		if !ok {
			i = len(lines)
			place[where] = i
			lines = append(lines, "drover "+d.op)
		}
		lines[i] += " " + term.ShellWord(t.Namespace+"/"+t.Name)
	}
	for where, i := range place {
		lines[i] += where + suffix
	}
	return strings.Join(lines, "\n")
}

// command is the command line that lists the same, or shows the same text.
func (s State) command() string {
	of := s.here.of
	at := " " + term.ShellWord(of.process()) + " --hosts " + term.ShellWord(of.host)
	line := ""
	switch s.here.kind {
	case processes:
		line = "drover ps"
		if s.here.wrong {
			line = "drover why"
		}
	case hosts:
		line = "drover hosts"
	case tasks:
		line = "drover task list"
	case rollouts:
		line = "drover rollout list"
	case events:
		line = "drover events"
	case results:
		return "drover task get " + of.id + s.suffix
	case rollout:
		return "drover rollout status " + of.id + s.suffix
	case people, person:
		return "drover user list" + s.suffix
	case audit:
		line = "drover audit"
	case describe:
		return "drover status" + at + s.suffix
	case why:
		return "drover why" + at + s.suffix
	case spec:
		return "drover get" + at + s.suffix
	default:
		return ""
	}
	return line + filterWords(s.here.kind, s.here.filter) + s.suffix
}

// filterWords are the words of a filter on a command line.
func filterWords(k kind, filter string) (line string) {
	parts, _ := split(filter)
	for i, p := range parts {
		alone := !strings.HasPrefix(p, "-") && (i == 0 || !strings.HasPrefix(parts[i-1], "-"))
		if alone && k != hosts && !strings.Contains(p, "/") {
			p = "*/*" + p + "*"
		}
		line += " " + term.ShellWord(p)
	}
	return line
}
