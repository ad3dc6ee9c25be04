package operations

import (
	"context"
	"iter"
	"slices"

	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// Selected marks the processes that hosts have by a selection in force, and returns these selections.
func (h *Handler) Selected(ctx context.Context, namespace string, known []plan.Known) ([]store.Selection, error) {
	standing, err := h.FileSelections.ListSelections(ctx, namespace)
	if err != nil {
		return nil, call.Failure("read the selections", err)
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

// Matching yields the hosts that an expression matches. It fails if the expression cannot be parsed.
func (h *Handler) Matching(text string) (iter.Seq[store.Agent], error) {
	s, err := selector.Parse(text)
	return func(yield func(store.Agent) bool) {
		for a := range h.Directory.After(fleet.Place{}) {
			if s.Matches(a.Select) && !yield(a) {
				return
			}
		}
	}, err
}

// MaySelect rejects a change of selections in force on hosts where the caller may not start the process. To replace a
// selection, the caller needs the right on all hosts that the selection matches.
func (h *Handler) MaySelect(c *call.Call, change *store.SelectionChange, standing []store.Selection) error {
	if change == nil {
		return nil
	}
	type place struct {
		process process.ID
		host    access.Host
	}
	var places []place
	for _, s := range standing {
		if !change.All && !slices.Contains(change.Entries, EntryOf(s.Process)) {
			continue
		}
		matching, err := h.Matching(s.Selector)
		if err != nil {
			return call.Failure("read a selection", err)
		}
		for a := range matching {
			places = append(places, place{s.Process, gate.Host(a)})
		}
	}
	who := c.Principal
	who.Targets = len(places)
	reach := who.Sets(change.Namespace)
	var missing access.Missing
	for _, p := range places {
		missing.Check(reach, p.process.String(), p.host)
	}
	if missing.Any() {
		return call.Forbidden(missing)
	}
	return nil
}

// selectAsBefore sets the selections of an undo: those that the undone rollout has replaced.
func (h *Handler) selectAsBefore(ctx context.Context, c *call.Call, undo *store.Rollout, known []plan.Known) error {
	former, err := h.Rollouts.FormerSelections(ctx, undo.Undoes)
	if err != nil {
		return call.Failure("read the rollout", err)
	}
	if former == nil {
		return nil
	}
	standing, err := h.Selected(ctx, former.Namespace, known)
	if err != nil {
		return err
	}
	if err := h.MaySelect(c, former, slices.Concat(standing, former.Now)); err != nil {
		return err
	}
	undo.Selections, undo.Former = former, FormerOf(former, standing, known)
	return nil
}

// EntryOf returns the name of the entry of a file that describes a process or its copies.
func EntryOf(id process.ID) string {
	entry, _ := process.CutCopy(id.Name)
	return entry
}

// PartOf returns the part of a change that concerns some entries.
func PartOf(c store.SelectionChange, entries []string) *store.SelectionChange {
	foreign := func(id process.ID) bool { return !slices.Contains(entries, EntryOf(id)) }
	elsewhere := func(key store.ObservedKey) bool { return foreign(key.Process) }
	return &store.SelectionChange{
		Namespace: c.Namespace, Entries: entries,
		Now:      slices.DeleteFunc(slices.Clone(c.Now), func(s store.Selection) bool { return foreign(s.Process) }),
		Members:  slices.DeleteFunc(slices.Clone(c.Members), elsewhere),
		Released: slices.DeleteFunc(slices.Clone(c.Released), elsewhere),
	}
}

// FormerOf returns the change that undoes another change of selections: it brings back the selections that are in force
// now. known has the selector of each process.
func FormerOf(change *store.SelectionChange, standing []store.Selection, known []plan.Known) *store.SelectionChange {
	former := store.SelectionChange{Namespace: change.Namespace, Now: standing}
	for i := range known {
		if known[i].Selector != "" {
			key := store.ObservedKey{Agent: known[i].Agent, Process: known[i].Process}
			former.Members = append(former.Members, key)
		}
	}
	former.Released = Without(change.Members, former.Members)
	return PartOf(former, change.Entries)
}
