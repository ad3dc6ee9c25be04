package api_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

func TestSilences(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "silence on shop", "operate on bar")
	r.app("narrow", "* on shop at area:0")
	r.app("all", "silence on *")
	r.app("viewer", "read on *")
	made := r.want(201, r.call("shop", "POST", "/silences",
		`{"processes":["shop/*"],"select":"role = web","seconds":7200,"message":"kernel"}`))
	id := made.body["id"].(string)
	if made.body["state"] != "active" || made.body["select"] != "role=web" || made.body["user"] != "anna" ||
		made.header.Get("Location") != "/api/v1/silences/"+id {
		t.Errorf("made %v, %v", made.body, made.header)
	}
	until, err := time.Parse(time.RFC3339, made.body["until"].(string))
	r.must(err)
	if left := time.Until(until); left > 2*time.Hour || left < 119*time.Minute {
		t.Errorf("it ends in %s", left)
	}
	for app, body := range map[string]string{
		"viewer": `{"processes":["shop/*"],"seconds":1}`,
		"narrow": `{"processes":["shop/*"],"seconds":1}`,
		"shop":   `{"processes":["shop/*","bar/x"],"seconds":1}`,
	} {
		r.refused(r.call(app, "POST", "/silences", body), 403, "")
	}
	r.refused(r.call("shop", "POST", "/silences", `{"processes":["s*/x"],"seconds":1}`), 403, "")
	r.refused(r.call("shop", "POST", "/silences", `{"select":"role=web","seconds":1}`), 403, "")
	later := r.want(201, r.call("all", "POST", "/silences", map[string]any{
		"labels": "tier=front", "from": time.Now().Add(time.Hour), "until": time.Now().Add(2 * time.Hour),
	}))
	same(t, "state", "pending", later.body["state"])
	for app, n := range map[string]int{"admin": 2, "all": 2, "shop": 1, "narrow": 0, "viewer": 0} {
		same(t, "silences of "+app, n, len(r.want(200, r.call(app, "GET", "/silences", nil)).items("id")))
	}
	for _, method := range []string{"GET", "DELETE"} {
		r.refused(r.call("viewer", method, "/silences/"+id, nil), 404, "")
		r.refused(r.call("admin", method, "/silences/none", nil), 404, "")
	}
	r.want(200, r.call("admin", "GET", "/silences/"+id, nil))
	for range 2 {
		removed := r.want(200, r.call("admin", "DELETE", "/silences/"+id, nil))
		same(t, "state", "ended", removed.body["state"])
	}
	r.refused(r.call("shop", "POST", "/silences", `{"hosts":["web-1"],"seconds":1}`), 403, "") // of every process there
	named := r.want(201, r.call("shop", "POST", "/silences", `{"processes":["shop/*"],"hosts":["web-*"],"seconds":3600}`))
	same(t, "hosts", []any{"web-*"}, named.body["hosts"].([]any))
	r.want(200, r.call("admin", "DELETE", "/silences/"+named.body["id"].(string), nil))
	r.want(200, r.call("admin", "DELETE", "/silences/"+r.want(201,
		r.call("admin", "POST", "/silences", `{"hosts":["web-1"],"seconds":3600}`)).body["id"].(string), nil))
	same(t, "silences", 1, len(r.want(200, r.call("admin", "GET", "/silences", nil)).items("id")))
	same(t, "ended too", 4, len(r.want(200, r.call("admin", "GET", "/silences?ended=true", nil)).items("id")))
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 100, Action: "silences.create"})
	r.must(err)
	if first := rows[len(rows)-1]; first.Target != "shop/* role = web" || !strings.Contains(string(first.Detail), "kernel") {
		t.Errorf("recorded as %+v", first)
	}
}

func TestSilencesRefused(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	now := time.Now()
	for field, body := range map[string]map[string]any{
		"processes":    {"seconds": 1},
		"processes[0]": {"processes": []string{"shop"}, "seconds": 1},
		"hosts[0]":     {"hosts": []string{""}, "seconds": 1},
		"hosts":        {"processes": []string{"a/b"}, "hosts": []string{}, "seconds": 1},
		"select":       {"select": "a b", "seconds": 1},
		"labels":       {"labels": "a=", "seconds": 1},
		"message":      {"processes": []string{"a/b"}, "seconds": 1, "message": strings.Repeat("x", 1001)},
		"from":         {"processes": []string{"a/b"}, "seconds": 1, "from": now.Add(-time.Hour)},
		"until":        {"processes": []string{"a/b"}, "until": now.Add(-time.Hour)},
		"seconds":      {"processes": []string{"a/b"}, "until": now.Add(time.Hour), "seconds": 1},
	} {
		r.refused(r.call("admin", "POST", "/silences", body), 422, field)
	}
	r.refused(r.call("admin", "POST", "/silences", `{"processes":["a/b"]}`), 422, "until")
	r.refused(r.call("admin", "POST", "/silences", `{"processes":["a/b"],"seconds":-1}`), 422, "seconds")
	r.refused(r.call("admin", "POST", "/silences", `{"processes":["a/b"],"seconds":1e9}`), 422, "seconds")
	r.refused(r.call("admin", "POST", "/silences", `{"processes":["a/b"],"cron":"0 * * * *","seconds":7200}`), 422, "seconds")
	r.want(201, r.call("admin", "POST", "/silences", `{"processes":["a/b"],"cron":"0 * * * *","seconds":3599}`))
	r.refused(r.call("admin", "POST", "/silences", `{"processes":["a/b"],"until":"9999-01-01T00:00:00Z"}`), 422, "until")
}

// TestReceiversOfOtherKinds: what an alertmanager and a mail server need, and what they do not take.
func TestReceiversOfOtherKinds(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	mail := map[string]any{"from": "drover@shop.example", "to": []string{"ops@shop.example"}, "user": "drover"}
	made := r.want(201, r.call("admin", "POST", "/receivers", map[string]any{
		"name": "mail", "kind": "email", "url": "smtp://mail.example:587", "mail": mail, "secret": "hidden",
		"severities": []string{"critical"}, "kinds": []string{"given-up"}, "labels": "tier = front",
	}))
	same(t, "labels", "tier=front", made.body["labels"])
	if text := made.text(t) + r.want(200, r.call("admin", "GET", "/receivers/mail", nil)).text(t); strings.Contains(text, "hidden") {
		t.Errorf("the answers tell the password: %s", text)
	}
	kept, err := r.store.GetReceiver(t.Context(), "mail")
	r.must(err)
	same(t, "secret", "hidden", kept.Receiver.Secret)
	r.want(201, r.call("admin", "POST", "/receivers", `{"name":"am","kind":"alertmanager","url":"http://am.example:9093"}`))
	r.refused(r.call("admin", "POST", "/receivers/am/secret", `{}`), 422, "secret")
	r.want(201, r.call("admin", "POST", "/receivers/am/secret", `{"secret":"token"}`))
	r.refused(r.call("admin", "PATCH", "/receivers/am", map[string]any{"mail": mail}), 422, "mail")
	r.refused(r.call("admin", "PATCH", "/receivers/am", `{"kind":"webhook"}`), 422, "kind")
	change := func(field string, value any) map[string]any {
		m := map[string]any{"from": mail["from"], "to": mail["to"]}
		m[field] = value
		return map[string]any{"mail": m}
	}
	for field, body := range map[string]any{
		"mail.from":     change("from", "nobody"),
		"mail.to":       change("to", []string{}),
		"mail.to[0]":    change("to", []string{"a@b, c@d"}),
		"subject":       `{"subject":"{{.None}}"}`,
		"body":          `{"body":"{{range .Alarms}}"}`,
		"url":           `{"url":"https://mail.example"}`,
		"kinds[0]":      `{"kinds":["started"]}`,
		"severities[1]": `{"severities":["notice","bad"]}`,
		"labels":        `{"labels":"a b"}`,
	} {
		r.refused(r.call("admin", "PATCH", "/receivers/mail", body), 422, field)
	}
	r.refused(r.call("admin", "PATCH", "/receivers/am", `{"body":"{}"}`), 422, "body")
	chat := map[string]any{"name": "chat", "url": "https://chat.example/", "body": `{"text":"{{.Text}}"}`}
	r.refused(r.call("admin", "POST", "/receivers", chat), 422, "body")
	chat["body"] = `{"text":{{json .Text}}}`
	made = r.want(201, r.call("admin", "POST", "/receivers", chat))
	same(t, "body", chat["body"], made.body["body"])
	same(t, "no body", nil, r.want(200, r.call("admin", "PATCH", "/receivers/chat", `{"body":""}`)).body["body"])
	r.refused(r.call("admin", "POST", "/receivers", `{"name":"x","kind":"pager","url":"https://x/"}`), 422, "kind")
}

func TestBreakers(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "operate,query on shop")
	r.app("narrow", "operate,query on shop at area:0")
	r.app("other", "* on other")
	opened := time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
	id := process.ID{Namespace: "shop", Name: "web"}
	r.must(r.store.OpenBreaker(t.Context(), store.Breaker{
		Process: id, Revision: 7, Cause: process.CauseExitStatus, Failed: 37, Hosts: 100, Agent: web, Opened: opened,
		Until: opened.Add(5 * time.Minute),
	}, time.Time{}))
	for app, n := range map[string]int{"admin": 1, "shop": 1, "narrow": 1, "other": 0} {
		same(t, "breakers of "+app, n, len(r.want(200, r.call(app, "GET", "/breakers", nil)).items("name")))
	}
	for _, app := range []string{"narrow", "other"} { // a reset concerns every host
		r.refused(r.call(app, "POST", "/breakers/shop/web/reset", nil), 403, "")
	}
	r.refused(r.call("shop", "POST", "/breakers/shop/none/reset", nil), 404, "")
	reset := r.want(200, r.call("shop", "POST", "/breakers/shop/web/reset", nil))
	if reset.body["closed_by"] != "anna" || reset.body["closed_at"] == nil || reset.body["failed"] != 37.0 {
		t.Errorf("reset is %v", reset.body)
	}
	same(t, "open", 0, len(r.want(200, r.call("admin", "GET", "/breakers", nil)).items("name")))
	same(t, "closed too", 1, len(r.want(200, r.call("admin", "GET", "/breakers?closed=true", nil)).items("name")))
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 10, Action: "breakers.reset"})
	r.must(err)
	same(t, "audit rows", 4, len(rows))
	same(t, "target", "shop/web", rows[0].Target)
}
