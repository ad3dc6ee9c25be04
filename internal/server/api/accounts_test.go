package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api"
	"drover/internal/server/api/call"
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

// TestOwnTokens: users list and end the tokens of their own, by a proof and without an app.
func TestOwnTokens(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for _, name := range []string{"anna", "bob"} {
		r.must(r.store.CreateUser(t.Context(), store.User{Name: name}))
		r.must(r.store.CreateToken(t.Context(), store.Token{ID: "of-" + name, Kind: store.Session, User: name, Hash: name}))
	}
	as := func(p access.Principal, method, path string) answer {
		t.Helper()
		return r.send(call.WithOperator(t.Context(), p), "", method, path, nil)
	}
	anna := access.Principal{App: access.PersonApp("anna"), User: "anna", Proven: true}
	same(t, "own", []string{"of-anna session"}, r.want(200, as(anna, "GET", "/users/anna/tokens")).items("id", "kind"))
	r.refused(as(anna, "GET", "/users/bob/tokens"), 403, "")
	r.refused(as(anna, "DELETE", "/users/bob/tokens/of-bob"), 403, "")
	r.refused(as(anna, "GET", "/users/anna"), 403, "")
	unproven, byApp := anna, anna
	unproven.Proven, byApp.App = false, "shop"
	for _, p := range []access.Principal{unproven, byApp} {
		r.refused(as(p, "GET", "/users/anna/tokens"), 403, "")
		r.refused(as(p, "DELETE", "/users/anna/tokens/of-anna"), 403, "")
	}
	r.want(204, as(anna, "DELETE", "/users/anna/tokens/of-anna"))
	r.want(204, r.call("admin", "DELETE", "/users/bob/tokens/of-bob", nil))
}

// TestRightsOfGroups: a user shows the rights of the groups that the configuration names, apart from the own rights. A
// link has the tokens of the caller in its history, and ends with them.
func TestRightsOfGroups(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	grant, err := access.ParseGrant("operator on shop*")
	r.must(err)
	r.remake(func(c *api.Config) {
		c.Groups = access.GroupRights{"ops": {Grants: []access.Grant{grant}}, "boss": {Admin: true}}
		c.Console = func() string { return "https://console/ui/" }
	})
	for name, groups := range map[string][]string{"anna": {"gone", "ops"}, "bob": nil, "eve": {"boss"}} {
		r.must(r.store.CreateUser(t.Context(), store.User{Name: name, Groups: groups}))
	}
	shown := func(name string) string {
		t.Helper()
		text, err := json.Marshal(r.want(200, r.call("admin", "GET", "/users/"+name, nil)).body["provider"])
		r.must(err)
		return string(text)
	}
	same(t, "anna", `{"admin":false,"grants":[{"namespaces":["shop*"],"operations":["operator"]}],"groups":["gone","ops"]}`,
		shown("anna"))
	same(t, "bob", `null`, shown("bob"))
	same(t, "eve", `{"admin":true,"grants":[],"groups":["boss"]}`, shown("eve"))
	r.want(200, r.call("admin", "PATCH", "/users/anna", `{"note":"n"}`))
	u, err := r.store.GetUser(t.Context(), "anna")
	r.must(err)
	same(t, "groups after a change", []string{"gone", "ops"}, u.Groups)

	r.must(r.store.CreateToken(t.Context(), store.Token{ID: "t1", Kind: store.APIToken, User: "eve", Hash: "t1"}))
	eve := access.Principal{App: access.PersonApp("eve"), User: "eve", Proven: true, Admin: true, Via: []string{"t1"}}
	link := func() int {
		t.Helper()
		return r.send(call.WithOperator(t.Context(), eve), "", "POST", "/sign-ins", `{"user":"anna"}`).status
	}
	same(t, "a link", 201, link())
	r.want(204, r.call("admin", "DELETE", "/users/eve/tokens/t1", nil))
	left, err := r.store.ListTokens(t.Context(), "anna")
	r.must(err)
	same(t, "links of a token that is gone", 0, len(left))
	same(t, "another link", 404, link())
}

// TestSignInIsNotForApps: an app that a user calls with a proof does not get a link, and so not the rights of the user.
func TestSignInIsNotForApps(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("limited", "query on a")
	r.app(access.PersonApp("bert"), "query on a")
	r.remake(func(c *api.Config) { c.Console = func() string { return "https://console/ui/" } })
	r.user = "bert"
	r.must(r.store.CreateUser(t.Context(), store.User{Name: "bert", Admin: true, Created: time.Now()}))
	for app, status := range map[string]int{"limited": 403, access.PersonApp("bert"): 201, "admin": 201} {
		if a := r.call(app, "POST", "/sign-ins", `{}`); a.status != status {
			t.Errorf("app %q gets HTTP %d, want %d: %v", app, a.status, status, a.body)
		}
	}
	links, err := r.store.ListTokens(t.Context(), "bert")
	r.must(err)
	same(t, "links", 2, len(links))
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

// TestDevice: a command line begins its sign-in without credentials, learns its state by its token only, and has
// nothing before a person has confirmed.
func TestDevice(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.refused(r.device(`{"name":"anna@pc"}`), 409, "")
	r.remake(func(c *api.Config) { c.Console = func() string { return "https://drover.example.com/ui/" } })
	for body, status := range map[string]int{
		`{}`: 422, `{"name":""}`: 422, `{"name":"a\u001b[2J"}`: 422, `{"name":"` + strings.Repeat("x", 201) + `"}`: 422,
		`{"name":"a","admin":true}`: 422, `{"name":"` + strings.Repeat("x", 10_000) + `"}`: 413, `no`: 400,
	} {
		r.want(status, r.device(body))
	}
	made := r.want(201, r.device(`{"name":"anna@pc"}`)).body
	token, code := made["token"].(string), made["code"].(string)
	kept, err := r.store.FindDevice(t.Context(), access.HashCode(strings.ToLower(code)))
	r.must(err)
	if kept.Hash != access.HashToken(token) || kept.Name != "anna@pc" || strings.Contains(kept.Hash+kept.Code, code) {
		t.Errorf("the device of %s is %+v", code, kept)
	}
	state := func(token string) answer {
		t.Helper()
		return r.send(t.Context(), "", "POST", "/sign-ins/devices/state", `{"token":"`+token+`"}`)
	}
	same(t, "before", "pending", r.want(200, state(token)).body["state"].(string))
	r.want(404, state(token+"x"))

	r.want(201, r.call("admin", "POST", "/users", `{"name":"anna"}`))
	r.must(r.store.SignInDevice(t.Context(), store.Token{
		ID: "t", Kind: store.CLIToken, User: "anna", Hash: kept.Hash, Created: time.Now(), Expires: time.Now().Add(time.Hour),
	}))
	same(t, "after", "anna", r.want(200, state(token)).body["user"].(string))
	r.ahead.Store(int64(2 * time.Hour))
	r.want(404, state(token))
	r.ahead.Store(0)

	late := r.want(201, r.device(`{"name":"anna@pc"}`)).body["token"].(string)
	r.ahead.Store(int64(11 * time.Minute))
	r.want(404, state(late))
	r.ahead.Store(0)
	api := r.want(201, r.call("admin", "POST", "/users/anna/tokens", `{}`)).body["token"].(string)
	r.want(404, state(api))

	r.refused(r.call("admin", "DELETE", "/sign-ins/own", nil), 409, "")
}

// TestDeviceLimits: a network begins few sign-ins, and asks for few that do not exist. One limit does not count for the
// other, nor a network for another one.
func TestDeviceLimits(t *testing.T) {
	r, now := newRig(t), time.Now()
	r.remake(func(c *api.Config) {
		c.Console, c.Now = func() string { return "https://drover.example.com/ui/" }, func() time.Time { return now }
	})
	begin := func() answer { return r.device(`{"name":"anna@pc"}`) }
	ask := func(token string) answer {
		return r.send(t.Context(), "", "POST", "/sign-ins/devices/state", `{"token":"`+token+`"}`)
	}
	var token string
	for i := range 20 {
		r.remote = fmt.Sprintf("[2001:db8::%d]:4000", i)
		token = r.want(201, begin()).body["token"].(string)
	}
	r.refused(begin(), 429, "")
	for range 100 {
		r.want(200, ask(token)) // to wait is no fault
	}
	for range 20 {
		r.want(404, ask("unknown"))
	}
	refused := ask(token)
	r.refused(refused, 429, "")
	same(t, "retry", "3", refused.header.Get("Retry-After"))
	r.remote = "[2001:db8:0:1::1]:4000"
	r.want(201, begin())
	r.want(200, ask(token))
}

func (r *rig) device(body string) answer {
	r.t.Helper()
	return r.send(r.t.Context(), "", "POST", "/sign-ins/devices", body)
}

// TestServerState: an administrator sees the state of the server, and nobody else.
func TestServerState(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("reader", "read on *")
	r.remake(func(c *api.Config) {
		c.State = func() v1.Server {
			return v1.Server{Version: "1.2.3", Now: time.Now(), Certificates: []v1.Certificate{}, Disk: &v1.Space{Free: 1, Size: 2}}
		}
	})
	same(t, "version", "1.2.3", r.want(200, r.call("admin", "GET", "/server", nil)).body["version"].(string))
	r.refused(r.call("reader", "GET", "/server", nil), 403, "")
}
