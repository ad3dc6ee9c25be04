package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// labelCharacter returns a character that the name of a label of Prometheus may have.
func labelCharacter(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
		return c
	}
	return '_'
}

// maxLabelled is the largest number of hosts that one call labels.
const maxLabelled = 20_000

// Label sets and removes labels of hosts, of all or of none. A dry run ends after the checks.
func (h *Handler) Label(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req labelRequest
	check := func() error {
		_, faults := req.check()
		return call.Faulty(faults)
	}
	dry := c.Params.Flag("dry_run")
	if err := c.Decode(ctx, &req, check); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	if c.Principal.OnHosts(access.LabelAgents).Nowhere() {
		return call.Reply{}, call.Forbidden(access.Missing{Operation: access.LabelAgents})
	}
	choice, faults := req.check()
	c.Audit.Target = edge.Clip(choice.String())
	var missing access.Missing
	agents := h.HostsForOperation(choice, &c.Principal, access.LabelAgents, &missing, &faults)
	switch {
	case missing.Any():
		return call.Reply{}, call.Forbidden(missing)
	case len(faults) > 0:
		return call.Reply{}, call.InvalidFile("", faults)
	}
	c.Audit.Targets = len(agents)
	reselected, err := h.reselected(ctx, c, agents, &req)
	if err != nil {
		return call.Reply{}, err
	}
	keys, done := make([]string, len(agents)), v1.Labelled{Hosts: make([]string, len(agents)), Reselected: reselected}
	for i, a := range agents {
		keys[i], done.Hosts[i] = a.Key, NameOf(a)
		if fleet.SameLabels(a, fleet.Relabelled(a, req.Set, req.Remove)) {
			done.Unchanged++
		}
	}
	c.Audit.Targets -= done.Unchanged
	if dry != nil && *dry || done.Unchanged == len(agents) {
		return call.OK(done)
	}
	err = h.Labels.Label(ctx, keys, req.Set, req.Remove)
	if full, ok := errors.AsType[*fleet.LabelsError](err); ok {
		return call.Reply{}, call.Invalid("set", "%v", full)
	}
	if errors.Is(err, store.ErrNotFound) {
		return call.Reply{}, call.Problemf(http.StatusConflict, "a host was removed meanwhile: try again")
	}
	if err != nil {
		return call.Reply{}, call.Failure("label the hosts", err)
	}
	return call.OK(done)
}

// labelRequest is v1.LabelRequest with lists whose decoding stops at their limits.
type labelRequest struct {
	Hosts  call.List[string] `json:"hosts,omitempty"`
	Select *string           `json:"select,omitempty"`
	Set    map[string]string `json:"set,omitempty"`
	Remove call.List[string] `json:"remove,omitempty"`
}

// check returns the chosen hosts and every fault of the request.
func (r *labelRequest) check() (choice Choice, faults processfile.Faults) {
	fail := func(path string, err error) {
		faults = append(faults, processfile.Fault{Path: path, Text: err.Error()})
	}
	choice = ParseChoice(r.Hosts, r.Select, fail)
	if len(r.Set)+len(r.Remove) == 0 {
		fail("set", errors.New("is missing: expected labels to set, or remove"))
	}
	if len(r.Remove) > selector.MaxLabels {
		fail("remove", fmt.Errorf("has %d entries: expected at most %d", len(r.Remove), selector.MaxLabels))
		return choice, faults
	}
	for _, err := range selector.CheckLabels(r.Set) {
		fail("set", err)
	}
	for i, key := range r.Remove {
		path := fmt.Sprintf("remove[%d]", i)
		if err := selector.CheckKey(key); err != nil {
			fail(path, err)
		} else if _, both := r.Set[key]; both {
			fail(path, fmt.Errorf("the label %s is in set, too", key))
		}
	}
	return choice, faults
}

// HostsForOperation returns the chosen hosts for an operation on hosts: those of the names, and those within reach that
// match a pattern or the selector. It adds a fault for each name without a host. It sets missing if the caller lacks
// the right to a named host, or to so many hosts.
func (h *Handler) HostsForOperation(choice Choice, who *access.Principal, op access.Operation, missing *access.Missing,
	faults *processfile.Faults,
) (agents []store.Agent) {
	reach, faulty := who.OnHosts(op), len(*faults) > 0
	fail := func(path, format string, args ...any) {
		*faults = append(*faults, processfile.Fault{Path: path, Text: fmt.Sprintf(format, args...)})
	}
	patterns := 0
	for i, name := range choice.Names {
		a, found := h.Directory.LookupID(name)
		path := fmt.Sprintf("hosts[%d]", i)
		switch {
		case found:
			missing.Check(reach, "", gate.Host(a))
		case wildcard.IsPattern(name):
			if patterns++; patterns > call.MostPatterns {
				fail(path, "is one pattern too many: expected at most %d patterns", call.MostPatterns)
				return nil
			}
		case reach.Covers(NamedHost(name)):
			fail(path, "is %.100q: there is no such host%s", name, h.SameAddress(choice.Names[i:i+1], reach))
		default:
			missing.Found(op, "", edge.Clip(name))
		}
	}
	if faulty { // the expression may be one of the faults
		return nil
	}
	seen := map[string]bool{}
	for _, key := range h.KeysOf(choice) {
		if a, known := h.Directory.ByKey(key); known && !seen[key] && reach.Covers(gate.Host(a)) {
			seen[key] = true
			agents = append(agents, a)
		}
	}
	whole := *who
	whole.Targets = len(agents)
	may := whole.OnHosts(op)
	for i := range agents {
		missing.Check(may, "", gate.Host(agents[i]))
	}
	switch {
	case len(*faults) > 0:
	case len(agents) == 0:
		fail("hosts", "no host matches %s", choice.String())
	case len(agents) > maxLabelled:
		fail("hosts", "are %d hosts: expected at most %d in one call", len(agents), maxLabelled)
	}
	return agents
}

// reselected returns how a change of labels changes the hosts of the selections in force. It leaves out the names of
// processes that the caller may not query. It rejects labels by which more hosts come to match or cease to match than
// one person may change at once.
func (h *Handler) reselected(ctx context.Context, c *call.Call, agents []store.Agent, r *labelRequest) (
	list []v1.Reselected, err error,
) {
	standing, err := h.FileSelections.ListSelections(ctx, "")
	if err != nil {
		return nil, call.Failure("read the selections", err)
	}
	changes, ends := map[string]*v1.Reselected{}, map[string]bool{}
	for _, s := range standing {
		ends[s.Selector] = ends[s.Selector] || s.Spec.Leave == process.LeaveStop
		change := changes[s.Selector]
		if change == nil {
			change = &v1.Reselected{Select: s.Selector}
			changes[s.Selector] = change
		}
		if !c.Principal.On(access.OperationOf(process.Query), s.Process.Namespace).Nowhere() {
			change.Processes = append(change.Processes, s.Process.String())
		}
	}
	if changed := r.reselect(agents, changes); h.Breadth != 0 && changed > h.Breadth {
		return nil, call.Problemf(http.StatusForbidden, "with these labels, %d hosts come to match or cease to match what selects "+
			"their processes, and above %d this server demands the approval of a second person: label fewer hosts at once",
			changed, h.Breadth)
	}
	var hidden []v1.Reselected
	for _, text := range slices.Sorted(maps.Keys(changes)) {
		change := changes[text]
		if ends[text] {
			change.Ends = change.Cease
		}
		switch {
		case change.Come+change.Cease == 0:
		case len(change.Processes) == 0:
			hidden = append(hidden, v1.Reselected{
				Processes: []string{}, Come: change.Come, Cease: change.Cease, Ends: change.Ends,
			})
		default:
			slices.Sort(change.Processes)
			list = append(list, *change)
		}
	}
	return append(list, hidden...), nil
}

// reselect counts the hosts that come to match or cease to match each expression, and returns the number of hosts that
// do so for at least one expression.
func (r *labelRequest) reselect(agents []store.Agent, changes map[string]*v1.Reselected) (changed int) {
	parsed := map[string]selector.Selector{}
	for text := range changes {
		parsed[text], _ = selector.Parse(text) // it is in canonical form
	}
	for i := range agents {
		after, differs := fleet.Relabelled(agents[i], r.Set, r.Remove), false
		for text, change := range changes {
			s := parsed[text]
			switch before, now := s.Matches(agents[i].Select), s.Matches(after.Select); {
			case now == before:
				continue
			case now:
				change.Come++
			default:
				change.Cease++
			}
			differs = true
		}
		if differs {
			changed++
		}
	}
	return changed
}
