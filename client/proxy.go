package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Proxy is a proxy of an area without a route to the servers.
type Proxy struct {
	Name string `json:"name"`
	Area int    `json:"area"`
	// Key is the public key of the proxy.
	Key string `json:"key"`
	// Advertise is the address by which the agents of the area reach the proxy, host:port.
	Advertise string `json:"advertise"`
	Online    bool   `json:"online"`
	// Agents is the number of connected agents.
	Agents   int        `json:"agents"`
	Build    string     `json:"build"`
	LastSeen *time.Time `json:"last_seen,omitempty"`
	JoinedAt time.Time  `json:"joined_at"`
}

// Proxies lists the joined proxies, ordered by area and name.
func (c *Client) Proxies(ctx context.Context) iter.Seq2[Proxy, error] {
	return pages[Proxy](ctx, c, "/proxies", url.Values{}, 0)
}

// RemoveProxy removes a proxy by its name or key: the server disconnects it at once and rejects it if it reconnects.
func (c *Client) RemoveProxy(ctx context.Context, proxy string) error {
	return c.do(ctx, http.MethodDelete, "/proxies/"+segment(proxy), nil, nil, nil)
}
