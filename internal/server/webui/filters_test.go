package webui_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// TestShortFilters: links may have the short names of filters; pages and their links have the long ones.
func TestShortFilters(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.observe(r.join(3, "10.0.0.1"), process.StateRunning, "api")
	r.observe(r.join(0, "10.0.0.2"), process.StateStopped, "db")
	for path, want := range map[string][3]string{
		"/ui/processes?ns=shop&host=3:*": {"shop/api", "shop/db", `name="hosts" value="3:*"`},
		"/ui/processes?area=0":           {"shop/db", "shop/api", `name="hosts" value="0:*"`},
		"/ui/processes?label=no":         {"Nothing matches", "shop/db", `name="selector" value="no"`},
		"/ui/?area=3":                    {"<b>1</b> Processes", "<b>2</b> Processes", `href="/ui/processes?hosts=3%3A%2A"`},
		"/ui/?ns=none":                   {"<b>0</b> Processes", "<b>2</b> Processes", `name="namespace" value="none"`},
		"/ui/hosts?area=3":               {"3:10.0.0.1", "0:10.0.0.2", `name="area" inputmode="numeric" value="3"`},
		"/ui/events?ns=shop":             {"Nothing matches", "There is no such filter", `name="namespace" value="shop"`},
	} {
		status, _, text := r.get(path)
		if status != http.StatusOK || !strings.Contains(text, want[0]) || strings.Contains(text, want[1]) || !strings.Contains(text, want[2]) {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	for _, path := range []string{"/ui/?sate=x", "/ui/?ns=a&namespace=b", "/ui/events?areas=1"} {
		if status, _, text := r.get(path); status != http.StatusBadRequest || !strings.Contains(text, "There is no such filter") {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestSeverities: the overview shows the causes of one severity, and how each has grown.
func TestSeverities(t *testing.T) {
	r := newRig(t)
	r.signIn()
	host := r.join(0, "10.0.0.1")
	fails := func(name, state string, pid int, cause process.CauseID, ago time.Duration) {
		r.reports++
		r.must(r.store.PutObserved(t.Context(), store.ReportMark{Agent: host, Session: "s", Number: r.reports, Hello: true},
			[]store.Observed{{Agent: host, Process: process.ID{Namespace: "shop", Name: name}, Status: process.Status{
				Known: true, State: state, Hosted: true, Want: process.WantRunning, Instance: process.Instance{PID: pid},
				Cause: process.Cause{ID: cause, Text: "it is so", Since: r.now.Add(-ago).UnixMilli()},
			}}}, nil))
	}
	fails("bad", process.StateGivenUp, -1, process.CauseExitStatus, time.Minute)
	both := r.has("/ui/", ">exit-status<", `aria-label="0 an hour ago, 1 now"`)
	if strings.Contains(both, "?severity=") {
		t.Error("there is a choice of one severity")
	}
	host = r.join(0, "10.0.0.2")
	fails("slow", process.StateUnhealthy, 7, process.CauseUnhealthy, 2*time.Hour)
	r.has("/ui/?namespace=shop", ">exit-status<", ">unhealthy<", `aria-label="1 an hour ago, 1 now"`,
		`href="/ui/?namespace=shop&amp;severity=critical"`, `href="/ui/?namespace=shop&amp;severity=warning"`)
	only := r.has("/ui/?namespace=shop&severity=warning", ">unhealthy<", `href="/ui/?namespace=shop"`,
		`value="cause=unhealthy&amp;namespace=shop"`, `href="/ui/processes?cause=unhealthy&amp;group=none&amp;namespace=shop"`)
	if strings.Contains(only, ">exit-status<") {
		t.Error("a critical cause is among the warnings")
	}
	r.has("/ui/?severity=information", "Nothing matches the filter")
}

// TestCrumbs: the page of one thing leads to the pages above it.
func TestCrumbs(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.observe(r.join(0, "10.0.0.1"), process.StateRunning, "api")
	crumb := regexp.MustCompile(`<nav class="crumbs".*</nav>`)
	for path, want := range map[string][]string{
		"/ui/processes/shop/api/at/0:10.0.0.1": {"/ui/processes", "/ui/processes?namespace=shop", "/ui/processes/shop/api"},
		"/ui/processes/shop/api":               {"/ui/processes", "/ui/processes?namespace=shop"},
		"/ui/hosts/0:10.0.0.1":                 {"/ui/hosts"},
		"/ui/processes":                        nil,
		"/ui/":                                 nil,
	} {
		var links []string
		for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(crumb.FindString(r.has(path)), -1) {
			links = append(links, html.UnescapeString(m[1]))
		}
		if !slices.Equal(links, want) {
			t.Errorf("%s: %q, want %q", path, links, want)
		}
	}
}

// TestColumns: a list of processes has the columns that a person chooses, and links that add or remove one.
func TestColumns(t *testing.T) {
	r := newRig(t)
	r.signIn()
	r.observe(r.join(0, "10.0.0.1"), process.StateRunning, "api")
	heads := func(page string) string {
		var all []string
		for _, head := range regexp.MustCompile(`<th>([^<]+)</th>`).FindAllStringSubmatch(page, -1) {
			all = append(all, head[1])
		}
		return strings.Join(all, " ")
	}
	page := r.has("/ui/processes", `href="/ui/processes?cols=pid%2Cstarted%2Ccpu%2Cmemory%2Crestarts%2Chosted"`, "<td>yes</td>")
	if got := heads(page); got != "Process Host State PID Started CPU/host Memory Restarts Hosted Why" {
		t.Errorf("the columns are %s", got)
	}
	page = r.has("/ui/processes?cols=version,pid&namespace=shop", `href="/ui/processes?cols=version&amp;namespace=shop" aria-current="true">PID ×`,
		`<input type="hidden" name="cols" value="version,pid">`, "<td>42</td>")
	if got := heads(page); got != "Process Host State PID Version" {
		t.Errorf("the chosen columns are %s", got)
	}
	if page = r.has("/ui/processes?cols=pid"); strings.Contains(page, "PID ×") {
		t.Error("a table may lose its last column")
	}
	if status, _, text := r.get("/ui/processes?cols=pid,none"); status != http.StatusBadRequest || !strings.Contains(text, "cols") {
		t.Errorf("an unknown column: %d %s", status, text)
	}
}

// TestHostsWithCounts: the list of hosts counts them by state and version, and the processes of each by state; each
// count leads to its list.
func TestHostsWithCounts(t *testing.T) {
	r := newRig(t)
	r.signIn()
	for i, build := range []string{"1.2.0", "1.2.0", "1.3.0"} {
		key := r.join(0, fmt.Sprint("10.0.0.", i+1))
		r.fleet.Introduced(key, fleet.Facts{Started: r.now}, r.now)
		a, _ := r.fleet.LookupID(fmt.Sprint("0:10.0.0.", i+1))
		a.Build = build
		r.must(r.fleet.Join(t.Context(), a, r.now))
		r.fleet.RecordMessage(key, r.now)
		r.observe(key, process.StateRunning, "api", "apx")
	}
	page := r.has("/ui/hosts",
		`<a class="button" href="/ui/hosts?build=1.2.0"><code>1.2.0</code> 2</a>`, `href="/ui/hosts?build=1.3.0"><code>1.3.0</code> 1`,
		`href="/ui/processes?hosts=0%3A10.0.0.2&amp;stale=false&amp;state=running"`)
	if online := regexp.MustCompile(`href="/ui/hosts\?state=online">[^\n]*</span> 3</a>`); !online.MatchString(page) {
		t.Errorf("the page does not count the hosts that are online: %s", page)
	}
	narrow := r.has("/ui/hosts?build=1.3.0", `<code>1.3.0</code> 1 ×</a>`, `<code>1.2.0</code> 2</a>`, "10.0.0.3")
	if strings.Contains(narrow, "10.0.0.1") || !regexp.MustCompile(`state=online">[^\n]*</span> 1</a>`).MatchString(narrow) {
		t.Errorf("the narrowed page is %s", narrow)
	}
	r.now = r.now.Add(time.Hour)
	r.has("/ui/hosts?state=away", `href="/ui/processes?hosts=0%3A10.0.0.2&amp;stale=true"`)
}
