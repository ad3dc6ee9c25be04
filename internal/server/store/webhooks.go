package store

import (
	"context"
	"time"
)

// Webhook is an address that receives alarms.
type Webhook struct {
	// Name never changes.
	Name string
	URL  string
	// Secret signs every delivery.
	Secret string
	// Namespaces are patterns of the namespaces whose alarms the webhook receives; an empty list means all.
	Namespaces []string
	// Selector is an expression about the hosts whose alarms the webhook receives; empty means every host.
	Selector string
	// Local allows an address that only this machine should reach: itself, its link, or a cloud's metadata service.
	Local bool
	// Note is for people.
	Note string
	// Created distinguishes the webhook from an earlier webhook of the same name.
	Created time.Time
	// Changed is the time of the last change, except changes of the delivery.
	Changed time.Time
}

// Delivery is the progress of a webhook.
type Delivery struct {
	// Cursor is the cursor of the last event that the webhook handled.
	Cursor int64
	// Failures counts the consecutive failures; Failing is the time of the first, Error the text of the last.
	Failures int
	Failing  time.Time
	Error    string
	// Next is the time of the next attempt, Delivered the time of the last success.
	Next      time.Time
	Delivered time.Time
}

// Subscription is a webhook and its progress.
type Subscription struct {
	Webhook  Webhook
	Delivery Delivery
}

// Webhooks stores the webhooks and their progress. The events themselves are the outbox.
type Webhooks interface {
	// CreateWebhook inserts a webhook whose alarms begin after the given cursor. It returns ErrExists if the name is
	// taken.
	CreateWebhook(ctx context.Context, w Webhook, after int64) error
	// ChangeWebhook changes a webhook as ChangeApp changes an app; it keeps the progress.
	ChangeWebhook(ctx context.Context, name string, change func(*Webhook) error) (Subscription, error)
	// GetWebhook returns a webhook, or ErrNotFound for an unknown name.
	GetWebhook(ctx context.Context, name string) (Subscription, error)
	// ListWebhooks returns all webhooks, ordered by name.
	ListWebhooks(ctx context.Context) ([]Subscription, error)
	// DeleteWebhook removes a webhook. It returns ErrNotFound for an unknown name.
	DeleteWebhook(ctx context.Context, name string) error
	// PutDelivery stores the progress of a webhook, which its name and its time of creation identify. It skips a
	// webhook that was deleted meanwhile.
	PutDelivery(ctx context.Context, name string, created time.Time, d Delivery) error
}
