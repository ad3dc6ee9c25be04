package apiv1

import (
	"cmp"
	"context"
	"crypto/rand"
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
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/plan"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// The bounds of silences.
const (
	maxSilences       = 1000
	longestSilence    = 366 * 24 * time.Hour
	longestWindow     = 31 * 24 * time.Hour
	maxSilenceMessage = 1000
	// silencesShown is how long an ended silence is listed: as long as its events are stored.
	silencesShown = 28 * 24 * time.Hour
)

func (h *Handler) viewSilence(s store.Silence) v1.Silence {
	v := v1.Silence{
		ID: s.ID, State: v1.SilencePending, Processes: s.Processes, Hosts: s.Hosts,
		Select: s.Selector, Labels: s.Labels, From: s.From, Until: s.Until,
		Cron: s.Cron, TimeZone: s.Zone, Seconds: s.Length.Seconds(),
		Message: s.Message, App: s.App, User: s.User, CreatedAt: s.Created,
		RemovedAt: given(s.Removed), Withheld: s.Withheld,
	}
	if v.Processes == nil {
		v.Processes = []string{}
	}
	if s.Until.Equal(store.Forever()) {
		v.Until = time.Time{}
	}
	now := h.Now()
	rule, err := s.Timetable()
	from, until, any := s.Window(rule, now)
	switch {
	case err != nil || !any: // it was read before it was stored
		v.State = v1.SilenceEnded
	case !now.Before(from):
		v.State = v1.SilenceActive
	}
	if s.Cron != "" && any {
		v.WindowFrom, v.WindowUntil = &from, &until
	}
	return v
}

// maySilence returns the right that the caller lacks for a silence. An app without an administrator's rights may
// silence whole namespaces in which it has the right on every host.
func maySilence(who *access.Principal, processes []string) (missing access.Missing) {
	if who.Admin {
		return missing
	}
	if len(processes) == 0 {
		processes = []string{access.All}
	}
	for _, pattern := range processes {
		namespace, _, _ := strings.Cut(pattern, "/")
		if wildcard.IsPattern(namespace) && !allNamespaces(who) || !who.On(access.Silence, namespace).Everywhere() {
			missing.Found(access.Silence, pattern, "")
		}
	}
	return missing
}

// allNamespaces reports whether the caller has the right in every namespace.
func allNamespaces(who *access.Principal) bool { return who.Namespaces(access.Silence) == nil }

// createSilence withholds alarms for some time.
func (h *Handler) createSilence(ctx context.Context, c *call) (reply, error) {
	var req v1.SilenceRequest
	check := func() error {
		_, err := silenceOf(&req, h.Now())
		return err
	}
	if err := c.decode(ctx, &req, check); err != nil {
		return reply{}, err
	}
	covers := slices.Concat(req.Processes, req.Hosts, []string{req.Select})
	c.Audit.Target = edge.Clip(strings.TrimSpace(strings.Join(covers, " ")))
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	now := h.Now()
	s, err := silenceOf(&req, now)
	if err != nil {
		return reply{}, err
	}
	if missing := maySilence(&c.Principal, s.Processes); missing.Any() {
		return reply{}, forbidden(missing)
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, now)
	if err != nil {
		return reply{}, failure("list the silences", err)
	}
	if len(list) >= maxSilences {
		return reply{}, problemf(http.StatusConflict, "there are %d silences already: expected at most %d", len(list),
			maxSilences)
	}
	s.ID, s.App, s.User, s.Created = strings.ToLower(rand.Text()[:10]), c.Principal.App, c.Principal.User, now
	if err := h.Receivers.Silences.CreateSilence(ctx, s); err != nil {
		return reply{}, stored(err, "silence", s.ID)
	}
	h.Receivers.Sender.Changed()
	return reply{status: http.StatusCreated, body: h.viewSilence(s), location: "/silences/" + s.ID}, nil
}

// silenceOf checks a request for a silence.
func silenceOf(r *v1.SilenceRequest, now time.Time) (store.Silence, error) {
	s := store.Silence{
		Processes: r.Processes, Hosts: r.Hosts, Selector: r.Select, Labels: r.Labels, From: now, Message: r.Message,
	}
	faults := []error{
		cmp.Or(checkHosts("hosts", r.Hosts), checkPatterns("hosts", r.Hosts)),
		checkProcesses("processes", r.Processes), checkSelector("select", &s.Selector),
		checkSelector("labels", &s.Labels), checkLength("message", r.Message, maxSilenceMessage),
	}
	if len(r.Processes)+len(r.Hosts) == 0 && r.Select == "" && r.Labels == "" {
		faults = append(faults, invalid("processes",
			"is missing: expected processes, hosts, select or labels; the process */* stands for all"))
	}
	if r.From != nil {
		if s.From = r.From.UTC(); s.From.Before(now.Add(-time.Minute)) {
			faults = append(faults, invalid("from", "is %s: expected a time that has not passed",
				s.From.Format(time.RFC3339)))
			s.From = now // so that the end is not blamed
		}
	}
	if r.Cron != "" || r.TimeZone != "" {
		return s, together(append(faults, repeats(&s, r, now))...)
	}
	return s, together(append(faults, ends(&s, r, now))...)
}

// checkLength rejects a text that is too long.
func checkLength(field, text string, most int) error {
	if len(text) > most {
		return invalid(field, "is %d bytes long: expected at most %d", len(text), most)
	}
	return nil
}

// listSilences lists the silences that the caller could make, on one page.
func (h *Handler) listSilences(ctx context.Context, c *call) (reply, error) {
	ended := c.params.flag("ended")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	after := h.Now()
	if ended != nil && *ended {
		after = after.Add(-silencesShown)
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, after)
	if err != nil {
		return reply{}, failure("list the silences", err)
	}
	views := []v1.Silence{}
	for _, s := range list {
		if missing := maySilence(&c.Principal, s.Processes); !missing.Any() {
			views = append(views, h.viewSilence(s))
		}
	}
	return ok(pageOf(c, views, nil))
}

// silenceNamed returns the silence of a path. A silence that the caller could not make does not exist for it.
func (h *Handler) silenceNamed(ctx context.Context, c *call) (store.Silence, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return store.Silence{}, err
	}
	list, err := h.Receivers.Silences.ListSilences(ctx, h.Now().Add(-silencesShown))
	if err != nil {
		return store.Silence{}, failure("list the silences", err)
	}
	for _, s := range list {
		if missing := maySilence(&c.Principal, s.Processes); s.ID == id && !missing.Any() {
			return s, nil
		}
	}
	return store.Silence{}, stored(store.ErrNotFound, "silence", id)
}

func (h *Handler) getSilence(ctx context.Context, c *call) (reply, error) {
	s, err := h.silenceNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return ok(h.viewSilence(s))
}

// removeSilence ends a silence: the alarms that still hold are delivered now.
func (h *Handler) removeSilence(ctx context.Context, c *call) (reply, error) {
	s, err := h.silenceNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if s, err = h.Receivers.Silences.RemoveSilence(ctx, s.ID, h.Now()); err != nil {
		return reply{}, stored(err, "silence", s.ID)
	}
	h.Receivers.Sender.Changed()
	return ok(h.viewSilence(s))
}

func viewBreaker(b store.Breaker) v1.Breaker {
	return v1.Breaker{
		Namespace: b.Process.Namespace, Name: b.Process.Name, Revision: b.Revision, Cause: string(b.Cause),
		Failed: b.Failed, Hosts: b.Hosts, OpenedAt: b.Opened, UntilAt: b.Until, ClosedAt: given(b.Closed),
		ClosedBy: b.ClosedBy,
	}
}

// listBreakers lists the open breakers of the processes that the caller may query on any host, on one page.
func (h *Handler) listBreakers(ctx context.Context, c *call) (reply, error) {
	closed := c.params.flag("closed")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	list, err := h.Breakers.ListBreakers(ctx)
	if err != nil {
		return reply{}, failure("list the breakers", err)
	}
	views := []v1.Breaker{}
	for _, b := range list {
		wanted := b.Closed.IsZero() || closed != nil && *closed
		if wanted && !c.Principal.On(access.OperationOf(process.Query), b.Process.Namespace).Nowhere() {
			views = append(views, viewBreaker(b))
		}
	}
	return ok(pageOf(c, views, nil))
}

// resetBreaker closes a breaker. It needs the right to start the process on every host, because drover then relaunches
// it on every host.
func (h *Handler) resetBreaker(ctx context.Context, c *call) (reply, error) {
	id := process.ID{Namespace: c.r.PathValue("namespace"), Name: c.r.PathValue("name")}
	c.Audit.Target = edge.Clip(id.Namespace + "/" + id.Name)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	op := access.OperationOf(process.Start)
	if !c.Principal.On(op, id.Namespace).Everywhere() {
		var missing access.Missing
		missing.Found(op, c.Audit.Target, "every host")
		return reply{}, forbidden(missing)
	}
	by := c.Principal.User
	if by == "" {
		by = c.Principal.App
	}
	b, err := h.Breakers.CloseBreaker(ctx, id, h.Now(), by)
	if err != nil {
		return reply{}, stored(err, "breaker", c.Audit.Target)
	}
	return ok(viewBreaker(b))
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
		return reply{}, invalid("signed", "is rejected: %s", err)
	}
	if err := d.Dated(h.Now()); err != nil {
		return reply{}, invalid("signed", "is rejected: %s", err)
	}
	subject := d.Version + "/" + d.Arch
	c.Audit.Target = edge.Clip(subject)
	c.Audit.Detail, _ = json.Marshal(map[string]string{"sha256": d.SHA256, "key": key}) // two texts always encode
	err = h.Packages.PutPackage(ctx, store.Package{
		Version: d.Version, Arch: d.Arch, Signed: req.Signed, Size: d.Size,
		Adder: c.Principal.Name(), Created: h.Now(),
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
	if err := h.Packages.PutPiece(ctx, p, n, req.Data); err != nil {
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

// removePackage removes a package that no rollout needs any more. The hosts that run it go on.
func (h *Handler) removePackage(ctx context.Context, c *call) (reply, error) {
	version, arch := c.r.PathValue("version"), c.r.PathValue("arch")
	name := edge.Clip(version + "/" + arch)
	c.Audit.Target = name
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if id, host, err := h.needing(ctx, version, arch); err != nil {
		return reply{}, failure("list the rollouts", err)
	} else if id != "" {
		return reply{}, problemf(http.StatusConflict, "rollout %[1]s still needs package %[2]s for %[3]s: see "+
			"'drover rollout status %[1]s', or end it with 'drover rollout abort %[1]s'", id, name, host)
	}
	if err := h.Packages.RemovePackage(ctx, version, arch); err != nil {
		return reply{}, stored(err, "package", name)
	}
	return reply{status: http.StatusNoContent}, nil
}

// needing returns a rollout that has not ended and a host that has yet to fetch a package for it; empty if there is
// none.
func (h *Handler) needing(ctx context.Context, version, arch string) (id, host string, err error) {
	list, err := store.Upgrading(ctx, h.Rollouts, nil)
	for i := 0; i < len(list) && err == nil; i++ {
		upgrades := func(s store.RolloutStep) bool { return s.Op.Version() == version }
		if !slices.ContainsFunc(list[i].Steps, upgrades) {
			continue
		}
		var r *store.Rollout
		if r, err = h.Rollouts.GetRollout(ctx, list[i].ID, ""); err != nil {
			continue
		}
		for _, x := range r.Hosts {
			a, member := h.Directory.ByKey(x.Agent)
			of, known := archOf(&a)
			if (x.State == rollout.Waiting || x.State == rollout.Begun) && member && (!known || of == arch) {
				return r.ID, x.Name, nil
			}
		}
	}
	return "", "", err
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
	choice = chosenHosts(r.Hosts, r.Select, fail)
	if r.Rollout == nil {
		r.Rollout = &v1.RolloutPlan{}
		r.Rollout.Batch, _ = v1.ParseHostCount("100%") // it is a share
	}
	for _, f := range processfile.CheckRolloutOf(process.Upgrade.Info(), r.Rollout) {
		f.Path = "rollout." + f.Path
		faults = append(faults, f)
	}
	return choice, faults
}

// upgradeAgents begins a rollout of a version of the agent.
func (h *Handler) upgradeAgents(ctx context.Context, c *call) (reply, error) {
	var req upgradeRequest
	dry := c.params.flag("dry_run")
	check := func() error {
		_, faults := req.check()
		_, err := beginning(req.At, h.Now())
		return together(faulty(faults), err)
	}
	if err := c.decode(ctx, &req, check); err != nil {
		return reply{}, err
	}
	choice, faults := req.check()
	c.Audit.Target = edge.Clip(req.Version + " " + choice.String())
	if c.Principal.OnHosts(access.UpgradeAgents).Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.UpgradeAgents})
	}
	var missing access.Missing
	agents := h.named(choice, &c.Principal, access.UpgradeAgents, &missing, &faults)
	if missing.Any() {
		return reply{}, forbidden(missing)
	}
	at, err := beginning(req.At, h.Now())
	if err := together(faulty(faults), err); err != nil {
		return reply{}, err
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
	if dry != nil && *dry {
		target := v1.Target{Namespace: process.AgentID().Namespace, Name: process.AgentID().Name}
		keys := make([]string, len(r.Hosts))
		for i := range r.Hosts {
			target.Hosts, keys[i] = append(target.Hosts, r.Hosts[i].Name), r.Hosts[i].Agent
		}
		return h.planRollout(ctx, v1.OperationPlan{Targets: []v1.Target{target}, Away: h.away(keys)}, r)
	}
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
		arch, known := archOf(&a)
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

// archOf returns the architecture of the packages for a host, if it is known.
func archOf(a *store.Agent) (arch string, known bool) {
	arch, known = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[a.Host.Arch]
	return arch, known
}

// planRollout answers a plan with its rollout.
func (h *Handler) planRollout(ctx context.Context, p v1.OperationPlan, r *store.Rollout) (answer reply, err error) {
	planned := []*store.Rollout{r}
	p.Rollout = &viewPlanned(planned)[0]
	if p.Reason, p.Refused, err = h.hindrance(ctx, nil, planned); err != nil {
		return reply{}, err
	}
	return ok(p)
}

// foresee completes the plan of an apply with the hosts that are away, and with what the server would say to the apply.
// refusal is what it would say first; nil if the rights to the steps and the rollouts decide.
func (h *Handler) foresee(ctx context.Context, c *call, p *v1.Plan, steps []plan.Step, rollouts []*store.Rollout,
	refusal error,
) (err error) {
	agents := make([]string, len(steps))
	for i := range steps {
		agents[i] = steps[i].Agent
	}
	p.Away = h.away(agents)
	if refusal == nil {
		refusal = h.mayApply(c, steps)
	}
	if refused, ok := errors.AsType[*problem](refusal); ok && refused.Status == http.StatusForbidden {
		p.Reason, p.Refused = refused.Detail, refused.Status
		return nil
	}
	if refusal != nil {
		return refusal
	}
	p.Reason, p.Refused, err = h.hindrance(ctx, steps, rollouts)
	return err
}

// away returns the names of the hosts that are not connected, each once.
func (h *Handler) away(agents []string) (names []string) {
	for _, key := range agents {
		if a, known := h.Directory.ByKey(key); known && h.Directory.Presence(key, h.Now()).Away {
			names = append(names, nameOf(a))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
