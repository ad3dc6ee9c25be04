package client

import (
	"context"
	"net/http"
	"time"
)

// Webhook is an address that alarms are delivered to.
type Webhook struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Namespaces are patterns of those whose alarms are wanted; none means all.
	Namespaces []string `json:"namespaces"`
	// Local allows an address that only the server's own machine should reach.
	Local     bool      `json:"local"`
	Note      string    `json:"note,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
	Delivery  Delivery  `json:"delivery"`
	// Secret is set only in the answer to the call that made it. It cannot be shown again.
	Secret string `json:"secret,omitempty"`
}

// Delivery is how far a webhook has got.
type Delivery struct {
	// Lag is how many alarms are still to be delivered.
	Lag         int64      `json:"lag"`
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	// Failures counts those in a row; FailingSince, Error and NextAt are set where there are any.
	Failures     int        `json:"failures"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
	Error        string     `json:"error,omitempty"`
	NextAt       *time.Time `json:"next_at,omitempty"`
}

// WebhookChange says what a webhook is to be; nil leaves it as it is.
type WebhookChange struct {
	// Name and Secret are for a new webhook only; without a secret one is made.
	Name       string    `json:"name,omitempty"`
	Secret     *string   `json:"secret,omitempty"`
	URL        *string   `json:"url,omitempty"`
	Namespaces *[]string `json:"namespaces,omitempty"`
	Local      *bool     `json:"local,omitempty"`
	Note       *string   `json:"note,omitempty"`
}

// CreateWebhook makes a webhook, whose alarms begin now; its secret is in the answer.
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

// ChangeWebhook changes a webhook and returns it. What could not be delivered to it is tried again at once.
func (c *Client) ChangeWebhook(ctx context.Context, name string, change WebhookChange) (Webhook, error) {
	var w Webhook
	err := c.do(ctx, http.MethodPatch, "/webhooks/"+segment(name), nil, change, &w)
	return w, err
}

// RotateWebhook gives a webhook a new secret, which is in the answer and signs from now on: the given one, or for an
// empty one one that the server makes.
func (c *Client) RotateWebhook(ctx context.Context, name, secret string) (Webhook, error) {
	var w Webhook
	body := struct {
		Secret string `json:"secret,omitempty"`
	}{secret}
	err := c.do(ctx, http.MethodPost, "/webhooks/"+segment(name)+"/secret", nil, body, &w)
	return w, err
}

// WebhookTest is what came of a test delivery.
type WebhookTest struct {
	Delivered bool `json:"delivered"`
	// Error says why it was not.
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
}

// TestWebhook has a made-up alarm delivered to a webhook, at once. That it does not arrive is no error of the call.
func (c *Client) TestWebhook(ctx context.Context, name string) (WebhookTest, error) {
	var t WebhookTest
	err := c.do(ctx, http.MethodPost, "/webhooks/"+segment(name)+"/test", nil, nil, &t)
	return t, err
}

// DeleteWebhook ends a webhook; what was not delivered to it never is.
func (c *Client) DeleteWebhook(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "/webhooks/"+segment(name), nil, nil, nil)
}
