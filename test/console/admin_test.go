package console_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestReceivers: an administrator makes, changes, tests and deletes receivers of alarms. A secret is shown once, and a
// change that somebody else has made meanwhile is not lost.
func TestReceivers(t *testing.T) {
	t.Parallel()
	took := make(chan struct{}, 10)
	taker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		took <- struct{}{}
	}))
	defer taker.Close()
	p := harness.NewPlace(t, binaries.drover)
	b := newBrowser(t, p)
	b.signIn()
	do := func(status int, form url.Values, texts ...string) page {
		t.Helper()
		form.Set("back", "/ui/admin/receivers")
		return b.wants(b.post("/ui/admin/receivers", form), status, texts...)
	}
	form := url.Values{
		"do": {"create"}, "name": {"ops"}, "kind": {"webhook"}, "url": {taker.URL}, "namespaces": {"shop*, pay"},
		"severities": {"critical"}, "note": {"for the night"},
	}
	do(422, form, "url", `value="for the night"`) // the address is of this machine
	form.Set("local", "1")
	secret := do(200, form, "Secret of receiver ops").secret(t)
	b.lacks(b.get("/ui/admin/receivers?name=ops"), secret)
	if n := strings.Count(b.get("/ui/admin/receivers?name=ops").text, `name="mail-from"`); n != 1 {
		t.Errorf("%d forms have the fields of mail, want the one of a new receiver only", n)
	}
	do(409, form, "ops")
	do(200, url.Values{"do": {"test"}, "name": {"ops"}}, "Receiver ops has taken the test alarm")
	<-took
	shown := b.wants(b.get("/ui/admin/receivers?name=ops"), 200, `value="shop*, pay"`, "drover receiver show ops")
	changed := shown.input(t, "changed")
	form = url.Values{
		"do": {"change"}, "name": {"ops"}, "kind": {"webhook"}, "url": {taker.URL}, "local": {"1"}, "changed": {changed},
		"namespaces": {""}, "note": {"for the day"},
	}
	do(200, form, "ops")
	b.wants(b.get("/ui/admin/receivers?name=ops"), 200, `value="for the day"`, `name="namespaces" value=""`)
	form.Set("note", "of another page")
	do(409, form, "has changed this since")
	b.lacks(b.get("/ui/admin/receivers?name=ops"), "of another page")
	if second := do(200, url.Values{"do": {"rotate"}, "name": {"ops"}}, "Secret of receiver ops").secret(t); second == secret {
		t.Error("the secret is the same")
	}
	do(422, url.Values{"do": {"delete"}, "name": {"ops"}, "typed": {"op"}}, "expected ops")
	b.lacks(do(200, url.Values{"do": {"delete"}, "name": {"ops"}, "typed": {"ops"}}, "There is none yet"), taker.URL)
	do(422, url.Values{"do": {"create"}, "name": {"mail"}, "kind": {"email"}, "url": {"smtp://mail.example:587"}}, "mail")
	do(200, url.Values{
		"do": {"create"}, "name": {"mail"}, "kind": {"email"}, "url": {"smtp://mail.example:587"}, "mail-from": {"a@b.example"},
		"mail-to": {"c@d.example"}, "secret": {"password"},
	}, "smtp://mail.example:587")
	audit := p.CLI("audit", "--limit", "0", "-o", "json").Out
	for _, want := range []string{"receivers.create", "receivers.change", "receivers.secret.create", "receivers.delete"} {
		if !strings.Contains(audit, want) {
			t.Errorf("the audit has no %s", want)
		}
	}
	if strings.Contains(audit, secret) {
		t.Error("the audit has a secret")
	}
}

// TestRotateKeys: the two steps of a rotation need the right step and a typed confirmation, and a former key is dropped.
func TestRotateKeys(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, harness.NewPlace(t, binaries.drover))
	b.signIn()
	do := func(status int, form url.Values, texts ...string) page {
		t.Helper()
		form.Set("kind", "manifest")
		form.Set("back", "/ui/admin/keys")
		return b.wants(b.post("/ui/admin/keys", form), status, texts...)
	}
	b.lacks(b.get("/ui/admin/keys"), "Use the next key")
	do(409, url.Values{"do": {"rotate"}, "step": {"use"}, "typed": {"manifest"}}, "has changed this since")
	do(200, url.Values{"do": {"rotate"}, "step": {"announce"}}, "Use the next key", "next")
	do(409, url.Values{"do": {"rotate"}, "step": {"announce"}}, "has changed this since")
	do(422, url.Values{"do": {"rotate"}, "step": {"use"}, "typed": {"ca"}}, "expected manifest")
	do(400, url.Values{"do": {"rotate"}, "step": {"use"}, "typed": {"manifest"}, "days": {"soon"}}, "days: ")
	harness.Eventually(t, "all hosts to know the key", func() bool {
		return strings.Contains(b.get("/ui/admin/keys").text, "1 of 1 online hosts trust")
	})
	used := do(200, url.Values{"do": {"rotate"}, "step": {"use"}, "typed": {"manifest"}, "days": {"30"}}, "former")
	former := used.input(t, "id")
	do(422, url.Values{"do": {"drop"}, "id": {former}, "typed": {""}}, "expected manifest")
	harness.Eventually(t, "all hosts to know the present key", func() bool {
		return strings.Contains(b.get("/ui/admin/keys").text, "1 of 1 online hosts trust")
	})
	b.lacks(do(200, url.Values{"do": {"drop"}, "id": {former}, "typed": {"manifest"}}, "present"), former)
}

// TestRemoveProxy: a proxy that has joined is removed by its typed name.
func TestRemoveProxy(t *testing.T) {
	t.Parallel()
	f := harness.NewFleet(t, binaries.drover, binaries.agent, "--proxies", harness.FreeAddress(t))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{
		Place: &harness.Place{T: t, S: &harness.Server{URL: f.URL}}, http: &http.Client{Jar: jar, Transport: f.Client.Transport},
	}
	_, code, _ := strings.Cut(strings.TrimSpace(f.CLI("login")), "/ui/login#")
	b.wants(b.post("/ui/login", url.Values{"code": {code}}), 200, "Overview")
	b.wants(b.get("/ui/admin/proxies"), 200, "There is none yet", "Add a proxy")
	b.wants(b.get("/ui/admin/tokens?role=proxy"), 200, `<option value="proxy" selected>`)
	token := b.wants(b.post("/ui/admin/tokens", url.Values{
		"do": {"create"}, "role": {"proxy"}, "area": {"3"}, "uses": {"1"}, "hours": {"1"},
	}), 200, "drover proxy join --server").secret(t)
	if code, _, errs := f.Run("px", token, f.Drover, "proxy", "join", "--server", f.URL, "--token", "-", "--name", "px-3",
		"--advertise", "127.0.0.1:7351", "--data-dir", f.AgentDir("px")); code != 0 {
		t.Fatalf("join: %d %s", code, errs)
	}
	shown := b.wants(b.get("/ui/admin/proxies"), 200, "px-3", "away")
	form := url.Values{
		"do": {"remove"}, "name": {"px-3"}, "key": {shown.input(t, "key")}, "typed": {"px"}, "back": {"/ui/admin/proxies"},
	}
	b.wants(b.post("/ui/admin/proxies", form), 422, "expected px-3")
	form.Set("typed", "px-3")
	b.wants(b.post("/ui/admin/proxies", form), 200, "There is none yet")
}

// TestSilences: who has the right silences alarms, and ends that. Others are rejected.
func TestSilences(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	must(p, []string{"user", "create", "anna"}, []string{"user", "grant", "anna", "silence,read on shop"})
	anna := newBrowser(t, p)
	anna.signIn("anna")
	anna.wants(anna.get("/ui/processes/shop/api/at/0:127.0.0.1"), 200, `href="/ui/silences?process=shop/api"`)
	anna.wants(anna.get("/ui/silences?process=shop/api"), 200, `name="processes" value="shop/api"`)
	form := url.Values{"do": {"create"}, "processes": {"shop/api shop/web"}, "hosts": {"0:127.0.0.*"}, "hours": {"2"}, "message": {"kernel update"}, "back": {"/ui/silences"}}
	shown := anna.wants(anna.post("/ui/silences", form), 200, "active", "shop/api, shop/web", "0:127.0.0.*", "kernel update", "anna")
	for field, text := range map[string]string{"hours": "long", "from": "tomorrow", "until": "tomorrow", "cron": "often"} {
		wrong := url.Values{"do": {"create"}, "processes": {"shop/api"}, "hours": {"1"}}
		wrong.Set(field, text)
		if got := anna.post("/ui/silences", wrong); got.status != 400 && got.status != 422 || !strings.Contains(got.text, field) {
			t.Errorf("%s %s: %d without a word about it", field, text, got.status)
		}
	}
	form.Set("processes", "pay/*")
	anna.wants(anna.post("/ui/silences", form), 403, "silence")
	if out := p.CLI("silence", "list").Out; !strings.Contains(out, "kernel update") {
		t.Errorf("the command line does not list it:\n%s", out)
	}
	end := url.Values{"do": {"remove"}, "id": {shown.input(t, "id")}, "back": {"/ui/silences"}}
	anna.lacks(anna.wants(anna.post("/ui/silences", end), 200, "Silences"), "kernel update")
	anna.wants(anna.get("/ui/silences?ended=true"), 200, "ended", "kernel update")
}

// TestAssets: the files of the pages have the path of their version, which a browser keeps, and are compressed. A page of
// another version gets the present ones.
func TestAssets(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, harness.NewPlace(t, binaries.drover))
	path := b.get("/ui/login").found(t, `src="(/ui/assets/[0-9a-f]+/drover\.js)"`)
	get := func(path, encoding string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.S.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", encoding)
		resp, err := b.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, data
	}
	small, compressed := get(path, "gzip, br")
	plain, text := get(path, "identity")
	unzip, err := gzip.NewReader(strings.NewReader(string(compressed)))
	if err != nil {
		t.Fatal(err)
	}
	if unzipped, err := io.ReadAll(unzip); err != nil || string(unzipped) != string(text) {
		t.Errorf("it unzips to something else: %v", err)
	}
	for _, r := range []*http.Response{small, plain} {
		if got := r.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") || r.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("a browser keeps it %q, by %q", got, r.Header.Get("Vary"))
		}
		if kind := r.Header.Get("Content-Type"); !strings.Contains(kind, "javascript") {
			t.Errorf("it is %s", kind)
		}
	}
	other, same := get("/ui/assets/0123/drover.js", "identity")
	if string(same) != string(text) || strings.Contains(other.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("a file of another version is kept %q", other.Header.Get("Cache-Control"))
	}
	if none, _ := get("/ui/assets/0123/nothing.js", "identity"); none.StatusCode != 404 {
		t.Errorf("a file that is not there: %d", none.StatusCode)
	}
}

// TestSavedViews: a filter is saved for oneself, or shared in a namespace with those who may read that. The palette finds
// it, and only its person or an administrator removes it.
func TestSavedViews(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	people := map[string]*browser{}
	for name, right := range map[string]string{"anna": "viewer on shop", "bob": "operator on shop", "eve": "operator on pay"} {
		must(p, []string{"user", "create", name}, []string{"user", "grant", name, right})
		people[name] = newBrowser(t, p)
		people[name].signIn(name)
	}
	admin := newBrowser(t, p)
	admin.signIn()
	anna, bob, eve := people["anna"], people["bob"], people["eve"]
	save := func(b *browser, status int, name, share, query string, texts ...string) page {
		t.Helper()
		return b.wants(b.post("/ui/views", url.Values{"name": {name}, "share": {share}, "query": {query}}), status, texts...)
	}
	const query = "namespace=shop&state=given-up"
	link := `href="/ui/processes?` + strings.ReplaceAll(query, "&", "&amp;") + `"><bdi>`
	save(anna, 200, "mine", "", query+"&cursor=abc", link+"mine")
	save(anna, 200, "<b>ours", "shop", query, link+"&lt;b&gt;ours", "shared in shop")
	save(anna, 409, "mine", "", "name=a", "You have a view with the name mine")
	save(anna, 403, "theirs", "pay", query, "You may not read a namespace pay")
	save(anna, 422, "", "", query, "The name is empty")
	save(anna, 422, strings.Repeat("x", 61), "", query, "longer than 60")
	save(anna, 422, "a", "", "name="+strings.Repeat("x", 2000), "longer than 2000")
	save(anna, 400, "a", "", "sate=running", "no such filter: sate")
	save(anna, 422, "a", "", "selection=sel-1", "15 minutes")

	b := bob.wants(bob.get("/ui/processes"), 200, link+"&lt;b&gt;ours", "anna")
	bob.lacks(b, link+"mine", "/remove")
	eve.lacks(eve.get("/ui/processes"), "ours", "mine")
	var found []struct{ Kind, Text, URL string }
	if err := json.Unmarshal([]byte(bob.get("/ui/jump?q=OURS").text), &found); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found, func(f struct{ Kind, Text, URL string }) bool {
		return f.Kind == "view" && f.Text == "<b>ours" && f.URL == "/ui/processes?"+query
	}) {
		t.Errorf("the palette finds %v", found)
	}
	remove := anna.get("/ui/processes").found(t, `action="(/ui/views/[a-z0-9]+/remove)"`)
	for _, b := range []*browser{bob, eve} {
		b.wants(b.post(remove, url.Values{}), 404, "nothing here")
	}
	for range 2 {
		gone := admin.get("/ui/processes").text
		if !strings.Contains(gone, "/remove") {
			break
		}
		path := admin.get("/ui/processes").found(t, `action="(/ui/views/[a-z0-9]+/remove)"`)
		admin.wants(admin.post(path, url.Values{"back": {"/ui/processes"}}), 200, "Processes")
	}
	bob.lacks(bob.get("/ui/processes"), "ours")
	anna.wants(anna.get("/ui/processes"), 200, link+"mine")
	anna.lacks(anna.post(anna.get("/ui/processes").found(t, `action="(/ui/views/[a-z0-9]+/remove)"`), url.Values{}), link+"mine")
	audit := p.CLI("audit", "--limit", "0", "-o", "json").Out
	for _, want := range []string{"console.save-view", "console.remove-view", "ours"} {
		if !strings.Contains(audit, want) {
			t.Errorf("the audit has no %s", want)
		}
	}
}

// TestSort: a list has the chosen order, and another kind of rows has its own.
func TestSort(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	harness.Eventually(t, "shop/bad to be given up", func() bool { return p.State("bad") == "given-up" })
	b := newBrowser(t, p)
	b.signIn()
	order := func(query string, names ...string) {
		t.Helper()
		harness.Eventually(t, fmt.Sprint("the order ", names, " of ", query), func() bool {
			text, at := b.get("/ui/processes?"+query).text, -1
			_, text, _ = strings.Cut(text, "<tbody>")
			for _, name := range names {
				i := strings.Index(text, name+"</bdi>")
				if i <= at {
					return false
				}
				at = i
			}
			return true
		})
	}
	order("", "shop/api", "shop/bad", "shop/web")
	order("sort=state", "shop/bad", "shop/api")
	order("group=process&sort=-wrong", "shop/bad", "shop/api", "shop/web")
	b.wants(b.get("/ui/processes?sort=state"), 200, `<option value="state" selected>`)
	b.wants(b.get("/ui/processes?group=process&sort=state"), 200, `<option value="-wrong">`) // the order of rows is none
	b.wants(b.get("/ui/processes?sort=size"), 422, "sort")
}
