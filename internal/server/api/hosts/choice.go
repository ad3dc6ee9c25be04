package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// AnyMatches reports whether an agent matches one of the patterns; without patterns, every agent does.
func AnyMatches(patterns []string, a store.Agent) bool { return a.Named(patterns) }

// Choice selects hosts: those that match one of the names, if there are names, and the selector, if there is one.
type Choice struct {
	// Names are ids, cloud:ip or patterns of either.
	Names    []string
	Selector selector.Selector
}

// String returns the choice for the audit log.
func (s *Choice) String() string {
	return strings.TrimSpace(strings.Join(s.Names, " ") + " " + s.Selector.String())
}

// any reports whether the choice has neither names nor a selector, and so is every host.
func (s *Choice) any() bool { return len(s.Names) == 0 && s.Selector.IsZero() }

// Matches reports whether the choice has the agent.
func (s *Choice) Matches(a *store.Agent) bool { return AnyMatches(s.Names, *a) && s.Selects(a) }

// Selects reports whether the labels and facts of a host match the selector.
func (s *Choice) Selects(a *store.Agent) bool {
	return s.Selector.IsZero() || s.Selector.Matches(a.Select)
}

// KeysOf returns the keys of the chosen agents; nil if the choice is every host.
func (h *Handler) KeysOf(s Choice) []string {
	if s.any() {
		return nil
	}
	keys := []string{}
	var wild []string
	for _, p := range s.Names {
		switch agent, found := h.Directory.LookupID(p); {
		case found:
			if s.Selects(&agent) {
				keys = append(keys, agent.Key)
			}
		case wildcard.IsPattern(p):
			wild = append(wild, p)
		}
	}
	if len(s.Names) > 0 && len(wild) == 0 {
		return keys
	}
	for a := range h.Directory.After(fleet.Place{}) {
		if AnyMatches(wild, a) && s.Selects(&a) {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// Visible returns the chosen hosts that are within reach.
func (h *Handler) Visible(choice Choice, reach access.Reach) (agents []store.Agent) {
	for _, key := range h.KeysOf(choice) {
		if a, found := h.Directory.ByKey(key); found && reach.Covers(gate.Host(a)) {
			agents = append(agents, a)
		}
	}
	return agents
}

// SameAddress returns a hint about a single name that is an address without its area: the hosts with this address.
func (h *Handler) SameAddress(names []string, reach access.Reach) string {
	if len(names) != 1 {
		return ""
	}
	if _, err := netip.ParseAddr(names[0]); err != nil {
		return ""
	}
	var ids []string
	for _, a := range h.Visible(Choice{Names: []string{"*:" + names[0]}}, reach) {
		ids = append(ids, AddressOf(a))
	}
	if len(ids) == 0 {
		return ""
	}
	return ", did you mean " + process.OrList(ids[:min(len(ids), 3)]) + "?"
}

// mentions reports whether a name, a label or a fact of a host holds a text in lower case.
func mentions(a *store.Agent, text string) bool {
	holds := func(value string) bool { return strings.Contains(strings.ToLower(value), text) }
	if slices.ContainsFunc([]string{
		AddressOf(*a), a.ID, a.Name, a.Build, a.Host.OS, a.Host.Version, a.Host.Kernel, a.Host.Arch,
	}, holds) {
		return true
	}
	for key, label := range a.AllLabels() {
		if holds(key + "=" + label.Value) {
			return true
		}
	}
	for name, value := range a.Host.Facts {
		if holds(selector.FactPrefix + name + "=" + value) {
			return true
		}
	}
	return false
}

// ChoiceOf reads the parameters that select hosts.
func ChoiceOf(p *call.Params) Choice {
	return Choice{Names: p.List("host"), Selector: p.Selector("selector")}
}

// ParseChoice returns the choice of a body that has names, an expression or both. It calls fail with each fault.
func ParseChoice(names []string, expression *string, fail func(path string, err error)) (choice Choice) {
	if len(names) == 0 && expression == nil {
		fail("hosts", errors.New("is missing: expected hosts, or select"))
	}
	if len(names) > maxLabelled {
		fail("hosts", fmt.Errorf("has %d entries: expected at most %d", len(names), maxLabelled))
	}
	choice.Names = names
	if expression != nil {
		var err error
		if choice.Selector, err = selector.Parse(*expression); err != nil {
			fail("select", err)
		}
	}
	return choice
}
