package client

import (
	"context"
	"iter"
	"net/url"
	"time"

	v1 "drover/api/v1"
)

// NewJoinToken holds the values of a new token.
type NewJoinToken struct {
	// Role is the kind of program that joins with it: agent (the default) or proxy.
	Role string
	// Cloud is the area that hosts join; every host that joins gets Labels and Business.
	Cloud    int
	Labels   map[string]string
	Business int64
	// Replaces is the host whose place the host takes that joins with the token; Uses is 1 then.
	Replaces string
	Note     string
	// Uses is the number of hosts that may join with it, 1 to 100,000.
	Uses int
	// TTL is its lifetime, in whole seconds, at most 366 days.
	TTL time.Duration
}

// CreateJoinToken creates a join token; the answer holds it.
func (c *Client) CreateJoinToken(ctx context.Context, t NewJoinToken) (v1.JoinToken, error) {
	var made v1.JoinToken
	body := v1.JoinTokenRequest{
		Role: t.Role, Cloud: t.Cloud, Labels: t.Labels, Business: t.Business, Replaces: t.Replaces, Note: t.Note,
		Uses: t.Uses, TTLSeconds: int64(t.TTL / time.Second),
	}
	err := c.do(ctx, at(v1.RouteCreateJoinToken), nil, body, &made)
	return made, err
}

// JoinTokens lists the join tokens, newest first.
func (c *Client) JoinTokens(ctx context.Context) iter.Seq2[v1.JoinToken, error] {
	return pages[v1.JoinToken](ctx, c, at(v1.RouteListJoinTokens), url.Values{}, 0)
}

// JoinToken returns one join token, without its secret.
func (c *Client) JoinToken(ctx context.Context, id string) (v1.JoinToken, error) {
	var t v1.JoinToken
	err := c.do(ctx, at(v1.RouteGetJoinToken, id), nil, nil, &t)
	return t, err
}

// RevokeJoinToken revokes a join token. Hosts that joined with it stay.
func (c *Client) RevokeJoinToken(ctx context.Context, id string) error {
	return c.do(ctx, at(v1.RouteRevokeJoinToken, id), nil, nil, nil)
}

// RemoveHost removes a host by its id, cloud:ip or key: the server disconnects it at once and rejects it if it
// reconnects.
func (c *Client) RemoveHost(ctx context.Context, host string) error {
	return c.do(ctx, at(v1.RouteRemoveHost, host), nil, nil, nil)
}
