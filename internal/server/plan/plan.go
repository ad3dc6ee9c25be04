// Package plan computes what an apply of a process file does: the difference between the file and what hosts have, and
// the operations that remove it. It does no I/O and has no clock.
package plan

import (
	"cmp"
	"reflect"
	"slices"

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
}

// Known is a process that a host has.
type Known struct {
	Process     process.ID
	Agent, Host string
	Spec        *process.Spec
	Status      process.Status
}

// Prune says what becomes of processes that are not in the file.
type Prune string

// The values of Prune: they stay, those with a spec of drover's own form go, all of the namespace go.
const (
	PruneNone Prune = ""
	PruneOwn  Prune = "true"
	PruneAll  Prune = "all"
)

// Options are the options of an apply.
type Options struct {
	NoRestart bool
	Prune     Prune
	// Beside is what a start does beside a copy of the process that drover did not start.
	Beside process.Beside
	// PIDs are those of the copies to take over, by the name of the process, as far as the caller knows them.
	PIDs map[string]int
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
}

// Make returns the changes, by process, and the operations that carry them out.
func Make(wanted []Wanted, known []Known, o Options) (changes []v1.Change, steps []Step) {
	have := map[key]*Known{}
	for i := range known {
		have[key{known[i].Agent, known[i].Process}] = &known[i]
	}
	named, kept := map[process.ID]bool{}, map[key]bool{}
	var rows []row
	starting := map[*process.Spec]*process.Spec{}
	add := func(c v1.Change, step Step) {
		c.Op = string(step.Op)
		rows = append(rows, row{c, step.Host})
		if step.Op != "" {
			steps = append(steps, step)
		}
	}
	for _, w := range wanted {
		named[w.Process], kept[key{w.Agent, w.Process}] = true, true
		c, op := change(w.Spec, have[key{w.Agent, w.Process}], o)
		c.Process = w.Process.Name
		spec := w.Spec
		if op == process.Start && o.Beside != "" {
			if starting[spec] == nil { // hosts with the same spec stay one request
				own := *spec
				own.Beside = o.Beside
				if pid := o.PIDs[w.Process.Name]; pid != 0 {
					own.Beside = o.Beside.WithPID(pid)
				}
				starting[spec] = &own
			}
			spec = starting[spec]
		}
		add(c, Step{Op: op, Process: w.Process, Agent: w.Agent, Host: w.Host, Spec: spec})
	}
	for i := range known {
		k := &known[i]
		if kept[key{k.Agent, k.Process}] {
			continue
		}
		c, op, ok := remove(k, named[k.Process], o)
		if !ok {
			continue
		}
		c.Process = k.Process.Name
		add(c, Step{Op: op, Process: k.Process, Agent: k.Agent, Host: k.Host, Removes: true})
	}
	return group(rows), steps
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
		c := v1.Change{Process: k.Process.Name, Action: v1.ActionCreate, Reason: "new"}
		was := former[key{k.Agent, k.Process}]
		delete(former, key{k.Agent, k.Process})
		if was != nil {
			c.Action, c.Reason, c.Fields = v1.ActionChange, "", Fields(was.Spec, k.Spec)
		}
		if was != nil && len(c.Fields) == 0 {
			c.Action, c.Reason = v1.ActionNone, "no change"
		}
		rows = append(rows, row{c, k.Host})
	}
	for _, was := range former {
		rows = append(rows, row{
			v1.Change{Process: was.Process.Name, Action: v1.ActionRemove, Reason: "removed"}, was.Host,
		})
	}
	return group(rows)
}

// change compares a process of the file with what the host has.
func change(spec *process.Spec, k *Known, o Options) (v1.Change, process.Op) {
	if k == nil || k.Spec == nil {
		if spec.Policy.Kind == process.Periodic {
			return v1.Change{Action: v1.ActionCreate, Reason: "new"}, process.Host
		}
		return v1.Change{Action: v1.ActionCreate, Reason: "new"}, process.Start
	}
	fields := Fields(k.Spec, spec)
	rest := atRest(&k.Status)
	if len(fields) == 0 {
		if rest != "" {
			return v1.Change{Action: v1.ActionKept, Reason: rest}, ""
		}
		return v1.Change{Action: v1.ActionNone, Reason: "nothing to do"}, ""
	}
	c := v1.Change{Action: v1.ActionChange, Fields: fields, Reason: rest}
	restart := slices.ContainsFunc(fields, func(f v1.FieldChange) bool {
		return f.Class == string(processfile.AtRestart)
	})
	switch {
	case rest != "":
	case k.Status.State == process.StateGivenUp || k.Status.State == process.StateBackoff:
		c.Reason = k.Status.State + ": starts anew"
		return c, process.Start
	case !restart || !k.Status.Running():
	case o.NoRestart:
		c.Reason = "--no-restart: takes effect at the next start"
	default:
		return c, process.Restart
	}
	return c, process.Update
}

// atRest says why an apply does not start a process; empty if drover watches it.
func atRest(s *process.Status) string {
	switch {
	case s.State == process.StateFinished: // it is as it should be
		return ""
	case s.Want == process.WantStopped:
		return "stopped: stays stopped"
	case !s.Hosted:
		return "not watched: stays as it is"
	}
	return ""
}

// remove decides about a process that the file does not have on this host. named tells that the file has it elsewhere.
func remove(k *Known, named bool, o Options) (v1.Change, process.Op, bool) {
	own := k.Spec != nil && k.Spec.Stop != nil // no spec of the compatible APIs has a stop policy
	switch {
	case o.Prune == PruneAll || o.Prune == PruneOwn && own:
	case named:
		return v1.Change{Action: v1.ActionKept, Reason: "the file does not name this host: stays as it is"}, "", true
	default:
		return v1.Change{}, "", false
	}
	c := v1.Change{Action: v1.ActionRemove, Reason: "removed (--prune)"}
	if k.Status.Running() || k.Status.Hosted {
		return c, process.Stop, true
	}
	return c, process.Unregister, true
}

// group makes one change of the equal changes of several hosts.
func group(rows []row) []v1.Change {
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.host, b.host))
	})
	all := []v1.Change{}
	for _, r := range rows {
		i := slices.IndexFunc(all, func(c v1.Change) bool {
			return c.Process == r.Process && c.Action == r.Action && c.Op == r.Op && c.Reason == r.Reason &&
				reflect.DeepEqual(c.Fields, r.Fields)
		})
		if i < 0 {
			i = len(all)
			all = append(all, r.Change)
		}
		all[i].Hosts = append(all[i].Hosts, r.host)
	}
	return all
}
