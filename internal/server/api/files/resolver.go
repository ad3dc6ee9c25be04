package files

import (
	"fmt"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/processes"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// fileChoice is a choice of hosts in a process file, with its field.
type fileChoice struct {
	hosts.Choice
	field string
}

// choicesIn returns the choices of hosts of a process in a file that was checked.
func choicesIn(given v1.Hosts) (list []fileChoice) {
	if given.Select != "" {
		s, _ := selector.Parse(given.Select) // processfile has checked it
		return []fileChoice{{hosts.Choice{Selector: s}, "hosts.select"}}
	}
	for i, name := range given.Names {
		list = append(list, fileChoice{hosts.Choice{Names: []string{name}}, fmt.Sprintf("hosts[%d]", i)})
	}
	return list
}

// resolver finds the hosts of the processes of a file.
type resolver struct {
	h *Handler
	// reach are the hosts that the caller may query, sets those on which the caller may set a spec.
	reach, sets access.Reach
	namespace   string
	storedSpecs map[store.ObservedKey]*process.Spec
	// entries has the entry of each process on each host.
	entries map[store.ObservedKey]*processfile.Named
	all     []plan.Wanted
	faults  processfile.Faults
}

func (r *resolver) fail(p *processfile.Named, path, format string, args ...any) {
	r.faults = append(r.faults, processfile.Fault{
		Path: "processes." + p.Name + "." + path, Text: fmt.Sprintf(format, args...),
	})
}

// process adds the processes of an entry on each of its hosts.
func (r *resolver) process(p *processfile.Named) {
	if len(r.all) > call.MaxItems {
		return // wanted reports it
	}
	all := processfile.Expand(*p)
	specs := make([]*process.Spec, len(all))
	for i := range all {
		if specs[i] = specs[0]; i == 0 || p.RuntimeDirectory != "" { // else the copies are equal
			specs[i] = new(processfile.Canonical(all[i].Spec))
		}
	}
	for _, f := range processfile.FaultsOf(specs[0], process.Start) {
		r.fail(p, f.Path, "%s", f.Text)
	}
	for _, c := range choicesIn(p.Hosts) {
		field := c.field
		agents := r.h.hosts.Visible(c.Choice, r.reach)
		if len(agents) == 0 {
			r.fail(p, field, "is %.100q: no host has this name or matches it%s", c.String(),
				r.h.hosts.SameAddress(c.Names, r.reach))
		}
		for _, a := range agents {
			for i := range all {
				r.on(a, all[i].Name, p, field, specs[i])
			}
			if len(r.all) > call.MaxItems {
				return
			}
		}
	}
}

// on adds one process of an entry on a host that a field names.
func (r *resolver) on(a store.Agent, name string, p *processfile.Named, field string, spec *process.Spec) {
	id := process.ID{Namespace: r.namespace, Name: name}
	key := store.ObservedKey{Agent: a.Key, Process: id}
	if first := r.entries[key]; first != nil {
		switch {
		case first == p:
		case first.Name == p.Name:
			r.fail(p, field, "another document has the process for host %s, too", hosts.NameOf(a))
		default:
			r.fail(p, field, "processes.%s has %s for host %s, too", first.Name, name, hosts.NameOf(a))
		}
		return
	}
	r.entries[key] = p
	if !r.sets.Covers(gate.Host(a)) {
		spec = plan.Guessed(spec)
	}
	own, unknown := plan.Revealed(spec, r.storedSpecs[key])
	if unknown != "" {
		r.fail(p, "environment."+unknown, "is %s, and host %s has no value: expected the value", processes.Secret, hosts.NameOf(a))
	}
	r.all = append(r.all, plan.Wanted{
		Process: id, Agent: a.Key, Host: hosts.NameOf(a), Spec: own, Selector: canonical(p.Hosts.Select), Entry: p.Name,
	})
}
