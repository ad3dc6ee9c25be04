package apiv1

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/release"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

func viewOperation(t store.TaskSummary) v1.Operation {
	v := v1.Operation{
		ID: t.ID, Op: string(t.Op), Subject: t.Process.String(), Requests: t.Requests, App: t.App, User: t.User,
		RequestID: t.RequestID, Selector: t.Selector, Schedule: t.Schedule,
		CreatedAt: t.Created, State: v1.OperationDone,
		Counts: v1.Counts{Targets: t.Keys, OK: t.Keys - t.Open - t.Failed, Failed: t.Failed, Pending: t.Open},
	}
	if t.Open > 0 {
		v.State = v1.OperationRunning
	}
	return v
}

// listOperations lists the tasks that the caller may see, newest first.
func (h *Handler) listOperations(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.TaskFilter{App: p.text("app")}
	if state := p.choice("state", v1.OperationRunning, v1.OperationDone); state != "" {
		over := state == v1.OperationDone
		f.Done = &over
	}
	var after int64
	limit, err := p.page(&after)
	if err != nil {
		return reply{}, err
	}
	if own := c.app(); own != "" {
		if f.App != "" && f.App != own {
			return ok(pageOf[v1.Operation](c, nil, nil))
		}
		f.App = own
	}
	tasks, err := h.Listing.ListTasks(ctx, f, after, limit)
	if err != nil {
		return reply{}, failure("list the operations", err)
	}
	c.Audit.Targets = len(tasks)
	return ok(pageOfRows(c, tasks, limit, viewOperation, func(t store.TaskSummary) any { return t.Number }))
}

// getOperation returns a task. With ?wait= it returns when the task is done or that time has passed.
func (h *Handler) getOperation(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	wait := c.params.wait()
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	t, err := h.Listing.GetTask(ctx, id, c.app())
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	// A caller that reads its own task needs no audit row, because the task has one.
	c.Audited = t.App == c.Principal.App && t.User == c.Principal.User
	if wait > 0 && t.Open > 0 {
		if err := h.await(ctx, id, wait); err != nil {
			return reply{}, err
		}
		if t, err = h.Listing.GetTask(ctx, id, c.app()); err != nil {
			return reply{}, stored(err, "operation", id)
		}
	}
	return ok(viewOperation(t))
}

// cancelOperation ends the targets of a task that have not begun.
func (h *Handler) cancelOperation(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	cancelled, err := h.Cancels.Cancel(ctx, id, c.app())
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	c.Audit.Targets = cancelled.Ended + cancelled.Asked
	t, err := h.Listing.GetTask(ctx, id, c.app())
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	return ok(v1.Cancellation{
		Cancelled: cancelled.Ended, Asked: cancelled.Asked, Begun: cancelled.Begun, Operation: viewOperation(t),
	})
}

// await blocks until the task is done, the time has passed, the caller has hung up or the server stops.
func (h *Handler) await(ctx context.Context, id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(h.stopping, cancel)() //nolint:contextcheck // both may end the wait
	err := h.Engine.Wait(ctx, id)
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return stored(err, "operation", id)
}

func viewResult(v store.ItemView) v1.Result {
	r := v1.Result{
		Namespace: v.Process.Namespace, Name: v.Process.Name, Host: v.Asked, Op: string(v.Op),
		Outcome: v1.OutcomePending,
	}
	if v.Done && v.Outcome != nil {
		r.Outcome, r.Message, r.Hosted = v1.OutcomeOK, v.Outcome.Text, v.Outcome.Hosted
		if text, found := process.Already(v.Op, v.Outcome.Fault); found {
			r.Message = text
		} else if v.Outcome.Fault != process.None {
			r.Outcome = string(v.Outcome.Fault)
		}
	}
	return r
}

// hostOf returns the host of a result, for the check of rights.
func (h *Handler) hostOf(v store.ItemView) access.Host {
	if a, found := h.Directory.LookupID(v.Asked); found {
		return gate.Host(a)
	}
	return access.Host{Area: v.Cloud, IP: v.IP, ID: v.Asked}
}

// listResults lists the results of the targets of a task.
func (h *Handler) listResults(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	outcome := c.params.choice("outcome", v1.OutcomeOK, v1.OutcomeFailed, v1.OutcomePending)
	skip := 0
	limit, err := c.params.page(&skip)
	if err != nil {
		return reply{}, err
	}
	var views []v1.Result
	seen, shown := 0, 0
	errFull := errors.New("page is full")
	err = h.Results(ctx, c.Call, id, c.app(), h.hostOf, func(v store.ItemView) error {
		if len(views) == limit || shown >= mostShown {
			return errFull
		}
		seen++
		if r := viewResult(v); seen > skip && (outcome == "" || outcome == kindOf(r.Outcome)) {
			views = append(views, r)
			shown += len(r.Message)
		}
		return nil
	})
	if denied, ok := errors.AsType[*edge.DeniedError](err); ok {
		return reply{}, forbidden(denied.Missing)
	}
	c.Audit.Targets = len(views)
	var last any
	switch {
	case errors.Is(err, errFull):
		last = seen
	case err != nil:
		return reply{}, stored(err, "operation", id)
	}
	return reply{status: http.StatusOK, body: pageOf(c, views, last), weight: shown}, nil
}

// kindOf returns the kind of an outcome for a filter: every fault is a failure.
func kindOf(outcome string) string {
	if outcome == v1.OutcomeOK || outcome == v1.OutcomePending {
		return outcome
	}
	return v1.OutcomeFailed
}

// packageRoutes lists the paths about versions of the agent.
func (h *Handler) packageRoutes() []route {
	return []route{
		{v1.RouteUpgradeAgents, "agents.upgrade", anyone, h.upgradeAgents},
		{v1.RouteAddPackage, "packages.add", admin, h.addPackage},
		{v1.RouteListPackages, "packages.list", anyone, h.listPackages},
		{v1.RoutePutPiece, "packages.pieces.put", admin, h.putPiece},
		{v1.RouteRemovePackage, "packages.remove", admin, h.removePackage},
	}
}

// viewPackage returns a package; ok is false for a stored text that cannot be read.
func viewPackage(p *store.Package) (v v1.Package, ok bool) {
	d, key, err := release.Open([]byte(p.Signed), nil)
	if err != nil {
		return v, false
	}
	v = v1.Package{
		Version: d.Version, Arch: d.Arch, Format: d.Format, Size: d.Size, SHA256: d.SHA256, Key: key,
		SignedAt: time.Unix(d.Signed, 0).UTC(), Downgrade: d.Downgrade, AddedBy: p.Adder, AddedAt: p.Created,
	}
	for n := range d.Pieces {
		if _, there := slices.BinarySearch(p.Pieces, n); !there {
			v.Missing = append(v.Missing, n)
		}
	}
	return v, true
}

// addPackage stores the description of a package, and answers which pieces are missing. A repeated call has no effect.
func (h *Handler) addPackage(ctx context.Context, c *call) (reply, error) {
	var req v1.PackageRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	d, key, err := release.Open([]byte(req.Signed), nil)
	if err != nil {
		return reply{}, invalid("signed", "is refused: %s", err)
	}
	subject := d.Version + "/" + d.Arch
	c.Audit.Target = edge.Clip(subject)
	c.Audit.Detail, _ = json.Marshal(map[string]string{"sha256": d.SHA256, "key": key}) // two texts always encode
	err = h.Packages.PutPackage(ctx, store.Package{
		Version: d.Version, Arch: d.Arch, Signed: req.Signed, Size: d.Size,
		Adder: cmp.Or(c.Principal.User, c.Principal.App), Created: h.Now(),
	})
	switch {
	case errors.Is(err, store.ErrPackagesFull):
		return reply{}, problemf(http.StatusConflict,
			"there is no room for package %s: expected at most %d packages with %d MB in all: remove one", subject,
			store.MostPackages, store.MostPackageBytes>>20)
	case errors.Is(err, store.ErrExists):
		return reply{}, problemf(http.StatusConflict,
			"package %s is there with another signed text: remove it first", subject)
	case err != nil:
		return reply{}, failure("store the package", err)
	}
	all, err := h.Packages.ListPackages(ctx)
	if err != nil {
		return reply{}, failure("read the packages", err)
	}
	for i := range all {
		if p := &all[i]; p.Version == d.Version && p.Arch == d.Arch {
			v, _ := viewPackage(p)
			return reply{status: http.StatusCreated, body: v}, nil
		}
	}
	return reply{}, problemf(http.StatusConflict, "package %s was removed meanwhile: try again", subject)
}

// putPiece stores a piece of a package, if it is the one that the signed text describes.
func (h *Handler) putPiece(ctx context.Context, c *call) (reply, error) {
	version, arch, number := c.r.PathValue("version"), c.r.PathValue("arch"), c.r.PathValue("piece")
	c.Audit.Target = edge.Clip(version + "/" + arch + "/" + number)
	var req v1.PackagePiece
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	p, err := h.Packages.GetPackage(ctx, version, arch)
	if err != nil {
		return reply{}, stored(err, "package", edge.Clip(version+"/"+arch))
	}
	d, _, err := release.Open([]byte(p.Signed), nil)
	if err != nil {
		return reply{}, failure("read the package", err)
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(d.Pieces) {
		return reply{}, problemf(http.StatusNotFound, "the package has no piece %q: expected 0 to %d",
			edge.Clip(number), len(d.Pieces)-1)
	}
	if !d.Holds(n, req.Data) {
		return reply{}, invalid("data", "is damaged: it has not the sum of piece %d of package %s/%s", n, version, arch)
	}
	if err := h.Packages.PutPiece(ctx, version, arch, n, req.Data); err != nil {
		return reply{}, stored(err, "package", edge.Clip(version+"/"+arch))
	}
	return reply{status: http.StatusNoContent}, nil
}

// listPackages lists the packages.
func (h *Handler) listPackages(ctx context.Context, c *call) (reply, error) {
	var after string
	limit, err := c.params.page(&after)
	if err != nil {
		return reply{}, err
	}
	if c.Principal.OnHosts(access.ReadAgents).Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.ReadAgents})
	}
	all, err := h.Packages.ListPackages(ctx)
	if err != nil {
		return reply{}, failure("read the packages", err)
	}
	views := []v1.Package{}
	for i := range all {
		if v, readable := viewPackage(&all[i]); readable {
			views = append(views, v)
		}
	}
	slices.SortStableFunc(views, func(a, b v1.Package) int {
		return cmp.Or(release.Compare(a.Version, b.Version), strings.Compare(a.Arch, b.Arch))
	})
	name := func(v *v1.Package) string { return v.Version + "/" + v.Arch }
	if at := slices.IndexFunc(views, func(v v1.Package) bool { return name(&v) == after }); at >= 0 {
		views = views[at+1:]
	}
	var last any
	if len(views) > limit {
		views = views[:limit]
		last = name(&views[limit-1])
	}
	c.Audit.Targets = len(views)
	return ok(pageOf(c, views, last))
}

// removePackage removes a package. The hosts that run it go on.
func (h *Handler) removePackage(ctx context.Context, c *call) (reply, error) {
	name := edge.Clip(c.r.PathValue("version") + "/" + c.r.PathValue("arch"))
	c.Audit.Target = name
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if err := h.Packages.RemovePackage(ctx, c.r.PathValue("version"), c.r.PathValue("arch")); err != nil {
		return reply{}, stored(err, "package", name)
	}
	return reply{status: http.StatusNoContent}, nil
}

// upgradeRequest is v1.UpgradeRequest with a list that stops decoding at its limit.
type upgradeRequest struct {
	Version string          `json:"version"`
	Hosts   list[string]    `json:"hosts"`
	Select  *string         `json:"select"`
	Rollout *v1.RolloutPlan `json:"rollout"`
	At      string          `json:"at"`
}

// check returns the chosen hosts and every fault of the request.
func (r *upgradeRequest) check() (choice hostChoice, faults processfile.Faults) {
	fail := func(path string, err error) {
		faults = append(faults, processfile.Fault{Path: path, Text: err.Error()})
	}
	if err := release.CheckVersion(r.Version); err != nil {
		fail("version", err)
	}
	if len(r.Hosts) == 0 && r.Select == nil {
		fail("hosts", errors.New("is missing: expected hosts, or select"))
	}
	if len(r.Hosts) > maxLabelled {
		fail("hosts", fmt.Errorf("has %d entries: expected at most %d", len(r.Hosts), maxLabelled))
	}
	choice.names = r.Hosts
	if r.Select != nil {
		var err error
		if choice.selector, err = selector.Parse(*r.Select); err != nil {
			fail("select", err)
		}
	}
	if r.Rollout == nil {
		r.Rollout = &v1.RolloutPlan{}
		r.Rollout.Batch, _ = v1.ParseHostCount("100%") // it is a share
	}
	for _, f := range processfile.CheckRollout(r.Rollout) {
		f.Path = "rollout." + f.Path
		faults = append(faults, f)
	}
	return choice, faults
}

// upgradeAgents begins a rollout of a version of the agent.
func (h *Handler) upgradeAgents(ctx context.Context, c *call) (reply, error) {
	var req upgradeRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	choice, faults := req.check()
	c.Audit.Target = edge.Clip(req.Version + " " + choice.String())
	reach := c.Principal.OnHosts(access.UpgradeAgents)
	if reach.Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.UpgradeAgents})
	}
	at, err := beginning(req.At, h.Now())
	if err != nil {
		return reply{}, err
	}
	var missing access.Missing
	agents := h.named(choice, reach, access.UpgradeAgents, &missing, &faults)
	switch {
	case missing.Any():
		return reply{}, forbidden(missing)
	case len(faults) > 0:
		return reply{}, invalidFile("", faults)
	}
	if err := h.available(ctx, req.Version, agents); err != nil {
		return reply{}, err
	}
	op := process.UpgradeOp(req.Version)
	r := h.newRollout(c, op)
	r.Selector, r.Through = choice.selector.String(), v1.ThroughOperation
	steps := make([]plan.Step, len(agents))
	for i, a := range agents {
		steps[i] = plan.Step{Op: op, Process: process.AgentID(), Agent: a.Key, Host: nameOf(a)}
	}
	h.lay(r, req.Rollout, at, steps)
	if err := h.store(ctx, c, []*store.Rollout{r}); err != nil {
		return reply{}, err
	}
	return reply{
		status: http.StatusAccepted, body: viewRollout(r), location: "/rollouts/" + url.PathEscape(r.ID),
	}, nil
}

// available rejects a version that is not there, as a whole, for the architecture of each host.
func (h *Handler) available(ctx context.Context, version string, agents []store.Agent) error {
	all, err := h.Packages.ListPackages(ctx)
	if err != nil {
		return failure("read the packages", err)
	}
	state := map[string]string{}
	for i := range all {
		v, readable := viewPackage(&all[i])
		switch {
		case v.Version != version || !readable:
		case len(v.Missing) > 0:
			state[v.Arch] = fmt.Sprintf("package %s/%s lacks %s: add it again", version, v.Arch,
				process.Count(len(v.Missing), "piece", "pieces"))
		default:
			state[v.Arch] = ""
		}
	}
	if len(state) == 0 {
		return invalid("version", "there is no package of version %s: expected one of 'drover packages list'", version)
	}
	for _, a := range agents {
		arch, known := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[a.Host.Arch]
		if !known {
			continue // the host judges
		}
		switch why, there := state[arch]; {
		case !there:
			return invalid("version", "there is no package of version %s for %s, as %s needs", version, arch, nameOf(a))
		case why != "":
			return invalid("version", "%s", why)
		}
	}
	return nil
}
