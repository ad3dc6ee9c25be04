package processes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
)

// The limits of selections.
const (
	// heldTime is how long the server keeps a selection, and mostHeld how many selections it keeps for one caller. An
	// app has mostOfApp for all users that it names, because it may invent users.
	heldTime  = 15 * time.Minute
	mostHeld  = 20
	mostOfApp = 100
	// sampled is the largest number of processes that an answer names.
	sampled = 20
)

// selectionRequest is v1.SelectionRequest with lists whose decoding stops at their limits.
type selectionRequest struct {
	Op      process.Op               `json:"op"`
	Targets call.List[TargetRequest] `json:"targets"`
	Except  call.List[TargetRequest] `json:"except"`
	Hosts   call.List[string]        `json:"hosts"`
}

// heldFilter is the JSON that the store keeps of a selection beside its processes: the filter and the answer.
type heldFilter struct {
	// Named tells that the request named the processes, so that there is no filter.
	Named  bool                     `json:"named,omitempty"`
	Query  string                   `json:"query"`
	Agents []string                 `json:"agents,omitempty"`
	Except call.List[TargetRequest] `json:"except,omitempty"`
	Answer v1.Selection             `json:"answer"`
}

// Picked returns a function that reports whether the entries of a request name a process. An entry without hosts names
// all hosts.
func Picked(entries []TargetRequest) func(f *rollup.Found) bool {
	type key struct {
		process.ID
		host string
	}
	named := map[key]bool{}
	for i := range entries {
		t := &entries[i]
		if len(t.Hosts) == 0 {
			named[key{t.ID(), ""}] = true
		}
		for _, host := range t.Hosts {
			named[key{t.ID(), host}] = true
		}
	}
	return func(f *rollup.Found) bool {
		return len(named) > 0 && (named[key{f.Process, ""}] || named[key{f.Process, hosts.NameOf(*f.Agent)}] ||
			named[key{f.Process, hosts.AddressOf(*f.Agent)}])
	}
}

// CreateSelection stores a selection: the processes that match a filter now, or that the caller names.
func (h *Handler) CreateSelection(ctx context.Context, c *call.Call) (call.Reply, error) {
	query, req := c.Params.Values.Encode(), selectionRequest{}
	f := FilterOf(&c.Params)
	if err := c.Decode(ctx, &req, req.check); err != nil {
		return call.Reply{}, err
	}
	if err := req.check(); err != nil {
		return call.Reply{}, err
	}
	q, err := h.Ready(ctx, &c.Principal, &f, false)
	if err != nil {
		return call.Reply{}, err
	}
	v := v1.Selection{Namespaces: map[string]int{}, Sample: []v1.SelectedProcess{}}
	if len(req.Hosts) > 0 {
		q.Agents, v.UnknownHosts = h.knownHosts(c.Principal.OnHosts(access.ReadAgents), req.Hosts)
		v.KnownHosts = len(q.Agents)
	}
	q.Now = true
	chosen, err := h.selectNow(ctx, c, q, &req, &v)
	if err != nil {
		return call.Reply{}, err
	}
	v.ID, v.ExpiresAt = "sel-"+strings.ToLower(rand.Text()), h.Now().Add(heldTime).UTC()
	filter, _ := json.Marshal(heldFilter{len(req.Targets) > 0, query, q.Agents, req.Except, v}) // texts always encode
	targets, _ := json.Marshal(chosen)
	c.Audit.Target, c.Audit.Targets = v.ID, v.Targets
	most := mostHeld
	if !c.Principal.Proven {
		most = mostOfApp
	}
	err = h.CallerSelections.HoldSelection(ctx, store.CallerSelection{
		ID: v.ID, App: c.Principal.App, User: c.Principal.User, Until: v.ExpiresAt, Filter: string(filter),
		Targets: targets,
	}, most, !c.Principal.Proven)
	if err != nil {
		return call.Reply{}, call.Failure("hold the selection", err)
	}
	return call.Reply{Status: http.StatusCreated, Body: v}, nil
}

// knownHosts returns the keys of hosts by their ids or addresses, and the names of hosts that the caller may not know.
// An address without an area stands for the hosts of every area that have it.
func (h *Handler) knownHosts(reach access.Reach, names []string) (keys, unknown []string) {
	byIP, keys := map[string][]string{}, []string{}
	for a := range h.Directory.After(fleet.Place{}) {
		if reach.Covers(gate.Host(a)) {
			byIP[a.IP] = append(byIP[a.IP], a.Key)
		}
	}
	for _, name := range names {
		if a, found := h.Directory.LookupID(name); found && reach.Covers(gate.Host(a)) {
			keys = append(keys, a.Key)
		} else if with := byIP[name]; len(with) > 0 {
			keys = append(keys, with...)
		} else {
			unknown = append(unknown, edge.Clip(name))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), unknown
}

// GetSelection returns a selection as it was made.
func (h *Handler) GetSelection(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	s, err := h.HeldSelection(ctx, &c.Principal, id)
	if err != nil {
		return call.Reply{}, err
	}
	return call.OK(s.Filter.Answer)
}

// Selected is a selection of a caller, decoded. It never changes.
type Selected struct {
	ID, app, user string
	until         time.Time
	Targets       []TargetRequest
	Filter        heldFilter
	// Has reports whether a process is one of the targets.
	Has func(f *rollup.Found) bool
}

// mostRecent is how many processes the recent selections have together; the last one may have more.
const mostRecent = 2 * call.MaxItems

// recentSelections are the selections that calls have used last. A page of a selection asks for it again and again.
type recentSelections struct {
	mu  sync.Mutex
	all []*Selected
}

// find returns a selection of a caller; nil if no recent call has used it.
func (r *recentSelections) find(id string, who *access.Principal, now time.Time) *Selected {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(s *Selected) bool { return !now.Before(s.until) })
	i := slices.IndexFunc(r.all, func(s *Selected) bool { return s.ID == id && s.app == who.App && s.user == who.User })
	if i < 0 {
		return nil
	}
	return r.all[i]
}

// add remembers a selection, and forgets the oldest selections beyond mostRecent.
func (r *recentSelections) add(s *Selected) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
	n := 0
	for _, s := range r.all {
		n += s.Filter.Answer.Targets
	}
	for ; n > mostRecent && len(r.all) > 1; r.all = r.all[1:] {
		n -= r.all[0].Filter.Answer.Targets
	}
}

// HeldSelection returns a selection of the caller.
func (h *Handler) HeldSelection(ctx context.Context, who *access.Principal, id string) (*Selected, error) {
	if s := h.recent.find(id, who, h.Now()); s != nil {
		return s, nil
	}
	row, err := h.CallerSelections.FindSelection(ctx, id, who.App, who.User, h.Now())
	if err != nil {
		return nil, call.StoreProblem(err, "selection", edge.Clip(id))
	}
	s := &Selected{ID: row.ID, app: row.App, user: row.User, until: row.Until}
	if err = json.Unmarshal(row.Targets, &s.Targets); err == nil {
		err = json.Unmarshal([]byte(row.Filter), &s.Filter)
	}
	if err != nil {
		return nil, call.Failure("read the selection", err)
	}
	s.Has = Picked(s.Targets)
	h.recent.add(s)
	return s, nil
}

// selectNow returns the processes of a selection, one target for each process, and describes them in v.
func (h *Handler) selectNow(ctx context.Context, c *call.Call, q *rollup.Query, req *selectionRequest,
	v *v1.Selection) (
	[]TargetRequest, error,
) {
	named, except := Picked(req.Targets), Picked(req.Except)
	place, reached := map[process.ID]int{}, map[string]bool{}
	var where []access.Host // of each process in v.Sample
	var chosen []TargetRequest
	err := h.Picture.Each(ctx, q, func(f *rollup.Found) {
		if len(req.Targets) > 0 && !named(f) || except(f) {
			return
		}
		if v.Targets++; v.Targets > call.MaxItems {
			return
		}
		at, met := place[f.Process]
		if !met {
			at = len(chosen)
			place[f.Process] = at
			chosen = append(chosen, TargetRequest{Namespace: f.Process.Namespace, Name: f.Process.Name})
		}
		one := v1.SelectedProcess{Namespace: f.Process.Namespace, Name: f.Process.Name, Host: hosts.NameOf(*f.Agent)}
		chosen[at].Hosts = append(chosen[at].Hosts, one.Host)
		reached[f.Key] = true
		v.Namespaces[one.Namespace]++
		v.Sample = append(v.Sample, one)
		if f.Stale {
			v.Away++
		}
		where = append(where, gate.Host(*f.Agent))
	})
	if req.Op != "" {
		who, right := c.Principal, access.OperationOf(req.Op)
		who.Targets = len(where)
		reaches := access.NewReaches(who)
		for i, one := range v.Sample {
			if !reaches.On(right, one.Namespace).Covers(where[i]) {
				v.DeniedCount++
				v.Denied = append(v.Denied, one)
			}
		}
	}
	v.Hosts, v.Sample, v.Denied = len(reached), sample(v.Sample), sample(v.Denied)
	switch {
	case err != nil:
		return nil, call.Failure("select the processes", err)
	case v.Targets > call.MaxItems:
		return nil, call.Invalid("filter", "matches %d processes: expected at most %d", v.Targets, call.MaxItems)
	case len(chosen) > MaxTargets:
		return nil, call.Invalid("filter", "matches %d names of processes: expected at most %d", len(chosen), MaxTargets)
	}
	return chosen, nil
}

// sample returns the first processes by name.
func sample(all []v1.SelectedProcess) []v1.SelectedProcess {
	slices.SortFunc(all, func(a, b v1.SelectedProcess) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host))
	})
	return slices.Clone(all[:min(len(all), sampled)])
}

// check reports all faults of the request.
func (r *selectionRequest) check() error {
	var faults []error
	if r.Op != "" && !r.Op.Info().OwnAPI {
		faults = append(faults, call.Invalid("op", "is %.40q: expected one of %s", r.Op,
			strings.Join(call.Supported(), ", ")))
	}
	// An empty list as no list would select everything for a program that has found nothing.
	if r.Targets != nil && len(r.Targets) == 0 {
		faults = append(faults, call.Invalid("targets", "is empty: expected processes, or no such list"))
	}
	if r.Hosts != nil && len(r.Hosts) == 0 {
		faults = append(faults, call.Invalid("hosts", "is empty: expected hosts, or no such list"))
	}
	return call.Together(faults...)
}
