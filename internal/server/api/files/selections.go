package files

import (
	"context"
	"errors"
	"maps"
	"slices"

	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/api/call"
	"drover/internal/server/api/operations"
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

// selectionsOf returns the change that a file makes to the selections in force; nil if it changes none.
func (h *Handler) selectionsOf(t *store.Task, docs []processfile.Document, wanted []plan.Wanted,
	standing []store.Selection, all bool,
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
	same, changed := 0, false
	for _, s := range standing {
		switch spec := now[name{s.Process, s.Selector}]; {
		case spec.Same(s.Spec):
			same++
		case spec != nil: // its hosts are members
			changed = true
		case all || entries[s.Process.Name] || entries[operations.EntryOf(s.Process)]:
			changed = true
			matching, _ := h.operations.Matching(s.Selector) // it is in canonical form
			for a := range matching {
				c.Released = append(c.Released, store.ObservedKey{Agent: a.Key, Process: s.Process})
			}
		}
	}
	if !changed && same == len(now) {
		return nil
	}
	c.Released = operations.Without(c.Released, c.Members)
	return &c
}

// putSelections changes selections without an operation, because every host that matches has the process already.
func (h *Handler) putSelections(ctx context.Context, c *call.Call, t *store.Task, wanted []plan.Wanted,
	change *store.SelectionChange,
) error {
	steps := make([]plan.Step, 0, len(wanted))
	for _, w := range wanted {
		steps = append(steps, plan.Step{Op: process.Start, Process: w.Process, Agent: w.Agent, Host: w.Host})
	}
	if err := h.operations.MayApply(c, steps); err != nil {
		return err
	}
	c.Audit.Target, c.Audit.Targets = change.Namespace, len(wanted)
	row := c.Row()
	row.Message = process.Success
	by := store.Revision{At: t.Created, App: t.App, User: t.User, Through: t.Through, Message: t.Message}
	switch err := h.FileSelections.PutSelections(ctx, *change, by, t.ExpectedRevision, row); {
	case errors.Is(err, store.ErrRevised):
		return changedMeanwhile(change.Namespace)
	case err != nil:
		return call.Failure("store the selections", err)
	}
	c.Audited = true
	return nil
}
