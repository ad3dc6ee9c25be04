package apiv1

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
	"unicode"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// appView is an app without anything secret.
type appView struct {
	Code         string         `json:"code"`
	Note         string         `json:"note,omitempty"`
	Admin        bool           `json:"admin"`
	MayNameUsers bool           `json:"may_name_users"`
	Disabled     bool           `json:"disabled"`
	Grants       []access.Grant `json:"grants"`
	Limits       access.Limits  `json:"limits"`
	Secrets      []secretView   `json:"secrets"`
	CreatedAt    time.Time      `json:"created_at"`
	ChangedAt    time.Time      `json:"changed_at"`
	// Secret is shown once, in the answer to the call that made it.
	Secret string `json:"secret,omitempty"`
}

// secretView tells of a secret what is none.
type secretView struct {
	ID        string     `json:"id"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func viewApp(a store.App) appView {
	v := appView{
		Code: a.Code, Note: a.Note, Admin: a.Admin, MayNameUsers: a.MayNameUsers, Disabled: a.Disabled,
		Grants: a.Grants, Limits: a.Limits,
		Secrets: []secretView{}, CreatedAt: a.Created, ChangedAt: a.Changed,
	}
	if v.Grants == nil {
		v.Grants = []access.Grant{}
	}
	for _, s := range a.Secrets {
		v.Secrets = append(v.Secrets, secretView{ID: s.ID, CreatedAt: s.Created, ExpiresAt: given(s.Expires)})
	}
	return v
}

// appRequest is the body of a new app and of a change, where only what is given counts.
type appRequest struct {
	Code         string          `json:"code,omitempty"`
	Note         *string         `json:"note,omitempty"`
	Admin        *bool           `json:"admin,omitempty"`
	MayNameUsers *bool           `json:"may_name_users,omitempty"`
	Disabled     *bool           `json:"disabled,omitempty"`
	Grants       *[]access.Grant `json:"grants,omitempty"`
	Limits       *access.Limits  `json:"limits,omitempty"`
}

// validate reports the first field that is wrong.
func (r *appRequest) validate() error {
	if r.Grants != nil {
		if n := len(*r.Grants); n > access.MaxGrants {
			return invalid("grants", "has %d entries: expected at most %d", n, access.MaxGrants)
		}
		for i := range *r.Grants {
			if err := (*r.Grants)[i].Validate(); err != nil {
				return invalidPart(fmt.Sprintf("grants[%d].", i), "", err)
			}
		}
	}
	if r.Limits != nil {
		if err := r.Limits.Validate(); err != nil {
			return invalidPart("limits.", "", err)
		}
	}
	return nil
}

// change carries the request over to an app.
func (r *appRequest) change(a *store.App) {
	set(&a.Note, r.Note)
	set(&a.Admin, r.Admin)
	set(&a.MayNameUsers, r.MayNameUsers)
	set(&a.Disabled, r.Disabled)
	set(&a.Grants, r.Grants)
	set(&a.Limits, r.Limits)
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// checkName refuses a name that could not be typed or shown.
func checkName(field, name string, longest int) error {
	switch {
	case name == "":
		return invalid(field, "is empty")
	case len(name) > longest:
		return invalid(field, "is %d bytes long: expected at most %d", len(name), longest)
	case strings.ToValidUTF8(name, "") != name ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return invalid(field, "holds a blank or a control character, or is not valid UTF-8")
	}
	return nil
}

// createApp makes an app and its first secret, which is shown this once.
func (h *Handler) createApp(ctx context.Context, c *call) (reply, error) {
	var req appRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.audit.Target = clip(req.Code)
	if err := checkName("code", req.Code, access.MaxAppCode); err != nil {
		return reply{}, err
	}
	if err := req.validate(); err != nil {
		return reply{}, err
	}
	c.audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	secret, kept := h.newSecret()
	a := store.App{Code: req.Code, Secrets: []store.Secret{kept}, Created: kept.Created, Changed: kept.Created}
	req.change(&a)
	if err := h.Apps.CreateApp(ctx, a); err != nil {
		return reply{}, stored(err, "app", req.Code)
	}
	v := viewApp(a)
	v.Secret = secret
	return reply{status: http.StatusCreated, body: v, location: "/apps/" + url.PathEscape(a.Code)}, nil
}

// newSecret makes a secret: the text to be shown, and what is kept.
func (h *Handler) newSecret() (string, store.Secret) {
	secret := access.NewSecret()
	return secret, store.Secret{ID: newID(), Hash: h.Secrets.Hash(secret), Created: h.Now()}
}

// newID tells secrets and tokens apart.
func newID() string { return strings.ToLower(rand.Text()[:8]) }

func (h *Handler) listApps(ctx context.Context, c *call) (reply, error) {
	var after string
	limit, err := c.params.page(&after)
	if err != nil {
		return reply{}, err
	}
	apps, err := h.Apps.ListApps(ctx, after, limit)
	if err != nil {
		return reply{}, failure("list the apps", err)
	}
	return ok(pageOfRows(c, apps, limit, viewApp, func(a store.App) any { return a.Code }))
}

func (h *Handler) getApp(ctx context.Context, c *call) (reply, error) {
	code := c.subject("code")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	a, err := h.Apps.GetApp(ctx, code)
	if err != nil {
		return reply{}, stored(err, "app", code)
	}
	return ok(viewApp(a))
}

// changeApp changes what is given.
func (h *Handler) changeApp(ctx context.Context, c *call) (reply, error) {
	code := c.subject("code")
	var req appRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	if req.Code != "" && req.Code != code {
		return reply{}, invalid("code", "cannot be changed")
	}
	if err := req.validate(); err != nil {
		return reply{}, err
	}
	c.audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	a, err := h.Apps.ChangeApp(ctx, code, func(a *store.App) error {
		req.change(a)
		a.Changed = h.Now()
		return nil
	})
	if err != nil {
		return reply{}, stored(err, "app", code)
	}
	return ok(viewApp(a))
}

// secretRequest is the body of a new secret.
type secretRequest struct {
	// KeepSeconds is how long the secrets that there are count on; 0 ends them now.
	KeepSeconds int64 `json:"keep_seconds"`
}

// maxKeep is how long an old secret may count on beside the new one.
const maxKeep = 90 * 24 * time.Hour

// createSecret gives an app another secret, which is shown this once.
func (h *Handler) createSecret(ctx context.Context, c *call) (reply, error) {
	code := c.subject("code")
	var req secretRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	if most := int64(maxKeep / time.Second); req.KeepSeconds < 0 || req.KeepSeconds > most {
		return reply{}, invalid("keep_seconds", "is %d: expected 0 to %d", req.KeepSeconds, most)
	}
	secret, kept := h.newSecret()
	now := h.Now()
	a, err := h.Apps.ChangeApp(ctx, code, func(a *store.App) error {
		a.Secrets = append(remaining(a.Secrets, now, time.Duration(req.KeepSeconds)*time.Second), kept)
		a.Changed = now
		return nil
	})
	if err != nil {
		return reply{}, stored(err, "app", code)
	}
	v := viewApp(a)
	v.Secret = secret
	return reply{status: http.StatusCreated, body: v, location: "/apps/" + url.PathEscape(code)}, nil
}

// remaining is what counts on beside a new secret: the newest one that is valid, and for no longer than keep.
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
