// Package console_test holds the black-box tests of the console: what a browser gets from the built binary, and what it
// may do with that.
package console_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
	}))
}

// browser is a browser without scripts.
type browser struct {
	*harness.Place
	http *http.Client
	// origin is what the browser says of the page that makes a call; empty is the console itself.
	origin, language string
}

// page is what a browser shows.
type page struct {
	status int
	header http.Header
	url    string
	text   string
}

func newBrowser(t *testing.T, p *harness.Place) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{Place: p, http: &http.Client{Jar: jar}}
}

func (b *browser) do(method, path string, form url.Values) page {
	b.T.Helper()
	at := path
	if !strings.HasPrefix(path, "http") {
		at = b.S.URL + path
	}
	req, err := http.NewRequestWithContext(b.T.Context(), method, at, strings.NewReader(form.Encode()))
	if err != nil {
		b.T.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept-Language", b.language)
	if method == http.MethodPost {
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		if b.origin != "" {
			req.Header.Set("Origin", b.origin)
			req.Header.Set("Sec-Fetch-Site", "cross-site")
		}
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	return page{resp.StatusCode, resp.Header, resp.Request.URL.Path, string(text)}
}

func (b *browser) get(path string) page { b.T.Helper(); return b.do(http.MethodGet, path, nil) }

func (b *browser) post(path string, form url.Values) page {
	b.T.Helper()
	return b.do(http.MethodPost, path, form)
}

// wants fails unless a page has a status and all of some texts.
func (b *browser) wants(p page, status int, texts ...string) page {
	b.T.Helper()
	for _, text := range texts {
		if p.status != status || !strings.Contains(p.text, text) {
			_, content, _ := strings.Cut(p.text, "<main")
			b.T.Fatalf("%s: status %d, want %d with %q:\n%.2000s", p.url, p.status, status, text, content)
		}
	}
	return p
}

// link returns the secret of a new link.
func (b *browser) link(user ...string) string {
	b.T.Helper()
	a := b.CLI(append([]string{"login"}, user...)...)
	_, code, found := strings.Cut(strings.TrimSpace(a.Out), "/ui/login#")
	if a.Code != 0 || !found {
		b.T.Fatalf("drover login: %d %s%s", a.Code, a.Out, a.Errors)
	}
	return code
}

func (b *browser) signIn(user ...string) page {
	b.T.Helper()
	return b.post("/ui/login", url.Values{"code": {b.link(user...)}})
}

const file = `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  api: {run: sleep 1000}
  web: {run: sleep 1000}
  bad: {run: "echo '<b>oops</b> \u202eabc'; sleep 0.3; exit 3", restart: {give_up_after: 1, delay: 1s}}
`

// TestSignIn: a link signs in once, a look at it does not use it up, and the session is a cookie that only the console
// reads.
func TestSignIn(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, harness.NewPlace(t, binaries.drover))
	b.wants(b.get("/ui/processes"), 200, "Sign in", `name="back" value="/ui/processes"`)
	code := b.link()
	for range 2 {
		b.wants(b.post("/ui/login/who", url.Values{"code": {code}}), 200, "uid:0")
	}
	p := b.post("/ui/login", url.Values{"code": {code}, "back": {"/ui/hosts"}})
	if b.wants(p, 200, "0:127.0.0.1"); p.url != "/ui/hosts" {
		t.Errorf("after the sign-in there is %s", p.url)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin",
	} {
		if got := p.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if csp := p.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
		strings.Contains(csp, "unsafe") {
		t.Errorf("the policy is %s", csp)
	}
	if api := b.get("/api/v1/processes"); api.status != 401 {
		t.Errorf("the API answers a cookie with %d", api.status)
	}
	other := newBrowser(t, b.Place)
	other.wants(other.post("/ui/login", url.Values{"code": {code}}), 200, "expired, or somebody has used it")
	other.wants(other.get("/ui/"), 200, "Sign in")

	b.origin = "https://evil.example"
	if p := b.post("/ui/operate", url.Values{"op": {"stop"}}); p.status != 403 {
		t.Errorf("a call of another page is answered with %d", p.status)
	}
	b.origin = ""
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.S.URL+"/ui/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	resp, err := b.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("another name gets %d", resp.StatusCode)
	}
	b.wants(b.post("/ui/logout", url.Values{}), 200, "Sign in")
	b.wants(b.get("/ui/"), 200, "Sign in")
}

// confirm makes a form confirm the selection of a page.
func (b *browser) confirm(p page, form url.Values) {
	b.T.Helper()
	form.Set("selection", p.input(b.T, "selection"))
}

var target = regexp.MustCompile(`name="target" value="([^"]+)"`)

// TestPages: every page shows what there is, text from processes is only text, and an operation is carried out on what
// was confirmed.
func TestPages(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.ApplyFailing(file)
	harness.Eventually(t, "shop/bad to be given up", func() bool { return p.State("bad") == "given-up" })
	b := newBrowser(t, p)
	b.signIn()
	b.wants(b.get("/ui/"), 200, "Wrong now (1)", "shop/bad", "exit-status")
	rows := b.wants(b.get("/ui/processes?namespace=shop&state=running"), 200, "shop/api", "shop/web", "2 / 2",
		"drover ps --namespace shop --state running")
	if strings.Contains(rows.text, "shop/bad") {
		t.Error("the filter has no effect")
	}
	b.wants(b.get("/ui/processes?selector=a%3D%3D%3D"), 422, `name="selector" value="a==="`, `role="alert"`)
	one := b.wants(b.get("/ui/processes/shop/bad/at/0:127.0.0.1"), 200, "&lt;b&gt;oops&lt;/b&gt;", "drover why shop/bad")
	if strings.Contains(one.text, "<b>oops") || strings.Contains(one.text, "\u202e") {
		t.Error("text of a process is markup, or turns the page round")
	}
	for path, text := range map[string]string{
		"/ui/hosts": "0:127.0.0.1", "/ui/tasks": "shop/api", "/ui/rollouts": "There is none yet", "/ui/events?namespace=shop": "shop/bad",
		"/ui/processes/shop/api": "shop/api",
	} {
		b.wants(b.get(path), 200, text)
	}
	for _, path := range []string{"/ui/nothing", "/ui/tasks/op-x", "/ui/processes/shop/none/at/h"} {
		b.wants(b.get(path), 404, "Nothing of this name")
	}
	b.language = "zh-CN,en;q=0.5"
	b.wants(b.get("/ui/"), 200, `lang="zh-CN"`, "当前异常")
	b.language = ""

	form := url.Values{"op": {"restart"}}
	for _, found := range target.FindAllStringSubmatch(rows.text, -1) {
		form.Add("target", found[1])
	}
	before := p.PID("api")
	b.confirm(b.wants(b.post("/ui/operate", form), 200, "Restart 2 processes on 0:127.0.0.1?"), form)
	if p.PID("api") != before {
		t.Fatal("it is restarted without a confirmation")
	}
	form.Set("confirm", "yes")
	if done := b.wants(b.post("/ui/operate", form), 200, "restart"); !strings.HasPrefix(done.url, "/ui/tasks/op-") {
		t.Errorf("after the operation there is %s", done.url)
	}
	harness.Eventually(t, "the restart", func() bool { return p.State("api") == "running" && p.PID("api") != before })
	form.Set("op", "kill")
	form.Set("back", "/ui/processes?state=running")
	asked := b.wants(b.post("/ui/operate", form), 200, "not the number of processes")
	back := asked.found(t, `action="/ui/language">\s*<input type="hidden" name="back" value="([^"]*)"`)
	chinese := b.post("/ui/language", url.Values{"language": {"zh-CN"}, "back": {back}})
	if b.wants(chinese, 200, `lang="zh-CN"`); chinese.url != "/ui/processes" {
		t.Errorf("the language of a confirmation leads to %s", chinese.url)
	}
	b.post("/ui/language", url.Values{"language": {"en"}})
	b.wants(b.post("/ui/operate", url.Values{"op": {"kill"}, "selection": {"sel-none"}}), 200, "older than 15 minutes")
	form.Set("confirm", "2")
	b.wants(b.post("/ui/operate", form), 200, "kill")
	audit := p.CLI("audit", "--limit", "0", "-o", "json")
	for _, want := range []string{`"app": "person:uid:0"`, `"action": "console.sign-in"`, `"action": "tasks.create"`} {
		if !strings.Contains(audit.Out, want) {
			t.Errorf("the audit has no row with %s:\n%s", want, audit.Out)
		}
	}
}

// TestPeople: people have roles, may do no more than that, and are out as soon as an administrator disables them.
func TestPeople(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.ApplyFailing(file)
	for _, args := range [][]string{
		{"user", "create", "anna"},
		{"user", "grant", "anna", "viewer on shop"},
		{"user", "create", "bob"},
		{"user", "grant", "bob", "operator on pay"},
	} {
		if a := p.CLI(args...); a.Code != 0 {
			t.Fatalf("%q: %s", args, a.Errors)
		}
	}
	anna, bob := newBrowser(t, p), newBrowser(t, p)
	anna.signIn("anna")
	rows := anna.wants(anna.get("/ui/processes"), 200, "shop/api")
	anna.wants(rows, 200, `value="stop" disabled`, "<code>operator on *</code>")
	anna.wants(anna.get("/ui/processes/shop/api/at/0:127.0.0.1"), 200, `value="kill" disabled`, "<code>operator on shop</code>")
	stop := url.Values{"op": {"stop"}, "target": {target.FindStringSubmatch(rows.text)[1]}}
	if p := anna.wants(anna.post("/ui/operate", stop), 200, "You may not do this with 1 of them"); strings.Contains(p.text, `name="selection"`) {
		t.Error("what is not allowed can be confirmed")
	}
	denied := func() string { return p.CLI("audit", "--denied", "--user", "anna", "-o", "json").Out }
	if out := denied(); strings.Contains(out, "not allowed: stop shop/api") {
		t.Errorf("a question is on record as a denial:\n%s", out)
	}
	stop.Set("confirm", "yes")
	anna.wants(anna.post("/ui/operate", stop), 403, "You may not do this with 1 of them")
	if out := denied(); !strings.Contains(out, "not allowed: stop shop/api on 0:127.0.0.1") {
		t.Errorf("the forged call is not on record:\n%s", out)
	}
	bob.signIn("bob")
	if rows := bob.get("/ui/processes"); strings.Contains(rows.text, "shop/") {
		t.Error("bob sees what he may not see")
	}
	bob.wants(bob.get("/ui/processes/shop/api/at/0:127.0.0.1"), 404, "nothing here")
	if a := p.CLI("user", "grant", "anna", "operator on shop"); a.Code != 0 {
		t.Fatal(a.Errors)
	}
	anna.lacks(anna.get("/ui/processes"), " disabled>")
	anna.confirm(anna.wants(anna.post("/ui/operate", stop), 200, "Stop"), stop)
	anna.wants(anna.post("/ui/operate", stop), 200, "stop")
	if a := p.CLI("user", "disable", "anna"); a.Code != 0 {
		t.Fatal(a.Errors)
	}
	anna.wants(anna.get("/ui/"), 200, "Sign in")
	if a := p.CLI("login", "anna"); a.Code == 0 {
		t.Errorf("a disabled person gets a link: %s", a.Out)
	}
}
