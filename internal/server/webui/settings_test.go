package webui_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/server/webui"
)

// TestBehindTLS: a proxy in front of the server speaks TLS for it, and is believed whom it calls for. Nobody else is.
func TestBehindTLS(t *testing.T) {
	r := newRig(t)
	r.console.Settings = webui.Settings{BehindTLS: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/30")}}
	signIn := func(peer string, header http.Header) *http.Response {
		t.Helper()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://drover.example/ui/login",
			strings.NewReader(url.Values{"code": {r.link()}}.Encode()))
		req.RemoteAddr, req.Header = peer, header
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		r.console.ServeHTTP(w, req)
		return w.Result()
	}
	got := signIn("192.0.2.1:4711", http.Header{"X-Forwarded-For": {"203.0.113.9, 198.51.100.7"}})
	cookies := got.Cookies()
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Strict-Transport-Security") == "" || len(cookies) == 0 ||
		cookies[0].Name != "__Host-drover" || !cookies[0].Secure {
		t.Errorf("a proxy gets %d, %v", got.StatusCode, cookies)
	}
	if all, err := r.store.ListTokens(t.Context(), "anna"); err != nil || len(all) == 0 || !strings.Contains(all[len(all)-1].Note, "198.51.100.7") {
		t.Errorf("the session is from %+v, %v", all, err)
	}
	if got := signIn("192.0.2.1:4711", http.Header{"X-Forwarded-Proto": {"http"}}); got.StatusCode != http.StatusForbidden {
		t.Errorf("a browser without TLS before the proxy gets %d", got.StatusCode)
	}
	if got := signIn("192.0.2.4:4711", http.Header{"X-Forwarded-For": {"127.0.0.1"}}); got.StatusCode != http.StatusForbidden {
		t.Errorf("another peer gets %d", got.StatusCode)
	}
	r.console.Named = func(string) bool { return false }
	if got := signIn("192.0.2.1:4711", http.Header{}); got.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign name gets %d", got.StatusCode)
	}
	r.console.Hosts = []string{"drover.example"}
	if got := signIn("192.0.2.1:4711", http.Header{}); got.StatusCode != http.StatusSeeOther {
		t.Errorf("a further name gets %d", got.StatusCode)
	}
}

// TestReasonRequired: an operation or an apply on the hosts of an expression needs a reason, and others need none.
func TestReasonRequired(t *testing.T) {
	r := newRig(t)
	r.signIn()
	keys := []string{r.join(0, "10.0.0.1"), r.join(0, "10.0.0.2")}
	r.must(r.fleet.Label(t.Context(), keys[:1], map[string]string{"env": "prod"}, nil))
	for _, key := range keys {
		r.observe(key, process.StateRunning, "api")
	}
	r.console.ReasonAt = []string{"env=test", "env=prod"}
	r.console.TypeAbove = 1
	ask := func(more url.Values) (int, string, string) {
		t.Helper()
		form := url.Values{"op": {"restart"}, "back": {"/ui/processes"}}
		maps.Copy(form, more)
		return r.call(http.MethodPost, "/ui/operate", form)
	}
	selected := regexp.MustCompile(`name="selection" value="([^"]+)"`)
	_, _, text := ask(url.Values{"target": {"shop/api@0:10.0.0.1", "shop/api@0:10.0.0.2"}})
	if !strings.Contains(text, "Hosts of env=prod need a reason.") || !strings.Contains(text, "Type the number") {
		t.Errorf("the confirmation is %s", text)
	}
	sure := url.Values{"selection": selected.FindStringSubmatch(text)[1:], "confirm": {"2"}, "reason": {" "}, "spread": {"batches"}}
	if status, _, text := ask(sure); status != http.StatusOK || !strings.Contains(text, "The reason is missing.") {
		t.Errorf("without a reason: %d %s", status, text)
	}
	sure.Set("reason", "leaks memory")
	if status, to, text := ask(sure); status != http.StatusSeeOther {
		t.Errorf("with a reason: %d %s %s", status, to, text)
	}
	_, _, text = ask(url.Values{"target": {"shop/api@0:10.0.0.2"}})
	if strings.Contains(text, "need a reason") {
		t.Errorf("another host: %s", text)
	}

	const file = "namespace: shop\nprocesses:\n" +
		"  web: {run: sleep 1, directory: /, user: root, hosts: [\"0:10.0.0.1\"]}\n"
	form := url.Values{"ns": {"shop"}, "text": {file}}
	if _, _, text := r.call(http.MethodPost, "/ui/apply", form); !strings.Contains(text, "Hosts of env=prod need a reason.") {
		t.Errorf("the plan is %s", text)
	}
	form.Set("step", "confirm")
	form.Set("confirm", "yes")
	if status, _, text := r.call(http.MethodPost, "/ui/apply", form); status != 200 || !strings.Contains(text, "The reason is missing.") {
		t.Errorf("an apply without a reason: %d %s", status, text)
	}
}

// TestDashboard: the page of a process on a host leads to Grafana.
func TestDashboard(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.observe(r.join(0, "10.0.0.1"), process.StateRunning, "a&b")
	const page = "/ui/processes/shop/a&b/at/0:10.0.0.1"
	if _, _, text := r.get(page); strings.Contains(text, "Grafana") {
		t.Error("there is a link without a setting")
	}
	r.console.Grafana = "https://grafana.example/d/x?n={namespace}&p={process}&h={host}"
	want := `href="https://grafana.example/d/x?n=shop&amp;p=a%26b&amp;h=0%3A10.0.0.1" rel="noreferrer"`
	if _, _, text := r.get(page); !strings.Contains(text, want) {
		t.Errorf("%s is not on %s", want, text)
	}
}

// TestBasePath: behind a proxy that adds a path, everything that the console gives to a browser leads below this path.
// It is served below the path, and without the path for a proxy that removes it.
func TestBasePath(t *testing.T) {
	const base = "/drover"
	r := newRigWith(t, webui.Settings{BasePath: base})
	host := r.join(0, "10.0.0.1")
	r.observe(host, process.StateRunning, "api")

	code := r.link()
	status, _, text := r.get("/ui/login")
	if status != http.StatusOK || !strings.Contains(text, `action="/drover/ui/login"`) {
		t.Errorf("the sign-in is %d: %s", status, text)
	}
	status, at, _ := r.call(http.MethodPost, base+"/ui/login", url.Values{"code": {code}, "back": {"/ui/hosts?q=x"}})
	if status != http.StatusSeeOther || at != base+"/ui/hosts?q=x" {
		t.Fatalf("the sign-in leads to %d, %s", status, at)
	}
	link := regexp.MustCompile(`\b(?:href|action|src|data-[a-z]+)="(/[^"]*)"`)
	for _, path := range []string{
		"", "processes", "processes/shop/api", "processes/shop/api/at/0:10.0.0.1", "hosts", "hosts/0:10.0.0.1", "tasks", "rollouts",
		"events", "events?follow=1", "audit", "apply", "sessions", "admin/people", "admin/proxies", "why/exit-status", "nothing",
	} {
		_, _, page := r.get(base + "/ui/" + path)
		links := link.FindAllStringSubmatch(page, -1)
		if len(links) < 10 {
			t.Errorf("%s has %d links", path, len(links))
		}
		for _, m := range links {
			if !strings.HasPrefix(m[1], base+"/ui/") {
				t.Errorf("%s leads to %s", path, m[0])
			}
		}
	}
	script := regexp.MustCompile(`src="([^"]*)drover\.js"`).FindStringSubmatch(r.has("/ui/"))
	for _, name := range []string{"keys.js", "live.js", "drover.js"} {
		_, _, text := r.get(script[1] + name)
		if !strings.Contains(text, `"/drover/ui/`) || strings.Contains(text, `"/ui/`) {
			t.Errorf("%s has paths without the base path", name)
		}
	}
	for path, want := range map[string]string{"/drover/ui": "/drover/ui/", "/ui": "/drover/ui/", "/drover/ui/admin": "/drover/ui/admin/people"} {
		if _, at, _ := r.get(path); at != want {
			t.Errorf("%s leads to %s", path, at)
		}
	}
	if _, _, found := r.get("/drover/ui/jump?q=api"); !strings.Contains(found, `"/drover/ui/processes/shop/api"`) {
		t.Errorf("jumps to %s", found)
	}
	_, _, made := r.call(http.MethodPost, base+"/ui/admin/tokens", url.Values{
		"do": {"create"}, "role": {"agent"}, "area": {"0"}, "uses": {"1"}, "hours": {"1"},
	})
	if !strings.Contains(made, "--server http://"+strings.TrimPrefix(r.url, "http://")+base+" ") {
		t.Errorf("a host joins with %s", made)
	}
	r.has("/drover/ui/processes?name=%2Fui%2Fx&hosts=href%3D%22%2Fui%2Fx", `name="name" value="/ui/x"`, `value="href=&#34;/ui/x"`)
	if status, _, _ := r.get("/droverui/"); status != http.StatusNotFound {
		t.Errorf("another path is %d", status)
	}
	status, at, _ = r.call(http.MethodPost, base+"/ui/language", url.Values{"language": {"zh-CN"}, "back": {"/ui/tasks"}})
	if status != http.StatusSeeOther || at != base+"/ui/tasks" || !strings.Contains(r.has(base+"/ui/tasks"), "任务") {
		t.Errorf("the language leads to %d, %s", status, at)
	}
}
