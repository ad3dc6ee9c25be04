package console_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// TestManyProcesses: the counts lead to lists with that very count, processes are grouped, exported and found by
// pasted addresses, and all that match but one are stopped, whoever comes meanwhile.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(file)
	harness.Eventually(t, "shop/bad to be given up", func() bool { return p.State("bad") == "given-up" })
	b := newBrowser(t, p)
	b.signIn()
	harness.Eventually(t, "the overview", func() bool {
		return strings.Contains(b.get("/ui/").text, `state=running"><b>2</b>`)
	})
	b.wants(b.get("/ui/"), 200, `stale=false&amp;state=running"><b>2</b>`, `/ui/processes?cause=exit-status&amp;group=none">1</a>`)
	b.wants(b.get("/ui/processes?stale=false&state=running"), 200, "2 / 2", "shop/api", "shop/web")
	b.wants(b.get("/ui/processes?cause=exit-status&group=none"), 200, "1 / 1", "shop/bad")
	b.wants(b.get("/ui/processes?group=namespace"), 200, "1 / 1 · 3 in all", `namespace=shop"><bdi>shop`,
		"With all 3 processes that match the filter:", `type="hidden" name="all" value="1"`)
	b.wants(b.get("/ui/processes?sate=running"), 400, "There is no such filter: sate")
	rows := b.csv("/ui/processes.csv?namespace=shop")
	if len(rows) != 4 || rows[1][1] != "api" || rows[2][9] != "exit-status" {
		t.Errorf("exported: %q", rows)
	}
	found := b.post("/ui/processes/paste", url.Values{"hosts": {"127.0.0.1;10.1.1.1\n0:127.0.0.1"}})
	b.wants(found, 200, "Hosts found: 1", "1 unknown:", "10.1.1.1", "3 / 3")

	form := url.Values{"op": {"stop"}, "all": {"1"}, "query": {"namespace=shop&state=running"}}
	for _, text := range target.FindAllStringSubmatch(found.text, -1) {
		if strings.Contains(text[1], "web") {
			form.Set("except", text[1])
		}
	}
	b.confirm(b.wants(b.post("/ui/operate", form), 200, "Stop shop/api on 0:127.0.0.1?"), form)
	p.Apply(file + "  late: {run: sleep 1000}\n")
	harness.Eventually(t, "shop/late to run", func() bool { return p.State("late") == "running" })
	form.Set("confirm", "yes")
	b.wants(b.post("/ui/operate", form), 200, "Left out: 1")
	harness.Eventually(t, "shop/api to stop", func() bool { return p.State("api") == "stopped" })
	for _, name := range []string{"web", "late"} {
		if state := p.State(name); state != "running" {
			t.Errorf("shop/%s is %s", name, state)
		}
	}
}

// TestLive: a stream tells the versions, and those of what changes. It ends soon after its person may not be here any
// more, and a stranger gets none.
func TestLive(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	if a := p.CLI("user", "create", "anna"); a.Code != 0 {
		t.Fatal(a.Errors)
	}
	b := newBrowser(t, p)
	if got := b.get("/ui/live"); got.status != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d", got.status)
	}
	b.signIn("anna")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.S.URL+"/ui/live", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for text := bufio.NewScanner(resp.Body); text.Scan(); {
			if line, ok := strings.CutPrefix(text.Text(), "data: "); ok {
				lines <- line
			}
		}
	}()
	if first := <-lines; !strings.Contains(first, `"processes":`) || !strings.Contains(first, `"hosts":`) {
		t.Errorf("the first hint is %s", first)
	}
	p.Apply(file)
	seen := ""
	for line := range lines {
		if seen += line; strings.Contains(seen, `"tasks":`) && strings.Contains(seen, `"processes":`) {
			break
		}
	}
	if a := p.CLI("user", "disable", "anna"); a.Code != 0 {
		t.Fatal(a.Errors)
	}
	began := time.Now()
	for range lines { // until the end
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the stream lived on for %s", took)
	}
}

// TestFollowedLog: the stream of a log has the lines of its process, and ends soon after its person has lost the right.
func TestFollowedLog(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(strings.Replace(file, "api: {run: sleep 1000}", `api: {run: "echo first; sleep 0.5; echo second; sleep 1000"}`, 1))
	must(p, []string{"user", "create", "anna"}, []string{"user", "grant", "anna", "viewer on shop"})
	anna, stranger := newBrowser(t, p), newBrowser(t, p)
	anna.signIn("anna")
	const path = "/ui/processes/shop/api/at/0:127.0.0.1"
	stranger.wants(stranger.get(path+"/log"), 200, "Sign in")
	anna.wants(anna.get(path+"?follow=1&find=s%5Be%5Dc"), 200, `data-follow="`+path+"/log?find=s%5Be%5Dc")
	anna.wants(anna.get("/ui/processes/pay/api/at/0:127.0.0.1/log"), 403, "read-logs")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.S.URL+path+"/log?find=s%5Be%5Dc", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := anna.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && lines.Text() == "" { //nolint:revive // empty lines say that the stream is there
	}
	if !strings.Contains(lines.Text(), `"text":"second"`) {
		t.Errorf("the first line that matches is %s", lines.Text())
	}
	must(p, []string{"user", "revoke", "anna", "viewer on shop"})
	began := time.Now()
	for lines.Scan() { //nolint:revive // until the end
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the stream lived on for %s", took)
	}
	anna.wants(anna.get(path+"/log"), 403, "read-logs")
}
