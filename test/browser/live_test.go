package browser_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"drover/internal/test/harness"
	"drover/internal/words"
)

// mark makes a mark in the page that a reload would remove.
func (b *tab) mark() {
	b.t.Helper()
	evaluate[int](b, "globalThis.marked = 1")
}

// marked fails the test if the page has been loaded again since mark.
func (b *tab) marked() {
	b.t.Helper()
	if !evaluate[bool](b, "globalThis.marked === 1") {
		b.t.Errorf("%s has been loaded again", b.where())
	}
}

// TestDeath: a process is killed. Its page tells by itself how it ended, why, and what it said last; the lists and the
// overview follow.
func TestDeath(t *testing.T) {
	t.Parallel()
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		p := harness.NewPlace(t, binaries.drover)
		p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}, restart: {when: never}}
processes:
  api: {run: "echo 'the last words of api'; exec sleep 1000"}
`)
		b := open(t, p.S.URL, browser{language: l.Tag()})
		b.signIn(p)
		overview, list := b.another(), b.another()
		overview.load("/ui/")
		list.load("/ui/processes?namespace=shop")
		b.load("/ui/processes/shop/api/at/0:127.0.0.1")
		pid := p.PID("api")
		b.shows(words.State("running").In(l), "the last words of api", fmt.Sprint(pid))
		for _, tab := range []*tab{b, overview, list} {
			tab.mark()
		}
		harness.Signal(t, pid, syscall.SIGKILL)
		b.shows("killed-by-signal", words.Head.Signal.In(l, "n", 9), "the last words of api")
		list.await("the row", "!document.querySelector('[data-region=rows] .good')")
		overview.shows("killed-by-signal", "shop/api")
		for _, tab := range []*tab{b, overview, list} {
			tab.marked()
		}
		must(p, "start", "shop/api", "--yes")
		b.shows(words.State("running").In(l))
		b.await("the user who started it", "document.body.innerText.includes('uid:0')")
		b.marked()
	})
}

// TestRowsStandStill: no row moves, comes or goes while the pointer moves, so that a click goes where it was aimed. A
// button shows the changes; so does a pointer at rest.
func TestRowsStandStill(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}, restart: {when: never}}
processes:
  a: {run: sleep 1000}
  b: {run: sleep 1000}
  c: {run: sleep 1000}
  d: {run: sleep 1000}
`)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.load("/ui/processes?namespace=shop&group=none&state=running")
	b.shows("shop/a", "shop/d")
	const link, button = "a[href='/ui/processes/shop/c']", "!document.getElementById('moved').hidden"
	top := fmt.Sprintf("document.querySelector(%q).getBoundingClientRect().top", link)
	b.point(link, 0)
	before := evaluate[float64](b, top)
	harness.Signal(t, p.PID("a"), syscall.SIGKILL)
	// A pointer at rest shows the changes, too: the page is read, and its button clicked, at one moment.
	look := fmt.Sprintf(`(() => {
		const moved = document.getElementById("moved");
		const seen = { Asks: !moved.hidden, Top: %s, Text: document.body.innerText };
		if (seen.Asks) moved.click();
		return seen;
	})()`, top)
	for i := 0; ; i++ {
		b.point(link, float64(i%2)*2)
		seen := evaluate[struct {
			Asks bool
			Top  float64
			Text string
		}](b, look)
		if !strings.Contains(seen.Text, "shop/a") {
			t.Fatal("a row has gone while the pointer moved")
		}
		if seen.Top != before {
			t.Fatalf("the row under the pointer was at %v, and is at %v", before, seen.Top)
		}
		if seen.Asks {
			if !strings.Contains(seen.Text, "Changes in rows: 1") {
				t.Errorf("the button does not say how many rows have changed:\n%s", seen.Text)
			}
			break
		}
	}
	b.await("the end of the row", "!document.querySelector('main').innerText.includes('shop/a')")
	b.await("the end of the button", "document.getElementById('moved').hidden")
	b.point(link, 0)
	harness.Signal(t, p.PID("d"), syscall.SIGKILL)
	b.await("the end of another row", "!document.querySelector('main').innerText.includes('shop/d')")
	if evaluate[bool](b, button) {
		t.Error("the button stays")
	}
}

// colour is the colour of the text of the first element that a selector finds.
func (b *tab) colour(selector string) string {
	b.t.Helper()
	return evaluate[string](b, fmt.Sprintf("getComputedStyle(document.querySelector(%q)).color", selector))
}

// TestServerIsLost: pages say since when the server does not answer, and show nothing in green. Once it is back they heal
// without a reload, and no event is missing.
func TestServerIsLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	b := f.signIn(browser{})
	b.allow(`net::ERR_|Failed to (fetch|load)|status of 50[0-9]|ERR_`)
	events := b.another()
	events.allow(`net::ERR_|Failed to (fetch|load)|status of 50[0-9]|ERR_`)
	b.load("/ui/processes?namespace=shop")
	events.load("/ui/events?namespace=shop")
	b.shows("shop/api")
	green := b.colour("main .good")
	before := evaluate[int](events, "document.querySelectorAll('main tbody tr').length")
	b.mark()
	events.mark()
	f.Server.Kill()
	for _, tab := range []*tab{b, events} {
		tab.await("the band", "!document.getElementById('lost').hidden && document.getElementById('lost').innerText")
	}
	if got := b.colour("main .good"); got == green {
		t.Errorf("what was running is still %s", got)
	}
	if b.accessible(); !strings.Contains(b.text("#lost"), ":") {
		t.Errorf("the band does not say since when: %q", b.text("#lost"))
	}
	pid := f.pid(0)
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the agent to start it again", func() bool { return f.pid(0) != pid && f.pid(0) > 0 })
	f.StartServer()
	for _, tab := range []*tab{b, events} {
		tab.await("the end of the band", "document.getElementById('lost').hidden")
	}
	events.shows("exited", "relaunched")
	if now := evaluate[int](events, "document.querySelectorAll('main tbody tr').length"); now < before+2 {
		t.Errorf("of %d events and two more there are %d", before, now)
	}
	b.await("green", fmt.Sprintf("getComputedStyle(document.querySelector('main .good')).color === %q", green))
	b.marked()
	events.marked()
}

// TestFollowEvents: a page shows the last events and each one as it arrives, in the language of the person, and begins
// again by itself when the server was away.
func TestFollowEvents(t *testing.T) {
	t.Parallel()
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		f := newFleet(t, 1)
		b := f.signIn(browser{language: l.Tag()})
		b.allow(`net::ERR_|Failed to (fetch|load)|status of 50[0-9]|ERR_`)
		b.goTo("/ui/events?ns=shop")
		b.click("[name=follow]")
		b.at("/ui/events?")
		lines := func(kind string) string {
			return fmt.Sprintf(`document.getElementById("log-lines").innerText.split("\n").filter((line) =>
				/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  /.test(line) && line.includes("shop/api") && line.includes(%q)).length`,
				words.Kind(kind).In(l))
		}
		b.await("the past events", lines("started")+" > 0")
		b.accessible()
		die := func(times int) {
			t.Helper()
			pid := f.pid(0)
			harness.Signal(t, pid, syscall.SIGKILL)
			b.await("the end and the relaunch", fmt.Sprintf("%s >= %d && %s >= %d", lines("exited"), times, lines("relaunched"), times))
		}
		b.mark()
		die(1)
		f.Server.Kill()
		b.await("that the stream has ended", `!document.getElementById("log-problem").hidden`)
		f.StartServer()
		b.await("the events again", fmt.Sprintf(`document.getElementById("log-problem").hidden && %s === 1`, lines("exited")))
		die(2)
		b.marked()
		b.click("#wrap")
		b.await("long lines to wrap", `getComputedStyle(document.getElementById("log-lines")).whiteSpace === "pre-wrap"`)
		if command := b.text("#command"); !strings.HasPrefix(command, "drover events 'shop/*' --follow") {
			t.Errorf("the command is %q", command)
		}
		b.click("main .acts a.button")
		b.await("the list", "document.querySelectorAll('main tbody tr').length > 3")
		b.allow("status of 4(22|00)")
		b.load("/ui/events?ns=shop&follow=1&selector=a%3D%3D%3D")
		b.await("what is wrong with the filter", `document.querySelector("[role=alert]")`)
	})
}

// TestFoldEvents: equal events within a second are one line with their number, also when the page shows the line already.
func TestFoldEvents(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{language: words.English.Tag()})
	b.signIn(p)
	b.load("/ui/events?follow=1")
	b.await("the past events", `document.getElementById("log-lines").innerText !== ""`)
	b.await("a stream of the test", `(() => {
		const own = window.fetch;
		const stream = new ReadableStream({ start(control) { window.control = control; } });
		window.fetch = (at, ...more) => String(at).includes("/ui/events/lines")
			? Promise.resolve(new Response(stream, { headers: { "Content-Type": "application/x-ndjson" } })) : own(at, ...more);
		window.happen = (...events) => window.control.enqueue(new TextEncoder().encode(events.map(([text, at]) =>
			JSON.stringify({ text, at: new Date(1e12 + at).toISOString() }) + "\n").join("")));
		window.texts = () => document.getElementById("log-lines").innerText.trim().split("\n").map((line) => line.slice(21)).join("|");
		Object.defineProperty(document, "hidden", { value: true, configurable: true });
		document.dispatchEvent(new Event("visibilitychange"));
		delete document.hidden;
		return true;
	})()`)
	b.await("the first events", `(window.begun ??= (happen(["api exited", 0], ["api exited", 400], ["db exited", 500], ["api exited", 999]), true)) &&
		texts() === "api exited  ×3|db exited"`)
	b.await("later events", `(window.later ??= (happen(["db exited", 500], ["api exited", 1000], ["api exited", 1001]), true)) &&
		texts() === "api exited  ×3|db exited  ×2|api exited  ×2"`)
}

// TestGone: pages of what somebody removes say so, in the words of the server, and have no buttons any more. The server
// answers, so no page calls it lost.
func TestGone(t *testing.T) {
	t.Parallel()
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		p := place(t)
		b := open(t, p.S.URL, browser{language: l.Tag()})
		b.allow(`status of 404`)
		b.signIn(p)
		b.load("/ui/processes/shop/api/at/0:127.0.0.1")
		b.mark()
		must(p, "stop", "shop/api", "--yes")
		must(p, "unregister", "shop/api", "--yes")
		b.shows(words.Page.Absent.In(l))
		if n := evaluate[int](b, "document.querySelectorAll('main button, main .state').length"); n > 0 {
			t.Errorf("%d buttons and states are left: %s", n, b.text("main"))
		}
		if !evaluate[bool](b, "document.getElementById('lost').hidden && document.querySelector('main [role=alert]') !== null") {
			t.Error("the page is called lost")
		}
		b.accessible()
		b.marked()
	})
}

// pid is the pid of shop/api on a host, by its own word.
func (f *fleet) pid(host int) int {
	f.T.Helper()
	pid := 0
	for line := range strings.Lines(f.read(host)) {
		_, _ = fmt.Sscanf(line, "run %d", &pid) // other lines have none
	}
	return pid
}

// TestHostIsCut: the processes of a host that is away are unknown, with their last known state and its age, on every page.
func TestHostIsCut(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	tabs := map[string]*tab{}
	first := f.signIn(browser{})
	for name, path := range map[string]string{
		"overview": "/ui/", "list": "/ui/processes?namespace=shop", "process": "/ui/processes/shop/api",
		"instance": "/ui/processes/shop/api/at/" + f.hosts[0], "hosts": "/ui/hosts",
	} {
		tabs[name] = first.another()
		tabs[name].load(path)
		tabs[name].mark()
	}
	stale, away := words.State("stale").In(words.English), words.State("away").In(words.English)
	f.agents[0].Kill()
	f.Away(f.hosts[0])
	for _, name := range []string{"overview", "list", "process", "instance"} {
		tabs[name].shows(stale)
	}
	running := words.State("running").In(words.English)
	for _, name := range []string{"list", "process"} {
		tabs[name].shows("(" + running + ")")
	}
	tabs["instance"].shows("(" + words.Inside.LastKnown.In(words.English) + ": " + running)
	tabs["hosts"].shows(away)
	tabs["instance"].await("the reason why there is no log", "document.querySelector('[data-region=log] .problem')")
	if n := evaluate[int](tabs["list"], "document.querySelectorAll('tr.stale').length"); n != 1 {
		t.Errorf("%d rows are out of date, want 1", n)
	}
	f.agents[0] = f.StartAgent("host0", "--facts-dir", "/nonexistent")
	for name, tab := range tabs {
		tab.await("the return on "+name, fmt.Sprintf("!document.querySelector('main').innerText.replace(document.querySelector('form.filter')?.innerText, '').includes(%q)",
			map[bool]string{true: away, false: stale}[name == "hosts"]))
		tab.marked()
	}
}

// TestManyTabs: eight tabs over HTTP/1.1, which allows six connections, all renew themselves, and a ninth loads.
func TestManyTabs(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	tabs := []*tab{b}
	for range 7 {
		tabs = append(tabs, b.another())
	}
	for _, tab := range tabs {
		tab.load("/ui/processes/shop/api")
		tab.mark()
	}
	must(p, "stop", "shop/api", "--yes")
	for _, tab := range tabs {
		tab.await("the stop", "document.querySelector('[data-region=rows] .idle')")
		tab.marked()
	}
	if n := b.workers(); n != 1 {
		t.Errorf("%d workers hold a stream of the server, want 1 for all tabs", n)
	}
	ninth := b.another()
	ninth.load("/ui/processes")
	ninth.shows("shop/api")
}

// workers returns how many shared workers the browser of a tab runs.
func (b *tab) workers() (n int) {
	b.t.Helper()
	found, err := chromedp.CallBrowser(b.ctx, target.GetTargets, target.GetTargetsParams{})
	b.must(err)
	for _, info := range found.TargetInfos {
		if info.Type == "shared_worker" && info.BrowserContextID == chromedp.FromContext(b.ctx).BrowserContextID {
			n++
		}
	}
	return n
}

// TestBackButton: the back button, a reload and a pasted address lead to the same page with the same filter.
func TestBackButton(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.load("/ui/processes")
	b.typeInto(".filter [name=state]", "given-up")
	b.keys("\r")
	b.at("/ui/processes?")
	b.await("the filtered rows", "document.querySelectorAll('[name=target]').length === 1")
	filtered := b.where()
	b.click("[data-region=rows] td a")
	b.at("/ui/processes/shop/bad")
	evaluate[int](b, "setTimeout(() => history.back()), 1") // the answer comes before the page goes
	b.at(filtered)
	if got := b.rows(); len(got) != 1 {
		t.Errorf("back there are the rows %q", got)
	}
	b.do(chromedp.Reload())
	if got := evaluate[string](b, "document.querySelector('.filter [name=state]').value"); got != "given-up" || b.where() != filtered {
		t.Errorf("after the reload: %s with the filter %q", b.where(), got)
	}
	pasted := b.another()
	pasted.load(filtered)
	if got := pasted.rows(); len(got) != 1 {
		t.Errorf("a pasted address shows %q", got)
	}
}
