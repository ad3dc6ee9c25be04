package apiv1

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	v1 "drover/api/v1"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/store"
	"drover/internal/server/webhook"
)

// Webhooks holds the addresses of alarms and the part that delivers to them.
type Webhooks struct {
	Store  store.Webhooks
	Sender Sender
}

// Sender delivers alarms. Test delivers a made-up one at once, Changed has the stored webhooks looked at again.
type Sender interface {
	Test(ctx context.Context, w store.Webhook) error
	Changed()
	Latest(s store.Subscription) store.Delivery
	// Due counts the alarms that are still to be delivered.
	Due(ctx context.Context, s store.Subscription) (int64, error)
}

// The bounds of webhooks.
const (
	maxWebhooks      = 100
	maxWebhookName   = 64
	maxPatterns      = 100
	maxPattern       = 256
	minWebhookSecret = 16
	maxWebhookSecret = 256
)

// viewWebhook returns a webhook with its progress.
func (h *Handler) viewWebhook(ctx context.Context, s store.Subscription) (v1.Webhook, error) {
	due, err := h.Webhooks.Sender.Due(ctx, s)
	if err != nil {
		return v1.Webhook{}, failure("read the events", err)
	}
	w, d := s.Webhook, h.Webhooks.Sender.Latest(s)
	v := v1.Webhook{
		Name: w.Name, URL: w.URL, Namespaces: w.Namespaces, Select: w.Selector, Local: w.Local, Note: w.Note,
		CreatedAt: w.Created, ChangedAt: w.Changed,
		Delivery: v1.Delivery{
			Lag: due, DeliveredAt: given(d.Delivered), Failures: d.Failures, FailingSince: given(d.Failing),
			Error: d.Error, NextAt: given(d.Next),
		},
	}
	if v.Namespaces == nil {
		v.Namespaces = []string{}
	}
	return v, nil
}

// applyWebhook applies a change to a webhook, and reports the first invalid field of the result. It checks the result
// because two fields together decide whether an address is allowed.
func applyWebhook(r *v1.WebhookChange, w *store.Webhook) error {
	set(&w.URL, r.URL)
	set(&w.Namespaces, r.Namespaces)
	set(&w.Selector, r.Select)
	set(&w.Local, r.Local)
	set(&w.Note, r.Note)
	if err := webhook.CheckURL(w.URL, w.Local); err != nil {
		return invalid("url", "%v", err)
	}
	if n := len(w.Namespaces); n > maxPatterns {
		return invalid("namespaces", "has %d entries: expected at most %d", n, maxPatterns)
	}
	for _, pattern := range w.Namespaces {
		if err := checkName("namespaces", pattern, maxPattern); err != nil {
			return err
		}
	}
	if w.Selector == "" {
		return nil
	}
	s, err := selector.Parse(w.Selector)
	if err != nil {
		return invalid("select", "%v", err)
	}
	w.Selector = s.String()
	return nil
}

// webhookRecord returns the form of a request for the audit log. It has no secret, and only the host of an address,
// because the rest may hold a token.
func webhookRecord(r v1.WebhookChange) json.RawMessage {
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

// checkWebhookName rejects a name that cannot appear unchanged in a header or a label.
func checkWebhookName(name string) error {
	if err := checkName("name", name, maxWebhookName); err != nil {
		return err
	}
	if !plain(name, "-_.") {
		return invalid("name", "is %q: expected letters, digits, -, _ and .", edge.Clip(name))
	}
	return nil
}

// checkWebhookSecret rejects a secret that is easy to guess or hard to pass on.
func checkWebhookSecret(secret string) error {
	if n := len(secret); n < minWebhookSecret || n > maxWebhookSecret {
		return invalid("secret", "is %d bytes long: expected %d to %d", n, minWebhookSecret, maxWebhookSecret)
	}
	if strings.ContainsFunc(secret, func(r rune) bool {
		return r <= ' ' || r > unicode.MaxASCII ||
			!unicode.IsPrint(r)
	}) {
		return invalid("secret", "holds a blank, a control character or one that is not ASCII")
	}
	return nil
}

// secretOf returns the given secret, or a new one.
func secretOf(given *string) (string, error) {
	if given == nil {
		return access.NewSecret(), nil
	}
	return *given, checkWebhookSecret(*given)
}

// createWebhook creates a webhook, whose alarms begin now. Only this reply shows its secret.
func (h *Handler) createWebhook(ctx context.Context, c *call) (reply, error) {
	var req v1.WebhookChange
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Name)
	c.Audit.Detail = webhookRecord(req)
	if err := checkWebhookName(req.Name); err != nil {
		return reply{}, err
	}
	now := h.Now()
	w := store.Webhook{Name: req.Name, Created: now, Changed: now}
	if err := applyWebhook(&req, &w); err != nil {
		return reply{}, err
	}
	var err error
	if w.Secret, err = secretOf(req.Secret); err != nil {
		return reply{}, err
	}
	list, err := h.Webhooks.Store.ListWebhooks(ctx)
	if err != nil {
		return reply{}, failure("list the webhooks", err)
	}
	if len(list) >= maxWebhooks {
		return reply{}, problemf(http.StatusConflict, "there are %d webhooks already: expected at most %d", len(list),
			maxWebhooks)
	}
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return reply{}, failure("read the events", err)
	}
	if err := h.Webhooks.Store.CreateWebhook(ctx, w, last); err != nil {
		return reply{}, stored(err, "webhook", w.Name)
	}
	h.Webhooks.Sender.Changed()
	v, err := h.viewWebhook(ctx, store.Subscription{Webhook: w, Delivery: store.Delivery{Cursor: last}})
	if err != nil {
		return reply{}, err
	}
	v.Secret = w.Secret
	return reply{status: http.StatusCreated, body: v, location: "/webhooks/" + url.PathEscape(w.Name)}, nil
}

// listWebhooks lists all webhooks, without pages, because they are few.
func (h *Handler) listWebhooks(ctx context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	list, err := h.Webhooks.Store.ListWebhooks(ctx)
	if err != nil {
		return reply{}, failure("list the webhooks", err)
	}
	views := make([]v1.Webhook, len(list))
	for i, s := range list {
		if views[i], err = h.viewWebhook(ctx, s); err != nil {
			return reply{}, err
		}
	}
	return ok(pageOf(c, views, nil))
}

func (h *Handler) getWebhook(ctx context.Context, c *call) (reply, error) {
	s, err := h.webhookNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return h.webhookReply(ctx, http.StatusOK, s, "")
}

// webhookNamed reads the webhook that the path names, for a call without parameters.
func (h *Handler) webhookNamed(ctx context.Context, c *call) (store.Subscription, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return store.Subscription{}, err
	}
	s, err := h.Webhooks.Store.GetWebhook(ctx, name)
	return s, stored(err, "webhook", name)
}

// webhookReply returns a webhook, with its secret if the secret is new.
func (h *Handler) webhookReply(ctx context.Context, status int, s store.Subscription, secret string) (reply, error) {
	v, err := h.viewWebhook(ctx, s)
	if err != nil {
		return reply{}, err
	}
	v.Secret = secret
	return reply{status: status, body: v}, nil
}

// changeWebhook changes the given fields. The progress stays, and the server retries a failed delivery at once.
func (h *Handler) changeWebhook(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req v1.WebhookChange
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.Audit.Detail = webhookRecord(req)
	switch {
	case req.Name != "" && req.Name != name:
		return reply{}, invalid("name", "cannot be changed")
	case req.Secret != nil:
		return reply{}, invalid("secret", "is changed at %s/webhooks/{name}/secret", v1.Prefix)
	}
	s, err := h.Webhooks.Store.ChangeWebhook(ctx, name, func(w *store.Webhook) error {
		w.Changed = h.Now()
		return applyWebhook(&req, w)
	})
	if err != nil {
		return reply{}, stored(err, "webhook", name)
	}
	h.Webhooks.Sender.Changed()
	return h.webhookReply(ctx, http.StatusOK, s, "")
}

// rotateWebhook gives a webhook another secret, which signs deliveries from now on. Only this reply shows it.
func (h *Handler) rotateWebhook(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req v1.WebhookSecretRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	secret, err := secretOf(req.Secret)
	if err != nil {
		return reply{}, err
	}
	s, err := h.Webhooks.Store.ChangeWebhook(ctx, name, func(w *store.Webhook) error {
		w.Secret, w.Changed = secret, h.Now()
		return nil
	})
	if err != nil {
		return reply{}, stored(err, "webhook", name)
	}
	h.Webhooks.Sender.Changed()
	return h.webhookReply(ctx, http.StatusCreated, s, secret)
}

// testWebhook delivers a test alarm and returns the result.
func (h *Handler) testWebhook(ctx context.Context, c *call) (reply, error) {
	s, err := h.webhookNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	begun := time.Now()
	v := v1.WebhookTest{Delivered: true}
	if err := h.Webhooks.Sender.Test(ctx, s.Webhook); err != nil {
		v = v1.WebhookTest{Error: err.Error()}
		c.Audit.Message = edge.Clip(v.Error)
	}
	v.Seconds = time.Since(begun).Seconds()
	return ok(v)
}

func (h *Handler) deleteWebhook(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if err := h.Webhooks.Store.DeleteWebhook(ctx, name); err != nil {
		return reply{}, stored(err, "webhook", name)
	}
	h.Webhooks.Sender.Changed()
	return reply{status: http.StatusNoContent}, nil
}
