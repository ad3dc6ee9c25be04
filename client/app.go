package client

import (
	"context"
	"iter"
	"net/url"
	"time"

	v1 "drover/api/v1"
)

// CreateApp creates an app; the answer holds its first secret.
func (c *Client) CreateApp(ctx context.Context, change v1.AppChange) (v1.App, error) {
	var a v1.App
	err := c.do(ctx, at(v1.RouteCreateApp), nil, change, &a)
	return a, err
}

// Apps lists apps, ordered by code.
func (c *Client) Apps(ctx context.Context) iter.Seq2[v1.App, error] {
	return pages[v1.App](ctx, c, at(v1.RouteListApps), url.Values{}, 0)
}

// App returns one app.
func (c *Client) App(ctx context.Context, code string) (v1.App, error) {
	var a v1.App
	err := c.do(ctx, at(v1.RouteGetApp, code), nil, nil, &a)
	return a, err
}

// ChangeApp changes an app and returns it.
func (c *Client) ChangeApp(ctx context.Context, code string, change v1.AppChange) (v1.App, error) {
	var a v1.App
	err := c.do(ctx, at(v1.RouteChangeApp, code), nil, change, &a)
	return a, err
}

// NewSecret creates a new secret for an app; the answer holds it. The previous secret stays valid for keep (whole
// seconds, at most 90 days). If keep is 0, all older secrets expire now.
func (c *Client) NewSecret(ctx context.Context, code string, keep time.Duration) (v1.App, error) {
	var a v1.App
	body := v1.SecretRequest{KeepSeconds: int64(keep / time.Second)}
	err := c.do(ctx, at(v1.RouteCreateSecret, code), nil, body, &a)
	return a, err
}
