package client

import (
	"context"
	"iter"
	"net/url"
	"time"

	v1 "drover/api/v1"
)

// CreateApp creates an app; the answer holds its first secret.
func (c *Client) CreateApp(ctx context.Context, change AppChange) (App, error) {
	var a App
	err := c.do(ctx, at(v1.RouteCreateApp), nil, change, &a)
	return a, err
}

// Apps lists apps, ordered by code.
func (c *Client) Apps(ctx context.Context) iter.Seq2[App, error] {
	return pages[App](ctx, c, at(v1.RouteListApps), url.Values{}, 0)
}

// App returns one app.
func (c *Client) App(ctx context.Context, code string) (App, error) {
	var a App
	err := c.do(ctx, at(v1.RouteGetApp, code), nil, nil, &a)
	return a, err
}

// ChangeApp changes an app and returns it.
func (c *Client) ChangeApp(ctx context.Context, code string, change AppChange) (App, error) {
	var a App
	err := c.do(ctx, at(v1.RouteChangeApp, code), nil, change, &a)
	return a, err
}

// NewSecret creates a new secret for an app; the answer holds it. The previous secret stays valid for keep (whole
// seconds, at most 90 days). If keep is 0, all older secrets expire now.
func (c *Client) NewSecret(ctx context.Context, code string, keep time.Duration) (App, error) {
	var a App
	body := v1.SecretRequest{KeepSeconds: int64(keep / time.Second)}
	err := c.do(ctx, at(v1.RouteCreateSecret, code), nil, body, &a)
	return a, err
}
