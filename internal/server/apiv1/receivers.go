package apiv1

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	v1 "drover/api/v1"
	"drover/internal/crontab"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/alarm"
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

// Sender delivers alarms. Test delivers a made-up one at once, Changed has the stored receivers looked at again.
type Sender interface {
	Test(ctx context.Context, w store.Receiver) error
	Changed()
	Latest(s store.Subscription) store.Delivery
	// Due counts the alarms that are still to be delivered.
	Due(ctx context.Context, s store.Subscription) (int64, error)
}

// The bounds of receivers.
const (
	maxReceivers      = 100
	maxReceiverName   = 64
	maxPatterns       = 100
	maxPattern        = 256
	minReceiverSecret = 16
	maxReceiverSecret = 256
)

// viewReceiver returns a receiver with its progress.
func (h *Handler) viewReceiver(ctx context.Context, s store.Subscription) (v1.Receiver, error) {
	due, err := h.Receivers.Sender.Due(ctx, s)
	if err != nil {
		return v1.Receiver{}, failure("read the events", err)
	}
	w, d := s.Receiver, h.Receivers.Sender.Latest(s)
	v := v1.Receiver{
		Name: w.Name, Kind: string(w.Kind), URL: w.URL, Namespaces: w.Match.Namespaces, Select: w.Match.Selector,
		Labels: w.Match.Labels, Severities: w.Match.Severities, Kinds: asTexts(w.Match.Kinds), Local: w.Local,
		Subject: w.Subject, Body: w.Body, Note: w.Note,
		CreatedAt: w.Created, ChangedAt: w.Changed,
		Delivery: v1.Delivery{
			Lag: due, DeliveredAt: given(d.Delivered), Failures: d.Failures, FailingSince: given(d.Failing),
			Error: d.Error, NextAt: given(d.Next),
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
	set(&w.URL, r.URL)
	set(&w.Match.Namespaces, r.Namespaces)
	set(&w.Match.Selector, r.Select)
	set(&w.Match.Labels, r.Labels)
	set(&w.Match.Severities, r.Severities)
	if r.Kinds != nil {
		w.Match.Kinds = asTyped[process.EventKind](*r.Kinds)
	}
	if r.Mail != nil {
		w.Mail = store.Mail(*r.Mail)
	}
	set(&w.Subject, r.Subject)
	set(&w.Body, r.Body)
	set(&w.Local, r.Local)
	set(&w.Note, r.Note)
	var faults []error
	fault := func(field string, err error) { faults = append(faults, invalid(field, "%v", err)) }
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
		faults = append(faults, invalid("mail", "is for receivers of the kind %s: this is a receiver of the kind %s",
			store.KindEmail, w.Kind))
	}
	return together(append(faults, checkMatch(&w.Match))...)
}

// checkMatch reports the invalid fields of a match, and brings its expressions into their shortest form.
func checkMatch(m *store.Match) error {
	faults := []error{checkPatterns("namespaces", m.Namespaces)}
	for i, s := range m.Severities {
		if !slices.Contains(why.Severities(), why.Severity(s)) && len(faults) < mostFaults {
			faults = append(faults, invalid(fmt.Sprintf("severities[%d]", i), "is %.40q: expected %s", s,
				oneOf(why.Severities())))
		}
	}
	for i, kind := range m.Kinds {
		if !slices.Contains(alarm.Kinds(), kind) && len(faults) < mostFaults {
			faults = append(faults, invalid(fmt.Sprintf("kinds[%d]", i), "is %.40q: expected %s", kind,
				oneOf(alarm.Kinds())))
		}
	}
	return together(append(faults, checkSelector("select", &m.Selector), checkSelector("labels", &m.Labels))...)
}

// checkPatterns reports the first invalid pattern of a list.
func checkPatterns(field string, patterns []string) error {
	if n := len(patterns); n > maxPatterns {
		return invalid(field, "has %d entries: expected at most %d", n, maxPatterns)
	}
	for _, pattern := range patterns {
		if err := checkName(field, pattern, maxPattern); err != nil {
			return err
		}
	}
	return nil
}

// checkSelector reports an invalid expression, and brings a valid one into its shortest form. It may be empty.
func checkSelector(field string, text *string) error {
	if *text == "" {
		return nil
	}
	s, err := selector.Parse(*text)
	if err != nil {
		return invalid(field, "%v", err)
	}
	*text = s.String()
	return nil
}

// oneOf lists words for an error message.
func oneOf[T ~string](words []T) string { return strings.Join(asTexts(words), ", ") }

// asTexts returns words as texts; nil for none.
func asTexts[T ~string](words []T) (texts []string) {
	for _, w := range words {
		texts = append(texts, string(w))
	}
	return texts
}

// asTyped returns texts as words.
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
		return "", invalid("kind", "is %.40q: expected %s", given, oneOf(store.ReceiverKinds()))
	}
	return kind, nil
}

// receiverRecord returns the form of a request for the audit log. It has no secret, and only the host of an address,
// because the rest may hold a token.
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
	if err := checkName("name", name, maxReceiverName); err != nil {
		return err
	}
	if !plain(name, "-_.") {
		return invalid("name", "is %q: expected letters, digits, -, _ and .", edge.Clip(name))
	}
	return nil
}

// checkReceiverSecret rejects a secret that is easy to guess or hard to pass on.
func checkReceiverSecret(secret string) error {
	if n := len(secret); n < minReceiverSecret || n > maxReceiverSecret {
		return invalid("secret", "is %d bytes long: expected %d to %d", n, minReceiverSecret, maxReceiverSecret)
	}
	if strings.ContainsFunc(secret, func(r rune) bool {
		return r <= ' ' || r > unicode.MaxASCII ||
			!unicode.IsPrint(r)
	}) {
		return invalid("secret", "holds a blank, a control character or one that is not ASCII")
	}
	return nil
}

// secretOf returns the given secret, or a new one for a webhook. Another receiver needs no secret, and knows its own:
// it may have any length.
func secretOf(kind store.ReceiverKind, given *string) (string, error) {
	switch {
	case kind == store.KindWebhook && given == nil:
		return access.NewSecret(), nil
	case given == nil:
		return "", nil
	case kind == store.KindWebhook:
		return *given, checkReceiverSecret(*given)
	case len(*given) > maxReceiverSecret || strings.ContainsFunc(*given, unicode.IsControl):
		return "", invalid("secret", "is longer than %d bytes or holds a control character", maxReceiverSecret)
	}
	return *given, nil
}

// newReceiver returns the receiver that a request describes.
func newReceiver(r *v1.ReceiverChange) (w store.Receiver, err error) {
	faults := []error{checkReceiverName(r.Name)}
	if w.Kind, err = receiverKind(r.Kind); err == nil {
		w.Secret, err = secretOf(w.Kind, r.Secret)
	}
	err = together(append(faults, err, applyReceiver(r, &w))...)
	return w, err
}

// createReceiver creates a receiver, whose alarms begin now. Only this reply shows its secret.
func (h *Handler) createReceiver(ctx context.Context, c *call) (reply, error) {
	var req v1.ReceiverChange
	var w store.Receiver
	check := func() (err error) {
		w, err = newReceiver(&req)
		return err
	}
	if err := c.decode(ctx, &req, check); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Name)
	c.Audit.Detail = receiverRecord(req)
	if err := check(); err != nil {
		return reply{}, err
	}
	now := h.Now()
	w.Name, w.Created, w.Changed = req.Name, now, now
	list, err := h.Receivers.Store.ListReceivers(ctx)
	if err != nil {
		return reply{}, failure("list the receivers", err)
	}
	if len(list) >= maxReceivers {
		return reply{}, problemf(http.StatusConflict, "there are %d receivers already: expected at most %d", len(list),
			maxReceivers)
	}
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return reply{}, failure("read the events", err)
	}
	if err := h.Receivers.Store.CreateReceiver(ctx, w, last); err != nil {
		return reply{}, stored(err, "receiver", w.Name)
	}
	h.Receivers.Sender.Changed()
	v, err := h.viewReceiver(ctx, store.Subscription{Receiver: w, Delivery: store.Delivery{Cursor: last}})
	if err != nil {
		return reply{}, err
	}
	if w.Kind == store.KindWebhook {
		v.Secret = w.Secret
	}
	return reply{status: http.StatusCreated, body: v, location: "/receivers/" + url.PathEscape(w.Name)}, nil
}

// listReceivers lists all receivers, without pages, because they are few.
func (h *Handler) listReceivers(ctx context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	list, err := h.Receivers.Store.ListReceivers(ctx)
	if err != nil {
		return reply{}, failure("list the receivers", err)
	}
	views := make([]v1.Receiver, len(list))
	for i, s := range list {
		if views[i], err = h.viewReceiver(ctx, s); err != nil {
			return reply{}, err
		}
	}
	return ok(pageOf(c, views, nil))
}

func (h *Handler) getReceiver(ctx context.Context, c *call) (reply, error) {
	s, err := h.receiverNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return h.receiverReply(ctx, http.StatusOK, s, "")
}

// receiverNamed reads the receiver that the path names, for a call without parameters.
func (h *Handler) receiverNamed(ctx context.Context, c *call) (store.Subscription, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return store.Subscription{}, err
	}
	s, err := h.Receivers.Store.GetReceiver(ctx, name)
	return s, stored(err, "receiver", name)
}

// receiverReply returns a receiver, with its secret if the secret is new.
func (h *Handler) receiverReply(ctx context.Context, status int, s store.Subscription, secret string) (reply, error) {
	v, err := h.viewReceiver(ctx, s)
	if err != nil {
		return reply{}, err
	}
	v.Secret = secret
	return reply{status: status, body: v}, nil
}

// changeReceiver changes the given fields. The progress stays, and the server retries a failed delivery at once.
func (h *Handler) changeReceiver(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req v1.ReceiverChange
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	c.Audit.Detail = receiverRecord(req)
	var faults []error
	if req.Name != "" && req.Name != name {
		faults = append(faults, invalid("name", "cannot be changed"))
	}
	if req.Kind != "" {
		faults = append(faults, invalid("kind", "cannot be changed"))
	}
	if req.Secret != nil {
		faults = append(faults, invalid("secret", "is changed at %s/receivers/{name}/secret", v1.Prefix))
	}
	if err := together(faults...); err != nil {
		return reply{}, err
	}
	s, err := h.Receivers.Store.ChangeReceiver(ctx, name, func(w *store.Receiver) error {
		former := w.URL
		w.Changed = h.Now()
		if err := applyReceiver(&req, w); err != nil {
			return err
		}
		if w.Kind != store.KindWebhook && w.Secret != "" && !sameServer(former, w.URL) {
			return invalid("url", "is of another server, and the secret is for %q: create another receiver", origin(former))
		}
		return nil
	})
	if err != nil {
		return reply{}, stored(err, "receiver", name)
	}
	h.Receivers.Sender.Changed()
	return h.receiverReply(ctx, http.StatusOK, s, "")
}

// sameServer reports whether two URLs are of one server.
func sameServer(a, b string) bool { return origin(a) == origin(b) }

// origin is the scheme and the host of a URL, with its port.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// rotateReceiver gives a receiver another secret, which signs deliveries from now on. Only this reply shows it.
func (h *Handler) rotateReceiver(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	var req v1.ReceiverSecretRequest
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	var secret string
	s, err := h.Receivers.Store.ChangeReceiver(ctx, name, func(w *store.Receiver) (err error) {
		if secret, err = secretOf(w.Kind, req.Secret); err != nil {
			return err
		}
		if secret == "" && req.Secret == nil {
			return invalid("secret", "is missing: only a webhook gets its secret from drover")
		}
		w.Secret, w.Changed = secret, h.Now()
		return nil
	})
	if err != nil {
		return reply{}, stored(err, "receiver", name)
	}
	h.Receivers.Sender.Changed()
	if s.Receiver.Kind != store.KindWebhook {
		secret = "" // its owner knows it
	}
	return h.receiverReply(ctx, http.StatusCreated, s, secret)
}

// testReceiver delivers a test alarm and returns the result.
func (h *Handler) testReceiver(ctx context.Context, c *call) (reply, error) {
	s, err := h.receiverNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	begun := time.Now()
	v := v1.ReceiverTest{Delivered: true}
	if err := h.Receivers.Sender.Test(ctx, s.Receiver); err != nil {
		v = v1.ReceiverTest{Error: err.Error()}
		c.Audit.Message = edge.Clip(v.Error)
	}
	v.Seconds = time.Since(begun).Seconds()
	return ok(v)
}

func (h *Handler) deleteReceiver(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if err := h.Receivers.Store.DeleteReceiver(ctx, name); err != nil {
		return reply{}, stored(err, "receiver", name)
	}
	h.Receivers.Sender.Changed()
	return reply{status: http.StatusNoContent}, nil
}

// ends reads the end of a silence with one window.
func ends(s *store.Silence, r *v1.SilenceRequest, now time.Time) error {
	switch {
	case r.Until != nil && r.Seconds != 0:
		return invalid("seconds", "is given beside until: expected one of both")
	case r.Until != nil:
		s.Until = r.Until.UTC()
	case r.Seconds > 0 && r.Seconds <= longestSilence.Seconds():
		s.Until = s.From.Add(time.Duration(math.Ceil(r.Seconds * float64(time.Second))))
	case r.Seconds == 0:
		return invalid("until", "is missing: expected until, or seconds")
	default:
		return invalid("seconds", "is %s: expected more than 0, at most %.0f days", inSeconds(r.Seconds),
			longestSilence.Hours()/24)
	}
	switch {
	case !s.Until.After(s.From) || !s.Until.After(now):
		return invalid("until", "is %s: expected a time after the beginning, in the future",
			s.Until.Format(time.RFC3339))
	case s.Until.Sub(s.From) > longestSilence:
		return invalid("until", "is more than %d days after the beginning", int(longestSilence.Hours()/24))
	case s.From.Sub(now) > longestSilence:
		return invalid("from", "is more than %d days ahead", int(longestSilence.Hours()/24))
	}
	return nil
}

// decimal writes a number as people do, without an exponent.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// inSeconds writes a length of time in seconds, and from a minute on also as people do.
func inSeconds(n float64) string {
	text := decimal(n) + " seconds"
	if n < 60 || !(n < 1e9) {
		return text
	}
	return v1.Duration(n*float64(time.Second)).String() + " (" + text + ")"
}

// repeats reads the timetable of a silence with many windows.
func repeats(s *store.Silence, r *v1.SilenceRequest, now time.Time) error {
	rule, err := timetable(r.Cron, r.TimeZone)
	faults := []error{err}
	s.Cron, s.Zone, s.Until = r.Cron, r.TimeZone, store.Forever()
	if !(r.Seconds > 0 && r.Seconds <= longestWindow.Seconds()) { // rejects NaN too
		faults = append(faults, invalid("seconds", "is %s: expected more than 0, at most %.0f days for each window",
			inSeconds(r.Seconds), longestWindow.Hours()/24))
	}
	s.Length = time.Duration(math.Ceil(r.Seconds * float64(time.Second)))
	if r.Until != nil {
		if s.Until = r.Until.UTC(); !s.Until.After(s.From) || !s.Until.After(now) || s.Until.After(store.Forever()) {
			faults = append(faults, invalid("until", "is %s: expected a time after the beginning, in the future",
				s.Until.Format(time.RFC3339)))
		}
	}
	if err := together(faults...); err != nil {
		return err
	}
	if _, _, any := s.Window(rule, now); !any {
		return invalid("cron", "has no time between from and until")
	}
	return apart(rule, s.Length, now)
}

// apart rejects windows that overlap, because such a silence has an end only in its list.
func apart(rule crontab.Rule, length time.Duration, now time.Time) error {
	const looked = 100 // windows
	before, more := rule.Next(now)
	for range looked {
		next, again := rule.Next(before)
		if more = more && again; !more {
			break
		}
		if gap := next.Sub(before); gap <= length {
			return invalid("seconds", "is %s: a window begins every %s, so the silence would not end: expected less",
				length, gap)
		}
		before = next
	}
	return nil
}
