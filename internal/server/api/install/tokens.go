package install

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	v1 "drover/api/v1"
	"drover/internal/selector"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// JoinTokens is the register of tokens that hosts join with.
type JoinTokens interface {
	GetJoinToken(ctx context.Context, id string) (store.JoinToken, error)
	ListJoinTokens(ctx context.Context, before string, limit int) ([]store.JoinToken, error)
	RevokeJoinToken(ctx context.Context, id string, at time.Time) (store.JoinToken, error)
}

// Bounds of tokens.
const (
	maxUses     = 100_000
	maxTokenTTL = 366 * 24 * time.Hour
	maxNote     = 1024
	maxArea     = 1<<31 - 1
)

func (h *Handler) viewJoinToken(t store.JoinToken) v1.JoinToken {
	v := v1.JoinToken{
		ID: t.ID, State: v1.TokenOpen, Role: string(t.Role), Cloud: t.Cloud, Labels: t.Labels, Business: t.Business,
		Replaces: h.replaced(t.Replaces), Note: t.Note, Uses: t.Uses, Used: t.Used,
		CreatedAt: t.Created, ExpiresAt: t.Expires, RevokedAt: call.OptionalTime(t.Revoked),
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	switch {
	case !t.Revoked.IsZero():
		v.State = v1.TokenRevoked
	case !h.Now().Before(t.Expires):
		v.State = v1.TokenExpired
	case t.Used >= t.Uses:
		v.State = v1.TokenSpent
	}
	return v
}

// CheckJoinToken returns all faults of a request for a token.
func CheckJoinToken(r *v1.JoinTokenRequest) error {
	faults := []error{call.CheckLength("note", r.Note, maxNote)}
	fail := func(field, format string, args ...any) { faults = append(faults, call.Invalid(field, format, args...)) }
	switch {
	case r.Role != "" && r.Role != string(store.RoleAgent) && r.Role != string(store.RoleProxy):
		fail("role", "is %q: expected %s or %s", r.Role, store.RoleAgent, store.RoleProxy)
	case r.Role == string(store.RoleProxy) && (len(r.Labels) > 0 || r.Business != 0 || r.Replaces != ""):
		fail("role", "is %s, and a proxy has neither labels nor a business, and replaces no host", store.RoleProxy)
	}
	if r.Replaces != "" && r.Uses != 1 {
		fail("uses", "is %d: expected 1, because the token is for one host", r.Uses)
	}
	if r.Cloud < 0 || r.Cloud > maxArea {
		fail("cloud", "is %d: expected 0 to %d", r.Cloud, maxArea)
	}
	if r.Business < 0 {
		fail("business", "is %d: expected 0 or more", r.Business)
	}
	if r.Uses < 1 || r.Uses > maxUses {
		fail("uses", "is %d: expected 1 to %d", r.Uses, maxUses)
	}
	if most := int64(maxTokenTTL / time.Second); r.TTLSeconds < 1 || r.TTLSeconds > most {
		fail("ttl_seconds", "is %d: expected 1 to %d", r.TTLSeconds, most)
	}
	for _, err := range selector.CheckLabels(r.Labels) {
		fail("labels", "%v", err)
	}
	return call.Together(faults...)
}

// CreateJoinToken creates a token with which hosts can join. Only this reply shows the token.
func (h *Handler) CreateJoinToken(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req v1.JoinTokenRequest
	if err := c.Decode(ctx, &req, func() error { return CheckJoinToken(&req) }); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	if err := CheckJoinToken(&req); err != nil {
		return call.Reply{}, err
	}
	if h.Joining.Enroller == nil {
		return call.Reply{}, noEnroller()
	}
	replaces, err := h.toReplace(&req)
	if err != nil {
		return call.Reply{}, err
	}
	t, text, err := h.Joining.Enroller.NewToken(ctx, store.JoinToken{
		Role: store.Role(req.Role), Cloud: req.Cloud, Labels: req.Labels, Business: req.Business, Note: req.Note,
		Uses: req.Uses, Replaces: replaces,
	}, time.Duration(req.TTLSeconds)*time.Second)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "token", t.ID)
	}
	c.Audit.Target = t.ID
	v := h.viewJoinToken(t)
	v.Token = text
	return call.Reply{Status: http.StatusCreated, Body: v, Location: "/tokens/" + url.PathEscape(t.ID)}, nil
}

// toReplace returns the key of the agent that the token replaces; empty if the token is for new hosts.
func (h *Handler) toReplace(req *v1.JoinTokenRequest) (key string, err error) {
	if req.Replaces == "" {
		return "", nil
	}
	a, known := h.hosts.KnownHost(req.Replaces)
	switch {
	case !known:
		return "", call.Invalid("replaces", "is %s: there is no such host", edge.Clip(req.Replaces))
	case a.Cloud != req.Cloud:
		return "", call.Invalid("cloud", "is %d: the host to replace is of area %d", req.Cloud, a.Cloud)
	default:
		return a.Key, nil
	}
}

// replaced returns the name of the host that a token replaces; its key if the host was removed.
func (h *Handler) replaced(key string) string {
	if a, known := h.Directory.ByKey(key); known {
		return hosts.NameOf(a)
	}
	return key
}

// ListJoinTokens lists the join tokens, the newest first.
func (h *Handler) ListJoinTokens(ctx context.Context, c *call.Call) (call.Reply, error) {
	var before string
	limit, err := c.Params.Page(&before)
	if err != nil {
		return call.Reply{}, err
	}
	list, err := h.Joining.Store.ListJoinTokens(ctx, before, limit)
	if err != nil {
		return call.Reply{}, call.Failure("list the tokens", err)
	}
	return call.OK(call.PageOfRows(c, list, limit, h.viewJoinToken, func(t store.JoinToken) any { return t.ID }))
}

// GetJoinToken shows a join token.
func (h *Handler) GetJoinToken(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	t, err := h.Joining.Store.GetJoinToken(ctx, id)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "token", id)
	}
	return call.OK(h.viewJoinToken(t))
}

// RevokeJoinToken revokes a join token. Hosts that have joined with the token stay.
func (h *Handler) RevokeJoinToken(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if _, err := h.Joining.Store.RevokeJoinToken(ctx, id, h.Now()); err != nil {
		return call.Reply{}, call.StoreProblem(err, "token", id)
	}
	return call.Reply{Status: http.StatusNoContent}, nil
}
