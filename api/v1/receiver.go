package v1

import "time"

// Receiver is an address that receives alarms.
type Receiver struct {
	Name string `json:"name"`
	// Kind is ReceiverWebhook, ReceiverAlertmanager or ReceiverEmail.
	Kind string `json:"kind"`
	URL  string `json:"url"`
	// Namespaces are patterns of the namespaces whose alarms the receiver gets; an empty list means all.
	Namespaces []string `json:"namespaces"`
	// Select is an expression about the hosts whose alarms the receiver gets, and Labels one about the labels of the
	// processes; empty means all.
	Select string `json:"select,omitempty"`
	Labels string `json:"labels,omitempty"`
	// Severities and Kinds (of events) select alarms; an empty list means all.
	Severities []string `json:"severities,omitempty"`
	Kinds      []string `json:"kinds,omitempty"`
	// Mail is set if Kind is ReceiverEmail.
	Mail *Mail `json:"mail,omitempty"`
	// Subject is the template of the subject of a mail, Body that of the text of a mail or of the JSON of a webhook.
	// Empty stands for drover's own form.
	Subject string `json:"subject,omitempty"`
	Body    string `json:"body,omitempty"`
	// Local allows an address that only the server's own machine should reach.
	Local     bool      `json:"local"`
	Note      string    `json:"note,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
	Delivery  Delivery  `json:"delivery"`
	// Secret is set only in the answer to the call that created it. The server cannot show it again.
	Secret string `json:"secret,omitempty"`
}

// The kinds of receivers.
const (
	ReceiverWebhook      = "webhook"
	ReceiverAlertmanager = "alertmanager"
	ReceiverEmail        = "email"
)

// Mail holds the settings of a receiver of mails. The password for User is the secret of the receiver.
type Mail struct {
	From string   `json:"from"`
	To   []string `json:"to"`
	User string   `json:"user,omitempty"`
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
	// Name, Kind and Secret are for a new receiver only. By default it is a webhook, and the server creates the secret.
	Name       string    `json:"name,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	URL        *string   `json:"url,omitempty"`
	Namespaces *[]string `json:"namespaces,omitempty"`
	// Select is the new expression about hosts; an empty text stands for every host.
	Select     *string   `json:"select,omitempty"`
	Labels     *string   `json:"labels,omitempty"`
	Severities *[]string `json:"severities,omitempty"`
	Kinds      *[]string `json:"kinds,omitempty"`
	// Mail replaces all settings of the mail.
	Mail *Mail `json:"mail,omitempty"`
	// Subject and Body are the new templates; an empty text stands for drover's own form.
	Subject *string `json:"subject,omitempty"`
	Body    *string `json:"body,omitempty"`
	Local   *bool   `json:"local,omitempty"`
	Note    *string `json:"note,omitempty"`
	Secret  *string `json:"secret,omitempty"`
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
