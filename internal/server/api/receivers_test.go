package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"drover/internal/server/store"
)

func TestReceivers(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	made := r.want(201,
		r.call("admin", "POST", "/receivers",
			`{"name":"ops","url":"https://alarms.example/hook?token=hidden","namespaces":["shop*"],"note":"n"}`))
	secret := made.body["secret"].(string)
	kept, err := r.store.GetReceiver(t.Context(), "ops")
	r.must(err)
	if len(secret) < 32 || kept.Receiver.Secret != secret {
		t.Errorf("shown was %q, kept is %q", secret, kept.Receiver.Secret)
	}
	if got := made.header.Get("Location"); got != "/api/v1/receivers/ops" {
		t.Errorf("location %q", got)
	}
	for _, path := range []string{"/receivers/ops", "/receivers"} {
		if text := r.want(200, r.call("admin", "GET", path, nil)).text(t); strings.Contains(text, secret) {
			t.Errorf("%s tells the secret: %s", path, text)
		}
	}
	changed := r.want(200,
		r.call("admin", "PATCH", "/receivers/ops", `{"url":"http://127.0.0.1:1/x?hidden","local":true}`))
	if changed.body["note"] != "n" || changed.body["local"] != true ||
		changed.body["url"] != "http://127.0.0.1:1/x?hidden" {
		t.Errorf("changed to %v", changed.body)
	}
	r.refused(r.call("admin", "PATCH", "/receivers/ops", `{"local":false}`), 422, "url")
	given := r.want(201, r.call("admin", "POST", "/receivers/ops/secret", `{"secret":"0123456789abcdef"}`))
	again := r.want(201, r.call("admin", "POST", "/receivers/ops/secret", `{}`))
	if given.body["secret"] != "0123456789abcdef" || again.body["secret"] == given.body["secret"] ||
		again.body["secret"] == secret {
		t.Errorf("new secrets: %v, %v", given.body, again.body)
	}
	r.want(204, r.call("admin", "DELETE", "/receivers/ops", nil))
	same(t, "receivers", 0, len(r.want(200, r.call("admin", "GET", "/receivers", nil)).items("name")))

	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 100})
	r.must(err)
	for _, row := range rows {
		if text := string(row.Detail) + row.Message + row.Target; strings.Contains(text, "hidden") ||
			strings.Contains(text, "0123456789abcdef") || strings.Contains(text, secret) {
			t.Errorf("%s: the record tells a secret: %s", row.Action, text)
		}
	}
	if first := rows[len(rows)-1]; first.Action != "receivers.create" || first.Target != "ops" ||
		!strings.Contains(string(first.Detail), `"https://alarms.example"`) {
		t.Errorf("recorded as %+v", first)
	}
}

func TestReceiversRefused(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("viewer", "* on *")
	for _, path := range []string{"/receivers", "/receivers/x"} {
		r.refused(r.call("viewer", "GET", path, nil), 403, "")
	}
	for body, field := range map[string]string{
		`{"url":"https://x/"}`:                                          "name",
		`{"name":"a b","url":"https://x/"}`:                             "name",
		`{"name":"a/b","url":"https://x/"}`:                             "name",
		`{"name":"` + strings.Repeat("x", 65) + `","url":"https://x/"}`: "name",
		`{"name":"x"}`:                  "url",
		`{"name":"x","url":"ftp://x/"}`: "url",
		`{"name":"x","url":"http://169.254.169.254/latest/meta-data"}`:                          "url",
		`{"name":"x","url":"http://127.0.0.1/"}`:                                                "url",
		`{"name":"x","url":"https://x/","namespaces":[""]}`:                                     "namespaces",
		`{"name":"x","url":"https://x/","namespaces":["` + strings.Repeat("x", 257) + `"]}`:     "namespaces",
		`{"name":"x","url":"https://x/","namespaces":[` + strings.Repeat(`"x",`, 100) + `"x"]}`: "namespaces",
		`{"name":"x","url":"https://x/","secret":"short"}`:                                      "secret",
		`{"name":"x","url":"https://x/","secret":"with a blank in it"}`:                         "secret",
		`{"name":"x","url":"https://x/","local":"yes"}`:                                         "local",
		`{"name":"x","url":"https://x/","events":[]}`:                                           "events",
	} {
		r.refused(r.call("admin", "POST", "/receivers", body), 422, field)
	}
	same(t, "faults beside an unknown kind", []string{"name", "kind", "mail.from", "mail.to[0]", "severities[0]", "kinds[0]"},
		r.want(422, r.call("admin", "POST", "/receivers",
			`{"name":"a b","url":"https://x/","kind":"x","mail":{"to":["z"]},"severities":["x"],"kinds":["x"]}`)).faults())
	r.want(201, r.call("admin", "POST", "/receivers", `{"name":"x","url":"https://x/"}`))
	r.refused(r.call("admin", "POST", "/receivers", `{"name":"x","url":"https://x/"}`), 409, "")
	r.refused(r.call("admin", "PATCH", "/receivers/x", `{"name":"y"}`), 422, "name")
	r.refused(r.call("admin", "PATCH", "/receivers/x", `{"secret":"0123456789abcdef"}`), 422, "secret")
	for _, call := range [][2]string{
		{"GET", "/none"},
		{"PATCH", "/none"},
		{"DELETE", "/none"},
		{"POST", "/none/test"},
		{"POST", "/none/secret"},
	} {
		var body any
		if call[0] == "PATCH" {
			body = `{"note":"x"}`
		} else if strings.HasSuffix(call[1], "secret") {
			body = `{}`
		}
		r.refused(r.call("admin", call[0], "/receivers"+call[1], body), 404, "")
	}
	for i := range 99 {
		r.must(r.store.CreateReceiver(t.Context(), store.Receiver{Name: "n" + strings.Repeat("x", i)}, 0))
	}
	r.refused(r.call("admin", "POST", "/receivers", `{"name":"y","url":"https://x/"}`), 409, "")
}

// TestSecretsStayWithTheirServer: the secret of a receiver never goes to another server than the one it was given for.
func TestSecretsStayWithTheirServer(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.want(201, r.call("admin", "POST", "/receivers", map[string]any{
		"name": "am", "kind": "alertmanager", "url": "https://am.example.com/a", "secret": "bearer",
	}))
	r.want(200, r.call("admin", "PATCH", "/receivers/am", `{"url":"https://am.example.com/b"}`))
	for _, other := range []string{"https://am.example.com:444/b", "https://evil.example.com/b"} {
		r.refused(r.call("admin", "PATCH", "/receivers/am", map[string]any{"url": other}), 422, "url")
	}
	r.want(201, r.call("admin", "POST", "/receivers", map[string]any{"name": "hook", "url": "https://a.example.com/"}))
	r.want(200, r.call("admin", "PATCH", "/receivers/hook", `{"url":"https://b.example.com/"}`))
}

// TestReceiverDelivery: a view tells how far a receiver has got and why not further, and a test delivery what came of it.
func TestReceiverDelivery(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	took := make(chan struct{}, 1)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { took <- struct{}{} }))
	t.Cleanup(target.Close)
	r.want(201, r.call("admin", "POST", "/receivers", map[string]any{"name": "ops", "url": target.URL, "local": true}))
	if got := r.want(200, r.call("admin", "POST", "/receivers/ops/test", nil)); got.body["delivered"] != true {
		t.Errorf("%v: want a delivery", got.body)
	}
	<-took

	// Of what has happened, one thing is an alarm.
	r.happen("web/nginx@"+web+" started 1", "web/nginx@"+web+" given-up 2", "web/nginx@"+web+" stopped 3")
	kept, err := r.store.GetReceiver(t.Context(), "ops")
	r.must(err)
	since := time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
	r.must(r.store.PutDelivery(t.Context(), "ops", kept.Receiver.Created, store.Delivery{
		Cursor: 0, Failures: 2, Failing: since, Error: "answered 502", Next: since.Add(time.Minute),
		Delivered: since.Add(-time.Minute),
	}, store.Withheld{}))
	got := r.want(200, r.call("admin", "GET", "/receivers/ops", nil)).body["delivery"]
	same(t, "delivery", map[string]any{
		"lag": 1.0, "failures": 2.0, "failing_since": "2026-11-20T10:30:00Z", "error": "answered 502",
		"next_at":      "2026-11-20T10:31:00Z",
		"delivered_at": "2026-11-20T10:29:00Z",
	}, got.(map[string]any))

	target.Close()
	failed := r.want(200, r.call("admin", "POST", "/receivers/ops/test", nil))
	if text, _ := failed.body["error"].(string); failed.body["delivered"] != false ||
		!strings.Contains(text, "refused") {
		t.Errorf("%v: want why it did not arrive", failed.body)
	}
}

// TestNewReceiverBeginsNow: what has happened before is no alarm any more, and the sender takes a receiver up at once.
func TestNewReceiverBeginsNow(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	bodies := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		bodies <- req.Header.Get("X-Drover-Delivery")
	}))
	t.Cleanup(target.Close)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.sender.Run(ctx) }()
	t.Cleanup(func() { cancel(); r.must(<-done) })
	r.happen("ns/old@" + web + " relaunched 1")
	r.want(201, r.call("admin", "POST", "/receivers", map[string]any{"name": "ops", "url": target.URL, "local": true}))
	r.happen("ns/new@" + web + " relaunched 2")
	r.sender.News()
	same(t, "delivery", "ops-2", <-bodies)
}
