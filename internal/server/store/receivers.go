package store

import (
	"context"
	"time"

	"drover/internal/crontab"
	"drover/internal/process"
)

// ReceiverKind is the form in which a receiver gets alarms.
type ReceiverKind string

// The kinds of receivers.
const (
	KindWebhook      ReceiverKind = "webhook"      // signed HTTP, in the form of GSE's event channel
	KindAlertmanager ReceiverKind = "alertmanager" // the API of Prometheus Alertmanager, version 2
	KindEmail        ReceiverKind = "email"        // a mail server, over TLS
)

// ReceiverKinds lists them.
func ReceiverKinds() []ReceiverKind { return []ReceiverKind{KindWebhook, KindAlertmanager, KindEmail} }

// Receiver is an address that receives alarms.
type Receiver struct {
	// Name never changes.
	Name string
	Kind ReceiverKind
	URL  string
	// Secret signs every delivery of a webhook. For an alertmanager it is a bearer token, and for a mail server the
	// password; both may be empty.
	Secret string
	Match  Match
	// Mail is for KindEmail.
	Mail Mail
	// Subject is the template of the subject of a mail, Body that of the text of a mail or of the JSON of a webhook.
	// Empty stands for drover's own form.
	Subject, Body string
	// Local allows an address that only this machine should reach: itself, its link, or a cloud's metadata service.
	Local bool
	// Note is for people.
	Note string
	// Created distinguishes the receiver from an earlier receiver of the same name.
	Created time.Time
	// Changed is the time of the last change, except changes of the delivery.
	Changed time.Time
}

// Match selects the alarms of a receiver. An alarm must match every field; an empty field matches all.
type Match struct {
	// Namespaces are patterns.
	Namespaces []string `json:"namespaces,omitempty"`
	// Selector is an expression about the hosts, and Labels about the labels of the processes.
	Selector string `json:"selector,omitempty"`
	Labels   string `json:"labels,omitempty"`
	// Severities are severities of package why, and Kinds are kinds of events.
	Severities []string            `json:"severities,omitempty"`
	Kinds      []process.EventKind `json:"kinds,omitempty"`
}

// Mail is what a mail server needs beside its address. User is empty if the mail server needs no password.
type Mail struct {
	From string   `json:"from,omitempty"`
	To   []string `json:"to,omitempty"`
	User string   `json:"user,omitempty"`
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

// Withheld are changes of the withheld alarms of a receiver.
type Withheld struct {
	// Added are alarms that a silence withholds and that may still hold at its end. An alarm replaces the earlier alarm
	// of the same key.
	Added []StoredEvent
	// Dropped are alarms that are no longer withheld.
	Dropped []AlarmKey
	// Counts are the alarms that each silence has withheld, by the id of the silence.
	Counts map[string]int64
}

// AlarmKey names a withheld alarm of a receiver.
type AlarmKey struct {
	Agent   string
	Process process.ID
	Kind    process.EventKind
	// Schedule separates the schedules that have failed with the same process; empty for other alarms.
	Schedule string
}

// Key returns the name of the alarm of an event.
func (e *StoredEvent) Key() AlarmKey {
	return AlarmKey{Agent: e.Agent, Process: e.Event.Process, Kind: e.Event.Kind, Schedule: e.Event.Schedule}
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
	Deliveries
}

// Deliveries is the progress of the receivers.
type Deliveries interface {
	// PutDelivery stores the progress of a receiver, which its name and its time of creation identify, and the changes
	// of its withheld alarms, in one transaction. It skips a receiver that was deleted meanwhile.
	PutDelivery(ctx context.Context, name string, created time.Time, d Delivery, w Withheld) error
	// ListWithheld returns the withheld alarms of a receiver, in the order of their cursors.
	ListWithheld(ctx context.Context, receiver string) ([]StoredEvent, error)
}

// Silence is a time in which alarms are withheld.
type Silence struct {
	ID string
	// Processes are patterns NAMESPACE/NAME, Hosts patterns of hosts (Agent.Named), Selector is an expression about
	// hosts, Labels one about the labels of processes. An alarm must match all of them; an empty field matches all.
	Processes, Hosts []string
	Selector, Labels string
	// From is inclusive, Until exclusive. Both are compared with the time of an event on its host.
	From, Until time.Time
	// Cron is the timetable of windows within that time, by the crontab rule and the time zone (empty: the server's),
	// and Length is how long each window is. An empty Cron is for a silence of one window, from From to Until.
	Cron, Zone string
	Length     time.Duration
	Message    string
	// App and User are the caller.
	App, User string
	Created   time.Time
	// Removed is the time at which a person ended the silence early; zero if nobody did.
	Removed time.Time
	// Withheld counts the alarms that were not delivered; each receiver counts.
	Withheld int64
}

// End returns the time at which the silence ends or has ended.
func (s *Silence) End() time.Time {
	if !s.Removed.IsZero() && s.Removed.Before(s.Until) {
		return s.Removed
	}
	return s.Until
}

// Forever is the end of a silence that repeats without an end.
func Forever() time.Time { return time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Timetable returns the rule of the windows; the zero rule, which never comes due, if there is one window.
func (s *Silence) Timetable() (crontab.Rule, error) {
	if s.Cron == "" {
		return crontab.Rule{}, nil
	}
	return crontab.ParseIn(s.Cron, s.Zone)
}

// Window returns the window that contains a time, or else the next one; ok is false if there is none. rule is the
// timetable of the silence.
func (s *Silence) Window(rule crontab.Rule, at time.Time) (from, until time.Time, ok bool) {
	if s.Cron == "" || !at.Before(s.End()) {
		return s.From, s.End(), at.Before(s.End())
	}
	if at.Before(s.From) {
		at = s.From
	}
	from, ok = rule.Next(at.Add(-s.Length))
	if !ok || !from.Before(s.End()) {
		return from, until, false
	}
	if until = from.Add(s.Length); until.After(s.End()) {
		until = s.End()
	}
	return from, until, true
}

// Silences stores the times in which alarms are withheld.
type Silences interface {
	CreateSilence(ctx context.Context, s Silence) error
	// ListSilences returns the silences that end after the given time, ordered by their beginnings.
	ListSilences(ctx context.Context, after time.Time) ([]Silence, error)
	// RemoveSilence ends a silence. It changes nothing if the silence has ended. It returns ErrNotFound for an unknown
	// id.
	RemoveSilence(ctx context.Context, id string, at time.Time) (Silence, error)
	// PruneSilences removes up to limit silences that ended before the given time. It returns their number.
	PruneSilences(ctx context.Context, before time.Time, limit int) (int, error)
}
