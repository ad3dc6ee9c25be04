package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Proxy is a proxy of an area that has no route to the servers.
type Proxy struct {
	Name string `json:"name"`
	Area int    `json:"area"`
	// Key is its public key.
	Key string `json:"key"`
	// Advertise is where the agents of the area reach it, host:port.
	Advertise string `json:"advertise"`
	Online    bool   `json:"online"`
	// Agents is how many are connected to it.
	Agents   int        `json:"agents"`
	Build    string     `json:"build"`
	LastSeen *time.Time `json:"last_seen,omitempty"`
	JoinedAt time.Time  `json:"joined_at"`
}

// Proxies lists the proxies that have joined, by area and name.
func (c *Client) Proxies(ctx context.Context) iter.Seq2[Proxy, error] {
	return pages[Proxy](ctx, c, "/proxies", url.Values{}, 0)
}

// RemoveProxy takes a proxy out, named by its name or key: it is cut off at once and refused when it comes back.
func (c *Client) RemoveProxy(ctx context.Context, proxy string) error {
	return c.do(ctx, http.MethodDelete, "/proxies/"+segment(proxy), nil, nil, nil)
}
