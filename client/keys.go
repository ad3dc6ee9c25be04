package client

import (
	"context"
	"time"

	v1 "drover/api/v1"
)

// Keys lists the keys.
func (c *Client) Keys(ctx context.Context) (v1.Keys, error) {
	var k v1.Keys
	err := c.do(ctx, at(v1.RouteListKeys), nil, nil, &k)
	return k, err
}

// RotateKeys advances the rotation of a kind of keys by one step: it announces the next key to agents, or starts to use
// it. The server keeps the replaced key for the time keep; 0 means the default. With force it does not wait for online
// hosts that do not know the next key yet.
func (c *Client) RotateKeys(ctx context.Context, kind string, keep time.Duration, force bool) (v1.Keys, error) {
	var k v1.Keys
	body := v1.RotateRequest{KeepSeconds: int64(keep / time.Second), Force: force}
	err := c.do(ctx, at(v1.RouteRotateKeys, kind), nil, body, &k)
	return k, err
}

// DropKey discards a next key, or retires a former key now.
func (c *Client) DropKey(ctx context.Context, kind, id string) error {
	return c.do(ctx, at(v1.RouteDropKey, kind, id), nil, nil, nil)
}
