// Package gate authenticates callers: it finds the app and the user of a call, and limits the rate and the
// concurrency of an app's calls. It owns the memory of wrong secrets and of used limits. The returned principal
// (package access) holds the caller's rights; the HTTP APIs word a refusal.
package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// Store holds the apps, users and tokens.
type Store interface {
	GetApp(ctx context.Context, code string) (store.App, error)
	GetUser(ctx context.Context, name string) (store.User, error)
	FindToken(ctx context.Context, hash string) (store.Token, store.User, error)
}

// Login finds the user of a token that is not drover's own. It returns ErrNoSession if no session has the token, and
// any other error if it cannot find out.
type Login interface {
	User(ctx context.Context, token string) (string, error)
}

// ErrNoSession is returned by a Login for an unknown token.
var ErrNoSession = errors.New("no session has this token")

// Config configures a gate. Login, Groups and Now may be nil.
type Config struct {
	Store   Store
	Secrets access.Secrets
	Login   Login
	// Groups are the rights of the groups of users.
	Groups access.GroupRights
	Now    func() time.Time
}

// Gate checks credentials and limits. It is safe for concurrent use.
type Gate struct {
	Config
	guesses *guessLimiter
	meters  *usageLimiter
}

// New returns a gate without any recorded calls.
func New(c Config) *Gate {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Gate{Config: c, guesses: newGuessLimiter(), meters: newUsageLimiter()}
}

// Credentials are the credentials of a call; missing fields are empty.
type Credentials struct {
	AppCode   string
	AppSecret string
	// User is a name without a proof, Token is a proof.
	User  string
	Token string
	// AccessToken and Signature are set if the caller sent one of these; drover supports neither.
	AccessToken bool
	Signature   bool
	// Address is the caller's address; empty for this machine.
	Address string
	// Vouched is set if a trusted gateway vouches for AppCode and User, so that no secret is needed.
	Vouched bool
}

// Reason is the reason of a Refusal.
type Reason uint8

// The reasons.
const (
	NoAppCode       Reason = iota // the call names no app
	NoSecret                      // the call has no secret
	OnlyAccessToken               // the call has an access token instead of a secret
	// the call has a signature instead of a secret: drover cannot verify a signature with a hash
	OnlySignature
	UnknownApp   // no app has this code
	WrongSecret  // not a valid secret of the app
	AppDisabled  // the app is disabled
	NoUser       // the call neither names nor proves a user
	MayNotName   // the app may not name a user without a proof
	UserTooLong  // the name is longer than access.MaxUser
	BadToken     // the token is unknown or has expired
	UserDisabled // the user is disabled
	UserUnfit    // the name holds a control character or is not valid UTF-8
	Guessing     // too many wrong secrets came from the address
	LoginDown    // the login service did not answer
	ReasonsEnd   // the number of reasons
)

// Refusal is the error for a rejected caller.
type Refusal struct {
	Reason Reason
	// Cause is for the log; it is set if the fault is not the caller's.
	Cause error
}

// Error is for logs; it holds no part of the credentials.
func (r *Refusal) Error() string {
	if r.Cause != nil {
		return r.Cause.Error()
	}
	return fmt.Sprintf("caller was refused for reason %d", r.Reason)
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

func refuse(r Reason) error { return &Refusal{Reason: r} }

// Admit identifies the caller. It returns a *Refusal for insufficient credentials, and any other error if it cannot
// check the credentials. A login service may take seconds.
func (g *Gate) Admit(ctx context.Context, c Credentials) (access.Principal, error) {
	if c.AppCode == "" && access.IsToken(c.Token) {
		t, u, err := g.holder(ctx, c.Token, store.APIToken, store.CLIToken)
		if err != nil {
			return access.Principal{}, err
		}
		return g.person(u, t)
	}
	app, err := g.app(ctx, c)
	if err != nil {
		return access.Principal{}, err
	}
	p := access.Principal{
		App: app.Code, Admin: app.Admin, Grants: access.InForce(app.Grants, g.Now()), Limits: app.Limits,
	}
	if err := g.user(ctx, app, c, &p); err != nil {
		return access.Principal{}, err
	}
	return p, nil
}

// Acting returns the principal of an app and a user with their present rights, for what a server does later on their
// behalf. An empty app is the operator of a server. It returns a *Refusal if the app or the user may do nothing now.
func (g *Gate) Acting(ctx context.Context, code, user string) (access.Principal, error) {
	if code == "" {
		return access.Principal{User: user, Admin: true}, nil
	}
	if access.IsPersonApp(code) {
		u, err := g.Store.GetUser(ctx, user)
		if errors.Is(err, store.ErrNotFound) {
			return access.Principal{}, refuse(UserDisabled)
		}
		if err != nil {
			return access.Principal{}, err
		}
		p, err := g.person(u, store.Token{})
		p.Proven, p.Via = false, nil
		return p, err
	}
	app, err := g.Store.GetApp(ctx, code)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return access.Principal{}, refuse(UnknownApp)
	case err != nil:
		return access.Principal{}, err
	case app.Disabled:
		return access.Principal{}, refuse(AppDisabled)
	}
	if err := g.enabled(ctx, user); err != nil {
		return access.Principal{}, err
	}
	return access.Principal{
		App: app.Code, User: user, Admin: app.Admin, Grants: access.InForce(app.Grants, g.Now()), Limits: app.Limits,
	}, nil
}

// holder returns a valid token of one of the kinds, and its user.
func (g *Gate) holder(ctx context.Context, token string, kinds ...store.TokenKind) (store.Token, store.User, error) {
	if len(token) > access.MaxToken {
		return store.Token{}, store.User{}, refuse(BadToken)
	}
	t, u, err := g.Store.FindToken(ctx, access.HashToken(token))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Token{}, store.User{}, refuse(BadToken)
	case err != nil:
		return store.Token{}, store.User{}, err
	case !slices.Contains(kinds, t.Kind) || !t.Valid(g.Now()):
		return store.Token{}, store.User{}, refuse(BadToken)
	default:
		return t, u, nil
	}
}

// via returns the ids of a token and of the tokens that it was made with.
func via(t store.Token) []string { return append(slices.Clone(t.Via), t.ID) }

// Person identifies a user by a token of a kind, without an app, and returns the token as it is stored. The principal
// has the rights of the user. Person returns a *Refusal for a token that is unknown or has expired, and for a disabled
// user.
func (g *Gate) Person(ctx context.Context, kind store.TokenKind, token string) (access.Principal, store.Token, error) {
	t, u, err := g.holder(ctx, token, kind)
	if err != nil {
		return access.Principal{}, store.Token{}, err
	}
	p, err := g.person(u, t)
	return p, t, err
}

// person is the principal of a user who calls without an app, with a token.
func (g *Gate) person(u store.User, t store.Token) (access.Principal, error) {
	if u.Disabled {
		return access.Principal{}, refuse(UserDisabled)
	}
	p := PrincipalOf(u, g.Groups, g.Now())
	p.Proven, p.Via = true, via(t)
	return p, nil
}

// PrincipalOf has the present rights of a user who calls without an app.
func PrincipalOf(u store.User, groups access.GroupRights, now time.Time) access.Principal {
	r := groups.Of(u.Groups)
	return access.Principal{
		App: access.PersonApp(u.Name), User: u.Name, Admin: u.Admin || r.Admin,
		Grants: access.InForce(slices.Concat(u.Grants, r.Grants), now),
	}
}

// app identifies the calling app.
func (g *Gate) app(ctx context.Context, c Credentials) (store.App, error) {
	switch {
	case c.AppCode == "":
		return store.App{}, refuse(NoAppCode)
	case c.Vouched:
	case c.AppSecret == "" && c.AccessToken:
		return store.App{}, refuse(OnlyAccessToken)
	case c.AppSecret == "" && c.Signature:
		return store.App{}, refuse(OnlySignature)
	case c.AppSecret == "":
		return store.App{}, refuse(NoSecret)
	}
	if len(c.AppCode) > access.MaxAppCode {
		return store.App{}, refuse(UnknownApp)
	}
	app, err := g.Store.GetApp(ctx, c.AppCode)
	unknown := errors.Is(err, store.ErrNotFound)
	if err != nil && !unknown {
		return store.App{}, err
	}
	if !c.Vouched {
		if err := g.proven(c, app); err != nil {
			return store.App{}, err
		}
	}
	if unknown {
		return store.App{}, refuse(UnknownApp)
	}
	if app.Disabled { // only a caller with the secret gets this reason
		return store.App{}, refuse(AppDisabled)
	}
	return app, nil
}

// proven rejects a caller without a secret of the app. An unknown app has an empty code here, and app rejects it.
func (g *Gate) proven(c Credentials, app store.App) error {
	now := g.Now()
	right := false
	if len(c.AppSecret) <= access.MaxAppSecret {
		for _, stored := range app.Secrets {
			right = g.Secrets.Match(stored.Hash, c.AppSecret) && stored.Valid(now) || right
		}
	}
	switch {
	case right:
		return nil
	case g.guesses.wrong(c.Address, c.AppCode, now):
		return refuse(Guessing)
	case app.Code != "":
		return refuse(WrongSecret)
	}
	return nil
}

// user identifies the user of the app, and sets User, Proven and Via: Proven if a token proves the user. A name is
// enough if the app may name users, even beside a token: a program that acts for many users may hold the session of
// another user.
func (g *Gate) user(ctx context.Context, app store.App, c Credentials, p *access.Principal) (err error) {
	mayName := c.Vouched || app.MayNameUsers
	switch {
	case c.User != "" && mayName && len(c.User) > access.MaxUser:
		return refuse(UserTooLong)
	case c.User != "" && mayName && (!utf8.ValidString(c.User) || strings.ContainsFunc(c.User, unicode.IsControl)):
		return refuse(UserUnfit)
	case c.User != "" && mayName:
		p.User = c.User
		return g.enabled(ctx, c.User)
	case c.Token != "":
		p.Proven = true
		p.User, p.Via, err = g.session(ctx, c.Token)
		return err
	case c.User != "":
		return refuse(MayNotName)
	default:
		return refuse(NoUser)
	}
}

// enabled rejects a user that is known here and disabled.
func (g *Gate) enabled(ctx context.Context, name string) error {
	u, err := g.Store.GetUser(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case u.Disabled:
		return refuse(UserDisabled)
	default:
		return nil
	}
}

// session returns the user of a token, of drover or of the login service, and the ids of a token of drover.
func (g *Gate) session(ctx context.Context, token string) (user string, ids []string, err error) {
	if len(token) > access.MaxToken {
		return "", nil, refuse(BadToken)
	}
	if access.IsToken(token) {
		t, u, err := g.holder(ctx, token, store.APIToken)
		if err == nil && u.Disabled {
			err = refuse(UserDisabled)
		}
		return u.Name, via(t), err
	}
	if g.Login == nil {
		return "", nil, refuse(BadToken)
	}
	user, err = g.Login.User(ctx, token)
	switch {
	case errors.Is(err, ErrNoSession):
		return "", nil, refuse(BadToken)
	case err != nil:
		return "", nil, &Refusal{Reason: LoginDown, Cause: fmt.Errorf("cannot ask the login service: %w", err)}
	case user == "" || len(user) > access.MaxUser:
		return "", nil, refuse(BadToken)
	default:
		return user, nil, g.enabled(ctx, user)
	}
}

// Host is an agent as rights see it. A removed agent has no key, and so no area.
func Host(a store.Agent) access.Host {
	if a.Key == "" {
		return access.Host{Area: access.NoArea}
	}
	return access.Host{Area: a.Cloud, IP: a.IP, ID: a.ID, Alias: a.Assigned, Labels: a.Granting()}
}
