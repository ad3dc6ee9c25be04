package apiv1

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/words"
)

func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func viewApp(a store.App) v1.App {
	v := v1.App{
		Code: a.Code, Note: a.Note, Admin: a.Admin, MayNameUsers: a.MayNameUsers, Disabled: a.Disabled,
		Grants: viewed(a.Grants, func(g access.Grant) v1.Grant { return v1.Grant(g) }), Limits: v1.Rates(a.Limits),
		Secrets: []v1.Secret{}, CreatedAt: a.Created, ChangedAt: a.Changed,
	}
	for _, s := range a.Secrets {
		v.Secrets = append(v.Secrets, v1.Secret{ID: s.ID, CreatedAt: s.Created, ExpiresAt: given(s.Expires)})
	}
	return v
}

// stillToCome rejects new rights that have ended already. Those that a record had before may stay.
func stillToCome(before, after []access.Grant, now time.Time) error {
	var faults []error
	for i, g := range after {
		had := slices.ContainsFunc(before, func(b access.Grant) bool { return b.String() == g.String() })
		if g.Ended(now) && !had {
			faults = append(faults, invalid(fmt.Sprintf("grants[%d].until", i), "is %s: expected a time to come",
				g.Until.Format(time.RFC3339)))
		}
	}
	return together(faults...)
}

// appChange returns the function that applies a change to an app. The change must be valid.
func appChange(r *v1.AppChange) (change func(*store.App), err error) {
	grants, err := grantsOf(r.Grants)
	limits := (*access.Limits)(r.Limits)
	if limits != nil {
		if wrong := limits.Validate(); wrong != nil {
			err = together(err, invalidPart("limits.", "", wrong))
		}
	}
	if err != nil {
		return nil, err
	}
	return func(a *store.App) {
		set(&a.Note, r.Note)
		set(&a.Admin, r.Admin)
		set(&a.MayNameUsers, r.MayNameUsers)
		set(&a.Disabled, r.Disabled)
		set(&a.Grants, grants)
		set(&a.Limits, limits)
	}, nil
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// checkName rejects a name that cannot be typed or shown.
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

// createApp creates an app and its first secret. Only this reply shows the secret.
func (h *Handler) createApp(ctx context.Context, c *call) (reply, error) {
	var req v1.AppChange
	var change func(*store.App)
	check := func() (err error) {
		change, err = appChange(&req)
		err = together(checkName("code", req.Code, access.MaxAppCode), err)
		if access.IsPersonApp(req.Code) {
			err = together(invalid("code", "is the code of a user who calls without an app: expected another code"), err)
		}
		return err
	}
	if err := c.decode(ctx, &req, check); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Code)
	if err := check(); err != nil {
		return reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	secret, kept := h.newSecret()
	a := store.App{Code: req.Code, Secrets: []store.Secret{kept}, Created: kept.Created, Changed: kept.Created}
	change(&a)
	if err := stillToCome(nil, a.Grants, a.Created); err != nil {
		return reply{}, err
	}
	if err := h.Apps.CreateApp(ctx, a); err != nil {
		return reply{}, stored(err, "app", req.Code)
	}
	v := viewApp(a)
	v.Secret = secret
	return reply{status: http.StatusCreated, body: v, location: "/apps/" + url.PathEscape(a.Code)}, nil
}

// newSecret creates a secret: the text to show, and the record to store.
func (h *Handler) newSecret() (string, store.Secret) {
	secret := access.NewSecret()
	return secret, store.Secret{ID: newID(), Hash: h.Secrets.Hash(secret), Created: h.Now()}
}

// newID returns an id for a secret or token.
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

// changeApp changes the given fields.
func (h *Handler) changeApp(ctx context.Context, c *call) (reply, error) {
	code := c.subject("code")
	var req v1.AppChange
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	if req.Code != "" && req.Code != code {
		return reply{}, invalid("code", "cannot be changed")
	}
	change, err := appChange(&req)
	if err != nil {
		return reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	a, err := h.Apps.ChangeApp(ctx, code, func(a *store.App) error {
		before := a.Grants
		change(a)
		a.Changed = h.Now()
		return stillToCome(before, a.Grants, a.Changed)
	})
	if err != nil {
		return reply{}, stored(err, "app", code)
	}
	return ok(viewApp(a))
}

// maxKeep is how long an old secret may stay valid beside the new one.
const maxKeep = 90 * 24 * time.Hour

// createSecret gives an app another secret. Only this reply shows it.
func (h *Handler) createSecret(ctx context.Context, c *call) (reply, error) {
	code := c.subject("code")
	var req v1.SecretRequest
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

// remaining returns the secrets that stay valid beside a new one: the newest valid secret, for no longer than keep.
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

func (h *Handler) viewUser(u store.User) v1.User {
	grants := func(list []access.Grant) []v1.Grant {
		return viewed(list, func(g access.Grant) v1.Grant { return v1.Grant(g) })
	}
	v := v1.User{
		Name: u.Name, Note: u.Note, Disabled: u.Disabled, Admin: u.Admin, Grants: grants(u.Grants),
		CreatedAt: u.Created,
	}
	if len(u.Groups) > 0 {
		r := h.Groups.Of(u.Groups)
		v.Provider = &v1.ProviderRights{Groups: u.Groups, Admin: r.Admin, Grants: grants(r.Grants)}
	}
	return v
}

// userChange returns the function that applies a change to a user. The change must be valid.
func userChange(r *v1.UserChange) (change func(*store.User), err error) {
	grants, err := grantsOf(r.Grants)
	if err != nil {
		return nil, err
	}
	return func(u *store.User) {
		set(&u.Note, r.Note)
		set(&u.Disabled, r.Disabled)
		set(&u.Admin, r.Admin)
		set(&u.Grants, grants)
	}, nil
}

// grantsOf checks the rights in a change; nil changes nothing.
func grantsOf(given *[]v1.Grant) (*[]access.Grant, error) {
	if given == nil {
		return nil, nil //nolint:nilnil // there is nothing to change
	}
	list := viewed(*given, func(g v1.Grant) access.Grant { return access.Grant(g) })
	if n := len(list); n > access.MaxGrants {
		return nil, invalid("grants", "has %d entries: expected at most %d", n, access.MaxGrants)
	}
	var faults []error
	for i := range list {
		list[i].Until = list[i].Until.UTC().Truncate(time.Second)
		for _, err := range list[i].Faults() {
			faults = append(faults, invalidPart(fmt.Sprintf("grants[%d].", i), "", err))
		}
	}
	return &list, together(faults...)
}

func (h *Handler) createUser(ctx context.Context, c *call) (reply, error) {
	var req v1.UserChange
	var change func(*store.User)
	check := func() (err error) {
		change, err = userChange(&req)
		return together(checkName("name", req.Name, access.MaxUser), err)
	}
	if err := c.decode(ctx, &req, check); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Name)
	if err := check(); err != nil {
		return reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	u := store.User{Name: req.Name, Created: h.Now()}
	change(&u)
	if err := stillToCome(nil, u.Grants, u.Created); err != nil {
		return reply{}, err
	}
	if err := h.Users.CreateUser(ctx, u); err != nil {
		return reply{}, stored(err, "user", u.Name)
	}
	return reply{status: http.StatusCreated, body: h.viewUser(u), location: "/users/" + url.PathEscape(u.Name)}, nil
}

func (h *Handler) listUsers(ctx context.Context, c *call) (reply, error) {
	var after string
	limit, err := c.params.page(&after)
	if err != nil {
		return reply{}, err
	}
	users, err := h.Users.ListUsers(ctx, after, limit)
	if err != nil {
		return reply{}, failure("list the users", err)
	}
	return ok(pageOfRows(c, users, limit, h.viewUser, func(u store.User) any { return u.Name }))
}

func (h *Handler) getUser(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	u, err := h.Users.GetUser(ctx, name)
	if err != nil {
		return reply{}, stored(err, "user", name)
	}
	return ok(h.viewUser(u))
}

func (h *Handler) changeUser(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req v1.UserChange
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	if req.Name != "" && req.Name != name {
		return reply{}, invalid("name", "cannot be changed")
	}
	change, err := userChange(&req)
	if err != nil {
		return reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON, and holds no secret
	u, err := h.Users.ChangeUser(ctx, name, func(u *store.User) error {
		before := u.Grants
		change(u)
		return stillToCome(before, u.Grants, h.Now())
	})
	if err != nil {
		return reply{}, stored(err, "user", name)
	}
	return ok(h.viewUser(u))
}

func viewToken(t store.Token) v1.Token {
	return v1.Token{
		ID: t.ID, Kind: string(t.Kind), User: t.User, Note: t.Note, CreatedAt: t.Created, SeenAt: given(t.Seen),
		ExpiresAt: given(t.Expires),
	}
}

// maxTTL is the longest lifetime of a token that expires.
const maxTTL = 10 * 365 * 24 * time.Hour

// createToken gives a user a token. Only this reply shows it.
func (h *Handler) createToken(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req v1.TokenRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	if most := int64(maxTTL / time.Second); req.TTLSeconds < 0 || req.TTLSeconds > most {
		return reply{}, invalid("ttl_seconds", "is %d: expected 0 to %d", req.TTLSeconds, most)
	}
	token, hash := access.NewToken()
	t := store.Token{ID: newID(), Kind: store.APIToken, User: name, Hash: hash, Note: req.Note, Created: h.Now()}
	if req.TTLSeconds > 0 {
		t.Expires = t.Created.Add(time.Duration(req.TTLSeconds) * time.Second)
	}
	if err := h.Tokens.CreateToken(ctx, t); err != nil {
		return reply{}, stored(err, "user", name)
	}
	v := viewToken(t)
	v.Token = token
	return reply{status: http.StatusCreated, body: v}, nil
}

// mayManage rejects a caller who is neither an administrator nor the user, by a proof of the user's own.
func mayManage(c *call, name string) error {
	if p := c.Principal; p.Admin || p.Proven && p.User == name && p.App == access.PersonApp(name) {
		return nil
	}
	return problemf(http.StatusForbidden, "%s is not an administrator, and may only see own tokens", c.Principal.Who())
}

// listTokens lists all tokens of a user, without pages, because they are few.
func (h *Handler) listTokens(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if err := mayManage(c, name); err != nil {
		return reply{}, err
	}
	if _, err := h.Users.GetUser(ctx, name); err != nil {
		return reply{}, stored(err, "user", name)
	}
	tokens, err := h.Tokens.ListTokens(ctx, name)
	if err != nil {
		return reply{}, failure("list the tokens", err)
	}
	return ok(pageOf(c, viewed(tokens, viewToken), nil))
}

func (h *Handler) deleteToken(ctx context.Context, c *call) (reply, error) {
	name, id := c.r.PathValue("name"), c.r.PathValue("id")
	c.Audit.Target = edge.Clip(name + " " + id)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if err := mayManage(c, name); err != nil {
		return reply{}, err
	}
	if err := h.Tokens.DeleteToken(ctx, name, id); err != nil {
		return reply{}, stored(err, "token", id)
	}
	return reply{status: http.StatusNoContent}, nil
}

// linkTime is how long a link can sign a browser in.
const linkTime = 10 * time.Minute

// createSignIn makes a link that signs a browser in as the caller, or as the user that an administrator names.
func (h *Handler) createSignIn(ctx context.Context, c *call) (reply, error) {
	var req v1.SignInRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(cmp.Or(req.User, c.Principal.User))
	s, err := h.SignIn(ctx, &c.Principal, req.User)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusCreated, body: s}, nil
}

// SignIn makes a link that signs a browser in as a user; an empty name is the caller. The operator of the server's
// machine becomes a user with every right. The error is a problem for the caller.
func (h *Handler) SignIn(ctx context.Context, who *access.Principal, name string) (v1.SignIn, error) {
	console := h.Console()
	switch {
	case console == "":
		return v1.SignIn{}, problemf(http.StatusConflict, "this server serves no console")
	case !who.Proven:
		return v1.SignIn{}, problemf(http.StatusForbidden, "user %q is not proven: call with a token of the user", who.User)
	case who.App != "" && !access.IsPersonApp(who.App) && !who.Admin: // an app must not become the user who calls it
		return v1.SignIn{}, problemf(http.StatusForbidden, "an app may not sign in a user: expected a token of the user, "+
			"and no app")
	case name != "" && name != who.User && !who.Admin:
		return v1.SignIn{}, problemf(http.StatusForbidden, "only an administrator may sign in another user")
	}
	if name = cmp.Or(name, who.User); name == who.User && who.App == "" {
		err := h.Users.CreateUser(ctx, store.User{
			Name: name, Note: words.OperatorNote.In(words.English), Admin: true, Created: h.Now(),
		})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return v1.SignIn{}, failure("create the user", err)
		}
	}
	if u, err := h.Users.GetUser(ctx, name); err != nil {
		return v1.SignIn{}, stored(err, "user", name)
	} else if u.Disabled {
		return v1.SignIn{}, problemf(http.StatusConflict, "user %q is disabled", name)
	}
	token, hash := access.NewToken()
	now := h.Now()
	t := store.Token{
		ID: newID(), Kind: store.Link, User: name, Hash: hash, Created: now, Expires: now.Add(linkTime), Via: who.Via,
	}
	if err := h.Tokens.CreateToken(ctx, t); err != nil {
		return v1.SignIn{}, stored(err, "user", name)
	}
	return v1.SignIn{User: name, URL: console + "login#" + token, ExpiresAt: t.Expires}, nil
}

// Limits of the sign-in of a command line.
const (
	// deviceTime is the time that a person has to confirm it.
	deviceTime = 10 * time.Minute
	// deviceInterval is the least time between two questions for the state, in seconds.
	deviceInterval = 2
	maxDeviceName  = 200
	maxDeviceBody  = 8 << 10
)

// DevicePath is the page of the console on which a person confirms the sign-in of a command line.
const DevicePath = "/ui/device"

// small reads the body of a caller without credentials into v.
func (c *call) small(v any) error {
	if err := c.params.done(); err != nil {
		return err
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxDeviceBody))
	if err != nil {
		return decodeProblem(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return decodeProblem(err)
	}
	return exact(text, reflect.TypeOf(v))
}

// limited rejects a call from an address that a limit has wait.
func (h *Handler) limited(c *call, by *gate.Failures, reason string) error {
	wait := by.Wait(c.Address, h.Now())
	if wait <= 0 {
		return nil
	}
	return busy(reason, int(math.Ceil(wait.Seconds())))
}

// checkRight says whether the caller, or a user, may do an operation, and by which rights.
func (h *Handler) checkRight(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	user, op, subject, name := p.text("user"), access.Operation(p.text("operation")), p.text("process"), p.text("host")
	targets := p.number("targets", 1, maxItems)
	if !slices.Contains(access.Operations(), op) {
		p.fail(invalid("operation", "is %.40q: expected the name of an operation, such as restart", string(op)))
	}
	namespace, rest, whole := strings.Cut(subject, "/")
	switch {
	case op.OfHosts() && subject != "":
		p.fail(invalid("process", "is %.100q: the operation is one on hosts, expected no process", subject))
	case !op.OfHosts() && (!whole || namespace == "" || rest == ""):
		p.fail(invalid("process", "is %.100q: expected NAMESPACE/NAME", subject))
	}
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(strings.TrimSpace(user + " " + string(op) + " " + subject))
	who, disabled, err := h.asked(ctx, c, user)
	if err != nil {
		return reply{}, err
	}
	who.Targets = targets
	var host *access.Host
	if name != "" {
		a, found := h.Directory.LookupID(name)
		at := namedHost(name)
		if found {
			at = gate.Host(a)
		} else if c.Principal.Admin {
			return reply{}, problemf(http.StatusNotFound, "there is no host %q", name)
		}
		host = &at
	}
	giving, short := who.Giving(op, namespace, host)
	grants := func(list []access.Grant) []v1.Grant {
		return viewed(list, func(g access.Grant) v1.Grant { return v1.Grant(g) })
	}
	v := v1.RightCheck{
		User: who.User, Allowed: !disabled && (who.Admin || len(giving) > 0), Disabled: disabled, Admin: who.Admin,
		Grants: grants(giving), Short: grants(short),
	}
	if who.App != "" && !access.IsPersonApp(who.App) {
		v.User, v.App = "", who.App
	}
	return ok(v)
}
