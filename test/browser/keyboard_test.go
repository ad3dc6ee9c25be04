package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"drover/internal/test/harness"
	"drover/internal/words"
)

// tabTo presses Tab until the focus is on an element that a selector finds. On the way each focus must be seen.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	b.await("the element "+selector, fmt.Sprintf("document.querySelector(%q)", selector))
	for range 300 {
		at := evaluate[struct {
			There, Seen bool
			What        string
		}](b, fmt.Sprintf(`(() => {
			const e = document.activeElement, s = getComputedStyle(e), box = e.getBoundingClientRect();
			const drawn = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== "none";
			const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
			const covered = top !== null && !e.contains(top) && !top.contains(e) && box.width > 0;
			return {There: e.matches(%q), Seen: e === document.body || drawn && !covered, What: e.outerHTML.slice(0, 150)};
		})()`, selector))
		if !at.Seen {
			b.t.Errorf("%s: the focus is not seen on %s", b.where(), at.What)
		}
		if at.There {
			return
		}
		b.keys(kb.Tab)
	}
	b.t.Fatalf("%s: the key Tab does not lead to %s", b.where(), selector)
}

// TestKeyboard: from the sign-in to the logs without a mouse: find processes, restart 21 of them, follow the task.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(copies)
	before := p.Process("one").PID()
	b := open(t, p.S.URL, browser{})
	b.load(link(p))
	b.await("the question who signs in", "document.querySelector('#login [name=code]')?.value")
	b.await("the focus on the button", "document.activeElement.matches('#login button')")
	b.keys("\r")
	b.await("the overview", "document.querySelector('nav')")
	b.tabTo("nav a[href='/ui/processes']")
	b.keys("\r")
	b.at("/ui/processes")
	b.tabTo(".filter [name=name]")
	b.keys("many*")
	b.keys("\r")
	b.at("/ui/processes?")
	b.await("21 rows", "document.querySelectorAll('[name=target]').length === 21")
	b.tabTo("[name=all]")
	b.keys(" ")
	b.tabTo("button[name=op][value=restart]")
	b.keys("\r")
	b.at("/ui/operate")
	b.await("the focus on cancel", "document.activeElement.matches('a.button')")
	b.keys(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)) // the field stands before cancel
	for !evaluate[bool](b, "document.activeElement.matches('[name=confirm]')") {
		b.keys(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))
	}
	b.keys("21")
	b.tabTo("button.danger")
	b.keys("\r")
	b.at("/ui/tasks/op-")
	b.ended()
	b.tabTo("[data-region=progress] td a")
	b.keys("\r")
	b.at("/ui/processes/shop/many")
	b.shows(words.Head.Log.In(words.English))
	if p.Process("one").PID() != before {
		t.Error("another process has been restarted")
	}
}

// TestFocusSurvives: what a person has marked, typed or focused stays while the page renews itself.
func TestFocusSurvives(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.load("/ui/processes?namespace=shop")
	b.choose("shop/web")
	b.typeInto(".filter [name=name]", "ab")
	b.mark()
	must(p, "stop", "shop/api", "--yes")
	b.await("the stop", "document.querySelector('[data-region=rows] .idle')")
	b.marked()
	left := evaluate[struct {
		Typed, Focus string
		Checked      []string
	}](b, `({Typed: document.querySelector(".filter [name=name]").value, Focus: document.activeElement.name,
		Checked: [...document.querySelectorAll("[name=target]:checked")].map((e) => decodeURIComponent(e.value))})`)
	if left.Typed != "ab" || left.Focus != "name" || len(left.Checked) != 1 || !strings.HasPrefix(left.Checked[0], "shop/web@") {
		t.Errorf("after the page has renewed itself there is %+v", left)
	}
}

// TestKeys: the keys lead to pages and rows, none acts by itself, and a switch turns them off.
func TestKeys(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	tasks := must(p, "task", "list", "-o", "name")
	for _, to := range []struct{ key, path string }{ // each from another page, which is how one sees that it has come
		{"p", "/ui/processes"},
		{"h", "/ui/hosts"},
		{"t", "/ui/tasks"},
		{"r", "/ui/rollouts"},
		{"e", "/ui/events"},
		{"a", "/ui/apply"},
		{"o", "/ui/"},
	} {
		b.keys("g" + to.key) // one after the other, however slow this test is
		b.await("the page "+to.path, fmt.Sprintf("location.pathname === %q && document.readyState === 'complete'", to.path))
	}
	b.keys("?")
	b.await("the list of keys", "document.getElementById('keys').open")
	b.accessible()
	b.keys(kb.Escape)
	b.await("its end", "!document.getElementById('keys').open")
	b.keys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.await("the palette", "document.getElementById('palette').open")
	b.keys("shop/bad")
	b.await("what it finds", "document.getElementById('places').innerText.includes('shop/bad')")
	b.accessible()
	b.await("the place that is chosen", "document.querySelector('#places [aria-selected=true]').innerText.includes('shop/bad')")
	b.keys("\r")
	b.at("/ui/processes/shop/bad")
	b.load("/ui/processes?namespace=shop")
	for key := range strings.SplitSeq("rsSoKRdjkxlyc", "") {
		b.keys(key)
	}
	if after := must(p, "task", "list", "-o", "name"); after != tasks {
		t.Errorf("a key has begun an operation: %s", after)
	}
	b.load("/ui/processes?namespace=shop")
	b.keys("?")
	b.await("the list of keys", "document.getElementById('keys').open")
	b.click("#keys-on")
	b.keys(kb.Escape)
	b.load("/ui/processes?namespace=shop")
	b.keys("gh")
	b.keys("?")
	if b.where() != "/ui/processes?namespace=shop" || evaluate[bool](b, "document.getElementById('keys').open") {
		t.Errorf("keys that are off lead to %s", b.where())
	}
}
