package processes

import (
	"slices"
	"strings"

	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/api/call"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// Choice selects processes by their own labels, their version and their state. The zero choice selects all.
type Choice struct {
	Labels selector.Selector
	// version is a pattern of versions; empty matches all.
	version string
	states  []string
}

// ChoiceOf reads the parameters that select processes.
func ChoiceOf(p *call.Params) Choice {
	return Choice{Labels: p.Selector("process_selector"), version: p.Text("version"), states: statesOf(p)}
}

// statesOf reads the states of processes; nil for all.
func statesOf(p *call.Params) []string {
	states := p.List("state")
	for _, s := range states {
		if !slices.Contains(process.States(), s) {
			p.Fail(call.Invalid("state", "is %.40q: expected %s", s, strings.Join(process.States(), ", ")))
		}
	}
	return states
}

// Any reports whether the choice selects every process.
func (s *Choice) Any() bool { return s.Labels.IsZero() && s.version == "" && len(s.states) == 0 }

// Narrow adds the states of the choice to a filter of the database, and asks for specs if the choice needs them. The
// caller then calls Matches for each row.
func (s *Choice) Narrow(f *store.ObservedFilter) {
	f.States, f.Spec = s.states, f.Spec || !s.Labels.IsZero()
}

// Matches reports whether the choice selects a process. Only a running process has a version.
func (s *Choice) Matches(o *store.Observed) bool {
	if s.version != "" &&
		(!o.Status.Running() || o.Status.Instance.Version == "" || !wildcard.Match(s.version, o.Status.Instance.Version)) {
		return false
	}
	if s.Labels.IsZero() {
		return true
	}
	if o.Spec == nil {
		return false
	}
	labels := o.Spec.Labels
	return s.Labels.Matches(func(key string) (value string, found bool) {
		value, found = labels[key]
		return value, found
	})
}

// BaseOf returns the name without the number of a copy: api for api@2, and api for api.
func BaseOf(name string) string {
	base, _ := process.CutCopy(name)
	return base
}
