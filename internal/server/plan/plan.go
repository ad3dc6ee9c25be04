// Package plan computes what an apply of a process file does: the difference between the file and what hosts have, and
// the operations that remove it. It does no I/O and has no clock.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
)

// Wanted is a process of the file on one host.
type Wanted struct {
	Process process.ID
	// Agent is the key of the host, and Host its name for readers.
	Agent, Host string
	Spec        *process.Spec
	// Selector is the expression that selects the host; empty if the file names the host.
	Selector string
	// Entry is the name in the file. It differs from the name of a copy if the file has the number of copies.
	Entry string
}

// Known is a process that a host has.
type Known struct {
	Process     process.ID
	Agent, Host string
	Spec        *process.Spec
	Status      process.Status
	// Selector is the expression in force that selects the host for the process; empty if there is none.
	Selector string
	// Unfiled tells that no file has the spec.
	Unfiled bool
	// Untold tells that the host has not told yet what it has, since the database was restored from a copy: Spec and
	// Status are of the time of the copy.
	Untold bool
	// Gone tells that somebody has removed the process, which a file still has. Spec and Status are then empty.
	Gone bool
}

// Prune says what becomes of processes that are not in the file.
type Prune string

// The values of Prune: they stay, those with a spec of drover's own form go, all of the namespace go.
const (
	PruneNone Prune = ""
	PruneOwn  Prune = "true"
	PruneAll  Prune = "all"
)

// PID names a running process. Began is when it began, in clock ticks since boot.
type PID struct {
	Number int
	Began  uint64
}

// maxPID is PID_MAX_LIMIT of the kernel (proc_sys_kernel(5)).
const maxPID = 1 << 22

// ReadPID reads PID:BEGAN.
func ReadPID(text string) (p PID, ok bool) {
	number, ticks, _ := strings.Cut(text, ":")
	pid, err := strconv.Atoi(number)
	began, wrong := strconv.ParseUint(ticks, 10, 64)
	return PID{pid, began}, err == nil && wrong == nil && pid > 1 && pid <= maxPID
}

// Options are the options of an apply.
type Options struct {
	NoRestart bool
	Prune     Prune
	// Force says that restarts go past the preflight.
	Force bool
	// Beside is what a start does beside a copy of the process that drover does not watch.
	Beside process.Beside
	// PIDs are those of the copies to take over, by the name of the process, as far as the caller knows them.
	PIDs map[string]PID
}

// restart is the operation for a change of the class restart.
func (o *Options) restart() process.Op {
	if o.Force {
		return process.ForcedOp(process.Restart)
	}
	return process.Restart
}

// Step is an operation on one host.
type Step struct {
	Op          process.Op
	Process     process.ID
	Agent, Host string
	// Spec is nil if the host uses the spec that it has.
	Spec *process.Spec
	// Removes tells that the step is a part of the removal of the process.
	Removes bool
	// Former is the spec that the host has; nil if it does not have the process.
	Former *process.Spec
}

// key names a process of a host.
type key struct {
	agent string
	id    process.ID
}

// row is a change on one host.
type row struct {
	v1.Change
	host string
	// copy is the number of a copy, or 0.
	copy int
}

// start is a process that starts with a spec, on any number of hosts.
type start struct {
	id   process.ID
	spec *process.Spec
}

// starts are the specs of starts beside copies. Hosts with the same spec stay one request.
type starts map[start]*process.Spec

// beside returns the spec of a process that may start beside its copies, or take them over.
func (s starts) beside(w Wanted, o Options) *process.Spec {
	kind := start{w.Process, w.Spec}
	if s[kind] == nil {
		own := *w.Spec
		own.Beside = o.Beside
		if pid := o.PIDs[w.Process.Name]; pid.Number != 0 {
			own.Beside = o.Beside.WithPID(pid.Number, pid.Began)
		}
		s[kind] = &own
	}
	return s[kind]
}

// Make returns the changes, by process, and the operations that carry them out.
func Make(wanted []Wanted, known []Known, o Options) (changes []v1.Change, steps []Step) {
	have := map[key]*Known{}
	for i := range known {
		have[key{known[i].Agent, known[i].Process}] = &known[i]
	}
	file := newEntries(wanted)
	var rows []row
	add := func(c v1.Change, step Step, spec *process.Spec) {
		of, number := process.CopyOf(spec, step.Process)
		c.Op, c.Process = string(step.Op), of.Name
		rows = append(rows, row{c, step.Host, number})
		if step.Op != "" {
			steps = append(steps, step)
		}
	}
	// The removals come first: a start waits for the stop of what it replaces.
	for i := range known {
		k := &known[i]
		if c, op, ok := file.remove(k, o); ok {
			add(c, Step{
				Op: op, Process: k.Process, Agent: k.Agent, Host: k.Host, Removes: true, Former: k.Spec,
			}, k.Spec)
		}
	}
	starting := starts{}
	for _, w := range wanted {
		k := have[key{w.Agent, w.Process}]
		c, op := change(w.Spec, k, o)
		if k != nil && k.Spec != nil && k.Selector != w.Selector {
			c.Action = v1.ActionChange // also if the selection is all that differs
			c.Fields = append(c.Fields, v1.FieldChange{
				Path: "hosts.select", Class: string(processfile.Live), From: optional(k.Selector), To: optional(w.Selector),
			})
			if c.Reason == nothingToDo {
				c.Reason = ""
			}
		}
		if c.Files = k != nil && k.Unfiled && len(c.Fields) == 0; c.Files && c.Reason == nothingToDo {
			c.Reason += "; the file counts from now on"
		}
		spec := w.Spec
		if op == process.Start && o.Beside != "" {
			spec = starting.beside(w, o)
		}
		step := Step{Op: op, Process: w.Process, Agent: w.Agent, Host: w.Host, Spec: spec}
		if k != nil {
			step.Former = k.Spec
		}
		add(c, step, w.Spec)
	}
	return group(rows), steps
}

const nothingToDo = "nothing to do"

// untold is the reason for a change on a host of which nobody knows what it has.
const untold = "the host has not told what it has since the database was restored from a copy"

// optional returns a text as a value of a field; nil if there is none.
func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// entries is what the file has.
type entries struct {
	// wanted has the processes of the file on their hosts, and whole the entries with their hosts: an entry says how
	// many copies of it a host has. named has the processes and entries on any host.
	wanted, whole map[key]bool
	named         map[process.ID]bool
}

func newEntries(wanted []Wanted) entries {
	e := entries{map[key]bool{}, map[key]bool{}, map[process.ID]bool{}}
	for _, w := range wanted {
		entry := process.ID{Namespace: w.Process.Namespace, Name: cmp.Or(w.Entry, w.Process.Name)}
		e.wanted[key{w.Agent, w.Process}], e.whole[key{w.Agent, entry}] = true, true
		e.named[w.Process], e.named[entry] = true, true
	}
	return e
}

// remove decides about a process that a host has and the file does not have there.
func (e *entries) remove(k *Known, o Options) (v1.Change, process.Op, bool) {
	of, number := process.CopyOf(k.Spec, k.Process)
	switch {
	case e.wanted[key{k.Agent, k.Process}]:
		return v1.Change{}, "", false
	case k.Gone:
		return v1.Change{Action: v1.ActionRemove, Reason: "was already removed", Files: true}, "", o.Prune != PruneNone
	case !e.whole[key{k.Agent, of}]:
	case number > 0:
		return taken(k, "removed: the file has fewer copies")
	default:
		return taken(k, "removed: the file has copies instead")
	}
	return remove(k, e.named[k.Process] || e.named[of], o)
}

// Compare returns the changes from one state of a namespace to another one, by process. Nobody carries them out.
func Compare(from, to []Known) []v1.Change {
	former := map[key]*Known{}
	for i := range from {
		former[key{from[i].Agent, from[i].Process}] = &from[i]
	}
	var rows []row
	for i := range to {
		k := &to[i]
		of, number := process.CopyOf(k.Spec, k.Process)
		c := v1.Change{Process: of.Name, Action: v1.ActionCreate, Reason: "new"}
		was := former[key{k.Agent, k.Process}]
		delete(former, key{k.Agent, k.Process})
		if was != nil {
			c.Action, c.Reason, c.Fields = v1.ActionChange, "", Fields(was.Spec, k.Spec)
		}
		if was != nil && len(c.Fields) == 0 {
			c.Action, c.Reason = v1.ActionNone, "no change"
		}
		rows = append(rows, row{c, k.Host, number})
	}
	for _, was := range former {
		of, number := process.CopyOf(was.Spec, was.Process)
		rows = append(rows, row{
			v1.Change{Process: of.Name, Action: v1.ActionRemove, Reason: "removed"}, was.Host, number,
		})
	}
	return group(rows)
}

// change compares a process of the file with what the host has.
func change(spec *process.Spec, k *Known, o Options) (v1.Change, process.Op) {
	if k == nil || k.Spec == nil {
		switch {
		case spec.Kind() == process.Periodic:
			return v1.Change{Action: v1.ActionCreate, Reason: "new"}, process.Host
		case spec.OnDemand:
			return v1.Change{Action: v1.ActionCreate, Reason: "new: runs when somebody starts it"}, process.Register
		}
		return v1.Change{Action: v1.ActionCreate, Reason: "new"}, process.Start
	}
	fields := Fields(k.Spec, spec)
	if spec.OnDemand {
		return onDemand(k, fields)
	}
	if k.Untold {
		return v1.Change{Action: v1.ActionChange, Reason: untold}, process.Start
	}
	rest := atRest(&k.Status)
	if len(fields) == 0 {
		switch {
		case rest != "":
			return v1.Change{Action: v1.ActionKept, Reason: rest}, ""
		case neverBegan(&k.Status):
			return v1.Change{Action: v1.ActionChange, Reason: "its start has not begun: starts anew"}, process.Start
		}
		return v1.Change{Action: v1.ActionNone, Reason: nothingToDo}, ""
	}
	c := v1.Change{Action: v1.ActionChange, Fields: fields, Reason: rest}
	restart := slices.ContainsFunc(fields, func(f v1.FieldChange) bool {
		return f.Class == string(processfile.AtRestart)
	})
	switch {
	case rest != "":
	case startsAnew(&k.Status):
		c.Reason = k.Status.State + ": starts anew"
		if k.Status.EndedBadly() {
			c.Reason = "its run has failed: starts anew"
		}
		if restart && !o.NoRestart && beingRelaunched(k) && o.Beside == "" && spec.RestartCommand() == "" {
			return c, o.restart()
		}
		return c, process.Start
	case !restart || !k.Status.Running() && !beingRelaunched(k):
	case o.NoRestart:
		c.Reason = "--no-restart: takes effect at the next start"
	default:
		if p := spec.Preflight; p != nil && !o.Force {
			c.Reason = fmt.Sprintf("its preflight runs first: %.100s", p.Run)
		}
		return c, o.restart()
	}
	return c, process.Update
}

// onDemand decides about a process of the file that an apply does not start.
func onDemand(k *Known, fields []v1.FieldChange) (v1.Change, process.Op) {
	switch {
	case k.Untold:
		return v1.Change{Action: v1.ActionChange, Reason: untold}, process.Update
	case len(fields) == 0:
		return v1.Change{Action: v1.ActionNone, Reason: nothingToDo}, ""
	}
	c := v1.Change{Action: v1.ActionChange, Fields: fields}
	if k.Status.Running() && slices.ContainsFunc(fields, func(f v1.FieldChange) bool {
		return f.Class == string(processfile.AtRestart)
	}) {
		c.Reason = "on_demand: takes effect at the next start"
	}
	return c, process.Update
}

// beingRelaunched reports whether drover brings a process up again by itself, now or after its back-off, by its former
// spec: an update would leave that one running, and a start would find it there. A restart also starts what is down.
func beingRelaunched(k *Known) bool {
	switch k.Status.State {
	case process.StateStarting, process.StateBackoff, process.StateFlapping:
		return k.Spec.Kind() != process.Periodic
	}
	return false
}

// startsAnew reports whether a process is down because it has failed, or has not begun. A process in back-off shows
// flapping once it was relaunched often.
func startsAnew(s *process.Status) bool {
	return s.State == process.StateGivenUp || s.State == process.StateBackoff || s.EndedBadly() ||
		s.State == process.StateFlapping && !s.Running() || neverBegan(s)
}

// neverBegan reports whether a process that does not stay up was registered by a start that waited for others without
// success.
func neverBegan(s *process.Status) bool {
	return !s.Hosted && !s.Running() && s.Want == process.WantRunning && s.Cause.ID == process.CauseWaitsForOthers
}

// atRest says why an apply does not start a process; empty if drover watches it.
func atRest(s *process.Status) string {
	switch {
	case s.State == process.StateFinished || neverBegan(s): // it is as it should be, or is started anew
		return ""
	case s.NeverStarted():
		return cmp.Or(s.Cause.Text, "registered and never started") + ": stays stopped"
	case s.Want == process.WantStopped && s.Cause.ID == process.CauseStopped && s.Cause.Text != "":
		return s.Cause.Text + ": stays stopped" // it names the caller
	case s.Want == process.WantStopped:
		return "stopped: stays stopped"
	case !s.Hosted:
		return "not watched: stays as it is"
	}
	return ""
}

// remove decides about a process that the file does not have on this host. named tells that the file has it elsewhere.
func remove(k *Known, named bool, o Options) (v1.Change, process.Op, bool) {
	own := k.Spec != nil && k.Spec.Compat == nil // no spec of the compatible APIs has a stop policy
	switch {
	case o.Prune == PruneAll || o.Prune == PruneOwn && own:
	case named:
		return v1.Change{Action: v1.ActionKept, Reason: "the file does not name this host: the apply leaves it as it is"}, "", true
	default:
		return v1.Change{}, "", false
	}
	return taken(k, "removed (--prune)")
}

// taken removes a process. The first apply stops it, and the next one removes it.
func taken(k *Known, reason string) (v1.Change, process.Op, bool) {
	c := v1.Change{Action: v1.ActionRemove, Reason: reason}
	if k.Status.Running() || k.Status.Hosted {
		return c, process.Stop, true
	}
	return c, process.Unregister, true
}

// Now returns the operation of a step that was planned some time ago, by the present status of its process; nil for a
// process that the host does not have. existed tells that the host had it at the time of the plan. It is empty if there
// is nothing left to do. What somebody has stopped or removed since the plan stays so.
func Now(op process.Op, removes, existed bool, s *process.Status) process.Op {
	switch {
	case (removes || existed) && s == nil:
		return ""
	case removes && (s.Running() || s.Hosted):
		return process.Stop
	case removes:
		return process.Unregister
	case (op.Name() == process.Restart || op == process.Start && existed) && s != nil && atRest(s) != "":
		return process.Update
	}
	return op
}

// AtRest reports whether an apply leaves a process as it is because somebody has stopped or unhosted it.
func AtRest(s *process.Status) bool { return atRest(s) != "" }

// line is a change of a process, or of some of its copies, on all hosts.
type line struct {
	v1.Change
	// copies has the numbers of the copies on each host; the process itself is 0.
	copies map[string][]int
}

// group makes one change of the equal changes of several copies and several hosts.
func group(rows []row) []v1.Change {
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.copy, b.copy), cmp.Compare(a.host, b.host))
	})
	var lines []*line
	first := 0 // of the process
	for _, r := range rows {
		if len(lines) > 0 && lines[first].Process != r.Process {
			first = len(lines)
		}
		i := slices.IndexFunc(lines[first:], func(l *line) bool {
			return l.Action == r.Action && l.Op == r.Op && l.Reason == r.Reason && l.Files == r.Files &&
				reflect.DeepEqual(l.Fields, r.Fields)
		})
		if i < 0 {
			i = len(lines) - first
			lines = append(lines, &line{r.Change, map[string][]int{}})
		}
		l := lines[first+i]
		l.copies[r.host] = append(l.copies[r.host], r.copy)
	}
	all := []v1.Change{}
	for _, l := range lines {
		all = append(all, l.changes()...)
	}
	return all
}

// changes makes a change for each set of copies, with the hosts that have this set.
func (l *line) changes() (all []v1.Change) {
	for _, host := range slices.Sorted(maps.Keys(l.copies)) {
		numbers := l.copies[host]
		if numbers[0] == 0 { // the process itself sorts before its copies
			all = put(all, l.Change, nil, host)
			numbers = numbers[1:]
		}
		if len(numbers) > 0 {
			all = put(all, l.Change, numbers, host)
		}
	}
	return all
}

// put adds a host to the change of a set of copies.
func put(all []v1.Change, c v1.Change, copies []int, host string) []v1.Change {
	i := slices.IndexFunc(all, func(have v1.Change) bool { return slices.Equal(have.Copies, copies) })
	if i < 0 {
		i = len(all)
		c.Copies = copies
		all = append(all, c)
	}
	all[i].Hosts = append(all[i].Hosts, host)
	return all
}
