package browser_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"

	"drover/internal/test/harness"
	"drover/internal/words"
	"drover/test/judge"
)

// chatty writes a line for each number of a run, until the file flood appears: then it writes that many lines at once.
const chatty = `#!/bin/sh
n=0
while :; do
  n=$((n+1)); echo "run $$ number $n"
  if [ -e flood ]; then
    yes "a line of a flood, which is as long as lines of programs often are: 0123456789 0123456789" | head -n "$(cat flood)"
    rm flood; echo "after the flood"
  fi
  sleep 0.1
done
`

// TestFollowLog: a page follows a log over a relaunch, stays where a person reads, shows the run before, finds lines, and
// holds little of a flood.
func TestFollowLog(t *testing.T) {
	t.Parallel()
	flood := 20_000
	if judge.Long() {
		flood = 1_150_000 // 100 MB
	}
	p := harness.NewPlace(t, binaries.drover)
	must0(t, harness.WriteProgram(filepath.Join(p.Dir, "chatty"), []byte(chatty)))
	p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}, restart: {delay: 1s}}
processes:
  api: {run: ./chatty, log: {max_size: 150MiB}} # the flood does not cut the first run off
`)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	const path = "/ui/processes/shop/api/at/0:127.0.0.1"
	b.goTo(path)
	b.click("#log [name=follow]")
	b.at(path + "?")
	const last = `document.getElementById("log-lines").innerText.trim().split("\n").at(-1)`
	first := p.PID("api")
	b.await("the lines of the first run", fmt.Sprintf(`%s.startsWith("run %d number")`, last, first))
	b.await("another line", fmt.Sprintf("(globalThis.seen ??= %s) !== %s", last, last))
	b.mark()
	harness.Signal(t, first, syscall.SIGKILL)
	harness.Eventually(t, "the relaunch", func() bool { return p.PID("api") != first && p.PID("api") > 0 })
	b.await("the lines of the second run", fmt.Sprintf(`%s.startsWith("run %d number")`, last, p.PID("api")))
	if text := b.text("#log-lines"); !strings.Contains(text, fmt.Sprintf("run %d number", first)) {
		t.Error("the lines of the first run are gone")
	}

	b.await("more lines than the pane shows", `(() => {
		const pane = document.getElementById("log-lines");
		return pane.scrollHeight > pane.clientHeight + 200;
	})()`)
	held := evaluate[string](b, `(() => {
		const pane = document.getElementById("log-lines");
		pane.scrollTop = 0;
		return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(pane.textContent))));
	})()`)
	b.await("the number of new lines", `!document.getElementById("log-held").hidden &&
		parseInt(document.getElementById("log-held").innerText) > 5`)
	b.accessible()
	if now := evaluate[string](b, `document.getElementById("log-lines").textContent`); now != held {
		t.Error("the pane has changed while it was held")
	}
	if top := evaluate[float64](b, `document.getElementById("log-lines").scrollTop`); top != 0 {
		t.Errorf("the pane has moved to %v", top)
	}
	b.click("#log-held")
	b.await("the end of the log", `document.getElementById("log-held").hidden && (() => {
		const pane = document.getElementById("log-lines");
		return pane.scrollTop + pane.clientHeight > pane.scrollHeight - 8;
	})()`)
	b.marked()

	p.Write("flood", fmt.Sprint(flood))
	b.await("the end of the flood", `document.getElementById("log-lines").textContent.includes("after the flood")`)
	b.await("the lines after it", fmt.Sprintf("/number/.test(%s)", last))
	b.call(heapprofiler.CollectGarbage)
	heap := call(b, runtime.GetHeapUsage, cdp.Empty{}).UsedSize / 1e6
	lines := evaluate[int](b, `document.getElementById("log-lines").textContent.split("\n").length`)
	t.Logf("after %d lines the page has %d, and a heap of %.1f MB", flood, lines, heap)
	if heap > 100 || lines > 5600 {
		t.Errorf("after %d lines the page has %d, and a heap of %.1f MB: want 5500 and 100 MB at most", flood, lines, heap)
	}
	b.marked()

	b.load(path + "?run=-1")
	b.shows(fmt.Sprintf("run %d number", first))
	if strings.Contains(b.text("#log pre"), fmt.Sprintf("run %d number", p.PID("api"))) {
		t.Error("the run before shows the present one")
	}
	b.load(path + "?find=number+[12]$&run=-1")
	if text := strings.TrimSpace(b.text("#log pre")); strings.Count(text, "\n") != 1 {
		t.Errorf("two lines match, and it shows %q", text)
	}
	b.load(path + "?find=nothing+says+this")
	b.shows(words.Page.NothingMatches.In(words.English))
	b.load(path + "?find=(&follow=1")
	b.allow("status of 422|status of 400")
	b.shows("grep")
}

// TestFollowedLogIsText: what a process writes is text in the pane, whatever it holds.
func TestFollowedLogIsText(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	must0(t, harness.WriteProgram(filepath.Join(p.Dir, "odd"), []byte("#!/bin/sh\nprintf '<img src=x onerror=alert(1)>\\n'\n"+
		"printf 'a\\033[31mred \\342\\200\\256turned \\001\\n'\nhead -c 1000000 /dev/zero | tr '\\0' x; echo\necho done\nexec sleep 1000\n")))
	p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  api: {run: ./odd}
`)
	b := open(t, p.S.URL, browser{width: 390})
	b.signIn(p)
	b.goTo("/ui/processes/shop/api/at/0:127.0.0.1?follow=1")
	b.await("the last line", `/done\s*$/.test(document.getElementById("log-lines").textContent)`)
	text := evaluate[string](b, `document.getElementById("log-lines").textContent`)
	for _, want := range []string{"<img src=x onerror=alert(1)>", "a␛[31mred �turned ␁"} {
		if !strings.Contains(text, want) {
			t.Errorf("the pane lacks %q: %.300q", want, text)
		}
	}
	if n := evaluate[int](b, `document.getElementById("log-lines").childElementCount`); n != 0 {
		t.Errorf("the pane has %d elements", n)
	}
	b.fits()
}

// TestLogsOfSeveralHosts: a tab of a process has the lines of its hosts, each after its host, of all hosts or of some, and
// follows them.
func TestLogsOfSeveralHosts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	b := f.signIn(browser{})
	b.load("/ui/processes/shop/api")
	b.click(".tabs a[href='?tab=logs']")
	b.at("/ui/processes/shop/api?tab=logs")
	for _, host := range f.hosts {
		b.shows(host + "  run ")
	}
	b.shows("drover logs shop/api")
	b.typeInto("#log [name=hosts]", f.hosts[0]+", 0:127.0.0.4")
	b.click("#log button:not([name])")
	b.at("/ui/processes/shop/api?tab=logs&hosts=")
	b.shows(f.hosts[0]+"  run ", f.hosts[2]+"  run ", "Hosts that are read: 2.", "--hosts '0:127.0.0.2,0:127.0.0.4'")
	if text := b.text("#log pre"); strings.Contains(text, f.hosts[1]) {
		t.Errorf("the page shows another host: %s", text)
	}
	b.click("#log [name=follow]")
	b.await("the pane", "document.getElementById('log-lines')")
	before := b.text("#log-lines")
	f.CLI("restart", "shop/api", "--yes")
	for _, host := range []string{f.hosts[0], f.hosts[2]} {
		b.await("a line of the new run of "+host, fmt.Sprintf( // the page may begin to follow after the restart
			`document.getElementById("log-lines").innerText.split("\n").some((line) => line.startsWith(%q) && !%q.includes(line))`,
			host+"  run ", before))
	}
	if text := b.text("#log-lines"); strings.Contains(text, f.hosts[1]) {
		t.Errorf("it follows another host: %s", text)
	}
	f.applyFailing(`
namespace: pairs
processes:
  pair: {hosts: ["0:127.0.0.2"], user: root, directory: /, copies: 2, run: "sh -c 'echo hello; exec sleep 1000'", ready: {alive: 0s}}
`)
	for _, path := range []string{"/ui/processes/pairs/pair?tab=logs", "/ui/processes/pairs/pair?tab=logs&follow=1"} {
		b.load(path)
		for _, copied := range []string{"pair@1", "pair@2"} {
			b.await("the lines of "+copied+" at "+path, fmt.Sprintf(
				`document.querySelector("#log pre").innerText.includes("0:127.0.0.2 %s  hello")`, copied))
		}
	}
}
