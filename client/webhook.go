package client

import (
	"context"
	"net/http"
	"time"
)

// Webhook is an address that receives alarms.
type Webhook struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Namespaces are patterns of the namespaces whose alarms the webhook receives; an empty list means all.
	Namespaces []string `json:"namespaces"`
	// Local allows an address that only the server's own machine should reach.
	Local     bool      `json:"local"`
	Note      string    `json:"note,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
	Delivery  Delivery  `json:"delivery"`
	// Secret is set only in the answer to the call that created it. The server cannot show it again.
	Secret string `json:"secret,omitempty"`
}

// Delivery is the progress of a webhook.
type Delivery struct {
	// Lag is the number of undelivered alarms.
	Lag         int64      `json:"lag"`
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	// Failures counts consecutive failures; FailingSince, Error and NextAt are set if there are any.
	Failures     int        `json:"failures"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
	Error        string     `json:"error,omitempty"`
	NextAt       *time.Time `json:"next_at,omitempty"`
}

// WebhookChange holds the new values of a webhook; a nil field stays unchanged.
type WebhookChange struct {
	// Name and Secret are for a new webhook only. By default the server creates the secret.
	Name       string    `json:"name,omitempty"`
	Secret     *string   `json:"secret,omitempty"`
	URL        *string   `json:"url,omitempty"`
	Namespaces *[]string `json:"namespaces,omitempty"`
	Local      *bool     `json:"local,omitempty"`
	Note       *string   `json:"note,omitempty"`
}

// CreateWebhook creates a webhook, whose alarms begin now; the answer holds its secret.
func (c *Client) CreateWebhook(ctx context.Context, change WebhookChange) (Webhook, error) {
	var w Webhook
	err := c.do(ctx, http.MethodPost, "/webhooks", nil, change, &w)
	return w, err
}

// Webhooks lists all webhooks, ordered by name.
func (c *Client) Webhooks(ctx context.Context) ([]Webhook, error) {
	var all page[Webhook] // there is but one
	err := c.get(ctx, "/webhooks", nil, &all)
	return all.Items, err
}

// Webhook returns one webhook.
func (c *Client) Webhook(ctx context.Context, name string) (Webhook, error) {
	var w Webhook
	err := c.get(ctx, "/webhooks/"+segment(name), nil, &w)
	return w, err
}

// ChangeWebhook changes a webhook and returns it. The server retries undelivered messages at once.
func (c *Client) ChangeWebhook(ctx context.Context, name string, change WebhookChange) (Webhook, error) {
	var w Webhook
	err := c.do(ctx, http.MethodPatch, "/webhooks/"+segment(name), nil, change, &w)
	return w, err
}

// RotateWebhook sets a new secret, which signs from now on, and returns it in the answer. If secret is empty, the
// server creates one.
func (c *Client) RotateWebhook(ctx context.Context, name, secret string) (Webhook, error) {
	var w Webhook
	body := struct {
		Secret string `json:"secret,omitempty"`
	}{secret}
	err := c.do(ctx, http.MethodPost, "/webhooks/"+segment(name)+"/secret", nil, body, &w)
	return w, err
}

// WebhookTest is the result of a test delivery.
type WebhookTest struct {
	Delivered bool `json:"delivered"`
	// Error tells why the delivery failed.
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
}

// TestWebhook delivers a made-up alarm to a webhook at once. A failed delivery is not an error of the call.
func (c *Client) TestWebhook(ctx context.Context, name string) (WebhookTest, error) {
	var t WebhookTest
	err := c.do(ctx, http.MethodPost, "/webhooks/"+segment(name)+"/test", nil, nil, &t)
	return t, err
}

// DeleteWebhook deletes a webhook; the server never delivers its undelivered messages.
func (c *Client) DeleteWebhook(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "/webhooks/"+segment(name), nil, nil, nil)
}
