package webui_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// happen stores events of processes of namespace shop on a host, each some time before now.
func (r *rig) happen(host string, events map[time.Duration]process.Event) {
	r.Helper()
	for ago, e := range events {
		r.seq++
		e.Stream, e.Seq, e.At = "s", r.seq, r.now.Add(-ago).UnixMilli()
		e.Process.Namespace = "shop"
		body, err := json.Marshal(e)
		r.must(err)
		_, err = r.store.PutEvents(r.Context(), host, r.now, []store.NewEvent{{Event: e, Body: string(body)}})
		r.must(err)
	}
}

// has fails the test unless a page has all of some texts.
func (r *rig) has(path string, texts ...string) string {
	r.Helper()
	status, _, page := r.get(path)
	if status != http.StatusOK {
		r.Fatalf("%s: %d %.800s", path, status, page)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			r.Errorf("%s has no %q", path, text)
		}
	}
	return page
}

// TestTimeline: the page of a process on a host draws its events of an hour or more, and says who began it.
func TestTimeline(t *testing.T) {
	r := newRig(t)
	r.signIn()
	host := r.join(0, "10.0.0.1")
	r.observe(host, process.StateRunning, "api")
	api := process.ID{Name: "api"}
	anna := process.Actor{Kind: "caller", App: "person:anna", User: "anna", Operation: "op-81", Reason: "rollout ro-7"}
	r.happen(host, map[time.Duration]process.Event{
		50 * time.Minute: {Process: api, Kind: "started", From: "stopped", To: "running", PID: 41, Actor: anna},
	})
	r.happen(host, map[time.Duration]process.Event{
		20 * time.Minute: {Process: api, Kind: "exited", From: "running", To: "backoff", PID: 41, Actor: process.Actor{Kind: "self"}},
	})
	r.happen(host, map[time.Duration]process.Event{
		10 * time.Minute: {Process: api, Kind: "started", From: "backoff", To: "running", PID: 42, Actor: anna},
	})
	r.happen(host, map[time.Duration]process.Event{
		2 * time.Hour: {Process: api, Kind: "registered", Actor: anna},
	})
	at := "/ui/processes/shop/api/at/0:10.0.0.1"
	page := r.has(at, `<svg role="img" aria-label="Events in this time: exited ×1, started ×2"`, `<rect class="bad" x="66.7%" width="16.7%"`,
		`<text class="bad"`, `<dt>Main PID</dt><dd>42</dd>`, `<dt>Started by</dt><dd><bdi>anna · rollout ro-7</bdi>`, `href="/ui/tasks/op-81"`)
	if strings.Contains(page, `style=`) {
		t.Error("the page has a style of its own, which the policy forbids")
	}
	r.has(at+"?span=24h", "registered ×1, started ×2")
	if status, _, _ := r.get(at + "?span=2h"); status != http.StatusBadRequest {
		t.Errorf("an unknown length of time: %d", status)
	}
}

// TestCrashLoopIsOneStep: a process that ends and is relaunched again and again is two steps of the timeline.
func TestCrashLoopIsOneStep(t *testing.T) {
	r := newRig(t)
	r.signIn()
	host := r.join(0, "10.0.0.1")
	r.observe(host, process.StateBackoff, "api")
	for i := range 20 {
		for j, kind := range []process.EventKind{"exited", "relaunched"} {
			r.happen(host, map[time.Duration]process.Event{
				40*time.Minute - time.Duration(2*i+j)*time.Minute/2: {Process: process.ID{Name: "api"}, Kind: kind},
			})
		}
	}
	page := r.has("/ui/processes/shop/api/at/0:10.0.0.1", `<ol class="steps">`)
	_, list, _ := strings.Cut(page, `<ol class="steps">`)
	list, _, _ = strings.Cut(list, "</ol>")
	if strings.Count(list, "<li>") != 2 || strings.Count(list, "<b>×20</b>") != 2 {
		t.Errorf("the steps are %s", list)
	}
}

// TestHostAway: what a host that is away has last reported is marked so, and the cause is that of the host.
func TestHostAway(t *testing.T) {
	r := newRig(t)
	r.signIn()
	host := r.join(0, "10.0.0.1")
	r.observe(host, process.StateRunning, "api")
	r.fleet.RecordLinkLost(host, r.now)
	r.now = r.now.Add(5 * time.Minute)
	r.has("/ui/processes/shop/api/at/0:10.0.0.1", `class="stale"`, "(last known: running, PID 42)",
		`href="/ui/why/agent-away"`, "What to do", "it last reported", "(last known)")
}

// TestSignal: a signal is one of the operations, with its name and who gets it.
func TestSignal(t *testing.T) {
	r := newRig(t)
	r.signIn()
	host := r.join(0, "10.0.0.1")
	r.observe(host, process.StateRunning, "api")
	r.has("/ui/processes/shop/api/at/0:10.0.0.1", `<button name="op" value="signal">`)
	status, _, page := r.call(http.MethodPost, "/ui/operate", url.Values{"op": {"signal"}, "target": {"shop/api@0:10.0.0.1"}})
	if status != http.StatusOK || !strings.Contains(page, `<select name="signal">`) || !strings.Contains(page, "<option>USR1</option>") {
		t.Fatalf("the question: %d %.2000s", status, page)
	}
}

// TestLogFile: the lines of a log are a file to download.
func TestLogFile(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.observe(r.join(0, "10.0.0.1"), process.StateRunning, "api")
	page := r.has("/ui/processes/shop/api/at/0:10.0.0.1?find=re", `id="wrap"`)
	found := regexp.MustCompile(`href="([^"]+log.txt[^"]*)" download`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no file")
	}
	if status, _, text := r.get(html.UnescapeString(found[1])); status != http.StatusOK || text != "ready\n" {
		t.Errorf("the file: %d %q", status, text)
	}
}

// TestCheckNow: the page asks the host whether a process is as its spec says.
func TestCheckNow(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.observe(r.join(0, "10.0.0.1"), process.StateRunning, "api")
	r.has("/ui/processes/shop/api/at/0:10.0.0.1", `href="?check=1#check"`)
	r.has("/ui/processes/shop/api/at/0:10.0.0.1?check=1", "Compared with the host just now")
}

// TestTabsOfAProcess: why, logs, history and spec of a process are tabs, and the list of its hosts tells revisions and
// exits.
func TestTabsOfAProcess(t *testing.T) {
	r := newRig(t)
	r.signIn()
	api := process.ID{Namespace: "shop", Name: "api"}
	for i := range 12 {
		host := r.join(0, fmt.Sprintf("10.0.0.%d", i+1))
		r.reports++
		mark := store.ReportMark{Agent: host, Session: "s", Number: r.reports, Hello: true}
		r.must(r.store.PutObserved(r.Context(), mark, []store.Observed{{Agent: host, Process: api, Status: process.Status{
			Known: true, State: process.StateGivenUp, Hosted: true, Want: process.WantRunning,
			Instance: process.Instance{PID: -1}, LastExit: &process.Exit{Known: true, Code: 3, At: r.now.UnixMilli()},
			Cause: process.Cause{ID: process.CauseExitStatus, Text: fmt.Sprintf("pid %d exit status 3 at 2026-11-28T21:49:%02dZ", i, i)},
		}}}, nil))
	}
	r.happen("KEY0-10.0.0.1", map[time.Duration]process.Event{
		time.Minute: {Process: process.ID{Name: "api"}, Kind: "restarted", Actor: process.Actor{Kind: "caller", User: "bo", Operation: "op-7"}},
	})
	at := "/ui/processes/shop/api"
	r.has(at, ">Revision</th>", ">Last exit</th>", "exit status 3", `href="?tab=why"`)
	r.has(at+"?tab=why", `>12</a>`, "exit-status", "12 of 12 are not", "and 2 more", "pid … exit status 3 at …<")
	r.has(at+"?tab=logs", ">0:10.0.0.1  ready\n0:10.0.0.2  ready\n", "\n0:10.0.0.9  ready\n", "Hosts that are read: 12.", "drover logs shop/api")
	some := r.has(at+"?tab=logs&hosts=0:10.0.0.1*,0:10.0.0.3&follow=1", "0:10.0.0.11  ready\n", "Hosts that are read: 5.",
		`data-follow="/ui/processes/shop/api/log?find=&amp;hosts=0%3A10.0.0.1%2C0%3A10.0.0.3%2C0%3A10.0.0.10%2C`)
	if strings.Contains(some, "0:10.0.0.2  ") {
		t.Error("the page has the log of a host that nobody has chosen")
	}
	r.has(at+"?tab=logs&hosts=none", "Hosts that are read: 0.")
	if status, _, _ := r.get("/ui/processes/shop/apx?tab=logs"); status != http.StatusNotFound {
		t.Errorf("the logs of an unknown process: %d", status)
	}
	r.has(at+"?tab=history", `<a href="/ui/tasks/op-7">`, "<bdi>bo</bdi>")
	r.has(at+"?tab=spec", "Process file", "Who runs which revision")
	if status, _, _ := r.get(at + "?tab=x"); status != http.StatusBadRequest {
		t.Errorf("an unknown tab: %d", status)
	}
}

// TestResultsOfATask: the page of a task counts its outcomes and leads to the results of each. They are a file, too,
// and their hosts are a text to paste, each once.
func TestResultsOfATask(t *testing.T) {
	r := newRig(t)
	r.signIn()
	host := r.join(0, "10.0.0.1")
	r.join(0, "10.0.0.2")
	api, db := process.ID{Namespace: "shop", Name: "api"}, process.ID{Namespace: "shop", Name: "db"}
	refused := &process.Outcome{Fault: process.CheckFailed, Text: "=port 8080 is in use"}
	_, err := r.store.CreateTask(t.Context(), &store.Task{
		ID: "op-1", App: "person:anna", User: "anna", Created: r.now, Requests: []store.Request{
			{Op: process.Restart, Process: api, Targets: []store.Target{
				{ItemKey: "a", Spelling: "0:10.0.0.1", Agent: host},
				{ItemKey: "b", Spelling: "0:10.0.0.2", Outcome: refused},
				{ItemKey: "c", Spelling: "0:10.0.0.3", Outcome: &process.Outcome{}},
			}},
			{Op: process.Restart, Process: db, Targets: []store.Target{{ItemKey: "d", Spelling: "0:10.0.0.2", Outcome: refused}}},
		},
	}, store.AuditRow{At: r.now}, time.Time{}, 0)
	r.must(err)
	row := func(name, host string) string {
		return fmt.Sprintf(`href="/ui/processes/shop/%s/at/%s"><bdi>`, name, host)
	}
	for query, want := range map[string][4]bool{
		"": {true, true, true, true}, "?outcome=failed": {1: true, 3: true}, "?outcome=ok": {2: true}, "?outcome=pending": {0: true},
	} {
		page := r.has("/ui/tasks/op-1"+query, "</span> failed</span> 2</a>", `href="/ui/tasks/op-1/hosts.txt?outcome=failed"`,
			`href="/ui/tasks/op-1/results.csv`+query+`"`)
		for i, link := range []string{
			row("api", "0:10.0.0.1"), row("api", "0:10.0.0.2"), row("api", "0:10.0.0.3"), row("db", "0:10.0.0.2"),
		} {
			if strings.Contains(page, link) != want[i] {
				t.Errorf("%q: a row %s: %t, want %t", query, link, !want[i], want[i])
			}
		}
	}
	const heads, cell = "\ufeffnamespace,name,host,operation,outcome,message\n", "restart,check-failed,'=port 8080 is in use\n"
	for path, want := range map[string]string{
		"hosts.txt": "0:10.0.0.1\n0:10.0.0.2\n0:10.0.0.3\n", "hosts.txt?outcome=failed": "0:10.0.0.2\n",
		"results.csv?outcome=failed": heads + "shop,api,0:10.0.0.2," + cell + "shop,db,0:10.0.0.2," + cell,
	} {
		if status, _, got := r.get("/ui/tasks/op-1/" + path); status != http.StatusOK || got != want {
			t.Errorf("%s: %d %q, want %q", path, status, got, want)
		}
	}
	for _, path := range []string{"/ui/tasks/op-1?outcome=good", "/ui/tasks/op-1/hosts.txt?outcome=good"} {
		if status, _, text := r.get(path); status != http.StatusUnprocessableEntity || !strings.Contains(text, "outcome") {
			t.Errorf("%s: %d %.300s", path, status, text)
		}
	}
}

// TestOverviewActs: beside a cause stand operations for exactly the processes with this cause. What is wrong with a
// host that is away leads to the hosts.
func TestOverviewActs(t *testing.T) {
	r := newRig(t)
	r.signIn()
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		host := r.join(0, ip)
		r.observe(host, process.StateRunning, "api")
		r.observe(host, process.StateGivenUp, "bad")
	}
	_, _, page := r.get("/ui/")
	form := regexp.MustCompile(`name="query" value="(cause=[^"]+)"`).FindStringSubmatch(page)
	if form == nil {
		t.Fatalf("the overview has no operations: %s", page)
	}
	_, _, asked := r.call(http.MethodPost, "/ui/operate", url.Values{
		"op": {"retry"}, "all": {"1"}, "query": {html.UnescapeString(form[1])}, "back": {"/ui/"},
	})
	if !strings.Contains(asked, "<h1>Retry 2 processes on 2 hosts?</h1>") || strings.Contains(asked, "shop/api") {
		t.Errorf("the confirmation is %s", asked)
	}
	r.fleet.RecordLinkLost("KEY0-10.0.0.2", r.now)
	_, _, page = r.get("/ui/")
	row := regexp.MustCompile(`<tr data-key="agent-away">(?s:.*?)</tr>`).FindString(page)
	if !strings.Contains(row, `href="/ui/hosts?state=away"`) || strings.Contains(row, "<form") {
		t.Errorf("beside a host that is away stands %q", row)
	}
}
