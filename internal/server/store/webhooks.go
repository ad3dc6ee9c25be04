package store

import (
	"context"
	"time"
)

// Webhook is an address that alarms are delivered to.
type Webhook struct {
	// Name never changes.
	Name string
	URL  string
	// Secret signs every delivery.
	Secret string
	// Namespaces are patterns of those whose alarms are wanted; none means all.
	Namespaces []string
	// Local allows an address that only this machine should reach: itself, its link, a cloud's metadata service.
	Local bool
	// Note is for people.
	Note string
	// Created tells a webhook from an earlier one of its name.
	Created time.Time
	// Changed is when anything but its delivery was changed last.
	Changed time.Time
}

// Delivery is how far the alarms of a webhook have been delivered.
type Delivery struct {
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

// Subscription is a webhook and how far it has got.
type Subscription struct {
	Webhook  Webhook
	Delivery Delivery
}

// Webhooks keeps the addresses of alarms and how far each has got. The events themselves are the outbox.
type Webhooks interface {
	// CreateWebhook inserts a webhook whose alarms begin after the given cursor; ErrExists when the name is taken.
	CreateWebhook(ctx context.Context, w Webhook, after int64) error
	// ChangeWebhook does for webhooks what ChangeApp does for apps; how far it has got stays as it is.
	ChangeWebhook(ctx context.Context, name string, change func(*Webhook) error) (Subscription, error)
	// GetWebhook returns ErrNotFound for an unknown name.
	GetWebhook(ctx context.Context, name string) (Subscription, error)
	// ListWebhooks returns all of them, ordered by name.
	ListWebhooks(ctx context.Context) ([]Subscription, error)
	// DeleteWebhook returns ErrNotFound when there is none of that name.
	DeleteWebhook(ctx context.Context, name string) error
	// PutDelivery notes how far a webhook has got, which is told by its name and when it was created; one that was
	// deleted meanwhile is skipped.
	PutDelivery(ctx context.Context, name string, created time.Time, d Delivery) error
}
