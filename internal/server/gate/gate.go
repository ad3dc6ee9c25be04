// Package gate authenticates callers: it finds the app and the user of a call, and limits the rate and the
// concurrency of an app's calls. It owns the memory of wrong secrets and of used limits. The returned principal
// (package access) holds the caller's rights; the HTTP APIs word a refusal.
package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// Store is what credentials are checked against.
type Store interface {
	GetApp(ctx context.Context, code string) (store.App, error)
	GetUser(ctx context.Context, name string) (store.User, error)
	FindToken(ctx context.Context, hash string) (store.Token, store.User, error)
}

// Login tells whose session a token is that is not ours. It returns ErrNoSession when it is nobody's, and any other error
// when it could not find out.
type Login interface {
	User(ctx context.Context, token string) (string, error)
}

// ErrNoSession is returned by a Login for a token that it does not know.
var ErrNoSession = errors.New("no session has this token")

// Config is what a gate needs. Login and Now may be nil.
type Config struct {
	Store   Store
	Secrets access.Secrets
	Login   Login
	Now     func() time.Time
}

// Gate checks credentials and limits. It may be used from any goroutine.
type Gate struct {
	Config
	guesses *guesses
	meters  *meters
}

// New returns a gate that has seen nobody yet.
func New(c Config) *Gate {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Gate{Config: c, guesses: newGuesses(), meters: newMeters()}
}

// Credentials are what a caller proves itself with; what it did not give is empty.
type Credentials struct {
	AppCode   string
	AppSecret string
	// User is a name without a proof, Token a proof.
	User  string
	Token string
	// AccessToken and Signature tell that the caller gave one of these; neither is in use here.
	AccessToken bool
	Signature   bool
	// Address is where the caller is; empty for this machine.
	Address string
	// Vouched tells that a trusted gateway vouches for AppCode and User: no secret is asked for.
	Vouched bool
}

// Reason is why a caller is not let in.
type Reason uint8

// The reasons.
const (
	NoAppCode       Reason = iota // no app is named
	NoSecret                      // nor a secret given
	OnlyAccessToken               // an access token in place of a secret
	OnlySignature                 // a signature in place of a secret: it cannot be checked against a hash
	UnknownApp                    // no app of that code
	WrongSecret                   // no secret of the app that counts now
	AppDisabled                   // the app is disabled
	NoUser                        // no user is named or proven
	MayNotName                    // the app may not name a user without a proof
	UserTooLong                   // the name is longer than access.MaxUser
	BadToken                      // the token is unknown or has expired
	UserDisabled                  // the user is disabled
	UserUnfit                     // the name holds a control character or is not valid UTF-8
	Guessing                      // too many wrong secrets came from the address
	LoginDown                     // the login service did not answer
	ReasonsEnd                    // the number of reasons
)

// Refusal is the error of a caller that is not let in.
type Refusal struct {
	Reason Reason
	// Cause is for the log; it is set where the fault is not the caller's.
	Cause error
}

// Error is for logs; it holds nothing of the credentials.
func (r *Refusal) Error() string {
	if r.Cause != nil {
		return r.Cause.Error()
	}
	return fmt.Sprintf("caller was refused for reason %d", r.Reason)
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

func refuse(r Reason) error { return &Refusal{Reason: r} }

// Admit finds out who calls. It returns a *Refusal for credentials that are not enough, and any other error when they could
// not be checked. Checking a secret for the first time takes some 50 ms of CPU and may wait for others; a login service may
// take seconds.
func (g *Gate) Admit(ctx context.Context, c Credentials) (access.Principal, error) {
	app, err := g.app(ctx, c)
	if err != nil {
		return access.Principal{}, err
	}
	user, err := g.user(ctx, app, c)
	if err != nil {
		return access.Principal{}, err
	}
	return access.Principal{App: app.Code, User: user, Admin: app.Admin, Grants: app.Grants, Limits: app.Limits}, nil
}

// app finds out which app calls.
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
	if app.Disabled { // told only to who knows the secret
		return store.App{}, refuse(AppDisabled)
	}
	return app, nil
}

// proven refuses a caller that does not show a secret of the app. One that names an unknown app, whose code is empty here, is refused by app.
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

// user finds out whom the app acts for. A name counts alone where the app may give one, even beside a token: a program that
// acts for many may hold a session of somebody else.
func (g *Gate) user(ctx context.Context, app store.App, c Credentials) (string, error) {
	mayName := c.Vouched || app.MayNameUsers
	switch {
	case c.User != "" && mayName && len(c.User) > access.MaxUser:
		return "", refuse(UserTooLong)
	case c.User != "" && mayName && (!utf8.ValidString(c.User) || strings.ContainsFunc(c.User, unicode.IsControl)):
		return "", refuse(UserUnfit)
	case c.User != "" && mayName:
		return c.User, g.enabled(ctx, c.User)
	case c.Token != "":
		return g.session(ctx, c.Token)
	case c.User != "":
		return "", refuse(MayNotName)
	default:
		return "", refuse(NoUser)
	}
}

// enabled refuses a user who is known here and disabled.
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

// session returns the user of a token, which is ours or of the login service.
func (g *Gate) session(ctx context.Context, token string) (string, error) {
	if len(token) > access.MaxToken {
		return "", refuse(BadToken)
	}
	if access.IsToken(token) {
		t, u, err := g.Store.FindToken(ctx, access.HashToken(token))
		switch {
		case errors.Is(err, store.ErrNotFound):
			return "", refuse(BadToken)
		case err != nil:
			return "", err
		case !t.Valid(g.Now()):
			return "", refuse(BadToken)
		case u.Disabled:
			return "", refuse(UserDisabled)
		default:
			return u.Name, nil
		}
	}
	if g.Login == nil {
		return "", refuse(BadToken)
	}
	name, err := g.Login.User(ctx, token)
	switch {
	case errors.Is(err, ErrNoSession):
		return "", refuse(BadToken)
	case err != nil:
		return "", &Refusal{Reason: LoginDown, Cause: fmt.Errorf("cannot ask the login service: %w", err)}
	case name == "" || len(name) > access.MaxUser:
		return "", refuse(BadToken)
	default:
		return name, g.enabled(ctx, name)
	}
}

// Host is an agent as rights see it. One that is no longer in the register, and so has no key, is in no area.
func Host(a store.Agent) access.Host {
	if a.Key == "" {
		return access.Host{Area: access.NoArea}
	}
	return access.Host{Area: a.Cloud, IP: a.IP, ID: a.ID, Alias: a.Assigned}
}
