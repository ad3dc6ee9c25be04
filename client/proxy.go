package client

import (
	"context"
	"iter"
	"net/url"

	v1 "drover/api/v1"
)

// Proxies lists the joined proxies, ordered by area and name.
func (c *Client) Proxies(ctx context.Context) iter.Seq2[Proxy, error] {
	return pages[Proxy](ctx, c, at(v1.RouteListProxies), url.Values{}, 0)
}

// RemoveProxy removes a proxy by its name or key: the server disconnects it at once and rejects it if it reconnects.
func (c *Client) RemoveProxy(ctx context.Context, proxy string) error {
	return c.do(ctx, at(v1.RouteRemoveProxy, proxy), nil, nil, nil)
}
