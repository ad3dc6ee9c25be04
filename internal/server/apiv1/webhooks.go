package apiv1

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"drover/internal/server/access"
	"drover/internal/server/store"
	"drover/internal/server/webhook"
)

// Webhooks are the addresses of alarms, and who delivers to them.
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

// Bounds of webhooks.
const (
	maxWebhooks      = 100
	maxWebhookName   = 64
	maxPatterns      = 100
	maxPattern       = 256
	minWebhookSecret = 16
	maxWebhookSecret = 256
)

// webhookView is a webhook without its secret.
type webhookView struct {
	Name       string       `json:"name"`
	URL        string       `json:"url"`
	Namespaces []string     `json:"namespaces"`
	Local      bool         `json:"local"`
	Note       string       `json:"note,omitempty"`
	CreatedAt  time.Time    `json:"created_at"`
	ChangedAt  time.Time    `json:"changed_at"`
	Delivery   deliveryView `json:"delivery"`
	// Secret is shown once, in the answer to the call that made it.
	Secret string `json:"secret,omitempty"`
}

// deliveryView is how far a webhook has got.
type deliveryView struct {
	// Lag is how many alarms are still to be delivered.
	Lag          int64      `json:"lag"`
	DeliveredAt  *time.Time `json:"delivered_at,omitempty"`
	Failures     int        `json:"failures"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
	Error        string     `json:"error,omitempty"`
	NextAt       *time.Time `json:"next_at,omitempty"`
}

// viewWebhook shows a webhook, and how far it has got.
func (h *Handler) viewWebhook(ctx context.Context, s store.Subscription) (webhookView, error) {
	due, err := h.Webhooks.Sender.Due(ctx, s)
	if err != nil {
		return webhookView{}, failure("read the events", err)
	}
	w, d := s.Webhook, h.Webhooks.Sender.Latest(s)
	v := webhookView{
		Name: w.Name, URL: w.URL, Namespaces: w.Namespaces, Local: w.Local, Note: w.Note, CreatedAt: w.Created,
		ChangedAt: w.Changed,
		Delivery: deliveryView{
			Lag: due, DeliveredAt: given(d.Delivered), Failures: d.Failures, FailingSince: given(d.Failing),
			Error: d.Error, NextAt: given(d.Next),
		},
	}
	if v.Namespaces == nil {
		v.Namespaces = []string{}
	}
	return v, nil
}

// webhookRequest is the body of a new webhook and of a change, where only what is given counts.
type webhookRequest struct {
	Name       string    `json:"name,omitempty"`
	URL        *string   `json:"url,omitempty"`
	Namespaces *[]string `json:"namespaces,omitempty"`
	Local      *bool     `json:"local,omitempty"`
	Note       *string   `json:"note,omitempty"`
	// Secret is for a new webhook.
	Secret *string `json:"secret,omitempty"`
}

// change carries the request over to a webhook, and reports the first field that is wrong with the outcome: whether an
// address is allowed depends on two of them.
func (r *webhookRequest) change(w *store.Webhook) error {
	set(&w.URL, r.URL)
	set(&w.Namespaces, r.Namespaces)
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
	return nil
}

// detail is what the record keeps of a request: of an address the host only, as the rest may hold a token, and no
// secret.
func (r webhookRequest) detail() json.RawMessage {
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

// checkWebhookName refuses a name that could not stand in a header or a label as it is.
func checkWebhookName(name string) error {
	if err := checkName("name", name, maxWebhookName); err != nil {
		return err
	}
	if !plain(name, "-_.") {
		return invalid("name", "is %q: expected letters, digits, -, _ and .", clip(name))
	}
	return nil
}

// checkWebhookSecret refuses a secret that is easily guessed or hard to hand on.
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

// secretOf is the secret that is asked for, or a new one.
func secretOf(given *string) (string, error) {
	if given == nil {
		return access.NewSecret(), nil
	}
	return *given, checkWebhookSecret(*given)
}

// createWebhook makes a webhook, whose alarms begin now. Its secret is shown this once.
func (h *Handler) createWebhook(ctx context.Context, c *call) (reply, error) {
	var req webhookRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.audit.Target = clip(req.Name)
	c.audit.Detail = req.detail()
	if err := checkWebhookName(req.Name); err != nil {
		return reply{}, err
	}
	now := h.Now()
	w := store.Webhook{Name: req.Name, Created: now, Changed: now}
	if err := req.change(&w); err != nil {
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

// listWebhooks lists all webhooks: they are few.
func (h *Handler) listWebhooks(ctx context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	list, err := h.Webhooks.Store.ListWebhooks(ctx)
	if err != nil {
		return reply{}, failure("list the webhooks", err)
	}
	views := make([]webhookView, len(list))
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

// webhookNamed reads the webhook that a path names, of a call without parameters.
func (h *Handler) webhookNamed(ctx context.Context, c *call) (store.Subscription, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return store.Subscription{}, err
	}
	s, err := h.Webhooks.Store.GetWebhook(ctx, name)
	return s, stored(err, "webhook", name)
}

// webhookReply shows a webhook, and its secret where that is new.
func (h *Handler) webhookReply(ctx context.Context, status int, s store.Subscription, secret string) (reply, error) {
	v, err := h.viewWebhook(ctx, s)
	if err != nil {
		return reply{}, err
	}
	v.Secret = secret
	return reply{status: status, body: v}, nil
}

// changeWebhook changes what is given. How far it has got stays as it is, and what failed is tried again at once.
func (h *Handler) changeWebhook(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req webhookRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.audit.Detail = req.detail()
	switch {
	case req.Name != "" && req.Name != name:
		return reply{}, invalid("name", "cannot be changed")
	case req.Secret != nil:
		return reply{}, invalid("secret", "is changed at %s/webhooks/{name}/secret", Prefix)
	}
	s, err := h.Webhooks.Store.ChangeWebhook(ctx, name, func(w *store.Webhook) error {
		w.Changed = h.Now()
		return req.change(w)
	})
	if err != nil {
		return reply{}, stored(err, "webhook", name)
	}
	h.Webhooks.Sender.Changed()
	return h.webhookReply(ctx, http.StatusOK, s, "")
}

// webhookSecretRequest is the body of a new secret.
type webhookSecretRequest struct {
	// Secret is the one that is wanted; without it one is made.
	Secret *string `json:"secret"`
}

// rotateWebhook gives a webhook another secret, which is shown this once and signs from now on.
func (h *Handler) rotateWebhook(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req webhookSecretRequest
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

// testView is what came of a test delivery.
type testView struct {
	Delivered bool    `json:"delivered"`
	Error     string  `json:"error,omitempty"`
	Seconds   float64 `json:"seconds"`
}

// testWebhook delivers a made-up alarm, and tells what came of it.
func (h *Handler) testWebhook(ctx context.Context, c *call) (reply, error) {
	s, err := h.webhookNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	begun := time.Now()
	v := testView{Delivered: true}
	if err := h.Webhooks.Sender.Test(ctx, s.Webhook); err != nil {
		v = testView{Error: err.Error()}
		c.audit.Message = clip(v.Error)
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
