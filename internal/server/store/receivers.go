package store

import (
	"context"
	"time"
)

// Receiver is an address that receives alarms.
type Receiver struct {
	// Name never changes.
	Name string
	URL  string
	// Secret signs every delivery.
	Secret string
	// Namespaces are patterns of the namespaces whose alarms the receiver receives; an empty list means all.
	Namespaces []string
	// Selector is an expression about the hosts whose alarms the receiver receives; empty means every host.
	Selector string
	// Local allows an address that only this machine should reach: itself, its link, or a cloud's metadata service.
	Local bool
	// Note is for people.
	Note string
	// Created distinguishes the receiver from an earlier receiver of the same name.
	Created time.Time
	// Changed is the time of the last change, except changes of the delivery.
	Changed time.Time
}

// Delivery is the progress of a receiver.
type Delivery struct {
	// Cursor is the cursor of the last event that the receiver handled.
	Cursor int64
	// Failures counts the consecutive failures; Failing is the time of the first, Error the text of the last.
	Failures int
	Failing  time.Time
	Error    string
	// Next is the time of the next attempt, Delivered the time of the last success.
	Next      time.Time
	Delivered time.Time
}

// Subscription is a receiver and its progress.
type Subscription struct {
	Receiver Receiver
	Delivery Delivery
}

// Receivers stores the receivers and their progress. The events themselves are the outbox.
type Receivers interface {
	// CreateReceiver inserts a receiver whose alarms begin after the given cursor. It returns ErrExists if the name is
	// taken.
	CreateReceiver(ctx context.Context, w Receiver, after int64) error
	// ChangeReceiver changes a receiver as ChangeApp changes an app; it keeps the progress.
	ChangeReceiver(ctx context.Context, name string, change func(*Receiver) error) (Subscription, error)
	// GetReceiver returns a receiver, or ErrNotFound for an unknown name.
	GetReceiver(ctx context.Context, name string) (Subscription, error)
	// ListReceivers returns all receivers, ordered by name.
	ListReceivers(ctx context.Context) ([]Subscription, error)
	// DeleteReceiver removes a receiver. It returns ErrNotFound for an unknown name.
	DeleteReceiver(ctx context.Context, name string) error
	// PutDelivery stores the progress of a receiver, which its name and its time of creation identify. It skips a
	// receiver that was deleted meanwhile.
	PutDelivery(ctx context.Context, name string, created time.Time, d Delivery) error
}
