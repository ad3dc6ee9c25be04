package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// groupsBytes is an upper bound for the groups of one namespace in JSON, in bytes: a hundred groups with long names.
const groupsBytes = 200 << 10

// maxRestored bounds how many namespaces one introduction can make the engine restore.
const maxRestored = 1000

// groups returns the groups that the agent should have, if one of the items sets groups. It reads them at the time of
// the send and not of the call: of two settings the later one counts, in whatever order the items were stored and sent.
func (s *sender) groups(ctx context.Context, agent string, items []store.Item) (map[string][]process.Group, error) {
	if !slices.ContainsFunc(items, func(it store.Item) bool { return it.Op == process.SetGroups }) {
		return nil, nil
	}
	return s.store.AgentGroups(ctx, agent)
}

// restore sends an agent the process groups that it should have and does not have: it was away when they were set, or
// it has lost its disk. has comes from the agent's introduction.
func (e *Engine) restore(ctx context.Context, agent string, has map[string]string) error {
	want, err := e.store.AgentGroups(ctx, agent)
	if err != nil {
		return err
	}
	namespaces := make(map[string]bool, len(has)+len(want))
	for namespace := range want {
		namespaces[namespace] = true
	}
	for namespace := range has {
		if process.ValidateID(process.ID{Namespace: namespace, Name: "any"}) == nil {
			namespaces[namespace] = true
		}
	}
	t := &store.Task{ID: "GROUPS:" + rand.Text()}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if has[namespace] == wire.GroupsDigest(want[namespace]) {
			continue
		}
		if len(t.Requests) == maxRestored {
			break // the next introduction handles the rest
		}
		t.Requests = append(t.Requests, store.Request{
			Op: process.SetGroups, Process: process.ID{Namespace: namespace},
			Targets: []store.Target{{ItemKey: agent + ":" + namespace, Spelling: agent, Agent: agent}},
		})
	}
	if len(t.Requests) == 0 {
		return nil
	}
	if wait := e.restores.take(agent, len(t.Requests), e.clock.now()); wait > 0 {
		e.collect.log.WarnContext(ctx, "process groups not restored: the agent reported other groups too often",
			"agent", agent,
			"namespaces", len(t.Requests), "again_in", wait.Round(time.Second))
		return nil
	}
	row := store.AuditRow{
		At: e.clock.now(), RequestID: t.ID, Action: "restore_process_groups", Target: agent, Targets: len(t.Requests),
		Allowed: true,
		Message: process.Success,
	}
	if err := e.submit(ctx, t, row); err != nil {
		return fmt.Errorf("cannot restore the process groups of an agent: %w", err)
	}
	return nil
}
