package apiv1

import (
	"context"
	"maps"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// canonical returns an expression in the form that the store has; empty for none.
func canonical(text string) string {
	s, err := selector.Parse(text)
	if err != nil { // processfile has checked it, so it is empty
		return ""
	}
	return s.String()
}

// selected marks the processes that hosts have by a selection in force, and returns these selections.
func (h *Handler) selected(ctx context.Context, namespace string, known []plan.Known) ([]store.Selection, error) {
	standing, err := h.Standing.ListSelections(ctx, namespace)
	if err != nil {
		return nil, failure("read the selections", err)
	}
	of := map[process.ID][]store.Selection{}
	for _, s := range standing {
		of[s.Process] = append(of[s.Process], s)
	}
	parsed := map[string]selector.Selector{}
	for i := range known {
		agent, _ := h.Directory.ByKey(known[i].Agent)
		for _, s := range of[known[i].Process] {
			if _, done := parsed[s.Selector]; !done {
				parsed[s.Selector], _ = selector.Parse(s.Selector) // it is in canonical form
			}
			if parsed[s.Selector].Matches(agent.Select) {
				known[i].Selector = s.Selector
				break
			}
		}
	}
	return standing, nil
}

// selectionsOf returns what the processes of a file change in the selections in force; nil if that is nothing.
func selectionsOf(t *store.Task, docs []processfile.Document, wanted []plan.Wanted, standing []store.Selection, all bool,
) *store.SelectionChange {
	c := store.SelectionChange{Namespace: docs[0].Namespace, All: all}
	entries := map[string]bool{}
	for _, d := range docs {
		for i := range d.Processes {
			entries[d.Processes[i].Name] = true
		}
	}
	c.Entries = slices.Sorted(maps.Keys(entries))
	type name struct {
		process.ID
		selector string
	}
	now := map[name]*process.Spec{}
	for _, w := range wanted {
		if w.Selector == "" {
			continue
		}
		c.Members = append(c.Members, store.ObservedKey{Agent: w.Agent, Process: w.Process})
		if key := (name{w.Process, w.Selector}); now[key] == nil {
			now[key] = w.Spec.Unnumbered()
			c.Now = append(c.Now, store.Selection{
				Process: w.Process, Selector: w.Selector, Spec: now[key], App: t.App, User: t.User, At: t.Created,
			})
		}
	}
	same := 0
	for _, s := range standing {
		of, _ := process.CutCopy(s.Process.Name)
		switch spec := now[name{s.Process, s.Selector}]; {
		case spec.Same(s.Spec):
			same++
		case spec != nil || all || entries[s.Process.Name] || entries[of]:
			return &c
		}
	}
	if same == len(now) {
		return nil
	}
	return &c
}

// putSelections changes selections without an operation, because every host that matches has the process already.
func (h *Handler) putSelections(ctx context.Context, c *call, wanted []plan.Wanted, change store.SelectionChange) error {
	steps := make([]plan.Step, 0, len(wanted))
	for _, w := range wanted {
		steps = append(steps, plan.Step{Op: process.Start, Process: w.Process, Agent: w.Agent, Host: w.Host})
	}
	if err := h.mayApply(c, steps); err != nil {
		return err
	}
	c.Audit.Target, c.Audit.Targets = change.Namespace, len(wanted)
	row := c.Audit
	row.Message = process.Success
	if err := h.Standing.PutSelections(ctx, change, row); err != nil {
		return failure("store the selections", err)
	}
	c.Audited = true
	return nil
}

// showSelections writes the selection in force instead of the names of hosts, if a process is the same on all hosts and
// all of these match.
func (h *Handler) showSelections(ctx context.Context, c *call, file *v1.File) error {
	standing, err := h.Standing.ListSelections(ctx, file.Namespace)
	if err != nil {
		return failure("read the selections", err)
	}
	reach := c.Principal.On(access.OperationOf(process.Query), file.Namespace)
	for _, s := range standing {
		name, copied := s.Process.Name, false
		f, there := file.Processes[name]
		if !there {
			name, _ = process.CutCopy(name)
			f, there = file.Processes[name]
			copied = true
		}
		if !there || f.Hosts.Select != "" || copied != (f.Copies != nil) || inMore(file, name) {
			continue
		}
		if h.allMatch(s.Selector, f.Hosts.Names, reach) {
			f.Hosts = v1.Hosts{Select: s.Selector}
			file.Processes[name] = f
		}
	}
	return nil
}

// inMore reports whether a process has several forms.
func inMore(file *v1.File, name string) bool {
	return slices.ContainsFunc(file.More, func(part map[string]v1.Spec) bool {
		_, there := part[name]
		return there
	})
}

// allMatch reports whether all of the named hosts match an expression, as far as the caller may see them.
func (h *Handler) allMatch(text string, names []string, reach access.Reach) bool {
	s, err := selector.Parse(text)
	if err != nil {
		return false
	}
	matching := map[string]bool{}
	for a := range h.Directory.After(fleet.Place{}) {
		if s.Matches(a.Select) && reach.Covers(gate.Host(a)) {
			matching[nameOf(a)] = true
		}
	}
	return !slices.ContainsFunc(names, func(host string) bool { return !matching[host] })
}
