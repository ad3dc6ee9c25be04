package v1

import "time"

// Webhook is an address that receives alarms.
type Webhook struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Namespaces are patterns of the namespaces whose alarms the webhook receives; an empty list means all.
	Namespaces []string `json:"namespaces"`
	// Select is an expression about the hosts whose alarms the webhook receives; empty means every host.
	Select string `json:"select,omitempty"`
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
	URL        *string   `json:"url,omitempty"`
	Namespaces *[]string `json:"namespaces,omitempty"`
	// Select is the new expression about hosts; an empty text stands for every host.
	Select *string `json:"select,omitempty"`
	Local  *bool   `json:"local,omitempty"`
	Note   *string `json:"note,omitempty"`
	Secret *string `json:"secret,omitempty"`
}

// WebhookSecretRequest asks for a new secret of a webhook.
type WebhookSecretRequest struct {
	// Secret is the new secret; if it is nil, the server creates one.
	Secret *string `json:"secret,omitempty"`
}

// WebhookTest is the result of a test delivery.
type WebhookTest struct {
	Delivered bool `json:"delivered"`
	// Error tells why the delivery failed.
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
}
