package store

import (
	"context"
	"errors"
	"time"

	"drover/internal/server/access"
)

// ErrExists is returned if the name of a new record is taken.
var ErrExists = errors.New("already exists")

// App is a caller's account. It is disabled and never removed: tasks and audit rows name it.
type App struct {
	// Code is the name that callers give, at most access.MaxAppCode bytes. It never changes.
	Code string
	// Note is for people.
	Note string
	// Secrets are the valid secrets, oldest first; at most two: the old and the new secret of a rotation.
	Secrets []Secret
	// MayNameUsers lets the app name its user without a proof.
	MayNameUsers bool
	// Admin gives every right, and the management of apps and users.
	Admin    bool
	Disabled bool
	Grants   []access.Grant
	Limits   access.Limits
	Created  time.Time
	// Changed is the time of the last change of any field.
	Changed time.Time
}

// Secret is one secret of an app. The store keeps only its hash.
type Secret struct {
	// ID distinguishes the secrets of an app; it is public.
	ID      string    `json:"id"`
	Hash    string    `json:"hash"`
	Created time.Time `json:"created"`
	// Expires is the end of its validity; zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// Valid reports whether the secret is valid at the given time.
func (s Secret) Valid(now time.Time) bool { return s.Expires.IsZero() || now.Before(s.Expires) }

// Apps is the register of callers.
type Apps interface {
	// CreateApp inserts an app. It returns ErrExists if the code is taken.
	CreateApp(ctx context.Context, a App) error
	// ChangeApp lets change alter the stored app, and stores and returns the result, all in one transaction. If change
	// fails, nothing happens and ChangeApp returns its error. It returns ErrNotFound for an unknown code. change may
	// run more than once and must not call the store. ChangeApp ignores changes of Code and Created.
	ChangeApp(ctx context.Context, code string, change func(*App) error) (App, error)
	// GetApp returns an app, or ErrNotFound for an unknown code.
	GetApp(ctx context.Context, code string) (App, error)
	// ListApps returns up to limit apps with codes after the given code, in the order of their codes.
	ListApps(ctx context.Context, after string, limit int) ([]App, error)
	// CountApps returns the number of apps.
	CountApps(ctx context.Context) (int, error)
}

// User is a person, or a program, for whom apps act. It is disabled and never removed.
type User struct {
	// Name has at most access.MaxUser bytes. It never changes.
	Name     string
	Note     string
	Disabled bool
	// Admin and Grants are the rights of a user who calls without an app: in the console, or with a token alone. A call
	// by an app has the rights of the app.
	Admin  bool
	Grants []access.Grant
	// Groups are those that the identity provider named at the last sign-in there.
	Groups  []string
	Created time.Time
}

// Users is the register of users.
type Users interface {
	// CreateUser inserts a user. It returns ErrExists if the name is taken.
	CreateUser(ctx context.Context, u User) error
	// ChangeUser changes a user as ChangeApp changes an app. It removes all tokens of a user whom it disables, and the
	// links and sessions of a user whom it enables.
	ChangeUser(ctx context.Context, name string, change func(*User) error) (User, error)
	// GetUser returns a user, or ErrNotFound for an unknown name.
	GetUser(ctx context.Context, name string) (User, error)
	// ListUsers returns up to limit users with names after the given name, in the order of their names.
	ListUsers(ctx context.Context, after string, limit int) ([]User, error)
}

// TokenKind is the use of a token. A token of one kind proves nothing elsewhere.
type TokenKind string

// The kinds of tokens.
const (
	APIToken TokenKind = "token"   // proves the user of an API call
	Session  TokenKind = "session" // is the cookie of a browser
	Link     TokenKind = "link"    // begins one session, and ends with that
	CLIToken TokenKind = "cli"     // proves the user of an API call without an app, for some hours
)

// Token proves that a caller acts for a user.
type Token struct {
	// ID distinguishes tokens; it is public.
	ID   string
	Kind TokenKind
	User string
	// Hash is access.HashToken of the token.
	Hash    string
	Note    string
	Created time.Time
	// LastUse is the time of the last use of a session, up to a minute ago.
	LastUse time.Time
	// Proved is when the person proved the identity, for a session; zero means unknown.
	Proved time.Time
	// Expires is the end of its validity; zero means never.
	Expires time.Time
	// Via are the ids of the tokens that it was made with, the first one first.
	Via []string
}

// Valid reports whether the token is valid at the given time.
func (t Token) Valid(now time.Time) bool { return t.Expires.IsZero() || now.Before(t.Expires) }

// Tokens is the register of the users' tokens.
type Tokens interface {
	// CreateToken inserts a token, and removes the tokens of its user, except API tokens, that have expired by then. It
	// returns ErrNotFound if the user or the last token of Via does not exist, and ErrExists if the id or the hash is
	// taken.
	CreateToken(ctx context.Context, t Token) error
	// FindToken returns the token with the hash, and its user, both as stored: the caller checks the kind, and whether
	// they are still valid. It returns ErrNotFound if there is no such token.
	FindToken(ctx context.Context, hash string) (Token, User, error)
	// TakeToken removes the token with the hash and returns it. Of several callers only one gets it; the others get
	// ErrNotFound. Unless next is nil, next takes the place of the token: it gets its User and Via.
	TakeToken(ctx context.Context, hash string, next *Token) (Token, error)
	// SeeToken sets Seen of the token with the hash.
	SeeToken(ctx context.Context, hash string, at time.Time) error
	// ListTokens returns the tokens of a user, oldest first.
	ListTokens(ctx context.Context, user string) ([]Token, error)
	// DeleteToken removes a token of the user, and all tokens that were made with it, of any user. It returns
	// ErrNotFound if the user has no token with that id.
	DeleteToken(ctx context.Context, user, id string) error
}

// Device is a command line that waits until a person signs it in. It holds a token that proves nothing before that.
type Device struct {
	// Hash is access.HashToken of the token, Code the hash of the letters that the person types.
	Hash, Code string
	// Name is what the device says of itself, and Remote the address that it called from. The person sees both.
	Name, Remote string
	Created      time.Time
	Expires      time.Time
}

// MostDevices is the largest number of devices that wait at a time.
const MostDevices = 1000

// ErrTooManyDevices rejects a device if MostDevices wait already.
var ErrTooManyDevices = errors.New("too many devices wait to be signed in")

// Devices is the register of devices that wait.
type Devices interface {
	// CreateDevice inserts a device, and removes those that have expired by then. It returns ErrExists if a hash is
	// taken, and ErrTooManyDevices.
	CreateDevice(ctx context.Context, d Device) error
	// FindDevice returns the device whose Hash or Code is the given hash, as stored: the caller checks whether it has
	// expired. It returns ErrNotFound if there is no such device.
	FindDevice(ctx context.Context, hash string) (Device, error)
	// SignInDevice removes the device and inserts its token, in one transaction. The Hash of the token is that of the
	// device. It returns ErrNotFound if the device does not wait any more, and as CreateToken does.
	SignInDevice(ctx context.Context, t Token) error
	// RemoveDevice removes the device with the hash of its token. It returns ErrNotFound if there is none.
	RemoveDevice(ctx context.Context, hash string) error
}

// SavedView is a named filter of the list of processes in the console.
type SavedView struct {
	// ID distinguishes views; it is public.
	ID string
	// User is who has saved it.
	User string
	// Namespace is where the view is shared; empty if it is for its user alone.
	Namespace string
	Name      string
	// Query is the filter, as in the URL of the list.
	Query   string
	Created time.Time
}

// MostViews is the largest number of views of a user.
const MostViews = 100

// ErrTooManyViews rejects a view of a user who has MostViews.
var ErrTooManyViews = errors.New("the user has too many saved views")

// SavedViews is the register of views.
type SavedViews interface {
	// SaveView inserts a view. It returns ErrExists if the id is taken, or if the user has a view of the name in the
	// same namespace, and ErrTooManyViews.
	SaveView(ctx context.Context, v SavedView) error
	// ListViews returns the views of a user, and those that anybody shares, ordered by name and id.
	ListViews(ctx context.Context, user string) ([]SavedView, error)
	// RemoveView removes a view. It returns ErrNotFound if there is none with the id.
	RemoveView(ctx context.Context, id string) error
}
