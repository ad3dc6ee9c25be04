package client

import (
	"context"

	v1 "drover/api/v1"
)

// CreateReceiver creates a receiver, whose alarms begin now; the answer holds its secret.
func (c *Client) CreateReceiver(ctx context.Context, change v1.ReceiverChange) (v1.Receiver, error) {
	var w v1.Receiver
	err := c.do(ctx, at(v1.RouteCreateReceiver), nil, change, &w)
	return w, err
}

// Receivers lists all receivers, ordered by name.
func (c *Client) Receivers(ctx context.Context) ([]v1.Receiver, error) {
	var all v1.Page[v1.Receiver] // there is but one
	err := c.do(ctx, at(v1.RouteListReceivers), nil, nil, &all)
	return all.Items, err
}

// Receiver returns one receiver.
func (c *Client) Receiver(ctx context.Context, name string) (v1.Receiver, error) {
	var w v1.Receiver
	err := c.do(ctx, at(v1.RouteGetReceiver, name), nil, nil, &w)
	return w, err
}

// ChangeReceiver changes a receiver and returns it. The server retries undelivered messages at once.
func (c *Client) ChangeReceiver(ctx context.Context, name string, change v1.ReceiverChange) (v1.Receiver, error) {
	var w v1.Receiver
	err := c.do(ctx, at(v1.RouteChangeReceiver, name), nil, change, &w)
	return w, err
}

// RotateReceiver sets a new secret, which signs from now on, and returns it in the answer. If secret is empty, the
// server creates one.
func (c *Client) RotateReceiver(ctx context.Context, name, secret string) (v1.Receiver, error) {
	var w v1.Receiver
	var body v1.ReceiverSecretRequest
	if secret != "" {
		body.Secret = &secret
	}
	err := c.do(ctx, at(v1.RouteRotateReceiver, name), nil, body, &w)
	return w, err
}

// TestReceiver delivers a made-up alarm to a receiver at once. A failed delivery is not an error of the call.
func (c *Client) TestReceiver(ctx context.Context, name string) (v1.ReceiverTest, error) {
	var t v1.ReceiverTest
	err := c.do(ctx, at(v1.RouteTestReceiver, name), nil, nil, &t)
	return t, err
}

// DeleteReceiver deletes a receiver; the server never delivers its undelivered messages.
func (c *Client) DeleteReceiver(ctx context.Context, name string) error {
	return c.do(ctx, at(v1.RouteDeleteReceiver, name), nil, nil, nil)
}
