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
	// Secrets tells of the app's secrets what is none.
	Secrets   []Secret  `json:"secrets"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
	// Secret is set only in the answer to the call that made it. It cannot be shown again.
	Secret string `json:"secret,omitempty"`
}

// Grant lets an app do operations to processes of namespaces or businesses, on areas or hosts. Patterns know * and ?.
type Grant struct {
	Operations []string `json:"operations"`
	Namespaces []string `json:"namespaces,omitempty"`
	Businesses []int64  `json:"businesses,omitempty"`
	Areas      []int    `json:"areas,omitempty"`
	Hosts      []string `json:"hosts,omitempty"`
}

// Rates bound what an app may ask for; zero means no bound.
type Rates struct {
	// Rate is calls a second, Burst how many at once after a pause, Concurrent how many at the same time.
	Rate       float64 `json:"rate,omitempty"`
	Burst      int     `json:"burst,omitempty"`
	Concurrent int     `json:"concurrent,omitempty"`
}

// Secret is what may be told of a secret.
type Secret struct {
	ID        string     `json:"id"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// AppChange says what an app is to be; nil leaves it as it is.
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

// CreateApp makes an app; its first secret is in the answer.
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

// NewSecret gives an app a new secret, which is in the answer. The one before counts on for keep, in whole seconds and
// at most 90 days; with 0 all older ones end now.
func (c *Client) NewSecret(ctx context.Context, code string, keep time.Duration) (App, error) {
	var a App
	body := struct {
		Keep int64 `json:"keep_seconds"`
	}{int64(keep / time.Second)}
	err := c.do(ctx, http.MethodPost, "/apps/"+segment(code)+"/secrets", nil, body, &a)
	return a, err
}
