package console_test

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/identity"
)

// visitor is a person with a browser at a server with an identity provider.
type visitor struct {
	*testing.T
	f    *harness.Fleet
	p    *identity.Provider
	http *http.Client
	// held has the browser stop before it brings an answer of the provider to the server.
	held bool
}

const grants = `{ops: ["operator on shop*"], boss: [admin], guests: []}`

// newVisitor starts a provider and a server, and returns a visitor of both.
func newVisitor(t *testing.T) *visitor {
	t.Helper()
	p := identity.Start(t)
	f := harness.NewFleet(t, binaries.drover, binaries.agent, "--config", p.Settings(t, grants))
	p.Serve(f.URL)
	return (&visitor{T: t, f: f, p: p}).another()
}

// another returns a visitor with another browser.
func (v *visitor) another() *visitor {
	v.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		v.Fatal(err)
	}
	other := &visitor{T: v.T, f: v.f, p: v.p}
	other.http = &http.Client{Jar: jar, Transport: v.f.Client.Transport, CheckRedirect: func(r *http.Request,
		_ []*http.Request,
	) error {
		if other.held && strings.HasPrefix(r.URL.String(), v.f.URL+"/ui/login/oidc/callback") {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return other
}

// do makes a call of the browser. at is where it has ended, or where the reply that it holds leads to.
func (v *visitor) do(method, at string, form url.Values, header ...string) (p page, last string) {
	v.Helper()
	if strings.HasPrefix(at, "/") {
		at = v.f.URL + at
	}
	req, err := http.NewRequestWithContext(v.Context(), method, at, strings.NewReader(form.Encode()))
	if err != nil {
		v.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := v.http.Do(req)
	if err != nil {
		v.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.Fatal(err)
	}
	last = resp.Request.URL.String()
	if to := resp.Header.Get("Location"); to != "" {
		last = to
	}
	return page{resp.StatusCode, resp.Header, resp.Request.URL.RequestURI(), string(text)}, last
}

func (v *visitor) get(at string, header ...string) page {
	v.Helper()
	p, _ := v.do(http.MethodGet, at, nil, header...)
	return p
}

// wants fails unless a page has a status and all of some texts.
func (v *visitor) wants(p page, status int, texts ...string) page {
	v.Helper()
	for _, text := range texts {
		if p.status != status || !strings.Contains(html.UnescapeString(p.text), text) {
			_, content, _ := strings.Cut(p.text, "<main")
			v.Fatalf("%s: status %d, want %d with %q:\n%.2000s", p.url, p.status, status, text, content)
		}
	}
	return p
}

// field is a hidden field of the provider's page: the request that it is for.
var field = regexp.MustCompile(`name="id" value="([^"]+)"`)

// signIn begins at a path of the server, and gives the password to the provider.
func (v *visitor) signIn(name, from string) (p page, last string) {
	v.Helper()
	asked, _ := v.do(http.MethodGet, from, nil)
	m := field.FindStringSubmatch(asked.text)
	if m == nil {
		v.Fatalf("the provider asks for no password: %d %.500s", asked.status, asked.text)
	}
	return v.do(http.MethodPost, v.p.Server.URL+"/login/username",
		url.Values{"id": {m[1]}, "username": {name}, "password": {identity.Password}})
}

// begin is where a sign-in with the provider begins.
const begin = "/ui/login/oidc"

// answer signs a person in at the provider, and returns the answer that the browser has not brought to the server.
func (v *visitor) answer(name string) string {
	v.Helper()
	v.held = true
	defer func() { v.held = false }()
	p, last := v.signIn(name, begin)
	if p.status != http.StatusFound || !strings.Contains(last, "code=") {
		v.Fatalf("the provider sends the browser with %d to %s", p.status, last)
	}
	return last
}

// audit returns the audit rows of sign-ins, as JSON.
func (v *visitor) audit(flags ...string) string {
	v.Helper()
	return v.f.CLI(append([]string{"audit", "--action", "console.sign-in", "-o", "json"}, flags...)...)
}

// person returns a user.
func (v *visitor) person(name string) map[string]any {
	v.Helper()
	var list []map[string]any
	if err := json.Unmarshal([]byte(v.f.CLI("user", "list", "-o", "json")), &list); err != nil {
		v.Fatal(err)
	}
	for _, u := range list {
		if u["name"] == name {
			return u
		}
	}
	return nil
}

// TestSignInWithAProvider: a person signs in with a real provider, comes back to the page that was asked for, and has the
// rights of the groups until a sign-in without them.
func TestSignInWithAProvider(t *testing.T) {
	t.Parallel()
	v := newVisitor(t)
	host := strings.TrimPrefix(v.p.Server.URL, "http://")
	v.p.Put("anna", "ops", "football")
	v.wants(v.get("/ui/processes?state=running"), 200, "Sign in with "+host, `href="/ui/login/oidc"`)
	v.wants(v.get("/ui/login", "Accept-Language", "zh-CN"), 200, "通过 "+host+" 登录")
	v.get("/ui/processes?state=running")
	p, _ := v.signIn("anna", begin)
	if v.wants(p, 200, "anna"); p.url != "/ui/processes?state=running" {
		t.Errorf("after the sign-in there is %s", p.url)
	}
	anna := v.person("anna")
	rights, _ := json.Marshal(anna["provider"])
	if text := string(rights); !strings.Contains(text, `"groups":["ops"]`) || !strings.Contains(text, "shop*") {
		t.Errorf("the rights of groups are %s", text)
	}
	if own, _ := anna["grants"].([]any); len(own) != 0 {
		t.Errorf("drover stores rights: %v", own)
	}
	if list := v.f.CLI("user", "list"); !strings.Contains(list, "BY GROUPS") ||
		!strings.Contains(list, "ops: operator on shop*") {
		t.Errorf("the users are\n%s", list)
	}
	if rows := v.audit("--user", "anna"); !strings.Contains(rows, v.p.Server.URL) || !strings.Contains(rows, `"ops"`) {
		t.Errorf("the audit has %s", rows)
	}
	v.wants(v.get("/ui/admin/people"), 403, "may not")

	boss := v.another()
	v.p.Put("eve", "boss")
	boss.signIn("eve", begin)
	boss.wants(boss.get("/ui/admin/people?name=anna"), 200, "Rights by these groups", "operator on shop*")

	v.p.Put("anna")
	p, _ = v.signIn("anna", begin)
	v.wants(p, 200, "anna")
	if anna := v.person("anna"); anna["provider"] != nil {
		t.Errorf("the group is gone, and the rights are %v", anna["provider"])
	}
	p, _ = v.do(http.MethodPost, "/ui/logout", url.Values{})
	v.wants(p, 200, `href="/ui/login/oidc?anew=1"`)
	v.wants(v.get("/ui/"), 200, "Sign in with")
}

// TestPeopleWhoAreRefused: a person whom drover does not know, who is in no group with an entry, or who is disabled, gets a
// page that says so.
func TestPeopleWhoAreRefused(t *testing.T) {
	t.Parallel()
	v := newVisitor(t)
	v.p.Put("zoe", "football")
	p, _ := v.signIn("zoe", begin)
	v.wants(p, 403, "drover does not know zoe", "Sign in with")
	if v.person("zoe") != nil {
		t.Error("the person is created")
	}
	v.f.CLI("user", "create", "zoe")
	v.f.CLI("user", "grant", "zoe", "viewer on *")
	p, _ = v.signIn("zoe", begin)
	v.wants(p, 200, "zoe")
	v.p.Put("guest", "guests")
	p, _ = v.another().signIn("guest", begin)
	v.wants(p, 200, "guest")

	v.f.CLI("user", "disable", "zoe")
	v.wants(v.get("/ui/"), 200, "Sign in with")
	p, _ = v.signIn("zoe", begin)
	v.wants(p, 403, "zoe is disabled")
	v.wants(v.get("/ui/"), 200, "Sign in with")
	p, _ = v.do(http.MethodGet, begin, nil, "Sec-Fetch-Site", "cross-site")
	v.wants(p, 200, "Sign in with") // another site cannot begin a sign-in
	rows := v.audit("--denied")
	for _, want := range []string{"does not know the person", "the user is disabled", "zoe"} {
		if !strings.Contains(rows, want) {
			t.Errorf("the audit lacks %q: %s", want, rows)
		}
	}
}

// TestAnswersOfAProvider: an answer signs in the browser that has begun the sign-in, once, and no other.
func TestAnswersOfAProvider(t *testing.T) {
	t.Parallel()
	v := newVisitor(t)
	v.p.Put("anna", "ops")
	v.p.Put("mallory", "ops")
	rejected := func(who *visitor, at, why string) {
		t.Helper()
		who.wants(who.get(at), 403, why)
		who.wants(who.get("/ui/"), 200, "Sign in with")
	}
	const stray, refused = "No sign-in of this browser waits", "did not sign you in"

	mallory := v.another()
	foreign := mallory.answer("mallory")
	rejected(v, foreign, stray) // the browser has begun nothing
	v.answer("anna")
	rejected(v, foreign, stray) // it has begun a sign-in of its own
	mallory.wants(mallory.get(foreign), 200, "mallory")
	rejected(v, foreign, stray)
	if p := mallory.get(foreign); p.status != 403 { // the answer a second time
		t.Errorf("a used answer gets %d", p.status)
	}

	at := v.answer("anna")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(name, value string) string {
		query := u.Query()
		query.Set(name, value)
		return u.Scheme + "://" + u.Host + u.Path + "?" + query.Encode()
	}
	rejected(v, changed("state", "x"), stray)
	v.wants(v.get(at), 200, "anna") // a wrong state has not ended the sign-in
	v.do(http.MethodPost, "/ui/logout", url.Values{})

	used := u.Query().Get("code")
	if u, err = url.Parse(v.answer("anna")); err != nil {
		t.Fatal(err)
	}
	rejected(v, changed("code", used), refused)
	rejected(v, u.String(), stray) // a wrong code has
	other, err := url.Parse(mallory.answer("mallory"))
	if err != nil {
		t.Fatal(err)
	}
	if u, err = url.Parse(v.answer("anna")); err != nil {
		t.Fatal(err)
	}
	rejected(v, changed("code", other.Query().Get("code")), refused) // the code of another person's flow

	if u, err = url.Parse(v.answer("anna")); err != nil {
		t.Fatal(err)
	}
	v.p.Expire(t, u.Query().Get("code"))
	rejected(v, u.String(), refused)

	at = v.answer("anna")
	v.p.Spoil("of-another-sign-in")
	rejected(v, at, refused)
	v.p.Spoil("")

	if u, err = url.Parse(v.answer("anna")); err != nil {
		t.Fatal(err)
	}
	u.RawQuery = url.Values{"error": {"access_denied"}, "state": {u.Query().Get("state")}}.Encode()
	rejected(v, u.String(), refused)
	rows := v.audit("--denied")
	for _, want := range []string{"nonce", "rejected the code", "waits for the answer"} {
		if !strings.Contains(rows, want) {
			t.Errorf("the audit lacks %q: %s", want, rows)
		}
	}
	if log := v.f.Logs["server"].String(); strings.Contains(log, identity.Secret) || strings.Contains(log, used) {
		t.Error("the log of the server holds a secret")
	}
}

// TestRecentSignInWithAProvider: administration needs a proof of at most 15 minutes. The provider asks the person again,
// and its word counts.
func TestRecentSignInWithAProvider(t *testing.T) {
	t.Parallel()
	v := newVisitor(t)
	v.p.Put("eve", "boss")
	v.p.ProvedAt(time.Now().Add(-time.Hour))
	p, _ := v.signIn("eve", begin)
	v.wants(p, 200, "eve")
	v.wants(v.get("/ui/admin/people"), 403, "at most 15 minutes old", `href="/ui/login/oidc?anew=1"`)
	v.wants(v.get("/ui/device"), 403, "at most 15 minutes old")
	v.get("/ui/admin/people")
	p, _ = v.signIn("eve", begin+"?anew=1")
	v.wants(p, 403, "did not ask you to sign in again")
	v.wants(v.get("/ui/"), 200, "eve") // the session goes on
	v.wants(v.get("/ui/admin/people"), 403, "at most 15 minutes old")
	v.p.ProvedAt(time.Time{})
	p, _ = v.signIn("eve", begin+"?anew=1")
	if v.wants(p, 200, "everything"); p.url != "/ui/admin/people" {
		t.Errorf("after the sign-in there is %s", p.url)
	}
	v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for at, want := range map[string]string{begin: "max_age=43200", begin + "?anew=1": "max_age=0&nonce"} {
		if _, to := v.do(http.MethodGet, at, nil); !strings.Contains(to, want) ||
			strings.Contains(to, "prompt=login") != strings.Contains(at, "anew") ||
			!strings.Contains(to, "code_challenge_method=S256") {
			t.Errorf("%s leads to %s", at, to)
		}
	}
}

// TestProviderIsDown: a server starts without its provider, says so, and signs people in by a link.
func TestProviderIsDown(t *testing.T) {
	t.Parallel()
	v := newVisitor(t)
	v.p.Server.Close()
	v.wants(v.get(begin), 503, "does not answer", `id="code"`)
	_, code, _ := strings.Cut(strings.TrimSpace(v.f.CLI("login")), "#")
	p, _ := v.do(http.MethodPost, "/ui/login", url.Values{"code": {code}})
	v.wants(p, 200, "uid:0")
	if rows := v.audit("--denied"); !strings.Contains(rows, "does not answer") {
		t.Errorf("the audit has %s", rows)
	}
}
