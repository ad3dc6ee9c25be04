package webui_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// join makes a host whose agent is connected, and returns its key.
func (r *rig) join(area int, ip string) string {
	r.Helper()
	key := fmt.Sprintf("KEY%d-%s", area, ip)
	r.must(r.fleet.Join(r.Context(), store.Agent{Key: key, Cloud: area, IP: ip, Created: r.now}, r.now))
	r.fleet.RecordMessage(key, r.now)
	return key
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// observe stores processes of namespace shop as a host reports them.
func (r *rig) observe(host, state string, names ...string) {
	r.Helper()
	var rows []store.Observed
	for _, name := range names {
		o := store.Observed{Agent: host, Process: process.ID{Namespace: "shop", Name: name}, Status: process.Status{
			Known: true, State: state, Hosted: true, Want: process.WantRunning, Instance: process.Instance{PID: -1},
		}}
		if state == process.StateRunning {
			o.Status.Instance = process.Instance{PID: 42, StartedAt: r.now.Unix(), Version: "1." + host[len(host)-1:]}
		}
		rows = append(rows, o)
	}
	r.reports++
	mark := store.ReportMark{Agent: host, Session: "s", Number: r.reports, Hello: true}
	r.must(r.store.PutObserved(r.Context(), mark, rows, nil))
}

var (
	target = regexp.MustCompile(`name="target" value="([^"]+)"`)
	next   = regexp.MustCompile(`href="([^"]+)">Next page<`)
)

// TestEveryRow: of long lists each page leads to the next, and all rows are there once.
func TestEveryRow(t *testing.T) {
	r := newRig(t)
	r.signIn()
	var names []string
	for i := range 405 {
		names = append(names, fmt.Sprintf("p%03d", i))
		r.observe(r.join(0, fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)), process.StateRunning, "api", "apx")
	}
	r.observe(r.join(1, "10.1.0.1"), process.StateRunning, names...)
	for path, row := range map[string]*regexp.Regexp{
		"/ui/processes/shop/api": target,
		"/ui/hosts/1:10.1.0.1":   target,
		"/ui/hosts?hosts=0:*":    regexp.MustCompile(`<tr data-key="[^"]*">\s*<td><a href="(/ui/hosts/[^"]+)"`),
	} {
		seen, pages := map[string]bool{}, 0
		for at := path; at != ""; pages++ {
			status, _, text := r.get(at)
			if status != 200 {
				t.Fatalf("%s: %d %.500s", at, status, text)
			}
			for _, found := range row.FindAllStringSubmatch(text, -1) {
				if seen[found[1]] {
					t.Errorf("%s is on two pages of %s", found[1], path)
				}
				seen[found[1]] = true
			}
			at = ""
			if found := next.FindStringSubmatch(text); found != nil {
				at = html.UnescapeString(found[1])
			}
		}
		if len(seen) != 405 || pages != 3 {
			t.Errorf("%s has %d rows on %d pages, want 405 on 3", path, len(seen), pages)
		}
	}
	if status, _, _ := r.get("/ui/processes/shop/none"); status != 404 {
		t.Errorf("an unknown process: %d", status)
	}
	if _, _, text := r.get("/ui/jump?q=ap"); !strings.Contains(text, "/shop/api") || !strings.Contains(text, "/shop/apx") {
		t.Errorf("the palette finds %s", text)
	}
}

// counted are the links of a page with the numbers beside them, without those that lead out of a filter.
func counted(t *testing.T, page string) map[string]string {
	t.Helper()
	links := map[string]string{}
	for _, pattern := range []string{
		`<a class="button" href="([^"]+)"><(?:span|code)[^\n]*?(\d+)</a>`, // the counts above the list
		`<tr data-key="[^"]*"><td><a href="([^"]+)">.*?</td><td>(\d+)</td>`,
		`<a href="([^"]+)"><span class="state [^\n]*?</span></a> (\d+) `,
	} {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(page, -1) {
			links[html.UnescapeString(found[1])] = found[2]
		}
	}
	return links
}

// TestCountsLeadToTheirRows: whatever the filter, a count leads to a list of that very number.
func TestCountsLeadToTheirRows(t *testing.T) {
	r := newRig(t)
	r.signIn()
	for i, area := range []int{0, 0, 0, 1, 1} {
		host := r.join(area, fmt.Sprintf("10.%d.0.%d", area, i+1))
		r.must(r.fleet.Label(t.Context(), []string{host}, map[string]string{"env": []string{"prod", "test"}[i%2]}, nil))
		r.observe(host, process.StateRunning, "api", "web")
		r.observe(host, process.StateGivenUp, "bad", "copied@1", "copied@2")
		r.observe(host, process.StateStopped, "idle")
	}
	r.fleet.RecordLinkLost("KEY0-10.0.0.2", r.now) // its states are out of date
	for _, page := range []string{
		"", "group=area", "group=area&hosts=0:10.0.0.1", "group=label:env", "group=label:env&selector=env%3Dprod",
		"group=namespace&state=running", "group=host&state=given-up", "group=version", "group=state", "group=process",
		"group=cause", "group=process&name=copied@2",
		"state=running", "stale=false",
	} {
		status, _, text := r.get("/ui/processes?" + page)
		links := counted(t, text)
		if status != 200 || page == "" && len(links) < 3 {
			t.Fatalf("%s: %d, links %v", page, status, links)
		}
		for _, to := range slices.Sorted(maps.Keys(links)) {
			n := links[to]
			if _, _, list := r.get(to); !strings.Contains(list, " / "+n+"</p>") && !strings.Contains(list, " "+n+" in all") {
				found := regexp.MustCompile(`<p>\d+ / [^<]*`).FindString(list)
				t.Errorf("%s: %s beside %s, which shows %s", page, n, to, found)
			}
		}
	}
}

// TestFormKeepsFilters: the form of the page sends every filter of the page again.
func TestFormKeepsFilters(t *testing.T) {
	r := newRig(t)
	r.signIn()
	filter := url.Values{
		"namespace": {"shop"}, "name": {"a*"}, "hosts": {"0:*"}, "state": {"running"}, "selector": {"env"},
		"process-label": {"tier"}, "process-version": {"1.2"}, "cause": {"exit-status"}, "stale": {"false"}, "hosted": {"true"},
	}
	_, _, text := r.get("/ui/processes?" + filter.Encode())
	_, form, _ := strings.Cut(text, `<form class="filter"`)
	form, _, _ = strings.Cut(form, "</form>")
	for name, value := range filter {
		if !strings.Contains(form, fmt.Sprintf(`name="%s" value="%s"`, name, value[0])) {
			t.Errorf("the form has no %s=%s:\n%s", name, value[0], form)
		}
	}
}

// TestRejectedFilter: a filter that the API rejects keeps its form.
func TestRejectedFilter(t *testing.T) {
	r := newRig(t)
	r.signIn()
	for path, field := range map[string]string{
		"/ui/processes?selector=a%3D%3D%3D":          `name="selector" value="a==="`,
		"/ui/processes?namespace=shop&state=" + long: `name="namespace" value="shop"`,
		"/ui/processes?name=api&cursor=wrong":        `name="name" value="api"`,
		"/ui/hosts?hosts=0:*&state=sick":             `name="hosts" value="0:*"`,
		"/ui/hosts?area=3&proxy=dmz-9":               `name="proxy" value="dmz-9"`,
		"/ui/hosts?proxy=dmz-1&policy=some":          `name="proxy" value="dmz-1"`,
		"/ui/tasks?state=sick":                       `role="alert"`,
	} {
		status, _, text := r.get(path)
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, field) || !strings.Contains(text, `role="alert"`) {
			t.Errorf("%.60s: %d without %s", path, status, field)
		}
	}
}

// TestUnknownParameter: a parameter that a page does not have is an error on each page, because a misspelt filter would
// show too much. A page with a filter keeps its form.
func TestUnknownParameter(t *testing.T) {
	r := newRig(t)
	r.signIn()
	const form, none = `<form class="filter"`, "There is no such filter: zzz"
	for _, path := range []string{
		"/ui/processes", "/ui/hosts", "/ui/tasks", "/ui/rollouts", "/ui/events", "/ui/audit", "/ui/", "/ui/processes.csv", "/ui/audit.csv",
		"/ui/processes/shop/api", "/ui/processes/shop/api/at/0:10.0.0.1", "/ui/tasks/t", "/ui/rollouts/ro-1", "/ui/why/exit-status",
		"/ui/silences", "/ui/apply", "/ui/hosts/0:10.0.0.1", "/ui/sessions", "/ui/admin/people", "/ui/processes/shop/api/at/0:10.0.0.1/log",
	} {
		status, _, text := r.get(path + "?zzz=1")
		if status != http.StatusBadRequest || !strings.Contains(text, none) {
			t.Errorf("%s: %d without %q", path, status, none)
		}
		if list := strings.Count(path, "/") == 2 && path != "/ui/" && !strings.Contains(path, ".csv"); list &&
			path != "/ui/apply" && path != "/ui/silences" && path != "/ui/sessions" && !strings.Contains(text, form) {
			t.Errorf("%s has lost its form", path)
		}
	}
}

// TestFiltersOfLists: the lists of hosts, tasks and rollouts and the overview take their filters, and keep them in
// forms.
func TestFiltersOfLists(t *testing.T) {
	r := newRig(t)
	r.signIn()
	host := r.join(3, "10.0.0.1")
	r.fleet.Introduced(host, fleet.Facts{Started: r.now, Policy: "users shop"}, r.now)
	r.fleet.Introduced(r.join(0, "10.0.0.2"), fleet.Facts{Started: r.now}, r.now)
	r.observe(host, process.StateRunning, "api")
	for i, id := range []string{"one", "two"} {
		_, err := r.store.CreateTask(t.Context(), &store.Task{
			ID: id, App: "app-" + id, User: "user-" + id, Created: r.now.Add(-time.Duration(i+1) * time.Hour), Requests: []store.Request{{
				Op: []process.Op{process.Start, process.Stop}[i], Process: process.ID{Namespace: "ns-" + id, Name: "p"},
				Targets: []store.Target{{ItemKey: "k", Spelling: "0:10.0.0.1", Agent: host}},
			}},
		}, store.AuditRow{At: r.now}, time.Time{}, 0)
		r.must(err)
	}
	for i, state := range append([]rollout.State{rollout.Paused}, slices.Repeat([]rollout.State{rollout.Done}, 12)...) {
		ro := rollout.New(rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}}, time.Time{},
			[]rollout.Host{{Agent: host, Name: "3:10.0.0.1", Steps: []int{0}}})
		ro.State = state
		r.must(r.store.CreateRollouts(t.Context(), []*store.Rollout{{
			ID: fmt.Sprint("ro-", state, i), App: "a", Created: r.now.Add(-time.Duration(i) * time.Hour), Op: process.Restart, Total: 1, Rollout: ro,
			Steps: []store.RolloutStep{{Op: process.Restart, Process: process.ID{Namespace: "shop", Name: fmt.Sprint("api", i)}}},
		}}, store.AuditRow{At: r.now}))
	}
	for path, want := range map[string][2]string{
		"/ui/hosts?area=3": {"3:10.0.0.1", "0:10.0.0.2"}, "/ui/hosts?area=0&build=": {"0:10.0.0.2", "3:10.0.0.1"},
		"/ui/hosts?q=10.0.0.2": {"0:10.0.0.2", "3:10.0.0.1"}, "/ui/hosts?build=9*": {"Nothing matches", "10.0.0.1"},
		"/ui/hosts?proxy=dmz-1": {"3:10.0.0.1", "0:10.0.0.2"}, "/ui/hosts?policy=none": {"0:10.0.0.2", "3:10.0.0.1"},
		"/ui/hosts?policy=limited": {"3:10.0.0.1", "0:10.0.0.2"},
		"/ui/processes?q=P/AP":     {"shop/api", "Nothing matches"}, "/ui/processes?q=10.0.0.2": {"Nothing matches", "shop/api"},
		"/ui/processes?q=3:10": {"drover ps --search 3:10", "Nothing matches"},
		"/ui/tasks?op=stop":    {"/tasks/two", "/tasks/one"}, "/ui/tasks?namespace=ns-o*": {"/tasks/one", "/tasks/two"},
		"/ui/tasks?user=user-two": {"/tasks/two", "/tasks/one"}, "/ui/tasks?app=app-one": {"/tasks/one", "/tasks/two"},
		"/ui/tasks?hosts=3:*&op=stop": {"/tasks/two", "/tasks/one"}, "/ui/tasks?hosts=0:10.0.0.2": {"Nothing matches", "/tasks/one"},
		"/ui/tasks?selector=no": {"Nothing matches", "/tasks/one"},
		"/ui/tasks?since=90m":   {"/tasks/one", "/tasks/two"}, "/ui/tasks?outcome=failed": {"Nothing matches", "/tasks/one"},
		"/ui/rollouts?state=held&namespace=shop": {"Nothing matches", "There is none"},
		"/ui/rollouts?hosts=3:*":                 {"ro-done5", "Nothing matches"}, "/ui/rollouts?hosts=0:10.0.0.2": {"Nothing matches", "ro-done5"},
		"/ui/rollouts?state=active": {"ro-paused0", "ro-done5"}, "/ui/rollouts?selector=no": {"Nothing matches", "ro-done5"},
		"/ui/?hosts=3:10.0.0.1": {"ro-paused0", "ro-done"}, "/ui/?hosts=0:10.0.0.2": {"No task and no rollout runs", "ro-paused0"},
		"/ui/?namespace=none": {"<b>0</b> Processes", "<b>1</b> Processes"}, "/ui/?namespace=sh*": {"<b>1</b> Processes", "<b>0</b>"},
	} {
		status, _, text := r.get(path)
		if status != http.StatusOK || !strings.Contains(text, want[0]) || strings.Contains(text, want[1]) {
			t.Errorf("%s: %d, without %q or with %q", path, status, want[0], want[1])
		}
		name, value, _ := strings.Cut(strings.Split(path, "?")[1], "=")
		value, _, _ = strings.Cut(value, "&")
		if input := fmt.Sprintf(`name="%s"[^>]* value="%s"|name="%s">.*value="%s" selected`, name, regexp.QuoteMeta(value), name, value); !regexp.MustCompile(input).MatchString(text) {
			t.Errorf("%s: the form has no %s=%s", path, name, value)
		}
	}
}

// TestHiddenProcess: a process that a person may not query is not found, as one that is not there; the page says who
// grants rights.
func TestHiddenProcess(t *testing.T) {
	r := newRig(t)
	host := r.join(0, "10.0.0.1")
	r.observe(host, process.StateRunning, "api")
	r.must(r.store.CreateUser(t.Context(), store.User{Name: "li", Created: r.now, Grants: []access.Grant{
		{Operations: []string{"viewer"}, Namespaces: []string{"web"}},
	}}))
	r.call(http.MethodPost, "/ui/login", url.Values{"code": {r.linkFor("li")}})
	for _, more := range []string{"", "/at/0:10.0.0.1"} {
		status, _, hidden := r.get("/ui/processes/shop/api" + more)
		_, _, none := r.get("/ui/processes/shop/apx" + more)
		_, _, elsewhere := r.get("/ui/processes/web/api" + more)
		if status != http.StatusNotFound || !strings.Contains(hidden, "drover user grant") ||
			strings.ReplaceAll(hidden, "api", "apx") != none || strings.ReplaceAll(elsewhere, "web/", "shop/") != hidden {
			t.Errorf("%d: %s\n%s\n%s", status, hidden, none, elsewhere)
		}
	}
}

// TestOperationsOfAHost: the pages of a host and of a process there offer what the person may do on that host, and name
// the missing right.
func TestOperationsOfAHost(t *testing.T) {
	r := newRig(t)
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		r.observe(r.join(0, ip), process.StateRunning, "api")
	}
	r.must(r.store.CreateUser(t.Context(), store.User{Name: "li", Created: r.now, Grants: []access.Grant{
		{Operations: []string{"viewer"}, Namespaces: []string{"*"}},
		{Operations: []string{"operator"}, Namespaces: []string{"shop"}, Hosts: []string{"0:10.0.0.1"}},
	}}))
	r.call(http.MethodPost, "/ui/login", url.Values{"code": {r.linkFor("li")}})
	for path, missing := range map[string]string{
		"/ui/processes/shop/api": "", "/ui/processes/shop/api/at/0:10.0.0.1": "", "/ui/hosts/0:10.0.0.1": "",
		"/ui/processes/shop/api/at/0:10.0.0.2": "operator on shop at 0:10.0.0.2",
		"/ui/hosts/0:10.0.0.2":                 "operator on * at 0:10.0.0.2",
	} {
		page := r.has(path, missing)
		if off := strings.Contains(page, `value="stop" disabled`); off != (missing != "") {
			t.Errorf("%s: stop is off: %t", path, off)
		}
		if !strings.Contains(page, `value="stop"`) {
			t.Errorf("%s does not offer stop", path)
		}
	}
}

// long is too long a value of a filter.
var long = strings.Repeat("x", 3000)

// TestLargeChangesNeedARecentSignIn: a rollout of more than 1000 hosts goes on, and labels change, after a recent
// sign-in only. An abort never waits for one.
func TestLargeChangesNeedARecentSignIn(t *testing.T) {
	r := newRig(t)
	r.signIn()
	at := r.join(0, "10.0.0.1")
	hosts := make([]rollout.Host, 1001)
	for i := range hosts {
		hosts[i] = rollout.Host{Agent: fmt.Sprint("K", i), Name: fmt.Sprint("h", i), Steps: []int{0}}
	}
	ro := rollout.New(rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 10}}}, time.Time{}, hosts)
	ro.State = rollout.Paused
	r.must(r.store.CreateRollouts(t.Context(), []*store.Rollout{{
		ID: "ro-1", App: "person:anna", User: "anna", Created: r.now, Op: process.Restart, Total: len(hosts), Rollout: ro,
		Steps: []store.RolloutStep{{Op: process.Restart, Process: process.ID{Namespace: "shop", Name: "api"}}},
	}}, store.AuditRow{At: r.now}))
	r.now = r.now.Add(15*time.Minute + time.Second)
	r.fleet.RecordMessage(at, r.now)
	back := url.Values{"back": {"/ui/rollouts/ro-1"}, "labels": {"env=prod"}}
	for _, action := range []string{"/ui/rollouts/ro-1/resume", "/ui/rollouts/ro-1/retry", "/ui/hosts/0:10.0.0.1/labels"} {
		status, _, text := r.call(http.MethodPost, action, back)
		if status != http.StatusForbidden || !strings.Contains(text, "at most 15 minutes old") {
			t.Errorf("%s after an old sign-in: %d", action, status)
		}
	}
	if now, err := r.store.GetRollout(t.Context(), "ro-1", ""); err != nil || now.State != rollout.Paused {
		t.Errorf("the rollout is %v, %v", now, err)
	}
	status, _, text := r.call(http.MethodPost, "/ui/rollouts/ro-1/abort", back)
	if status != http.StatusOK || !strings.Contains(text, "Abort rollout ro-1?") ||
		!strings.Contains(text, "0 of 1001 hosts have begun") {
		t.Errorf("an abort without a confirmation: %d %s", status, text)
	}
	if now, err := r.store.GetRollout(t.Context(), "ro-1", ""); err != nil || now.State != rollout.Paused {
		t.Errorf("the rollout is %v, %v", now, err)
	}
	back.Set("confirm", "yes")
	if status, to, text := r.call(http.MethodPost, "/ui/rollouts/ro-1/abort", back); status != http.StatusSeeOther {
		t.Errorf("an abort: %d %s %.300s", status, to, text)
	}
}

// TestCarefulRestart: a confirmation offers batches where there are several hosts, says what is wrong with them, and
// leads to the rollout. One host needs none.
func TestCarefulRestart(t *testing.T) {
	r := newRig(t)
	r.signIn()
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		r.observe(r.join(0, ip), process.StateRunning, "api")
	}
	form := url.Values{"op": {"restart"}, "target": {"shop/api@0:10.0.0.1"}, "back": {"/ui/processes"}}
	_, _, one := r.call(http.MethodPost, "/ui/operate", form)
	if !strings.Contains(one, "<h1>Restart shop/api on 0:10.0.0.1?</h1>") || strings.Contains(one, `name="spread"`) ||
		!strings.Contains(one, `<span aria-hidden="true">●</span> running`) {
		t.Errorf("one host: %s", one)
	}
	form.Add("target", "shop/api@0:10.0.0.2")
	_, _, two := r.call(http.MethodPost, "/ui/operate", form)
	if !strings.Contains(two, "<h1>Restart 2 processes on 2 hosts?</h1>") ||
		!strings.Contains(two, `value="once" checked`) || !strings.Contains(two, `name="batch" value="10%"`) {
		t.Errorf("two hosts: %s", two)
	}
	sure := url.Values{
		"op": {"restart"}, "confirm": {"yes"}, "spread": {"batches"}, "batch": {"many"}, "canary": {"1"}, "bake": {"30s"},
		"max_failures": {"0"},
		"selection":    regexp.MustCompile(`name="selection" value="([^"]+)"`).FindStringSubmatch(two)[1:],
	}
	status, _, text := r.call(http.MethodPost, "/ui/operate", sure)
	if status != http.StatusBadRequest || !strings.Contains(text, `batch: &#34;many&#34; is not a number of hosts`) ||
		!strings.Contains(text, `value="batches" checked`) {
		t.Errorf("a wrong batch: %d %s", status, text)
	}
	sure.Set("batch", "1")
	status, to, text := r.call(http.MethodPost, "/ui/operate", sure)
	if status != http.StatusSeeOther || !strings.HasPrefix(to, "/ui/rollouts/ro-") {
		t.Fatalf("batches: %d %s %s", status, to, text)
	}
	got, err := r.store.GetRollout(t.Context(), strings.TrimPrefix(to, "/ui/rollouts/"), "")
	r.must(err)
	if _, _, page := r.call(http.MethodGet, to+"?left_out=3", nil); !strings.Contains(page, "Left out: 3.") {
		t.Error("the page does not say what is left out")
	}
	if p := got.Plan; got.Op != process.Restart || got.Total != 2 || p.Batch.Number != 1 || p.Canary != 1 || p.Bake.String() != "30s" {
		t.Errorf("the rollout is %s of %d hosts with %+v", got.Op, got.Total, p)
	}
}

// TestEventsGoOn: the list of events has pages, reads a time, and tells an event of a process that runs on by its kind.
func TestEventsGoOn(t *testing.T) {
	r := newRig(t)
	r.signIn()
	host := r.join(0, "10.0.0.1")
	var list []store.NewEvent
	for i := range 250 {
		e := process.Event{
			Stream: "s", Seq: uint64(i + 1), At: r.now.Add(-time.Duration(250-i) * time.Minute).UnixMilli(),
			Process: process.ID{Namespace: "shop", Name: fmt.Sprintf("p%03d", i)}, Kind: process.EventUnhealthy,
			From: process.StateRunning, To: process.StateRunning, Actor: process.Actor{Kind: process.ActorPolicy},
		}
		body, err := json.Marshal(e)
		r.must(err)
		list = append(list, store.NewEvent{Event: e, Body: string(body)})
	}
	_, err := r.store.PutEvents(t.Context(), host, r.now, list)
	r.must(err)
	row := regexp.MustCompile(`/ui/processes/shop/(p\d+)/at/`)
	seen, at := map[string]bool{}, "/ui/events"
	for at != "" {
		_, _, text := r.get(at)
		for _, found := range row.FindAllStringSubmatch(text, -1) {
			seen[found[1]] = true
		}
		if strings.Contains(text, "</span> running</span>") || !strings.Contains(text, "</span> unhealthy</span>") ||
			!strings.Contains(text, `<bdi title="unhealthy">unhealthy</bdi>`) || !strings.Contains(text, `title="policy">by policy</span>`) {
			t.Errorf("%s: %.3000s", at, text)
		}
		at = ""
		if found := next.FindStringSubmatch(text); found != nil {
			at = html.UnescapeString(found[1])
		}
	}
	if len(seen) != 250 {
		t.Errorf("the pages have %d events", len(seen))
	}
	_, _, text := r.get("/ui/events?namespace=shop&name=p*&since=16h")
	if found := next.FindStringSubmatch(text); found == nil || !strings.Contains(found[1], "name=p%2A&amp;namespace=shop&amp;since=16h") {
		t.Errorf("the next page of a filter is %q", found)
	}
	_, _, text = r.get("/ui/events?namespace=shop&since=100m&until=50m")
	if n := len(row.FindAllString(text, -1)); n != 50 || !strings.Contains(text, "drover events &#39;shop/*&#39; --since 100m --until 50m") {
		t.Errorf("50 minutes have %d events: %.3000s", n, text)
	}
	if status, _, text := r.get("/ui/events?name=p1&since=yesterday"); status != http.StatusBadRequest ||
		!strings.Contains(text, `name="name" value="p1"`) {
		t.Errorf("a wrong time: %d", status)
	}
}

// TestLargeApplyNeedsARecentSignIn: a confirmed plan of more than 1000 changes waits for another sign-in.
func TestLargeApplyNeedsARecentSignIn(t *testing.T) {
	r := newRig(t)
	r.signIn()
	one, two := r.join(0, "10.0.0.1"), r.join(0, "10.0.0.2")
	const text = "namespace: shop\nprocesses:\n" +
		"  many: {run: sleep 1, directory: /, user: root, copies: 501, hosts: [\"0:10.0.0.1\", \"0:10.0.0.2\"]}\n"
	form := url.Values{"ns": {"shop"}, "text": {text}, "step": {"confirm"}, "confirm": {"1002"}, "back": {"/ui/apply?ns=shop"}}
	r.now = r.now.Add(15*time.Minute + time.Second)
	r.fleet.RecordMessage(one, r.now)
	r.fleet.RecordMessage(two, r.now)
	status, _, page := r.call(http.MethodPost, "/ui/apply", form)
	if status != http.StatusForbidden || !strings.Contains(page, "at most 15 minutes old") ||
		!strings.Contains(page, `name="back" value="/ui/apply?ns=shop"`) {
		t.Errorf("%d %.3000s", status, page)
	}
}

// TestFaultsOfAFileInChinese: a wrong file is told in the language of the person.
func TestFaultsOfAFileInChinese(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.call(http.MethodPost, "/ui/language", url.Values{"language": {"zh-CN"}, "back": {"/ui/apply"}})
	const text = "namespace: shop\nprocesses:\n  api: {run: sleep 1, hosts: [a], nice: 44, runn: x}\n"
	status, _, page := r.call(http.MethodPost, "/ui/apply", url.Values{"ns": {"shop"}, "text": {text}, "step": {"plan"}})
	if status != http.StatusUnprocessableEntity || !strings.Contains(page, "为 44：应为 -20 至 19") ||
		!strings.Contains(page, "未知字段，是否想写 run？") {
		t.Errorf("%d %.5000s", status, page)
	}
}

// TestFaultsOfAFormInChinese: what a filter or a form cannot take is told in the language of the person.
func TestFaultsOfAFormInChinese(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.call(http.MethodPost, "/ui/language", url.Values{"language": {"zh-CN"}, "back": {"/ui/"}})
	for path, want := range map[string]string{
		"/ui/events?since=yesterday":        "since：&#34;yesterday&#34; 不符合要求：应为时长（如 24h）或时间",
		"/ui/audit?allowed=maybe":           "allowed：&#34;maybe&#34; 不符合要求：应为 true 或 false",
		"/ui/processes?selector=a%3D%3D%3D": `role="alert"`,
	} {
		if _, _, text := r.get(path); !strings.Contains(text, want) {
			t.Errorf("%s: %.4000s", path, text)
		}
	}
	_, _, text := r.call(http.MethodPost, "/ui/processes/paste", url.Values{"hosts": {strings.Repeat("a ", 2001)}})
	if !strings.Contains(text, "共 2001 个地址：应为 1 至 2000 个") {
		t.Errorf("too many addresses: %.4000s", text)
	}
}

// TestLanguageOfStrangers: somebody who is not signed in can switch the language, and the sign-in does not lead back to
// the page that signs in.
func TestLanguageOfStrangers(t *testing.T) {
	r := newRig(t)
	_, _, text := r.get("/ui/login")
	here := regexp.MustCompile(`name="back" value="([^"]*)"><input type="hidden" name="language" value="zh-CN"`)
	found := here.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no switch: %s", text)
	}
	_, to, _ := r.call(http.MethodPost, "/ui/language", url.Values{"language": {"zh-CN"}, "back": {found[1]}})
	if _, _, text = r.get(to); !strings.Contains(text, `lang="zh-CN"`) || !strings.Contains(text, `id="login"`) {
		t.Errorf("%s after the switch: %.400s", to, text)
	}
	r.call(http.MethodPost, "/ui/login", url.Values{"code": {"wrong"}, "back": {"/ui/login"}})
	if at := r.signIn(); at != "/ui/" {
		t.Errorf("after the sign-in there is %s", at)
	}
}

// TestPeopleShareAnOverview: people with the same rights who look again get the page of a moment ago, without the name
// of whoever asked for it. A first look, also with the header of a page that renews itself, is never shared.
func TestPeopleShareAnOverview(t *testing.T) {
	r := newRig(t)
	host := r.join(0, "10.0.0.1")
	r.observe(host, process.StateRunning, "api")
	for _, name := range []string{"bo", "cy"} {
		r.must(r.store.CreateUser(t.Context(), store.User{Name: name, Admin: true, Created: r.now}))
	}
	r.must(r.store.CreateUser(t.Context(), store.User{Name: "li", Created: r.now}))
	browsers := map[string]*http.Client{}
	look := func(name string, renews bool) string {
		t.Helper()
		if browsers[name] == nil {
			r.http = r.browser()
			browsers[name] = r.http
			r.call(http.MethodPost, "/ui/login", url.Values{"code": {r.linkFor(name)}})
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/ui/", http.NoBody)
		r.must(err)
		if renews {
			req.Header.Set("X-Drover-Renews", "1")
		}
		answer, err := browsers[name].Do(req)
		r.must(err)
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if r.must(err); answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Language") != "en" {
			t.Fatalf("%d: %.2000s", answer.StatusCode, data)
		}
		return string(data)
	}
	has := func(text string, processes int) bool {
		return strings.Contains(text, fmt.Sprintf("<b>%d</b> Processes", processes))
	}
	for _, name := range []string{"anna", "bo", "li"} {
		if text := look(name, false); !strings.Contains(text, "<bdi>"+name+"</bdi>") || has(text, 1) == (name == "li") {
			t.Errorf("the first page of %s: %.4000s", name, text)
		}
	}
	first := look("anna", true)
	r.observe(host, process.StateRunning, "api", "web")
	if second := look("bo", true); second != first || strings.Contains(first, "anna") || !has(first, 1) {
		t.Errorf("the pages that two people share:\n%.4000s\n%.4000s", first, second)
	}
	if text := look("li", true); has(text, 1) || has(text, 2) {
		t.Errorf("a person without a right sees %.4000s", text)
	}
	if text := look("cy", true); !has(text, 2) {
		t.Errorf("a first look with the header of a later one: %.4000s", text)
	}
	r.now = r.now.Add(time.Second)
	r.observe(host, process.StateRunning, "api", "web", "db")
	if text := look("bo", true); !has(text, 3) {
		t.Errorf("a second later there is %.4000s", text)
	}
	for name, want := range map[string]int{"anna": 1, "bo": 1, "cy": 1, "li": 1} {
		rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{User: name, Action: "processes.overview", Limit: 9})
		if r.must(err); len(rows) != want {
			t.Errorf("%s has %d audit rows, want %d", name, len(rows), want)
		}
	}
}
