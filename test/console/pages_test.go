package console_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// must runs commands that succeed.
func must(p *harness.Place, commands ...[]string) {
	p.T.Helper()
	for _, args := range commands {
		if a := p.CLI(args...); a.Code != 0 {
			p.T.Fatalf("%q: %d %s%s", args, a.Code, a.Out, a.Errors)
		}
	}
}

// found returns what a pattern captures in a page, without the escapes of HTML.
func (p page) found(t *testing.T, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(p.text)
	if m == nil {
		t.Fatalf("%s has no %s: %.800s", p.url, pattern, p.text)
	}
	return html.UnescapeString(m[1])
}

// input returns the value of a field of a page.
func (p page) input(t *testing.T, name string) string {
	t.Helper()
	return p.found(t, `name="`+name+`" value="([^"]*)"`)
}

// lacks fails if a page has one of some texts.
func (b *browser) lacks(p page, texts ...string) {
	b.T.Helper()
	for _, text := range texts {
		if strings.Contains(p.text, text) {
			b.T.Errorf("%s has %q", p.url, text)
		}
	}
}

// draft is the form of the page that applies a file, as a browser would send it.
func draft(t *testing.T, p page, text, step string) url.Values {
	t.Helper()
	return url.Values{
		"ns": {p.input(t, "ns")}, "tag": {p.input(t, "tag")}, "revision": {p.input(t, "revision")}, "text": {text}, "step": {step},
	}
}

// stored is the text that a page offers.
func stored(t *testing.T, p page) string {
	t.Helper()
	return p.found(t, `(?s)<textarea id="text"[^>]*>(.*?)</textarea>`)
}

// TestApplyPage: faults have their lines, a plan needs a confirmation, and then it is carried out as it was shown.
func TestApplyPage(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	b := newBrowser(t, p)
	b.signIn()
	shown := b.wants(b.get("/ui/apply?ns=shop"), 200, "namespace: shop", "drover apply -f FILE")
	text := stored(t, shown)

	wrong := strings.Replace(text, "    run: sleep 1000\n",
		"    run: sleep 1000\n    directry: /tmp\n    copies: -1\n    after: {none: ready}\n", 1)
	faults := b.post("/ui/apply", draft(t, shown, wrong, "plan"))
	b.wants(faults, 422, "processes.api.directry", "did you mean directory", "copies", "no file and no host has this process",
		"Faults in the file: 3")
	line := strings.Count(wrong[:strings.Index(wrong, "directry")], "\n") + 1
	b.wants(faults, 422, fmt.Sprintf(`data-line="%d"`, line))
	if stored(t, faults) != wrong {
		t.Error("the text is not as it was")
	}
	b.wants(b.post("/ui/apply", draft(t, shown, "namespace: a\nprocesses: {x: {run: a, hosts: [h]}}\n---\n"+
		"namespace: b\nprocesses: {x: {run: a, hosts: [h]}}\n", "plan")), 422, "several namespaces")
	b.wants(b.post("/ui/apply", draft(t, shown, strings.Replace(text, `hosts: ["0:127.0.0.1"]`, "hosts: [nowhere]", 1), "plan")),
		422, "no host has this name", "data-line=")

	before := p.PID("api")
	changed := strings.Replace(text, "    run: sleep 1000\n", "    run: sleep 1001\n", 1)
	plan := b.wants(b.post("/ui/apply", draft(t, shown, changed, "plan")), 200, "<b class=\"warn\">restart</b>",
		"Changes: 1, hosts: 1", "Restarts: 1", "sleep 1001")
	if p.PID("api") != before {
		t.Fatal("it is restarted without a confirmation")
	}
	form := draft(t, plan, changed, "confirm")
	form.Set("confirm", "yes")
	form.Set("reason", `=cmd|" /C calc"!A0`)
	if done := b.wants(b.post("/ui/apply", form), 200, "restart"); !strings.HasPrefix(done.url, "/ui/tasks/op-") {
		t.Errorf("after the apply there is %s", done.url)
	}
	harness.Eventually(t, "the restart", func() bool { return p.State("api") == "running" && p.PID("api") != before })
	if out := p.CLI("revisions", "shop").Out; !strings.Contains(out, "=cmd|") {
		t.Errorf("the revisions lack the reason:\n%s", out)
	}

	b.wants(b.get("/ui/audit?action=namespaces.apply"), 200, "console", "=cmd|", "uid:0")
	for _, row := range b.csv("/ui/audit.csv?action=namespaces.apply") {
		for _, cell := range row {
			if strings.HasPrefix(cell, "=") {
				t.Errorf("a cell is a formula: %q", cell)
			}
		}
	}

	more := strings.Replace(text, "  web:\n", "  many:\n    run: sleep 1000\n    copies: 21\n    user: root\n    directory: /\n"+
		"    hosts: [\"0:127.0.0.1\"]\n  web:\n", 1)
	plan = b.wants(b.post("/ui/apply", draft(t, b.get("/ui/apply?ns=shop"), more, "plan")), 200, "Type the number of changes", "shop/many@1-21<")
	form = draft(t, plan, more, "confirm")
	for _, typed := range []string{"yes", "21", ""} {
		form.Set("confirm", typed)
		b.wants(b.post("/ui/apply", form), 200, "not the number of changes")
	}
	form.Set("confirm", "22")
	b.wants(b.post("/ui/apply", form), 200, "many@")
}

// TestSecondWriter: who comes second sees what the first one has done, keeps the text, and can plan again.
func TestSecondWriter(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	b := newBrowser(t, p)
	b.signIn()
	shown := b.get("/ui/apply?ns=shop")
	mine := strings.Replace(stored(t, shown), "    run: sleep 1000\n", "    run: sleep 1002\n", 1)
	planned := b.wants(b.post("/ui/apply", draft(t, shown, mine, "plan")), 200, "Changes: 1, hosts: 1")
	p.Apply(strings.Replace(file, "web: {run: sleep 1000}", "web: {run: sleep 1003}", 1))
	harness.Eventually(t, "the end of the other apply", func() bool { return p.State("web") == "running" })
	confirm := draft(t, planned, mine, "confirm")
	confirm.Set("confirm", "yes")
	for _, form := range []url.Values{draft(t, shown, mine, "plan"), confirm} {
		second := b.wants(b.post("/ui/apply", form), 412, "was first, with revision 2", "sleep 1003", "Plan again")
		if stored(t, second) != mine {
			t.Error("the text is not as it was")
		}
		shown = second
	}
	again := b.wants(b.post("/ui/apply", draft(t, shown, mine, "again")), 200, "Changes: 2, hosts: 1")
	confirm = draft(t, again, mine, "confirm")
	confirm.Set("confirm", "yes")
	if done := b.post("/ui/apply", confirm); !strings.HasPrefix(done.url, "/ui/tasks/op-") {
		t.Errorf("after the second plan there is %s: %.600s", done.url, done.text)
	}
}

// csv reads a file of the console.
func (b *browser) csv(path string) [][]string {
	b.T.Helper()
	p := b.get(path)
	if p.status != 200 || !strings.HasPrefix(p.header.Get("Content-Type"), "text/csv") {
		b.T.Fatalf("%s: %d %s", path, p.status, p.text)
	}
	text, marked := strings.CutPrefix(p.text, "\ufeff")
	if !marked {
		b.T.Errorf("%s has no mark of its encoding", path)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		b.T.Fatal(err)
	}
	return rows
}

// operate confirms an operation, and returns the page of its task.
func (b *browser) operate(form url.Values) page {
	b.T.Helper()
	asked := b.post("/ui/operate", form)
	if !strings.Contains(asked.text, `name="selection"`) {
		return asked
	}
	b.confirm(asked, form)
	return b.post("/ui/operate", form)
}

// TestAuditPage: an administrator sees all calls, others their own, in the page and in the file.
func TestAuditPage(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	must(p, []string{"user", "create", "anna"}, []string{"user", "grant", "anna", "operator on shop"})
	admin, anna := newBrowser(t, p), newBrowser(t, p)
	admin.signIn()
	anna.signIn("anna")
	rows := anna.get("/ui/processes")
	anna.wants(anna.operate(url.Values{
		"op": {"restart"}, "confirm": {"yes"}, "reason": {"hotfix 41"}, "target": {target.FindStringSubmatch(rows.text)[1]},
	}), 200, "restart")

	own := anna.wants(anna.get("/ui/audit"), 200, "These are your own calls", "hotfix 41", "restart")
	anna.lacks(own, "uid:0")
	anna.wants(anna.get("/ui/audit?app=person:uid:0"), 403, "neither an administrator nor an auditor")
	for _, row := range anna.csv("/ui/audit.csv")[1:] {
		if row[1] != "anna" {
			t.Errorf("anna gets the record %q", row)
		}
	}
	one := admin.wants(admin.get("/ui/audit?user=anna&action=tasks.create&since=1h"), 200, "hotfix 41", "console",
		"drover audit --user anna --action tasks.create --since 1h")
	admin.lacks(one, `title="processes.list"`)
	admin.wants(admin.get("/ui/audit?user=anna"), 200, `title="audit.list"`) // the denied one
	admin.lacks(admin.wants(admin.get("/ui/audit?user=anna&changes=1"), 200, "hotfix 41", "drover audit --user anna --changes"),
		`title="audit.list"`)
	if listed := p.CLI("audit", "--changes"); listed.Code != 0 || strings.Contains(listed.Out, "audit.list") || !strings.Contains(listed.Out, "anna") {
		t.Errorf("drover audit --changes: %d\n%s%s", listed.Code, listed.Out, listed.Errors)
	}
	admin.lacks(admin.get("/ui/audit?address=10.9.9.9"), "hotfix 41")
	for _, since := range []string{"yesterday", "2026-11-20", "10:30"} { // drover audit needs a zone, too
		admin.wants(admin.get("/ui/audit?since="+since), 400, "since: ", "a length of time such as 24h")
	}
	admin.wants(admin.get("/ui/audit?allowed=false"), 200, "drover audit --denied")
	admin.lacks(admin.get("/ui/audit?allowed=true"), `id="command"`)
	heads := admin.csv("/ui/audit.csv?allowed=true&user=anna")[0]
	for _, want := range []string{"time", "user", "address", "via", "reason", "request_id"} {
		if !slices.Contains(heads, want) {
			t.Errorf("the file has no column %s: %q", want, heads)
		}
	}
}

// TestAdministration: people, apps and receivers are managed in the browser, by administrators, and secrets are shown
// once.
func TestAdministration(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	b, anna := newBrowser(t, p), newBrowser(t, p)
	b.signIn()
	do := func(part string, status int, form url.Values, texts ...string) page {
		t.Helper()
		return b.wants(b.post("/ui/admin/"+part, form), status, texts...)
	}
	people := "/ui/admin/people?name=anna"
	do("people", 200, url.Values{"do": {"create"}, "name": {"anna"}, "back": {people}}, "anna")
	do("people", 400, url.Values{"do": {"grant"}, "name": {"anna"}, "right": {"everything"}}, "expected")
	do("people", 200, url.Values{"do": {"grant"}, "name": {"anna"}, "right": {"viewer on shop*"}, "back": {people}}, "viewer on shop*")
	do("people", 409, url.Values{"do": {"create"}, "name": {"anna"}}, "anna")
	link := do("people", 200, url.Values{"do": {"link"}, "name": {"anna"}}, "shown only once")
	_, code, _ := strings.Cut(html.UnescapeString(link.text), "/ui/login#")
	code, _, _ = strings.Cut(code, "<")
	anna.wants(anna.post("/ui/login", url.Values{"code": {code}}), 200, "Overview")
	anna.wants(anna.get("/ui/processes"), 200, "shop/api")
	for _, part := range []string{"people", "apps", "tokens", "receivers", "keys", "proxies", "server"} {
		b.wants(b.get("/ui/admin/"+part), 200, "Administration")
		anna.wants(anna.get("/ui/admin/"+part), 403, "You may not do this")
	}
	anna.wants(anna.post("/ui/admin/people", url.Values{"do": {"grant"}, "name": {"anna"}, "right": {"* on *"}}), 403,
		"You may not do this")
	b.wants(b.get("/ui/admin/nothing"), 404, "Nothing of this name")
	b.wants(b.post("/ui/admin/people", url.Values{"do": {"fly"}}), 400, "has rejected this")
	shown := do("people", 200, url.Values{"do": {"revoke"}, "name": {"anna"}, "right": {"viewer on shop*"}, "back": {people}}, "anna")
	b.lacks(shown, "viewer on shop*</code>")
	anna.lacks(anna.get("/ui/processes"), "shop/api")
	do("people", 200, url.Values{"do": {"disable"}, "name": {"anna"}, "typed": {"anna"}, "back": {people}}, "disabled")
	anna.wants(anna.get("/ui/"), 200, "Sign in")

	first := do("apps", 200, url.Values{"do": {"create"}, "code": {"bk"}, "right": {"read on *"}}, "Secret of app bk").secret(t)
	second := do("apps", 200, url.Values{"do": {"rotate"}, "code": {"bk"}, "hours": {"0"}}, "Secret of app bk").secret(t)
	if first == second || len(second) < 20 {
		t.Errorf("the secrets are %q and %q", first, second)
	}
	b.lacks(b.get("/ui/admin/apps?code=bk"), first, second)
	do("apps", 400, url.Values{"do": {"rotate"}, "code": {"bk"}, "hours": {"soon"}}, "hours: ")

	took := make(chan struct{}, 10)
	taker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		took <- struct{}{}
	}))
	defer taker.Close()
	must(p, []string{"receiver", "create", "ops", "--url", taker.URL, "--local"})
	must(p, []string{"receiver", "create", "dead", "--url", "http://127.0.0.1:1/", "--local"})
	b.wants(b.get("/ui/admin/receivers"), 200, "ops", taker.URL)
	do("receivers", 200, url.Values{"do": {"test"}, "name": {"ops"}}, "Receiver ops has taken the test alarm")
	<-took
	do("receivers", 422, url.Values{"do": {"test"}, "name": {"dead"}}, "receiver dead has not taken the test alarm")
	b.wants(b.get("/ui/admin/keys"), 200, "manifest", "online hosts trust these keys")
	b.wants(b.get("/ui/admin/server"), 200, "ready", "Servers online", "1 / 1")
	do("tokens", 409, url.Values{"do": {"create"}, "area": {"0"}, "uses": {"1"}, "hours": {"1"}}, "drover dev")
	do("tokens", 400, url.Values{"do": {"create"}, "area": {"x"}, "uses": {"1"}, "hours": {"1"}}, "area: ")
	b.wants(b.get("/ui/admin/people"), 200, `data-copy="command"`)
}

// secret is what a page shows once.
func (p page) secret(t *testing.T) string {
	t.Helper()
	return p.found(t, `<code id="secret">([^<]+)</code>`)
}

// TestHostPage: a host shows its processes, facts and labels. Its name can be found.
func TestHostPage(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	b := newBrowser(t, p)
	b.signIn()
	b.wants(b.get("/ui/hosts"), 200, `href="/ui/hosts/0:127.0.0.1"`, "Add hosts")
	b.wants(b.get("/ui/hosts/0:127.0.0.1"), 200, "shop/api", "Joined", "Kernel", "drover ps --hosts 0:127.0.0.1")
	b.wants(b.post("/ui/hosts/0:127.0.0.1/labels", url.Values{"labels": {"env=prod, rack=4"}}), 200, "env=prod", "rack=4")
	b.lacks(b.post("/ui/hosts/0:127.0.0.1/labels", url.Values{"labels": {"rack-"}}), "rack=4")
	b.wants(b.post("/ui/hosts/0:127.0.0.1/labels", url.Values{"labels": {"rack"}}), 400, "KEY=VALUE")
	b.wants(b.post("/ui/hosts/0:127.0.0.1/remove", url.Values{"typed": {"0:127.0.0.2"}}), 422, "not the name of the host")
	b.wants(b.get("/ui/hosts/0:10.9.9.9"), 404, "Nothing of this name")

	for text, want := range map[string]string{"ap": "/ui/processes/shop/api", "op/we": "/ui/processes/shop/web", "127.0": "/ui/hosts/0:127.0.0.1"} {
		var found []struct{ Kind, Text, URL string }
		if err := json.Unmarshal([]byte(b.get("/ui/jump?q="+url.QueryEscape(text)).text), &found); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(found, func(f struct{ Kind, Text, URL string }) bool { return f.URL == want }) {
			t.Errorf("%s leads to %v, want %s", text, found, want)
		}
	}

	p.Apply(strings.Replace(file, "web: {", "web: {copies: 2, ", 1))
	harness.Eventually(t, "the copies", func() bool { return p.State("web@2") == "running" })
	all := url.Values{"op": {"restart"}, "all": {"1"}, "query": {"hosts=0%3A127.0.0.1&name=web@2"}, "confirm": {"yes"}}
	before := p.PID("web@2")
	named := url.Values{"op": {"restart"}, "confirm": {"yes"}}
	harness.Eventually(t, "the row of the copy", func() bool {
		for _, found := range target.FindAllStringSubmatch(b.get("/ui/hosts/0:127.0.0.1").text, -1) {
			if strings.Contains(found[1], "web%402") {
				named.Add("target", html.UnescapeString(found[1]))
			}
		}
		return named.Has("target")
	})
	for _, form := range []url.Values{named, all} {
		b.wants(b.operate(form), 200, "restart", "shop/web@2")
		harness.Eventually(t, "the restart of the copy", func() bool {
			now := p.PID("web@2")
			return now != 0 && now != before && p.State("web@2") == "running"
		})
		before = p.PID("web@2")
	}
}

// TestSignInProtection: too many wrong links end the attempts of an address, and a person can end sessions.
func TestSignInProtection(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	here, there := newBrowser(t, p), newBrowser(t, p)
	here.signIn()
	there.signIn()
	both := here.wants(here.get("/ui/sessions"), 200, "this browser", "127.0.0.1", "End all others")
	if n := strings.Count(both.text, "<tr>"); n != 3 {
		t.Errorf("there are %d rows, want a head and two sessions", n)
	}
	here.wants(here.post("/ui/sessions/end", url.Values{}), 200, "this browser")
	there.wants(there.get("/ui/hosts?state=online"), 200, "Sign in", `value="/ui/hosts?state=online"`)
	back := there.signIn()
	if there.wants(back, 200, "0:127.0.0.1"); back.url != "/ui/hosts" {
		t.Errorf("after another sign-in there is %s", back.url)
	}

	stranger := newBrowser(t, p)
	for i := range 20 {
		path := []string{"/ui/login", "/ui/login/who"}[i%2]
		if got := stranger.post(path, url.Values{"code": {"wrong"}}); got.status == http.StatusTooManyRequests {
			t.Fatalf("attempt %d is too many", i+1)
		}
	}
	refused := stranger.wants(stranger.post("/ui/login", url.Values{"code": {"wrong"}}), 429, "Too many sign-ins")
	if refused.header.Get("Retry-After") == "" {
		t.Error("nobody says when to try again")
	}
	if out := p.CLI("audit", "--denied", "-o", "json").Out; !strings.Contains(out, "too many sign-ins have failed") {
		t.Errorf("the audit lacks the rejected sign-in:\n%s", out)
	}
	here.wants(here.get("/ui/"), 200, "Overview")
}

// TestStolenCookie: a browser sends a cookie to every port of a host, so another local account can get it. It opens no
// session to that account, also not by a request whose sender has closed the connection before the answer.
func TestStolenCookie(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another account")
	}
	p := harness.NewPlace(t, binaries.drover)
	owner := newBrowser(t, p)
	owner.signIn()
	at, err := url.Parse(p.S.URL)
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	dialer := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failure error
		err := c.Control(func(fd uintptr) { failure = syscall.Fchown(int(fd), nobody, nobody) })
		return errors.Join(err, failure)
	}}
	thief := &browser{Place: p, http: &http.Client{
		Jar: owner.http.Jar, Transport: &http.Transport{DialContext: dialer.DialContext},
	}}
	cookies := owner.http.Jar.Cookies(at)
	if len(cookies) == 0 {
		t.Fatal("the browser has no cookie")
	}
	thief.wants(thief.get("/ui/hosts"), 200, "Sign in")
	thief.wants(thief.post("/ui/sessions/end", url.Values{}), 200, "Sign in")
	for i := range 20 {
		// A value that names the account itself gives nothing either.
		value := cookies[0].Value + []string{"", " of account 0", " 0"}[i%3]
		c, err := dialer.DialContext(t.Context(), "tcp", at.Host)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(c, "POST /ui/logout HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nCookie: %s=%s\r\n\r\n",
			at.Host, cookies[0].Name, value)
		if err := errors.Join(err, c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	owner.wants(owner.get("/ui/sessions"), 200, "this browser")
	if strings.Contains(p.CLI("audit", "-o", "json").Out, "console.sign-out") {
		t.Error("somebody has signed out")
	}
}

// TestAddHosts: a token made in the browser lets a host join, whose page can remove it.
func TestAddHosts(t *testing.T) {
	t.Parallel()
	f := harness.NewFleet(t, binaries.drover, binaries.agent)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{
		Place: &harness.Place{T: t, S: &harness.Server{URL: f.URL}}, http: &http.Client{Jar: jar, Transport: f.Client.Transport},
	}
	_, code, _ := strings.Cut(strings.TrimSpace(f.CLI("login")), "/ui/login#")
	b.wants(b.post("/ui/login", url.Values{"code": {code}}), 200, "Overview")
	made := b.wants(b.post("/ui/admin/tokens", url.Values{
		"do": {"create"}, "role": {"agent"}, "area": {"0"}, "uses": {"1"}, "hours": {"1"}, "labels": {"rack=4"},
	}), 200, "can join with it: 1", "drover-agent join --server", "rack=4")
	token := made.secret(t)
	b.lacks(b.get("/ui/admin/tokens"), token)
	if code, text := f.Join("one", "10.0.0.1", token); code != 0 {
		t.Fatalf("join: %d %s", code, text)
	}
	f.StartAgent("one")
	f.Online("0:10.0.0.1")
	b.wants(b.get("/ui/hosts/0:10.0.0.1"), 200, "rack=4", "online")
	b.wants(b.get("/ui/admin/tokens"), 200, "1/1", "used up")
	gone := b.wants(b.post("/ui/hosts/0:10.0.0.1/remove", url.Values{"typed": {"0:10.0.0.1"}}), 200, "Hosts")
	b.lacks(gone, "0:10.0.0.1</bdi>")
}
