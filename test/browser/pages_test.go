package browser_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/chromedp/cdproto/emulation"

	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
	"drover/internal/words"
	"drover/test/judge"
)

// exhibition is a fleet of which every page has something to show: a process in each state, a failed task, and a rollout
// that has paused.
type exhibition struct {
	*fleet
	task, rollout string
}

func newExhibition(t *testing.T) *exhibition {
	t.Helper()
	x := &exhibition{fleet: newFleet(t, 2)}
	here, gone := newLiar(x.Fleet, "10.66.0.1"), newLiar(x.Fleet, "10.66.0.2")
	for _, l := range []*liar{here, gone} {
		l.introduce()
		l.everyState()
	}
	here.stay()
	x.release(false)
	x.CLI("user", "create", "anna")
	x.CLI("user", "grant", "anna", "operator on shop")
	x.CLI("receiver", "create", "ops", "--url", "https://alarms.example/drover")
	x.CLI("silence", "shop/*", "--for", "2h")
	x.CLI("keys", "rotate", "manifest")
	_, _, _ = x.Run("server", "", x.Drover, "restart", "shop/api", "--batch", "1", "--bake", "20s", "--yes", "--data-dir", x.ServerDir())
	x.rollout = x.first("rollout", "list", "-o", "name")
	_, _, _ = x.Run("server", "", x.Drover, "stop", "odd/running", "--hosts", "0:10.66.0.2", "--yes", "--data-dir", x.ServerDir())
	x.task = x.first("task", "list", "-o", "name")
	return x
}

// first is the first line that a command prints.
func (f *fleet) first(args ...string) string {
	f.T.Helper()
	lines := strings.Fields(f.CLI(args...))
	if len(lines) == 0 {
		f.T.Fatalf("drover %q lists nothing", args)
	}
	return lines[0]
}

// pages are the paths of all pages, by their names.
func (x *exhibition) pages() map[string]string {
	return map[string]string{
		"overview": "/ui/", "processes": "/ui/processes", "filtered": "/ui/processes?namespace=shop&state=running",
		"wrong-filter": "/ui/processes?selector=a%3D%3D%3D", "none": "/ui/processes?name=nobody",
		"process": "/ui/processes/shop/api", "instance": "/ui/processes/shop/api/at/" + x.hosts[0],
		"instance-stale": "/ui/processes/odd/running/at/0:10.66.0.2", "states": "/ui/processes?hosts=0:10.66.0.1",
		"instance-odd": "/ui/processes/odd/unhealthy/at/0:10.66.0.1", "silences": "/ui/silences", "proxies": "/ui/admin/proxies",
		"follow": "/ui/processes/shop/api/at/" + x.hosts[0] + "?follow=1", "receiver": "/ui/admin/receivers?name=ops", "hosts": "/ui/hosts", "tasks": "/ui/tasks",
		"task": "/ui/tasks/" + x.task, "rollouts": "/ui/rollouts", "rollout": "/ui/rollouts/" + x.rollout, "events": "/ui/events",
		"events-follow": "/ui/events?ns=shop&follow=1", "severity": "/ui/?severity=warning",
		"not-found": "/ui/nothing", "audit": "/ui/audit", "apply": "/ui/apply?ns=shop", "host": "/ui/hosts/" + x.hosts[0],
		"sessions": "/ui/sessions", "people": "/ui/admin/people", "person": "/ui/admin/people?name=anna", "apps": "/ui/admin/apps",
		"tokens": "/ui/admin/tokens", "receivers": "/ui/admin/receivers", "keys": "/ui/admin/keys", "server": "/ui/admin/server",
		"grouped": "/ui/processes?group=process", "why": "/ui/why/exit-status", "device": "/ui/device",
	}
}

// introduce says who the liar is, as an honest agent does.
func (l *liar) introduce() {
	l.t.Helper()
	if ack := l.tell(introduction(l)); ack.Error != "" {
		l.t.Fatal(ack.Error)
	}
}

// everyState reports a process in each state.
func (l *liar) everyState() {
	l.t.Helper()
	var r wire.Report
	for i, state := range process.States() {
		cause := process.Cause{}
		if state != process.StateRunning {
			cause = process.Cause{ID: process.CauseExitStatus, Text: "pid 12 exit status 3", Since: time.Now().UnixMilli()}
		}
		r.Observed = append(r.Observed, observation("odd", state, i, process.Status{State: state, Message: "m", Cause: cause}))
	}
	if ack := l.tell(r); ack.Error != "" {
		l.t.Fatal(ack.Error)
	}
}

// everyState fails the test unless the page has each state of a process, of now.
func (b *tab) everyState(l words.Lang) {
	b.t.Helper()
	text := b.text("[data-region=rows]")
	for _, state := range process.States() {
		if !strings.Contains(text, words.State(state).In(l)) {
			b.t.Errorf("%s does not show the state %s", b.where(), state)
		}
	}
	if stale := words.State("stale").In(l); strings.Contains(text, stale) {
		b.t.Errorf("%s shows a state that is %s", b.where(), stale)
	}
}

// TestPages: every page, in both languages and themes, on a wide and on the narrowest window: without a fault of the
// frame, within the width, and in one language. The long form has each language in each theme and at each width.
func TestPages(t *testing.T) {
	t.Parallel()
	x := newExhibition(t)
	for i, l := range []words.Lang{words.English, words.Chinese} {
		for j, dark := range []bool{false, true} {
			for k, width := range []int64{1440, 390, 320} {
				name := fmt.Sprintf("%s-%s-%d", l.Tag(), map[bool]string{false: "light", true: "dark"}[dark], width)
				if (i != j || k != 2*i) && !judge.Long() {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					b := x.as(t).signIn(browser{language: l.Tag(), dark: dark, width: width})
					b.allow("status of 4(04|22|00)") // of the pages of errors
					for page, path := range x.pages() {
						b.load(path)
						if page != "not-found" && strings.Contains(b.text("main"), words.Page.Absent.In(l)) {
							t.Errorf("there is no page %s", path)
						}
						if page == "states" {
							b.everyState(l)
						}
						b.accessible()
						b.fits()
						b.saysOnce()
						b.speaks(l)
						b.keep(page + "-" + name)
					}
				})
			}
		}
	}
}

// keep stores a picture of the whole page in the long form, for people to look at.
func (b *tab) keep(name string) {
	b.t.Helper()
	if judge.Long() {
		b.picture("pages/" + name)
	}
}

// as is the fleet in a subtest.
func (f *fleet) as(t *testing.T) *fleet {
	t.Helper()
	own := *f.Fleet
	own.T = t
	return &fleet{Fleet: &own, hosts: f.hosts, agents: f.agents}
}

// narrow is the width of a window, in pixels, up to which nothing but texts of hosts scrolls sideways.
const narrow = 390

// fits fails the test if a page is wider than its window: only tables and texts of hosts may scroll in themselves, and
// in a narrow window no tables either.
func (b *tab) fits() {
	b.t.Helper()
	wide := evaluate[[]string](b, `(() => {
		const width = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth <= width) return [];
		return [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > width + 1 &&
			!e.closest("table, pre") ).slice(0, 5).map((e) => e.outerHTML.slice(0, 200)).concat(
			"the page is " + document.documentElement.scrollWidth + " wide in a window of " + width);
	})()`)
	if width := b.set.width; width > 0 && width <= narrow {
		wide = append(wide, evaluate[[]string](b, `[...document.querySelectorAll("main, main *")].filter((e) =>
			e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowX) &&
			!e.closest("pre, textarea")).slice(0, 5).map((e) => "this scrolls sideways: " + e.outerHTML.slice(0, 300))`)...)
	}
	if len(wide) > 0 {
		b.t.Errorf("%s (%d px): wider than the window:\n%s", b.where(), b.set.width, strings.Join(wide, "\n"))
	}
}

// saysOnce fails the test if a list of facts names two of them the same.
func (b *tab) saysOnce() {
	b.t.Helper()
	twice := evaluate[[]string](b, `[...document.querySelectorAll("main dl")].flatMap((list) => {
		const names = [...list.querySelectorAll(":scope > dt")].map((e) => e.textContent);
		return names.filter((name, i) => names.indexOf(name) !== i);
	})`)
	if len(twice) > 0 {
		b.t.Errorf("%s names several facts %q", b.where(), twice)
	}
}

// latin are words that are the same in each language.
var latin = regexp.MustCompile(`^(drover|English|PID|CPU|Agent|ID|IP|UTC|CSV|YAML|JSON|URL|Webhook|Proxy|TLS|App|Token|API|OOM)$`)

// speaks fails the test if the page's own words are of another language.
func (b *tab) speaks(l words.Lang) {
	b.t.Helper()
	own := evaluate[[]string](b, `[...document.querySelectorAll("nav a, h1, h2, h3, th, button, label, legend, dt, summary, title, .tiles a, footer, bdi[title], td[title], td[title] a")]
		.flatMap((e) => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim())).filter(Boolean)`)
	for _, text := range own {
		han, letters := strings.ContainsFunc(text, isHan), strings.ContainsFunc(text, isLatin)
		switch {
		case l == words.English && han && text != "中文":
			b.t.Errorf("%s: %q is not English", b.where(), text)
		case l == words.Chinese && letters && !han && !latin.MatchString(text) && !strings.HasSuffix(text, " · drover"):
			b.t.Errorf("%s: %q is not Chinese", b.where(), text)
		}
	}
}

func isHan(r rune) bool   { return unicode.Is(unicode.Han, r) }
func isLatin(r rune) bool { return unicode.Is(unicode.Latin, r) }

// TestLanguageSwitch: one click changes the language of the page and of the next ones, and nothing else of the address.
func TestLanguageSwitch(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	const path = "/ui/processes?namespace=shop&state=running"
	b.load(path)
	for _, l := range []words.Lang{words.Chinese, words.English} {
		b.click("form[action='/ui/language'] button")
		b.await("the language", fmt.Sprintf("document.documentElement.lang === %q", l.Tag()))
		b.shows(words.Page.Processes.In(l))
		if b.where() != path {
			t.Errorf("after the change of the language there is %s", b.where())
		}
		b.speaks(l)
		b.load("/ui/")
		b.shows(words.Page.Overview.In(l))
		b.load(path)
	}
}

// TestTimes: a page shows times in the zone of the browser, and keeps UTC at hand.
func TestTimes(t *testing.T) {
	t.Parallel()
	p := place(t)
	for zone, format := range map[string]string{"Asia/Shanghai": "15:04:05", "America/New_York": "3:04:05 PM"} {
		t.Run(strings.ReplaceAll(zone, "/", "-"), func(t *testing.T) {
			t.Parallel()
			set := browser{zone: zone, language: map[string]string{"Asia/Shanghai": "zh-CN"}[zone]}
			b := open(t, p.S.URL, set)
			b.signIn(p)
			b.goTo("/ui/events")
			place, err := time.LoadLocation(zone)
			must0(t, err)
			offset := fmt.Sprintf("%s (UTC%s)", zone, time.Now().In(place).Format("-07:00"))
			b.await("the time zone", fmt.Sprintf("document.getElementById('zone').textContent.includes(%q)", offset))
			shown := evaluate[struct{ At, Text, Title string }](b, `(() => {
				const e = document.querySelector("main time");
				return {At: e.dateTime, Text: e.textContent.replace(/[\u202f\u00a0]/g, " "), Title: e.title};
			})()`)
			at, err := time.Parse(time.RFC3339, shown.At)
			must0(t, err)
			if local := strings.TrimPrefix(at.In(place).Format(format), "0"); !strings.Contains(shown.Text, local) && !strings.Contains(shown.Title, local) {
				t.Errorf("%s is shown as %q (%q), want %s", shown.At, shown.Text, shown.Title, local)
			}
			if utc := at.Format("15:04:05 UTC"); !strings.Contains(shown.Title, utc) {
				t.Errorf("UTC is not at hand: %q, want %s", shown.Title, utc)
			}
			b.allow("status of 400")
			b.load("/ui/events?since=abc") // the example can be typed as it stands
			if text := b.text("[role=alert]"); !strings.Contains(text, "2026-11-20T08:00:00Z") {
				t.Errorf("the message has no time that the filter takes: %q", text)
			}
		})
	}
}

// TestWeight: a first page with 50 rows takes few requests and few bytes, and has few elements.
func TestWeight(t *testing.T) {
	t.Parallel()
	f := harness.NewFleet(t, binaries.drover, binaries.agent)
	l := newLiar(f, "10.66.0.1")
	l.introduce()
	var r wire.Report
	for i := range 300 {
		r.Observed = append(r.Observed, observation("many", fmt.Sprintf("process-%03d", i), i, process.Status{
			State: process.StateGivenUp, Cause: process.Cause{ID: process.CauseExitStatus, Text: "pid 12 exit status 3"},
		}))
	}
	l.tell(r)
	for _, path := range []string{"/ui/", "/ui/processes", "/ui/events"} {
		b := open(t, f.URL, browser{})
		b.signInBy(strings.TrimSpace(f.CLI("login")))
		cold := b.another() // of the same session
		cold.emptyCache()
		cold.load(path)
		cold.mu.Lock()
		requests, asked, bytes := len(cold.asked), cold.asked, cold.bytes
		cold.mu.Unlock()
		elements := evaluate[int](cold, "document.querySelectorAll('*').length")
		t.Logf("%s: %d requests, %.0f bytes, %d elements", path, requests, bytes, elements)
		if requests > 6 || bytes > 250e3 || elements > 3000 {
			t.Errorf("%s: %d requests, %.0f bytes, %d elements: want 6, 250 kB and 3000 at most\n%s", path, requests, bytes,
				elements, strings.Join(asked, "\n"))
		}
	}
}

// TestReducedMotion: for a person who wants no motion nothing moves.
func TestReducedMotion(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	b.signIn(p)
	for _, path := range []string{"/ui/", "/ui/processes", "/ui/events"} {
		b.load(path)
		if moving := evaluate[int](b, "document.getAnimations().length"); moving > 0 {
			t.Errorf("%s: %d animations", path, moving)
		}
	}
}

// TestLongNames: a name of 255 bytes without a space neither widens a narrow page nor covers anything.
func TestLongNames(t *testing.T) {
	t.Parallel()
	f := harness.NewFleet(t, binaries.drover, binaries.agent)
	l := newLiar(f, "10.66.0.1")
	l.introduce()
	var r wire.Report
	name := strings.Repeat("x", 255)
	r.Observed = append(r.Observed, observation("long", name, 0, process.Status{
		State: process.StateGivenUp, Message: name, Cause: process.Cause{ID: process.CauseExitStatus, Text: name},
	}))
	l.tell(r)
	b := open(t, f.URL, browser{width: 390})
	b.signInBy(strings.TrimSpace(f.CLI("login")))
	for _, path := range []string{
		"/ui/", "/ui/processes", "/ui/processes/long/" + name, "/ui/processes/long/" + name + "/at/0:10.66.0.1", "/ui/events",
	} {
		b.goTo(path)
		b.fits()
	}
}
