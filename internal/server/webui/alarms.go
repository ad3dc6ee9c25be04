package webui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/words"
)

// receiverActions are the actions of the page of receivers.
func receiverActions() actions {
	return actions{
		"create": (*view).createReceiver, "change": (*view).changeReceiver, "rotate": (*view).rotateReceiver,
		"test": (*view).testReceiver, "delete": (*view).deleteReceiver,
	}
}

// receivers lists the receivers of alarms, and shows one of them.
func (v *view) receivers(ctx context.Context, body map[string]any) error {
	rows, err := v.client.Receivers(ctx)
	body["Rows"], body["Command"], body["New"] = rows, "drover receiver list", v1.Receiver{}
	name := v.recordName("name")
	if i := slices.IndexFunc(rows, func(r v1.Receiver) bool { return r.Name == name }); i >= 0 {
		body["One"], body["Command"] = rows[i], "drover receiver show "+quote(name)
	}
	return err
}

// receiverChange reads the form of a receiver. The form has every field, so an empty field is an empty value.
func receiverChange(in url.Values) v1.ReceiverChange {
	namespaces, severities, kinds := fields(in.Get("namespaces")), fields(in.Get("severities")), fields(in.Get("kinds"))
	c := v1.ReceiverChange{
		URL: new(strings.TrimSpace(in.Get("url"))), Namespaces: &namespaces, Select: new(in.Get("selector")),
		Labels: new(in.Get("process-label")), Severities: &severities, Kinds: &kinds, Note: new(in.Get("note")),
		Local: new(in.Get("local") != ""), Subject: new(in.Get("subject")),
		Body: new(strings.ReplaceAll(in.Get("body"), "\r\n", "\n")),
	}
	mail := v1.Mail{
		From: strings.TrimSpace(in.Get("mail-from")), To: fields(in.Get("mail-to")), User: in.Get("mail-user"),
	}
	if in.Get("kind") == v1.ReceiverEmail || mail.From != "" || len(mail.To) > 0 {
		c.Mail = &mail
	}
	return c
}

func (v *view) createReceiver(ctx context.Context, in url.Values) (any, error) {
	change := receiverChange(in)
	change.Name, change.Kind = in.Get("name"), in.Get("kind")
	if secret := in.Get("secret"); secret != "" {
		change.Secret = &secret
	}
	r, err := v.client.CreateReceiver(ctx, change)
	return v.secretOfReceiver(r, err)
}

// secretOfReceiver shows the secret of a receiver once, if drover has made one.
func (v *view) secretOfReceiver(r v1.Receiver, err error) (any, error) {
	if err != nil || r.Secret == "" {
		return nil, err
	}
	return shownOnce{Title: words.Alarms.SecretOf.In(v.lang, "name", visible(r.Name)), Text: r.Secret}, nil
}

// changeReceiver changes a receiver, unless it has changed since the form was shown.
func (v *view) changeReceiver(ctx context.Context, in url.Values) (any, error) {
	present, err := v.client.Receiver(ctx, in.Get("name"))
	if err != nil {
		return nil, err
	}
	if present.ChangedAt.Format(time.RFC3339Nano) != in.Get("changed") {
		return nil, &v1.Problem{
			Status: http.StatusConflict, Title: http.StatusText(http.StatusConflict),
			Detail: words.Admin.ChangedMeanwhile.In(v.lang),
		}
	}
	_, err = v.client.ChangeReceiver(ctx, present.Name, receiverChange(in))
	return nil, err
}

func (v *view) rotateReceiver(ctx context.Context, in url.Values) (any, error) {
	r, err := v.client.RotateReceiver(ctx, in.Get("name"), in.Get("secret"))
	return v.secretOfReceiver(r, err)
}

func (v *view) deleteReceiver(ctx context.Context, in url.Values) (any, error) {
	if err := v.typed(in, in.Get("name")); err != nil {
		return nil, err
	}
	return nil, v.client.DeleteReceiver(ctx, in.Get("name"))
}

// typed fails unless the person has typed a text to confirm an action.
func (v *view) typed(in url.Values, text string) error {
	if in.Get("typed") == text {
		return nil
	}
	return &v1.Problem{
		Status: http.StatusUnprocessableEntity, Title: http.StatusText(http.StatusUnprocessableEntity),
		Detail: words.Admin.NotTyped.In(v.lang, "text", text),
	}
}

// testReceiver sends a test alarm.
func (v *view) testReceiver(ctx context.Context, in url.Values) (any, error) {
	name := in.Get("name")
	test, err := v.client.TestReceiver(ctx, name)
	if err != nil {
		return nil, err
	}
	if !test.Delivered {
		return nil, &v1.Problem{
			Status: http.StatusUnprocessableEntity, Title: "Unprocessable Entity",
			Detail: words.Admin.TestFailed.In(v.lang, "name", name, "error", test.Error),
		}
	}
	return shownOnce{Title: words.Admin.TestDone.In(v.lang, "name", visible(name),
		"n", strconv.FormatFloat(test.Seconds, 'f', 2, 64))}, nil
}

// silences lists the silences of alarms, begins one, or ends one.
func (v *view) silences(ctx context.Context) error {
	q := v.r.URL.Query()
	body := map[string]any{"Process": q.Get("process"), "Ended": q.Get("ended") != "", "Command": "drover silence list"}
	done, err := v.carryOut(ctx, actions{
		"create": (*view).createSilence, "remove": (*view).removeSilence,
	}, body)
	if err != nil || done {
		return err
	}
	if body["Rows"], err = v.client.Silences(ctx, q.Get("ended") != ""); err != nil {
		return err
	}
	v.render(http.StatusOK, "silences", body)
	return nil
}

func (v *view) createSilence(ctx context.Context, in url.Values) (any, error) {
	r := v1.SilenceRequest{
		Processes: fields(in.Get("processes")), Hosts: fields(in.Get("hosts")), Select: in.Get("selector"),
		Labels: in.Get("process-label"), Cron: strings.TrimSpace(in.Get("cron")),
		TimeZone: strings.TrimSpace(in.Get("zone")),
		Message:  in.Get("message"),
	}
	if text := in.Get("hours"); text != "" {
		lasts, err := hours(text)
		if err != nil {
			return nil, err
		}
		r.Seconds = lasts.Seconds()
	}
	for name, into := range map[string]**time.Time{"from": &r.From, "until": &r.Until} {
		text := strings.TrimSpace(in.Get(name))
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, badParameter(name, text, "a time such as 2026-11-20T22:00:00+08:00")
		}
		*into = &at
	}
	_, err := v.client.CreateSilence(ctx, r)
	return nil, err
}

func (v *view) removeSilence(ctx context.Context, in url.Values) (any, error) {
	_, err := v.client.RemoveSilence(ctx, in.Get("id"))
	return nil, err
}
