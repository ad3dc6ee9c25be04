package store

import (
	"context"
	"time"
)

// Webhook is an address that alarms are delivered to.
type Webhook struct {
	Name string
	URL  string
	// Secret signs every delivery.
	Secret string
	// Namespaces are those whose alarms are wanted; none means all.
	Namespaces []string
	// Local allows an address of this machine, a private network or a cloud's metadata service.
	Local   bool
	Created time.Time
}

// Delivery is how far the alarms of a webhook have been delivered.
type Delivery struct {
	Webhook string
	// Cursor is that of the last event that was dealt with.
	Cursor int64
	// Failures counts the failures in a row; Failing is since when, Error what the last one was.
	Failures int
	Failing  time.Time
	Error    string
	// Next is when the next attempt is due, Delivered when the last one succeeded.
	Next      time.Time
	Delivered time.Time
}

// Webhooks keeps the addresses of alarms and how far each has got. The events themselves are the outbox.
type Webhooks interface {
	// PutWebhook inserts a webhook, which begins after the given cursor, or replaces one and leaves its delivery as it is.
	PutWebhook(ctx context.Context, w Webhook, after int64) error
	// ListWebhooks returns all of them with their deliveries, ordered by name.
	ListWebhooks(ctx context.Context) ([]Webhook, []Delivery, error)
	// DeleteWebhook fails with ErrNotFound when there is none of that name.
	DeleteWebhook(ctx context.Context, name string) error
	// PutDelivery notes how far a webhook has got; one that was deleted meanwhile is skipped.
	PutDelivery(ctx context.Context, d Delivery) error
}
