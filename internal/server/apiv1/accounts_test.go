package apiv1_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

func TestApps(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	made := r.want(201,
		r.call("admin", "POST", "/apps",
			`{"code":"x","note":"n","grants":[{"operations":["read"],"namespaces":["a*"]}],"limits":{"rate":5}}`))
	secret := made.body["secret"].(string)
	kept, err := r.store.GetApp(t.Context(), "x")
	r.must(err)
	if !(access.Secrets{}).Match(kept.Secrets[0].Hash, secret) {
		t.Error("the secret that was shown is not the app's")
	}
	same(t, "grants", []access.Grant{{Operations: []string{"read"}, Namespaces: []string{"a*"}}}, kept.Grants)
	for _, path := range []string{"/apps/x", "/apps"} {
		if text := r.want(200, r.call("admin", "GET", path, nil)).text(t); strings.Contains(text, secret) ||
			strings.Contains(text, kept.Secrets[0].Hash) {
			t.Errorf("%s tells a secret: %s", path, text)
		}
	}
	r.refused(r.call("admin", "POST", "/apps", `{"code":"x"}`), 409, "")

	changed := r.want(200, r.call("admin", "PATCH", "/apps/x", `{"disabled":true,"grants":[]}`))
	if changed.body["disabled"] != true || changed.body["note"] != "n" || len(changed.body["grants"].([]any)) != 0 ||
		changed.body["limits"].(map[string]any)["rate"] != 5.0 {
		t.Errorf("changed to %v", changed.body)
	}
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 1})
	r.must(err)
	same(t, "what was changed", `{"disabled":true,"grants":[]}`, string(rows[0].Detail))

	for body, field := range map[string]string{
		`{"code":""}`:    "code",
		`{"code":"a b"}`: "code",
		`{"code":"` + strings.Repeat("x", 33) + `"}`:                        "code",
		`{"code":"y","grants":[{"operations":["fly"],"namespaces":["*"]}]}`: "grants[0].operations[0]",
		`{"code":"y","limits":{"rate":-1}}`:                                 "limits.rate",
		`{"code":"y","secret":"mine"}`:                                      "secret",
	} {
		r.refused(r.call("admin", "POST", "/apps", body), 422, field)
	}
	r.refused(r.call("admin", "PATCH", "/apps/x", `{"code":"z"}`), 422, "code")
	for _, call := range [][2]string{{"GET", "/apps/none"}, {"PATCH", "/apps/none"}, {"POST", "/apps/none/secrets"}} {
		var body any
		if call[0] != "GET" {
			body = "{}"
		}
		r.refused(r.call("admin", call[0], call[1], body), 404, "")
	}
	same(t, "walk", []string{"x"},
		r.call("admin", "GET", "/apps?limit=1&cursor="+r.call("admin", "GET", "/apps?limit=1", nil).cursor(),
			nil).items("code"))
}

func TestSecrets(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	first := r.want(201, r.call("admin", "POST", "/apps", `{"code":"x"}`)).body["secret"].(string)
	counts := func(secret string, at time.Time) bool {
		t.Helper()
		a, err := r.store.GetApp(t.Context(), "x")
		r.must(err)
		for _, s := range a.Secrets {
			if (access.Secrets{}).Match(s.Hash, secret) && s.Valid(at) {
				return true
			}
		}
		return false
	}
	now := time.Now()
	second := r.want(201, r.call("admin", "POST", "/apps/x/secrets", `{"keep_seconds":3600}`)).body["secret"].(string)
	if !counts(first, now) || counts(first, now.Add(2*time.Hour)) || !counts(second, now.Add(2*time.Hour)) {
		t.Error("after a rotation the old secret must count for an hour, the new one for ever")
	}
	third := r.want(201, r.call("admin", "POST", "/apps/x/secrets", `{"keep_seconds":7200}`)).body["secret"].(string)
	if counts(first, now) || !counts(second, now) || counts(second, now.Add(3*time.Hour)) || !counts(third, now) {
		t.Error("after two rotations the last two secrets must count")
	}
	fourth := r.want(201, r.call("admin", "POST", "/apps/x/secrets", `{}`)).body["secret"].(string)
	if counts(second, now) || counts(third, now) || !counts(fourth, now) {
		t.Error("after a reset the new secret alone must count")
	}
	r.refused(r.call("admin", "POST", "/apps/x/secrets", `{"keep_seconds":-1}`), 422, "keep_seconds")
	r.refused(r.call("admin", "POST", "/apps/x/secrets", `{"keep_seconds":7776001}`), 422, "keep_seconds")
}

func TestUsersAndTokens(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.want(201, r.call("admin", "POST", "/users", `{"name":"anna","note":"n"}`))
	r.refused(r.call("admin", "POST", "/users", `{"name":"anna"}`), 409, "")
	r.refused(r.call("admin", "POST", "/users", `{"name":""}`), 422, "name")
	r.want(201, r.call("admin", "POST", "/users", `{"name":"bert"}`))
	if u := r.want(200, r.call("admin", "PATCH", "/users/anna", `{"disabled":true}`)); u.body["disabled"] != true ||
		u.body["note"] != "n" {
		t.Errorf("changed to %v", u.body)
	}
	r.refused(r.call("admin", "PATCH", "/users/anna", `{"name":"x"}`), 422, "name")
	same(t, "one", "anna", r.want(200, r.call("admin", "GET", "/users/anna", nil)).body["name"].(string))
	same(t, "list", []string{"anna true", "bert false"},
		r.want(200, r.call("admin", "GET", "/users", nil)).items("name", "disabled"))
	first := r.want(200, r.call("admin", "GET", "/users?limit=1", nil))
	same(t, "walk", []string{"bert"},
		r.want(200, r.call("admin", "GET", "/users?limit=1&cursor="+first.cursor(), nil)).items("name"))

	made := r.want(201, r.call("admin", "POST", "/users/bert/tokens", `{"note":"laptop","ttl_seconds":60}`))
	token := made.body["token"].(string)
	kept, user, err := r.store.FindToken(t.Context(), access.HashToken(token))
	r.must(err)
	if user.Name != "bert" || !kept.Valid(time.Now()) || kept.Valid(time.Now().Add(2*time.Minute)) {
		t.Errorf("token %+v of %q", kept, user.Name)
	}
	list := r.want(200, r.call("admin", "GET", "/users/bert/tokens", nil))
	same(t, "tokens", []string{"laptop"}, list.items("note"))
	if strings.Contains(list.text(t), token) {
		t.Error("a list tells a token")
	}
	id := made.body["id"].(string)
	r.refused(r.call("admin", "DELETE", "/users/anna/tokens/"+id, nil), 404, "")
	r.want(204, r.call("admin", "DELETE", "/users/bert/tokens/"+id, nil))
	r.refused(r.call("admin", "DELETE", "/users/bert/tokens/"+id, nil), 404, "")
	r.refused(r.call("admin", "POST", "/users/bert/tokens", `{"ttl_seconds":-1}`), 422, "ttl_seconds")
	for _, call := range [][2]string{
		{"GET", "/users/none"},
		{"PATCH", "/users/none"},
		{"POST", "/users/none/tokens"},
		{"GET", "/users/none/tokens"},
	} {
		var body any
		if call[0] != "GET" {
			body = "{}"
		}
		r.refused(r.call("admin", call[0], call[1], body), 404, "")
	}
}
