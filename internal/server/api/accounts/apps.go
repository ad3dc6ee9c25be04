package accounts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

func viewApp(a store.App) v1.App {
	v := v1.App{
		Code: a.Code, Note: a.Note, Admin: a.Admin, MayNameUsers: a.MayNameUsers, Disabled: a.Disabled,
		Grants: call.Viewed(a.Grants, func(g access.Grant) v1.Grant { return v1.Grant(g) }), Limits: v1.Rates(a.Limits),
		Secrets: []v1.Secret{}, CreatedAt: a.Created, ChangedAt: a.Changed,
	}
	for _, s := range a.Secrets {
		v.Secrets = append(v.Secrets, v1.Secret{
			ID: s.ID, CreatedAt: s.Created, ExpiresAt: call.OptionalTime(s.Expires),
		})
	}
	return v
}

// stillToCome rejects new rights whose end has passed. Ended rights that the account already had may stay.
func stillToCome(before, after []access.Grant, now time.Time) error {
	var faults []error
	for i, g := range after {
		had := slices.ContainsFunc(before, func(b access.Grant) bool { return b.String() == g.String() })
		if g.Ended(now) && !had {
			faults = append(faults, call.Invalid(fmt.Sprintf("grants[%d].until", i), "is %s: expected a time to come",
				g.Until.Format(time.RFC3339)))
		}
	}
	return call.Together(faults...)
}

// appChange returns the function that applies a change to an app. The change must be valid.
func appChange(r *v1.AppChange) (change func(*store.App), err error) {
	grants, err := grantsOf(r.Grants)
	limits := (*access.Limits)(r.Limits)
	if limits != nil {
		if wrong := limits.Validate(); wrong != nil {
			err = call.Together(err, call.InvalidPart("limits.", "", wrong))
		}
	}
	if err != nil {
		return nil, err
	}
	return func(a *store.App) {
		call.Assign(&a.Note, r.Note)
		call.Assign(&a.Admin, r.Admin)
		call.Assign(&a.MayNameUsers, r.MayNameUsers)
		call.Assign(&a.Disabled, r.Disabled)
		call.Assign(&a.Grants, grants)
		call.Assign(&a.Limits, limits)
	}, nil
}

// CreateApp creates an app and its first secret. Only this reply shows the secret.
func (h *Handler) CreateApp(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req v1.AppChange
	var change func(*store.App)
	check := func() (err error) {
		change, err = appChange(&req)
		err = call.Together(call.CheckName("code", req.Code, access.MaxAppCode), err)
		if access.IsPersonApp(req.Code) {
			err = call.Together(call.Invalid("code", "is the code of a user who calls without an app: expected another code"), err)
		}
		return err
	}
	if err := c.Decode(ctx, &req, check); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Code)
	if err := check(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	secret, kept := h.newSecret()
	a := store.App{Code: req.Code, Secrets: []store.Secret{kept}, Created: kept.Created, Changed: kept.Created}
	change(&a)
	if err := stillToCome(nil, a.Grants, a.Created); err != nil {
		return call.Reply{}, err
	}
	if err := h.Apps.CreateApp(ctx, a); err != nil {
		return call.Reply{}, call.StoreProblem(err, "app", req.Code)
	}
	v := viewApp(a)
	v.Secret = secret
	return call.Reply{Status: http.StatusCreated, Body: v, Location: "/apps/" + url.PathEscape(a.Code)}, nil
}

// newSecret creates a secret: the text to show, and the record to store.
func (h *Handler) newSecret() (string, store.Secret) {
	secret := access.NewSecret()
	return secret, store.Secret{ID: newID(), Hash: h.Secrets.Hash(secret), Created: h.Now()}
}

// newID returns an id for a secret or token.
func newID() string { return strings.ToLower(rand.Text()[:8]) }

// ListApps lists the apps.
func (h *Handler) ListApps(ctx context.Context, c *call.Call) (call.Reply, error) {
	var after string
	limit, err := c.Params.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	apps, err := h.Apps.ListApps(ctx, after, limit)
	if err != nil {
		return call.Reply{}, call.Failure("list the apps", err)
	}
	return call.OK(call.PageOfRows(c, apps, limit, viewApp, func(a store.App) any { return a.Code }))
}

// GetApp shows an app.
func (h *Handler) GetApp(ctx context.Context, c *call.Call) (call.Reply, error) {
	code := c.Subject("code")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	a, err := h.Apps.GetApp(ctx, code)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "app", code)
	}
	return call.OK(viewApp(a))
}

// ChangeApp changes the given fields.
func (h *Handler) ChangeApp(ctx context.Context, c *call.Call) (call.Reply, error) {
	code := c.Subject("code")
	var req v1.AppChange
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	if req.Code != "" && req.Code != code {
		return call.Reply{}, call.Invalid("code", "cannot be changed")
	}
	change, err := appChange(&req)
	if err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	a, err := h.Apps.ChangeApp(ctx, code, func(a *store.App) error {
		before := a.Grants
		change(a)
		a.Changed = h.Now()
		return stillToCome(before, a.Grants, a.Changed)
	})
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "app", code)
	}
	return call.OK(viewApp(a))
}

// maxKeep is the longest time for which an old secret stays valid beside the new secret.
const maxKeep = 90 * 24 * time.Hour

// CreateSecret gives an app another secret. Only this reply shows the secret.
func (h *Handler) CreateSecret(ctx context.Context, c *call.Call) (call.Reply, error) {
	code := c.Subject("code")
	var req v1.SecretRequest
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	if most := int64(maxKeep / time.Second); req.KeepSeconds < 0 || req.KeepSeconds > most {
		return call.Reply{}, call.Invalid("keep_seconds", "is %d: expected 0 to %d", req.KeepSeconds, most)
	}
	secret, kept := h.newSecret()
	now := h.Now()
	a, err := h.Apps.ChangeApp(ctx, code, func(a *store.App) error {
		a.Secrets = append(remaining(a.Secrets, now, time.Duration(req.KeepSeconds)*time.Second), kept)
		a.Changed = now
		return nil
	})
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "app", code)
	}
	v := viewApp(a)
	v.Secret = secret
	return call.Reply{Status: http.StatusCreated, Body: v, Location: "/apps/" + url.PathEscape(code)}, nil
}

// remaining returns the secrets that stay valid beside a new secret: the newest valid secret, for keep at most.
func remaining(secrets []store.Secret, now time.Time, keep time.Duration) []store.Secret {
	if keep == 0 {
		return nil
	}
	for _, s := range slices.Backward(secrets) {
		if !s.Valid(now) {
			continue
		}
		if end := now.Add(keep); s.Expires.IsZero() || end.Before(s.Expires) {
			s.Expires = end
		}
		return []store.Secret{s}
	}
	return nil
}
