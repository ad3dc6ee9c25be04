package files

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
	"drover/internal/spelling"
)

// placedAt returns the processes of a namespace by a revision, as far as the caller may query them. Their status is
// empty.
func (h *Handler) placedAt(ctx context.Context, c *call.Call, namespace string, revision int64) (
	all []plan.Known, err error,
) {
	reach, err := call.MayRead(c, namespace)
	if err != nil {
		return nil, err
	}
	placed, err := h.Revisions.PlacedAt(ctx, namespace, revision)
	if errors.Is(err, store.ErrNotFound) {
		return nil, call.Problemf(http.StatusNotFound, "the server does not have revision %d of namespace %q", revision,
			namespace)
	}
	if err != nil {
		return nil, call.Failure("read the revision", err)
	}
	for _, p := range placed {
		agent, found := h.Directory.ByKey(p.Agent)
		if found && p.Spec != nil && reach.Covers(gate.Host(agent)) {
			all = append(all, plan.Known{
				Process: process.ID{Namespace: namespace, Name: p.Name}, Agent: p.Agent, Host: hosts.NameOf(agent),
				Spec: p.Spec,
			})
		}
	}
	return all, nil
}

// orderFaults checks the field after of the processes of a file. Each name must be a process of the file, of a host or
// of the caller's peers. No process may wait for itself through others, in any namespace.
func (h *Handler) orderFaults(ctx context.Context, c *call.Call, f *applyRequest) (processfile.Faults, error) {
	o := ordering{
		h: h, c: c, specs: map[process.ID]*process.Spec{}, copies: map[process.ID][]process.ID{},
		seen: map[process.ID]bool{}, peers: f.peers,
	}
	for i := range f.reported {
		o.specs[f.reported[i].Process] = f.reported[i].Spec
	}
	entries := map[process.ID]string{}
	for _, d := range f.docs { // which also have processes that no host has yet
		for i := range d.Processes {
			entry := &d.Processes[i]
			spec := processfile.Canonical(entry.Spec)
			for _, p := range processfile.Expand(*entry) {
				id := process.ID{Namespace: d.Namespace, Name: p.Name}
				o.specs[id], entries[id] = &spec, entry.Name
			}
		}
	}
	for id, spec := range o.specs {
		if of, number := process.CopyOf(spec, id); number > 0 {
			o.copies[of] = append(o.copies[of], id)
		}
	}
	var faults processfile.Faults
	unknown, err := o.unknown(ctx, f.docs)
	if err != nil {
		return nil, err
	}
	for _, path := range processfile.Circles(o.specs, o.copies) {
		own := slices.IndexFunc(path, func(step string) bool {
			namespace, name, _ := strings.Cut(step, "/")
			return entries[process.ID{Namespace: namespace, Name: name}] != ""
		})
		if own < 0 {
			continue // others wait for each other
		}
		namespace, name, _ := strings.Cut(path[own], "/")
		at := "processes." + entries[process.ID{Namespace: namespace, Name: name}] + ".after"
		if !slices.ContainsFunc(faults, func(f processfile.Fault) bool { return f.Path == at }) {
			faults = append(faults, processfile.Fault{
				Path: at, Text: "the process waits for itself: " + strings.Join(path, " → "),
			})
		}
	}
	return append(faults, unknown...), nil
}

// ordering has the specs that decide the order of processes. copies has the copies of each process, and seen the
// processes of other namespaces that were read.
type ordering struct {
	h      *Handler
	c      *call.Call
	specs  map[process.ID]*process.Spec
	copies map[process.ID][]process.ID
	seen   map[process.ID]bool
	// peers are the processes of other namespaces that the caller brings.
	peers map[process.ID]bool
}

// unknown returns a fault for each name in after that is not a process.
func (o *ordering) unknown(ctx context.Context, docs []processfile.Document) (faults processfile.Faults, err error) {
	told := map[string]bool{}
	for _, d := range docs {
		for i := range d.Processes {
			p := &d.Processes[i]
			of := process.ID{Namespace: d.Namespace, Name: p.Name}
			for _, name := range slices.Sorted(maps.Keys(p.After)) {
				at := "processes." + p.Name + ".after." + name
				known, err := o.known(ctx, process.Peer(of, name), d.Namespace)
				if err != nil {
					return nil, err
				}
				if known || told[at] {
					continue
				}
				told[at] = true
				near, err := o.near(ctx, process.Peer(of, name), of, strings.Contains(name, "/"))
				if err != nil {
					return nil, err
				}
				f := processfile.Fault{Path: at, Text: "no file and no host has this process"}
				if len(near) > 0 {
					f.Text += ", did you mean " + process.OrList(near) + "?"
				}
				faults = append(faults, f)
			}
		}
	}
	return faults, nil
}

// known reports whether a process or copies of it exist. The processes of the namespace home were read before.
func (o *ordering) known(ctx context.Context, id process.ID, home string) (bool, error) {
	if err := o.read(ctx, id, home); err != nil {
		return false, err
	}
	return o.specs[id] != nil || len(o.copies[id]) > 0 || o.peers[id], nil
}

// near returns similar names of processes that the caller may query, for a fault about a wrong name in after.
func (o *ordering) near(ctx context.Context, id, of process.ID, whole bool) ([]string, error) {
	names := map[string]bool{}
	add := func(p process.ID) {
		base, _ := process.CutCopy(p.Name)
		if p.Namespace == id.Namespace && p != of {
			names[base] = true
		}
	}
	for p := range o.specs {
		add(p)
	}
	for p := range o.peers {
		add(p)
	}
	if id.Namespace != of.Namespace {
		reach := o.c.Principal.On(access.OperationOf(process.Query), id.Namespace)
		err := o.h.processes.EachObserved(ctx, store.ObservedFilter{Namespace: id.Namespace},
			func(row *store.Observed) {
				if agent, joined := o.h.Directory.ByKey(row.Agent); joined && reach.Covers(gate.Host(agent)) {
					add(row.Process)
				}
			})
		if err != nil {
			return nil, err
		}
	}
	near := spelling.Nearest(id.Name, slices.Sorted(maps.Keys(names)))
	for i := range near {
		if whole {
			near[i] = id.Namespace + "/" + near[i]
		}
	}
	return near, nil
}

// read reads a process of another namespace and its copies, as far as the caller may query them, and those that they
// are after in turn. The processes of the namespace home are known.
func (o *ordering) read(ctx context.Context, id process.ID, home string) error {
	for next := []process.ID{id}; len(next) > 0; {
		id, next = next[0], next[1:]
		if id.Namespace == home || o.seen[id] {
			continue
		}
		o.seen[id] = true
		reach := o.c.Principal.On(access.OperationOf(process.Query), id.Namespace)
		f := store.ObservedFilter{Process: id, Copies: true, Spec: true}
		err := o.h.processes.EachObserved(ctx, f, func(row *store.Observed) {
			agent, joined := o.h.Directory.ByKey(row.Agent)
			if !joined || !reach.Covers(gate.Host(agent)) {
				return
			}
			spec := cmp.Or(row.Spec, &process.Spec{})
			if of, number := process.CopyOf(spec, row.Process); number > 0 && o.specs[row.Process] == nil {
				o.copies[of] = append(o.copies[of], row.Process)
			}
			o.specs[row.Process] = spec
			for name := range spec.After {
				next = append(next, process.Peer(row.Process, name))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
