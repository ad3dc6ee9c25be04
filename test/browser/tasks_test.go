package browser_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"drover/internal/test/harness"
	"drover/internal/words"
)

// copies is a process file with more processes than a confirmation takes without their number.
const copies = `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  many: {run: sleep 1000, copies: 21}
  one: {run: sleep 1000}
`

// choose marks the rows of a list that a pattern matches, each with a click.
func (b *tab) choose(contains string) (n int) {
	b.t.Helper()
	b.await("the rows", "document.querySelector('[name=target]')")
	n = evaluate[int](b, fmt.Sprintf(`(() => {
		const found = [...document.querySelectorAll("[name=target]")].filter((e) => decodeURIComponent(e.value).includes(%q));
		for (const e of found) e.click();
		return found.length;
	})()`, contains))
	if n == 0 {
		b.t.Fatalf("%s has no row with %s", b.where(), contains)
	}
	return n
}

// operate presses the button of an operation, and waits for the question.
func (b *tab) operate(op string) {
	b.t.Helper()
	b.click("button[name=op][value=" + op + "]")
	b.at("/ui/operate")
}

// TestConfirmation: the focus is on cancel. Enter, Escape and a wrong number do nothing; the right number does what was
// confirmed. The audit log tells it.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(copies)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	before := p.Process("one").PID()
	tasks := func() int { return len(strings.Fields(must(p, "task", "list", "-o", "name"))) }
	begun := tasks()

	b.load("/ui/processes?name=one")
	b.choose("shop/one")
	b.operate("restart")
	b.await("the focus on cancel", "document.activeElement.matches('a.button')")
	b.accessible()
	b.keys("\r")
	b.at("/ui/processes?name=one")
	b.choose("shop/one")
	b.operate("restart")
	b.await("the focus on cancel", "document.activeElement.matches('a.button')")
	b.keys(kb.Escape)
	b.keys("\r")
	if tasks() != begun {
		t.Error("Escape or Enter has begun an operation")
	}

	b.load("/ui/processes?name=many*")
	b.choose("shop/many")
	b.operate("restart")
	b.shows("21")
	for _, wrong := range []string{"20", "yes", "021x"} {
		b.mark()
		b.typeInto("[name=confirm]", wrong)
		b.click("button.danger")
		b.await("the question again", "globalThis.marked === undefined && document.readyState === 'complete'")
		b.shows(words.Act.WrongCount.In(words.English))
	}
	if tasks() != begun {
		t.Error("a wrong number has begun an operation")
	}
	b.typeInto("[name=confirm]", "21")
	b.click("button.danger")
	b.at("/ui/tasks/op-")
	b.ended()
	results := b.results(p)
	if len(results) != 21 {
		t.Errorf("the task has %d results, want 21", len(results))
	}
	for _, r := range results {
		if !strings.HasPrefix(r["name"].(string), "many") || r["outcome"] != "ok" {
			t.Errorf("the task has the result %v", r)
		}
	}
	if p.Process("one").PID() != before {
		t.Error("a process that was not confirmed has been restarted")
	}
	audit := must(p, "audit", "-o", "json")
	for _, want := range []string{`"person:uid:0"`, `"tasks.create"`, "127.0.0.1"} {
		if !strings.Contains(audit, want) {
			t.Errorf("the audit log has no %s", want)
		}
	}

	b.load("/ui/processes?name=one")
	b.choose("shop/one")
	b.operate("kill")
	b.await("the field for the number", "document.querySelector('[name=confirm]:not([type=hidden])')")
}

// ended waits until the task that the tab shows is done.
func (b *tab) ended() {
	b.t.Helper()
	b.await("the end of the task", fmt.Sprintf("document.querySelector('[data-region=progress] .large')?.innerText.includes(%q)",
		words.State("done").In(words.English)))
}

// results are those of the task that the tab shows.
func (b *tab) results(p *harness.Place) (results []harness.Object) {
	b.t.Helper()
	id, _, _ := strings.Cut(strings.TrimPrefix(b.where(), "/ui/tasks/"), "?")
	status, reply := p.S.Do(http.MethodGet, "/api/v1/tasks/"+id+"/results?limit=200", nil)
	if status != http.StatusOK {
		b.t.Fatalf("the results of %s: %d %v", id, status, reply)
	}
	for _, r := range reply["items"].([]any) {
		results = append(results, r.(harness.Object))
	}
	return results
}

// watchCounts notes the numbers of a task at each change of its page.
const watchCounts = `globalThis.frames_ = []; (() => {
	const note = () => {
		const text = document.querySelector("[data-region=progress] .counts")?.innerText ?? "";
		const ok = /(\d+)\/(\d+)/.exec(text), failed = /✖ (\d+)/.exec(text), pending = /◐ (\d+)/.exec(text);
		if (ok) frames_.push([+ok[1], +(failed?.[1] ?? 0), +(pending?.[1] ?? 0), +ok[2]]);
	};
	note();
	new MutationObserver(note).observe(document.body, {subtree: true, childList: true, characterData: true});
})()`

// TestTask: the numbers of a task that runs never fall, and their sum is right at each moment; a reload in the middle
// shows the same; the failed ones stand together by their message. What has not begun can be cancelled.
func TestTask(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  slow: {run: "exec sleep 1000", ready: {alive: 3s}}
  quick: {run: "exec sleep 1000", copies: 5}
  bad: {run: "[ -e fail ] && exit 3; exec sleep 1000", copies: 3, ready: {alive: 1s}}
`)
	p.Touch("fail")
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.load("/ui/processes?namespace=shop")
	b.choose("shop/")
	b.operate("restart")
	b.click("button.danger")
	b.at("/ui/tasks/op-")
	id := strings.TrimPrefix(b.where(), "/ui/tasks/")
	evaluate[any](b, watchCounts+"; 1")
	again := b.another()
	again.load(b.where())
	for _, tab := range []*tab{b, again} {
		tab.await("the end of the task", `!document.querySelector("[data-region=progress] .counts .busy") &&
			document.querySelector("[data-region=progress] .counts").innerText.includes("/9")`)
	}
	frames := evaluate[[][4]int](b, "frames_")
	last := [4]int{}
	for i, frame := range frames {
		if frame[0]+frame[1]+frame[2] != frame[3] ||
			i > 0 && (frame[0] < last[0] || frame[1] < last[1] || frame[2] > last[2]) {
			t.Errorf("the numbers were %v", frames)
			break
		}
		last = frame
	}
	if last[0] != 6 || last[1] != 3 {
		t.Errorf("at the end the numbers are %v, want 6 and 3", last)
	}
	if got, want := again.text("[data-region=progress] .counts"), b.text("[data-region=progress] .counts"); got != want {
		t.Errorf("after a reload the numbers are %q, not %q", got, want)
	}
	if shown := evaluate[int](b, "Number(document.querySelector('[data-region=progress] table tbody td').innerText)"); shown != 3 {
		t.Errorf("the first group of failures has %d, want 3", shown)
	}
	b.click(`a[data-copy-from][href$="outcome=failed"]`)
	b.await("the word that the hosts are copied", "document.getElementById('copied').textContent !== ''")
	b.click(`nav a[href$="outcome=failed"]`)
	b.await("the failed ones alone", "location.search === '?outcome=failed' && document.querySelectorAll('tbody td a + a').length === 3")
	if !strings.Contains(must(p, "task", "list", "-o", "json"), id) {
		t.Errorf("there is no task %s", id)
	}
}

// TestCancel: what has not begun of a task is cancelled, and the page says so; what has begun goes on to its end.
func TestCancel(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  slow: {run: "exec sleep 1000", before_start: {run: "while [ -e held ]; do sleep 0.05; done", timeout: 5m}}
`)
	held := p.Write("held", "") // from now on no start is over before it is gone
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	begin := func() string {
		b.load("/ui/processes/shop/slow")
		b.choose("shop/slow")
		b.operate("restart")
		b.click("button.danger")
		b.at("/ui/tasks/op-")
		return b.where()
	}
	first := begin()
	begin() // it waits for the first
	b.click("form[action$='/cancel'] button")
	b.shows(words.State("cancelled").In(words.English))
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	b.load(first)
	b.await("the end of the first task", "document.querySelector('[data-region=progress] .counts').innerText.startsWith('1/1')")
}

// TestRollout: a bad release stops itself, and the page says why. It is resumed, the server is killed in between, and it
// is aborted.
func TestRollout(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.release(false)
	if code, _, errs := f.Run("server", "", f.Drover, "restart", "shop/api", "--batch", "1", "--bake", "6s", "--max-failures", "1",
		"--yes", "--data-dir", f.ServerDir()); code != 7 {
		t.Fatalf("the rollout of a bad release ends with %d: %s", code, errs)
	}
	b := f.signIn(browser{})
	b.allow(`net::ERR_|Failed to (fetch|load)|ERR_`)
	b.goTo("/ui/rollouts")
	b.click("[data-region=rows] td a")
	b.at("/ui/rollouts/ro-")
	b.shows(words.State("paused").In(words.English), "of 3 hosts failed")
	b.goTo(b.where())
	squares := "document.querySelectorAll('.lane .square').length"
	if n := evaluate[int](b, squares); n != 3 {
		t.Errorf("the lanes have %d hosts, want 3", n)
	}
	b.mark()
	f.Server.Kill()
	b.await("the band", "!document.getElementById('lost').hidden")
	f.StartServer()
	b.await("the end of the band", "document.getElementById('lost').hidden")
	b.shows(words.State("paused").In(words.English))
	b.marked()
	f.release(true)
	b.click("form[action$='/resume'] button")
	b.shows(words.State("done").In(words.English))

	f.release(false)
	_, _, _ = f.Run("server", "", f.Drover, "restart", "shop/api", "--batch", "1", "--bake", "6s", "--max-failures", "1", "--yes",
		"--data-dir", f.ServerDir())
	b.load("/ui/rollouts")
	b.click("[data-region=rows] td a")
	b.at("/ui/rollouts/ro-")
	b.click("form[action$='/abort'] button")
	b.click("main button.danger")
	b.shows(words.State("aborted").In(words.English))
}
