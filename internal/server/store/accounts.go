package store

import (
	"context"
	"errors"
	"time"

	"drover/internal/server/access"
)

// ErrExists is returned where something is to be made under a name that is taken.
var ErrExists = errors.New("already exists")

// App is a caller's account. It is disabled and never removed: tasks and audit rows name it.
type App struct {
	// Code is the name that callers give, at most access.MaxAppCode bytes; it never changes.
	Code string
	// Note is for people.
	Note string
	// Secrets are those that count now, oldest first; at most two: the old and the new one of a rotation.
	Secrets []Secret
	// MayNameUsers lets the app say who its user is without a proof.
	MayNameUsers bool
	// Admin gives every right, and the management of apps and users.
	Admin    bool
	Disabled bool
	Grants   []access.Grant
	Limits   access.Limits
	Created  time.Time
	// Changed is when anything of the app was changed last.
	Changed time.Time
}

// Secret is one secret of an app, of which only the hash is kept.
type Secret struct {
	// ID tells the secrets of an app apart; it is no secret.
	ID      string    `json:"id"`
	Hash    string    `json:"hash"`
	Created time.Time `json:"created"`
	// Expires is when it ceases to count; zero: never.
	Expires time.Time `json:"expires,omitzero"`
}

// Valid reports whether the secret counts at the given time.
func (s Secret) Valid(now time.Time) bool { return s.Expires.IsZero() || now.Before(s.Expires) }

// Apps is the register of callers.
type Apps interface {
	// CreateApp inserts an app; ErrExists when the code is taken.
	CreateApp(ctx context.Context, a App) error
	// ChangeApp has change alter the app as it is stored, and stores and returns the result, all in one transaction;
	// nothing happens when change fails, and its error is returned. It returns ErrNotFound for an unknown code. change
	// may be called more than once, must not call the store, and what it does to Code and Created does not count.
	ChangeApp(ctx context.Context, code string, change func(*App) error) (App, error)
	// GetApp returns ErrNotFound for an unknown code.
	GetApp(ctx context.Context, code string) (App, error)
	// ListApps returns up to limit apps whose codes come after the given one, in the order of their codes.
	ListApps(ctx context.Context, after string, limit int) ([]App, error)
	// CountApps returns how many there are.
	CountApps(ctx context.Context) (int, error)
}

// User is a person, or a program, that apps act for. It is disabled and never removed.
type User struct {
	// Name is at most access.MaxUser bytes; it never changes.
	Name     string
	Note     string
	Disabled bool
	Created  time.Time
}

// Users is the register of users.
type Users interface {
	// CreateUser inserts a user; ErrExists when the name is taken.
	CreateUser(ctx context.Context, u User) error
	// ChangeUser does for users what ChangeApp does for apps.
	ChangeUser(ctx context.Context, name string, change func(*User) error) (User, error)
	// GetUser returns ErrNotFound for an unknown name.
	GetUser(ctx context.Context, name string) (User, error)
	// ListUsers returns up to limit users whose names come after the given one, in the order of their names.
	ListUsers(ctx context.Context, after string, limit int) ([]User, error)
}

// Token proves that a caller acts for a user.
type Token struct {
	// ID tells tokens apart; it is no secret.
	ID   string
	User string
	// Hash is access.HashToken of it.
	Hash    string
	Note    string
	Created time.Time
	// Expires is when it ceases to count; zero: never.
	Expires time.Time
}

// Valid reports whether the token counts at the given time.
func (t Token) Valid(now time.Time) bool { return t.Expires.IsZero() || now.Before(t.Expires) }

// Tokens is the register of the users' tokens.
type Tokens interface {
	// CreateToken inserts a token; ErrNotFound when there is no such user, ErrExists when the id or the hash is taken.
	CreateToken(ctx context.Context, t Token) error
	// FindToken returns the token of a hash and its user, both as they are stored: whether they still count is for the
	// caller to say. ErrNotFound when there is none.
	FindToken(ctx context.Context, hash string) (Token, User, error)
	// ListTokens returns the tokens of a user, oldest first.
	ListTokens(ctx context.Context, user string) ([]Token, error)
	// DeleteToken removes a token of the user; ErrNotFound when there is none of that id.
	DeleteToken(ctx context.Context, user, id string) error
}
