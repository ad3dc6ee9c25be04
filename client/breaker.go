package client

import (
	"context"
	"net/url"

	v1 "drover/api/v1"
)

// Breakers lists the open breakers, and with closed also the last closed one of each process.
func (c *Client) Breakers(ctx context.Context, closed bool) ([]v1.Breaker, error) {
	query := url.Values{}
	if closed {
		query.Set("closed", "true")
	}
	var all v1.Page[v1.Breaker] // there is but one
	err := c.do(ctx, at(v1.RouteListBreakers), query, nil, &all)
	return all.Items, err
}

// ResetBreaker closes the breaker of a process.
func (c *Client) ResetBreaker(ctx context.Context, namespace, name string) (v1.Breaker, error) {
	var b v1.Breaker
	err := c.do(ctx, at(v1.RouteResetBreaker, namespace, name), nil, nil, &b)
	return b, err
}
