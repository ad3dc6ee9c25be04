package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/release"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

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

// AddPackage stores the description of a package, and answers which pieces are missing. A repeated call has no effect.
func (h *Handler) AddPackage(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req v1.PackageRequest
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	d, key, err := release.Open([]byte(req.Signed), nil)
	if err != nil {
		return call.Reply{}, call.Invalid("signed", "is rejected: %s", err)
	}
	if err := d.Dated(h.Now()); err != nil {
		return call.Reply{}, call.Invalid("signed", "is rejected: %s", err)
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
		return call.Reply{}, call.Problemf(http.StatusConflict,
			"there is no room for package %s: expected at most %d packages with %d MB in all: remove one", subject,
			store.MostPackages, store.MostPackageBytes>>20)
	case errors.Is(err, store.ErrExists):
		return call.Reply{}, call.Problemf(http.StatusConflict,
			"package %s is there with another signed text: remove it first", subject)
	case err != nil:
		return call.Reply{}, call.Failure("store the package", err)
	}
	all, err := h.Packages.ListPackages(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("read the packages", err)
	}
	for i := range all {
		if p := &all[i]; p.Version == d.Version && p.Arch == d.Arch {
			v, _ := viewPackage(p)
			return call.Reply{Status: http.StatusCreated, Body: v}, nil
		}
	}
	return call.Reply{}, call.Problemf(http.StatusConflict, "package %s was removed meanwhile: try again", subject)
}

// PutPiece stores a piece of a package. It rejects a piece whose checksum differs from the signed text.
func (h *Handler) PutPiece(ctx context.Context, c *call.Call) (call.Reply, error) {
	version, arch, number := c.Request.PathValue("version"), c.Request.PathValue("arch"), c.Request.PathValue("piece")
	c.Audit.Target = edge.Clip(version + "/" + arch + "/" + number)
	var req v1.PackagePiece
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	p, err := h.Packages.GetPackage(ctx, version, arch)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "package", edge.Clip(version+"/"+arch))
	}
	d, _, err := release.Open([]byte(p.Signed), nil)
	if err != nil {
		return call.Reply{}, call.Failure("read the package", err)
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(d.Pieces) {
		return call.Reply{}, call.Problemf(http.StatusNotFound, "the package has no piece %q: expected 0 to %d",
			edge.Clip(number), len(d.Pieces)-1)
	}
	if !d.Holds(n, req.Data) {
		return call.Reply{}, call.Invalid("data", "is damaged: it has not the sum of piece %d of package %s/%s", n, version, arch)
	}
	if err := h.Packages.PutPiece(ctx, p, n, req.Data); err != nil {
		return call.Reply{}, call.StoreProblem(err, "package", edge.Clip(version+"/"+arch))
	}
	return call.Reply{Status: http.StatusNoContent}, nil
}

// ListPackages lists the packages.
func (h *Handler) ListPackages(ctx context.Context, c *call.Call) (call.Reply, error) {
	var after string
	limit, err := c.Params.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	if c.Principal.OnHosts(access.ReadAgents).Nowhere() {
		return call.Reply{}, call.Forbidden(access.Missing{Operation: access.ReadAgents})
	}
	all, err := h.Packages.ListPackages(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("read the packages", err)
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
	return call.OK(call.PageOf(c, views, last))
}

// RemovePackage removes a package that no rollout needs any more. Hosts that run this version continue.
func (h *Handler) RemovePackage(ctx context.Context, c *call.Call) (call.Reply, error) {
	version, arch := c.Request.PathValue("version"), c.Request.PathValue("arch")
	name := edge.Clip(version + "/" + arch)
	c.Audit.Target = name
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if id, host, err := h.needing(ctx, version, arch); err != nil {
		return call.Reply{}, call.Failure("list the rollouts", err)
	} else if id != "" {
		return call.Reply{}, call.Problemf(http.StatusConflict, "rollout %[1]s still needs package %[2]s for %[3]s: see "+
			"'drover rollout status %[1]s', or end it with 'drover rollout abort %[1]s'", id, name, host)
	}
	if err := h.Packages.RemovePackage(ctx, version, arch); err != nil {
		return call.Reply{}, call.StoreProblem(err, "package", name)
	}
	return call.Reply{Status: http.StatusNoContent}, nil
}

// needing returns an active rollout that still needs a package, and a host that has not fetched the package yet; empty
// if there is none.
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

// archOf returns the architecture of the packages for a host, if it is known.
func archOf(a *store.Agent) (arch string, known bool) {
	arch, known = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[a.Host.Arch]
	return arch, known
}
