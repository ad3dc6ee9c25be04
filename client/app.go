package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// App is a caller's account.
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
}

// Rates limit the calls of an app; zero means no limit.
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

// CreateApp creates an app; the answer holds its first secret.
func (c *Client) CreateApp(ctx context.Context, change AppChange) (App, error) {
	var a App
	err := c.do(ctx, http.MethodPost, "/apps", nil, change, &a)
	return a, err
}

// Apps lists apps, ordered by code.
func (c *Client) Apps(ctx context.Context) iter.Seq2[App, error] {
	return pages[App](ctx, c, "/apps", url.Values{}, 0)
}

// App returns one app.
func (c *Client) App(ctx context.Context, code string) (App, error) {
	var a App
	err := c.get(ctx, "/apps/"+segment(code), nil, &a)
	return a, err
}

// ChangeApp changes an app and returns it.
func (c *Client) ChangeApp(ctx context.Context, code string, change AppChange) (App, error) {
	var a App
	err := c.do(ctx, http.MethodPatch, "/apps/"+segment(code), nil, change, &a)
	return a, err
}

// NewSecret creates a new secret for an app; the answer holds it. The previous secret stays valid for keep (whole
// seconds, at most 90 days). If keep is 0, all older secrets expire now.
func (c *Client) NewSecret(ctx context.Context, code string, keep time.Duration) (App, error) {
	var a App
	body := struct {
		Keep int64 `json:"keep_seconds"`
	}{int64(keep / time.Second)}
	err := c.do(ctx, http.MethodPost, "/apps/"+segment(code)+"/secrets", nil, body, &a)
	return a, err
}
