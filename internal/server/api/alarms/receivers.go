package alarms

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/alarm"
	"drover/internal/server/api/call"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/receiver"
	"drover/internal/server/store"
	"drover/internal/why"
)

// Receivers holds the addresses of alarms and the part that delivers to them.
type Receivers struct {
	Store    store.Receivers
	Silences store.Silences
	Sender   Sender
}

// Sender delivers alarms. Test delivers a made-up alarm at once.
type Sender interface {
	Test(ctx context.Context, w store.Receiver) error
	Latest(s store.Subscription) store.Delivery
	// Due counts the alarms that are still to be delivered.
	Due(ctx context.Context, s store.Subscription) (int64, error)
}

// The bounds of receivers.
const (
	maxReceivers      = 100
	maxReceiverName   = 64
	minReceiverSecret = 16
	maxReceiverSecret = 256
)

// viewReceiver returns a receiver with its progress.
func (h *Handler) viewReceiver(ctx context.Context, s store.Subscription) (v1.Receiver, error) {
	due, err := h.Receivers.Sender.Due(ctx, s)
	if err != nil {
		return v1.Receiver{}, call.Failure("read the events", err)
	}
	w, d := s.Receiver, h.Receivers.Sender.Latest(s)
	v := v1.Receiver{
		Name: w.Name, Kind: string(w.Kind), URL: w.URL, Namespaces: w.Match.Namespaces, Select: w.Match.Selector,
		Labels: w.Match.Labels, Severities: w.Match.Severities, Kinds: call.AsTexts(w.Match.Kinds), Local: w.Local,
		Subject: w.Subject, Body: w.Body, Note: w.Note,
		CreatedAt: w.Created, ChangedAt: w.Changed,
		Delivery: v1.Delivery{
			Lag: due, DeliveredAt: call.OptionalTime(d.Delivered), Failures: d.Failures,
			FailingSince: call.OptionalTime(d.Failing), Error: d.Error, NextAt: call.OptionalTime(d.Next),
		},
	}
	if v.Namespaces == nil {
		v.Namespaces = []string{}
	}
	if w.Kind == store.KindEmail {
		v.Mail = new(v1.Mail(w.Mail))
	}
	return v, nil
}

// applyReceiver applies a change to a receiver, and reports the invalid fields of the result. It checks the result
// because two fields together decide whether an address is allowed.
func applyReceiver(r *v1.ReceiverChange, w *store.Receiver) error {
	call.Assign(&w.URL, r.URL)
	call.Assign(&w.Match.Namespaces, r.Namespaces)
	call.Assign(&w.Match.Selector, r.Select)
	call.Assign(&w.Match.Labels, r.Labels)
	call.Assign(&w.Match.Severities, r.Severities)
	if r.Kinds != nil {
		w.Match.Kinds = asTyped[process.EventKind](*r.Kinds)
	}
	if r.Mail != nil {
		w.Mail = store.Mail(*r.Mail)
	}
	call.Assign(&w.Subject, r.Subject)
	call.Assign(&w.Body, r.Body)
	call.Assign(&w.Local, r.Local)
	call.Assign(&w.Note, r.Note)
	var faults []error
	fault := func(field string, err error) { faults = append(faults, call.Invalid(field, "%v", err)) }
	if w.Kind != "" { // an unknown kind: address and templates depend on it
		if err := receiver.CheckURL(w.Kind, w.URL, w.Local); err != nil {
			fault("url", err)
		}
		receiver.CheckTemplates(w, fault)
	}
	switch {
	case w.Kind == store.KindEmail, w.Kind == "" && r.Mail != nil:
		receiver.CheckMail(&w.Mail, fault)
	case r.Mail != nil:
		faults = append(faults, call.Invalid("mail", "is for receivers of the kind %s: this is a receiver of the kind %s",
			store.KindEmail, w.Kind))
	}
	return call.Together(append(faults, checkMatch(&w.Match))...)
}

// checkMatch reports the invalid fields of a match, and brings its expressions into their shortest form.
func checkMatch(m *store.Match) error {
	faults := []error{call.CheckPatterns("namespaces", m.Namespaces)}
	for i, s := range m.Severities {
		if !slices.Contains(why.Severities(), why.Severity(s)) && len(faults) < call.MostFaults {
			faults = append(faults, call.Invalid(fmt.Sprintf("severities[%d]", i), "is %.40q: expected %s", s,
				call.OneOf(why.Severities())))
		}
	}
	for i, kind := range m.Kinds {
		if !slices.Contains(alarm.Kinds(), kind) && len(faults) < call.MostFaults {
			faults = append(faults, call.Invalid(fmt.Sprintf("kinds[%d]", i), "is %.40q: expected %s", kind,
				call.OneOf(alarm.Kinds())))
		}
	}
	return call.Together(append(faults, checkSelector("select", &m.Selector), checkSelector("labels", &m.Labels))...)
}

// checkSelector reports an invalid expression, and brings a valid one into its shortest form. It may be empty.
func checkSelector(field string, text *string) error {
	if *text == "" {
		return nil
	}
	s, err := selector.Parse(*text)
	if err != nil {
		return call.Invalid(field, "%v", err)
	}
	*text = s.String()
	return nil
}

// asTyped converts texts to a named string type.
func asTyped[T ~string](texts []string) []T {
	words := make([]T, len(texts))
	for i, t := range texts {
		words[i] = T(t)
	}
	return words
}

// receiverKind returns the kind of a new receiver.
func receiverKind(given string) (store.ReceiverKind, error) {
	kind := store.ReceiverKind(cmp.Or(given, string(store.KindWebhook)))
	if !slices.Contains(store.ReceiverKinds(), kind) {
		return "", call.Invalid("kind", "is %.40q: expected %s", given, call.OneOf(store.ReceiverKinds()))
	}
	return kind, nil
}

// receiverRecord returns a request for the audit log, without its secret. Of an address it keeps only the host, because
// the rest may hold a token.
func receiverRecord(r v1.ReceiverChange) json.RawMessage {
	if r.URL != nil {
		host := ""
		if u, err := url.Parse(*r.URL); err == nil {
			host = u.Scheme + "://" + u.Host
		}
		r.URL = &host
	}
	r.Secret = nil
	data, _ := json.Marshal(r) // it was decoded from JSON
	return data
}

// checkReceiverName rejects a name that cannot appear unchanged in a header or a label.
func checkReceiverName(name string) error {
	if err := call.CheckName("name", name, maxReceiverName); err != nil {
		return err
	}
	if !call.Plain(name, "-_.") {
		return call.Invalid("name", "is %q: expected letters, digits, -, _ and .", edge.Clip(name))
	}
	return nil
}

// checkReceiverSecret rejects a secret that is easy to guess or hard to pass on.
func checkReceiverSecret(secret string) error {
	if n := len(secret); n < minReceiverSecret || n > maxReceiverSecret {
		return call.Invalid("secret", "is %d bytes long: expected %d to %d", n, minReceiverSecret, maxReceiverSecret)
	}
	if strings.ContainsFunc(secret, func(r rune) bool {
		return r <= ' ' || r > unicode.MaxASCII ||
			!unicode.IsPrint(r)
	}) {
		return call.Invalid("secret", "holds a blank, a control character or one that is not ASCII")
	}
	return nil
}

// secretOf returns the given secret, or a new secret for a webhook. A receiver of another kind needs no secret. Its own
// secret may have any length.
func secretOf(kind store.ReceiverKind, given *string) (string, error) {
	switch {
	case kind == store.KindWebhook && given == nil:
		return access.NewSecret(), nil
	case given == nil:
		return "", nil
	case kind == store.KindWebhook:
		return *given, checkReceiverSecret(*given)
	case len(*given) > maxReceiverSecret || strings.ContainsFunc(*given, unicode.IsControl):
		return "", call.Invalid("secret", "is longer than %d bytes or holds a control character", maxReceiverSecret)
	}
	return *given, nil
}

// NewReceiver returns the receiver that a request describes.
func NewReceiver(r *v1.ReceiverChange) (w store.Receiver, err error) {
	faults := []error{checkReceiverName(r.Name)}
	if w.Kind, err = receiverKind(r.Kind); err == nil {
		w.Secret, err = secretOf(w.Kind, r.Secret)
	}
	err = call.Together(append(faults, err, applyReceiver(r, &w))...)
	return w, err
}

// CreateReceiver creates a receiver, whose alarms begin now. Only this reply shows its secret.
func (h *Handler) CreateReceiver(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req v1.ReceiverChange
	var w store.Receiver
	check := func() (err error) {
		w, err = NewReceiver(&req)
		return err
	}
	if err := c.Decode(ctx, &req, check); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Name)
	c.Audit.Detail = receiverRecord(req)
	if err := check(); err != nil {
		return call.Reply{}, err
	}
	now := h.Now()
	w.Name, w.Created, w.Changed = req.Name, now, now
	list, err := h.Receivers.Store.ListReceivers(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("list the receivers", err)
	}
	if len(list) >= maxReceivers {
		return call.Reply{}, call.Problemf(http.StatusConflict, "there are %d receivers already: expected at most %d", len(list),
			maxReceivers)
	}
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("read the events", err)
	}
	if err := h.Receivers.Store.CreateReceiver(ctx, w, last); err != nil {
		return call.Reply{}, call.StoreProblem(err, "receiver", w.Name)
	}
	h.Bus.Changed(bus.Receivers)
	v, err := h.viewReceiver(ctx, store.Subscription{Receiver: w, Delivery: store.Delivery{Cursor: last}})
	if err != nil {
		return call.Reply{}, err
	}
	if w.Kind == store.KindWebhook {
		v.Secret = w.Secret
	}
	return call.Reply{Status: http.StatusCreated, Body: v, Location: "/receivers/" + url.PathEscape(w.Name)}, nil
}

// ListReceivers lists all receivers, without pages, because they are few.
func (h *Handler) ListReceivers(ctx context.Context, c *call.Call) (call.Reply, error) {
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	list, err := h.Receivers.Store.ListReceivers(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("list the receivers", err)
	}
	views := make([]v1.Receiver, len(list))
	for i, s := range list {
		if views[i], err = h.viewReceiver(ctx, s); err != nil {
			return call.Reply{}, err
		}
	}
	return call.OK(call.PageOf(c, views, nil))
}

// GetReceiver shows a receiver with its progress.
func (h *Handler) GetReceiver(ctx context.Context, c *call.Call) (call.Reply, error) {
	s, err := h.receiverNamed(ctx, c)
	if err != nil {
		return call.Reply{}, err
	}
	return h.receiverReply(ctx, http.StatusOK, s, "")
}

// receiverNamed reads the receiver that the path names, for a call without parameters.
func (h *Handler) receiverNamed(ctx context.Context, c *call.Call) (store.Subscription, error) {
	name := c.Subject("name")
	if err := c.Params.Done(); err != nil {
		return store.Subscription{}, err
	}
	s, err := h.Receivers.Store.GetReceiver(ctx, name)
	return s, call.StoreProblem(err, "receiver", name)
}

// receiverReply returns a receiver, with its secret if the secret is new.
func (h *Handler) receiverReply(
	ctx context.Context, status int, s store.Subscription, secret string,
) (call.Reply, error) {
	v, err := h.viewReceiver(ctx, s)
	if err != nil {
		return call.Reply{}, err
	}
	v.Secret = secret
	return call.Reply{Status: status, Body: v}, nil
}

// ChangeReceiver changes the given fields. The progress stays, and the server retries a failed delivery at once.
func (h *Handler) ChangeReceiver(ctx context.Context, c *call.Call) (call.Reply, error) {
	name := c.Subject("name")
	var req v1.ReceiverChange
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail = receiverRecord(req)
	var faults []error
	if req.Name != "" && req.Name != name {
		faults = append(faults, call.Invalid("name", "cannot be changed"))
	}
	if req.Kind != "" {
		faults = append(faults, call.Invalid("kind", "cannot be changed"))
	}
	if req.Secret != nil {
		faults = append(faults, call.Invalid("secret", "is changed at %s/receivers/{name}/secret", v1.Prefix))
	}
	if err := call.Together(faults...); err != nil {
		return call.Reply{}, err
	}
	s, err := h.Receivers.Store.ChangeReceiver(ctx, name, func(w *store.Receiver) error {
		former := w.URL
		w.Changed = h.Now()
		if err := applyReceiver(&req, w); err != nil {
			return err
		}
		if w.Kind != store.KindWebhook && w.Secret != "" && !sameServer(former, w.URL) {
			return call.Invalid("url", "is of another server, and the secret is for %q: create another receiver", origin(former))
		}
		return nil
	})
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "receiver", name)
	}
	h.Bus.Changed(bus.Receivers)
	return h.receiverReply(ctx, http.StatusOK, s, "")
}

// sameServer reports whether two URLs have the same scheme, host and port.
func sameServer(a, b string) bool { return origin(a) == origin(b) }

// origin returns the scheme, the host and the port of a URL; empty if the URL cannot be parsed.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// RotateReceiver gives a receiver another secret, which signs deliveries from now on. Only this reply shows the secret.
func (h *Handler) RotateReceiver(ctx context.Context, c *call.Call) (call.Reply, error) {
	name := c.Subject("name")
	var req v1.ReceiverSecretRequest
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	var secret string
	s, err := h.Receivers.Store.ChangeReceiver(ctx, name, func(w *store.Receiver) (err error) {
		if secret, err = secretOf(w.Kind, req.Secret); err != nil {
			return err
		}
		if secret == "" && req.Secret == nil {
			return call.Invalid("secret", "is missing: only a webhook gets its secret from drover")
		}
		w.Secret, w.Changed = secret, h.Now()
		return nil
	})
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "receiver", name)
	}
	h.Bus.Changed(bus.Receivers)
	if s.Receiver.Kind != store.KindWebhook {
		secret = "" // its owner knows it
	}
	return h.receiverReply(ctx, http.StatusCreated, s, secret)
}

// TestReceiver delivers a test alarm and returns the result.
func (h *Handler) TestReceiver(ctx context.Context, c *call.Call) (call.Reply, error) {
	s, err := h.receiverNamed(ctx, c)
	if err != nil {
		return call.Reply{}, err
	}
	begun := time.Now()
	v := v1.ReceiverTest{Delivered: true}
	if err := h.Receivers.Sender.Test(ctx, s.Receiver); err != nil {
		v = v1.ReceiverTest{Error: err.Error()}
		c.Audit.Message = edge.Clip(v.Error)
	}
	v.Seconds = time.Since(begun).Seconds()
	return call.OK(v)
}

// DeleteReceiver removes a receiver.
func (h *Handler) DeleteReceiver(ctx context.Context, c *call.Call) (call.Reply, error) {
	name := c.Subject("name")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if err := h.Receivers.Store.DeleteReceiver(ctx, name); err != nil {
		return call.Reply{}, call.StoreProblem(err, "receiver", name)
	}
	h.Bus.Changed(bus.Receivers)
	return call.Reply{Status: http.StatusNoContent}, nil
}
