package files

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// Get returns the processes of a namespace as a process file, as far as the caller may query them: as hosts
// have them now, or as they are by a revision.
func (h *Handler) Get(ctx context.Context, c *call.Call) (call.Reply, error) {
	namespace := c.Subject("namespace")
	revision := revisionOf(&c.Params, "revision")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if revision != 0 {
		placed, err := h.placedAt(ctx, c, namespace, revision)
		if err != nil {
			return call.Reply{}, err
		}
		return h.shownFile(c, namespace, placed, nil, revision)
	}
	latest, known, err := h.latestSpecs(ctx, c, namespace)
	if err != nil {
		return call.Reply{}, err
	}
	if len(known) == 0 {
		return call.Reply{}, call.Problemf(http.StatusNotFound, "no host knows a process of namespace %q", namespace)
	}
	c.Response.Header().Set("ETag", h.etag(fileOf(namespace, known, latest)))
	standing, err := h.operations.Selected(ctx, namespace, known)
	if err != nil {
		return call.Reply{}, err
	}
	return h.shownFile(c, namespace, known, standing, latest)
}

// shownFile replies with processes as a file for the caller. A process that a host has by a selection in force is shown
// as the selection has it: a host that differs is a deviation from the file.
func (h *Handler) shownFile(
	c *call.Call, namespace string, known []plan.Known, standing []store.Selection, revision int64,
) (call.Reply, error) {
	set := c.Principal.Sets(namespace)
	placed := make([]processfile.Placed, 0, len(known))
	for _, k := range known {
		if agent, _ := h.Directory.ByKey(k.Agent); !set.Covers(gate.Host(agent)) {
			k.Spec = plan.Hidden(k.Spec)
		}
		if k.Selector == "" {
			placed = append(placed, processfile.Placed{
				Name: k.Process.Name, Host: k.Host, Spec: *k.Spec.Unnumbered(),
			})
		}
	}
	query := c.Principal.On(access.OperationOf(process.Query), namespace)
	for _, s := range standing {
		sees, sets, err := h.covered(s.Selector, query, set)
		switch {
		case err != nil:
			return call.Reply{}, call.Failure("read a selection", err)
		case !sees:
			continue
		case !sets:
			s.Spec = plan.Hidden(s.Spec)
		}
		placed = append(placed, processfile.Placed{
			Name: s.Process.Name, Select: s.Selector, Spec: *s.Spec.Unnumbered(),
		})
	}
	c.Audit.Targets = len(known)
	file := processfile.Group(namespace, placed)
	file.Revision = revision
	text, _ := json.Marshal(file) // a file always encodes
	return call.Reply{Status: http.StatusOK, Body: file, Weight: len(text)}, nil
}

// covered reports whether the reach one covers at least one host that an expression matches, and whether the reach all
// covers every such host. If no host matches, both must cover every host.
func (h *Handler) covered(text string, one, all access.Reach) (sees, sets bool, err error) {
	matching, err := h.operations.Matching(text)
	if err != nil {
		return false, false, err
	}
	sees, sets = one.Everywhere(), true
	none := true
	for a := range matching {
		none = false
		sees, sets = sees || one.Covers(gate.Host(a)), sets && all.Covers(gate.Host(a))
	}
	return sees, sets && (!none || all.Everywhere()), nil
}

// latestSpecs returns the latest revision of a namespace, and the processes of which hosts have reported the spec. It
// reads the revision first: a revision that is stored meanwhile is later than the returned one.
func (h *Handler) latestSpecs(ctx context.Context, c *call.Call, namespace string) (int64, []plan.Known, error) {
	latest, err := h.Revisions.LatestRevision(ctx, namespace)
	if err != nil {
		return 0, nil, call.Failure("read the revision", err)
	}
	known, err := h.processes.Reported(ctx, c, namespace)
	return latest, known, err
}

// fileOf returns processes as a file, by a revision.
func fileOf(namespace string, known []plan.Known, revision int64) v1.File {
	placed := make([]processfile.Placed, 0, len(known))
	for i := range known {
		placed = append(placed, processfile.Placed{
			Name: known[i].Process.Name, Host: known[i].Host, Spec: *known[i].Spec.Unnumbered(),
		})
	}
	file := processfile.Group(namespace, placed)
	file.Revision = revision
	return file
}

// etag returns the tag of a file: its revision, and a digest of what hosts have. The digest has a key, because the file
// has values that not every caller may see.
func (h *Handler) etag(f v1.File) string {
	text, _ := json.Marshal(f) // a file always encodes
	mac := hmac.New(sha256.New, h.CursorSecret)
	mac.Write([]byte("drover etag\x00"))
	mac.Write(text)
	return fmt.Sprintf(`"%d-%s"`, f.Revision, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12]))
}
