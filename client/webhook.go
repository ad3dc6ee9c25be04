package client

import (
	"context"

	v1 "drover/api/v1"
)

// CreateWebhook creates a webhook, whose alarms begin now; the answer holds its secret.
func (c *Client) CreateWebhook(ctx context.Context, change WebhookChange) (Webhook, error) {
	var w Webhook
	err := c.do(ctx, at(v1.RouteCreateWebhook), nil, change, &w)
	return w, err
}

// Webhooks lists all webhooks, ordered by name.
func (c *Client) Webhooks(ctx context.Context) ([]Webhook, error) {
	var all v1.Page[Webhook] // there is but one
	err := c.do(ctx, at(v1.RouteListWebhooks), nil, nil, &all)
	return all.Items, err
}

// Webhook returns one webhook.
func (c *Client) Webhook(ctx context.Context, name string) (Webhook, error) {
	var w Webhook
	err := c.do(ctx, at(v1.RouteGetWebhook, name), nil, nil, &w)
	return w, err
}

// ChangeWebhook changes a webhook and returns it. The server retries undelivered messages at once.
func (c *Client) ChangeWebhook(ctx context.Context, name string, change WebhookChange) (Webhook, error) {
	var w Webhook
	err := c.do(ctx, at(v1.RouteChangeWebhook, name), nil, change, &w)
	return w, err
}

// RotateWebhook sets a new secret, which signs from now on, and returns it in the answer. If secret is empty, the
// server creates one.
func (c *Client) RotateWebhook(ctx context.Context, name, secret string) (Webhook, error) {
	var w Webhook
	var body v1.WebhookSecretRequest
	if secret != "" {
		body.Secret = &secret
	}
	err := c.do(ctx, at(v1.RouteRotateWebhook, name), nil, body, &w)
	return w, err
}

// TestWebhook delivers a made-up alarm to a webhook at once. A failed delivery is not an error of the call.
func (c *Client) TestWebhook(ctx context.Context, name string) (WebhookTest, error) {
	var t WebhookTest
	err := c.do(ctx, at(v1.RouteTestWebhook, name), nil, nil, &t)
	return t, err
}

// DeleteWebhook deletes a webhook; the server never delivers its undelivered messages.
func (c *Client) DeleteWebhook(ctx context.Context, name string) error {
	return c.do(ctx, at(v1.RouteDeleteWebhook, name), nil, nil, nil)
}
