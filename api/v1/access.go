package v1

import (
	"encoding/json"
	"time"
)

// App is the account of a program that calls the API.
type App struct {
	Code         string  `json:"code"`
	Note         string  `json:"note,omitempty"`
	Admin        bool    `json:"admin"`
	MayNameUsers bool    `json:"may_name_users"`
	Disabled     bool    `json:"disabled"`
	Grants       []Grant `json:"grants"`
	Limits       Rates   `json:"limits"`
	// Secrets are the public parts of the app's secrets.
	Secrets   []Secret  `json:"secrets"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
	// Secret is set only in the answer to the call that created it. The server cannot show it again.
	Secret string `json:"secret,omitempty"`
}

// Grant lets an app operate processes of namespaces or businesses, on areas or hosts. In patterns * matches any text
// and ? one character.
type Grant struct {
	Operations []string `json:"operations"`
	Namespaces []string `json:"namespaces,omitempty"`
	Businesses []int64  `json:"businesses,omitempty"`
	Areas      []int    `json:"areas,omitempty"`
	Hosts      []string `json:"hosts,omitempty"`
	// Labels are expressions such as "role=web,zone!=b". Only the labels of people and of join tokens count. Each
	// expression needs a term KEY=VALUE or KEY in (VALUE,…).
	Labels []string `json:"labels,omitempty"`
	// Until is the time from which the grant gives nothing; zero means never.
	Until time.Time `json:"until,omitzero"`
	// MaxTargets is the largest number of targets, each a process on a host, of a call that the grant allows. Calls
	// that only read have no limit. 0 means no limit.
	MaxTargets int `json:"max_targets,omitempty"`
}

// Rates limit the calls of an app. In each field, zero means no limit.
type Rates struct {
	// Rate is the number of calls per second, Burst the number at once after a pause, and Concurrent the number at the
	// same time.
	Rate       float64 `json:"rate,omitempty"`
	Burst      int     `json:"burst,omitempty"`
	Concurrent int     `json:"concurrent,omitempty"`
}

// Secret is the public part of a secret.
type Secret struct {
	ID        string     `json:"id"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// AppChange holds the new values of an app; a nil field stays unchanged.
type AppChange struct {
	// Code is for a new app only.
	Code         string   `json:"code,omitempty"`
	Note         *string  `json:"note,omitempty"`
	Admin        *bool    `json:"admin,omitempty"`
	MayNameUsers *bool    `json:"may_name_users,omitempty"`
	Disabled     *bool    `json:"disabled,omitempty"`
	Grants       *[]Grant `json:"grants,omitempty"`
	Limits       *Rates   `json:"limits,omitempty"`
}

// SecretRequest asks for a new secret of an app.
type SecretRequest struct {
	// KeepSeconds is the time for which the previous secret stays valid; 0 ends all older secrets now.
	KeepSeconds int64 `json:"keep_seconds"`
}

// User is a person, or a program, for whom apps act.
type User struct {
	Name     string `json:"name"`
	Note     string `json:"note,omitempty"`
	Disabled bool   `json:"disabled"`
	// Admin and Grants are the rights of a user who calls without an app. A call by an app has the rights of the app.
	Admin  bool    `json:"admin"`
	Grants []Grant `json:"grants"`
	// Provider holds the rights by groups of the identity provider; nil if the user is in no group that has an entry.
	Provider  *ProviderRights `json:"provider,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

// ProviderRights are the rights that the configuration of the server gives to the groups of a user at the identity
// provider. Groups are the groups at the last sign-in of the user.
type ProviderRights struct {
	Groups []string `json:"groups"`
	Admin  bool     `json:"admin"`
	Grants []Grant  `json:"grants"`
}

// RightCheck says whether a user or an app may do an operation.
type RightCheck struct {
	// User is the user who calls without an app, or the app that asks about itself.
	User    string `json:"user,omitempty"`
	App     string `json:"app,omitempty"`
	Allowed bool   `json:"allowed"`
	// Disabled tells that the user may do nothing because the user is disabled, and Admin that the user or the app has
	// every right.
	Disabled bool `json:"disabled,omitempty"`
	Admin    bool `json:"admin,omitempty"`
	// Grants are the rights that allow the operation. Each of them suffices.
	Grants []Grant `json:"grants"`
	// Short are the rights that allow the operation only on other hosts, or only for fewer targets.
	Short []Grant `json:"short"`
}

// UserChange holds the new values of a user; a nil field stays unchanged.
type UserChange struct {
	// Name is for a new user only.
	Name     string  `json:"name,omitempty"`
	Note     *string `json:"note,omitempty"`
	Disabled *bool   `json:"disabled,omitempty"`
	Admin    *bool   `json:"admin,omitempty"`
	// Grants replaces all rights.
	Grants *[]Grant `json:"grants,omitempty"`
}

// The kinds of tokens. TokenAPI is for API calls, TokenSession for a browser, TokenLink for a sign-in that has not
// happened yet, and TokenCLI for a command line.
const (
	TokenAPI     = "token"
	TokenSession = "session"
	TokenLink    = "link"
	TokenCLI     = "cli"
)

// SignInRequest asks for a link that signs a browser in.
type SignInRequest struct {
	// User is the user to sign in; empty means the caller. Only an administrator may name another user.
	User string `json:"user,omitempty"`
}

// SignIn is a link that signs a browser in, once.
type SignIn struct {
	User string `json:"user"`
	// URL is shown only this once. The part after # is the secret.
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// DeviceRequest begins the sign-in of a command line.
type DeviceRequest struct {
	// Name says which command line it is, such as "anna@laptop". The person who signs it in sees the name.
	Name string `json:"name"`
}

// Device is a command line that waits until a person signs it in.
type Device struct {
	// Code has eight letters. The person types them on the console's page at Path.
	Code string `json:"code"`
	Path string `json:"path"`
	// Token is shown only this once. It proves nothing before the person has signed the command line in.
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
	// Interval is the shortest time between two requests for the state, in seconds.
	Interval int `json:"interval_seconds"`
}

// DeviceStateRequest asks for the state of a command line.
type DeviceStateRequest struct {
	Token string `json:"token"`
}

// DeviceState is the state of a command line that a person is to sign in.
type DeviceState struct {
	// State is DevicePending or DeviceSignedIn.
	State string `json:"state"`
	// User and ExpiresAt are set once the command line is signed in. ExpiresAt is the end of its token.
	User      string     `json:"user,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// The states of a command line that a person is to sign in.
const (
	DevicePending  = "pending"
	DeviceSignedIn = "signed-in"
)

// Token proves that a caller acts for a user.
type Token struct {
	ID string `json:"id"`
	// Kind is one of the constants above.
	Kind      string     `json:"kind"`
	User      string     `json:"user"`
	Note      string     `json:"note,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// SeenAt is the time of the last use of a session.
	SeenAt *time.Time `json:"seen_at,omitempty"`
	// Token is set only in the answer to the call that created it. The server cannot show it again.
	Token string `json:"token,omitempty"`
}

// TokenRequest asks for a new token of a user.
type TokenRequest struct {
	Note string `json:"note,omitempty"`
	// TTLSeconds is the lifetime of the token; 0 means no expiry.
	TTLSeconds int64 `json:"ttl_seconds,omitempty"`
}

// AuditRow is one call or one denial.
type AuditRow struct {
	At        time.Time `json:"at"`
	App       string    `json:"app"`
	User      string    `json:"user"`
	Remote    string    `json:"remote"`
	RequestID string    `json:"request_id"`
	// Action is the name of the endpoint, Target the shortened list of targets, and Targets their number.
	Action  string          `json:"action"`
	Target  string          `json:"target,omitempty"`
	Targets int             `json:"targets"`
	Allowed bool            `json:"allowed"`
	Code    int             `json:"code"`
	Message string          `json:"message,omitempty"`
	Detail  json.RawMessage `json:"detail,omitempty"`
	// Via is one of the constants below, such as ViaConsole. Reason is the text that a person has written in the
	// console.
	Via    string `json:"via"`
	Reason string `json:"reason,omitempty"`
}

// The ways of a call: in the console, through the local socket of a server, as the command line calls it, or through
// an HTTP API.
const (
	ViaConsole = "console"
	ViaSocket  = "socket"
	ViaAPI     = "api"
)
