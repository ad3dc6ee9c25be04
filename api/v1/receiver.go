package v1

import "time"

// Receiver is an address that receives alarms.
type Receiver struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Namespaces are patterns of the namespaces whose alarms the receiver receives; an empty list means all.
	Namespaces []string `json:"namespaces"`
	// Select is an expression about the hosts whose alarms the receiver receives; empty means every host.
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

// Delivery is the progress of a receiver.
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

// ReceiverChange holds the new values of a receiver; a nil field stays unchanged.
type ReceiverChange struct {
	// Name and Secret are for a new receiver only. By default the server creates the secret.
	Name       string    `json:"name,omitempty"`
	URL        *string   `json:"url,omitempty"`
	Namespaces *[]string `json:"namespaces,omitempty"`
	// Select is the new expression about hosts; an empty text stands for every host.
	Select *string `json:"select,omitempty"`
	Local  *bool   `json:"local,omitempty"`
	Note   *string `json:"note,omitempty"`
	Secret *string `json:"secret,omitempty"`
}

// ReceiverSecretRequest asks for a new secret of a receiver.
type ReceiverSecretRequest struct {
	// Secret is the new secret; if it is nil, the server creates one.
	Secret *string `json:"secret,omitempty"`
}

// ReceiverTest is the result of a test delivery.
type ReceiverTest struct {
	Delivered bool `json:"delivered"`
	// Error tells why the delivery failed.
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
}
