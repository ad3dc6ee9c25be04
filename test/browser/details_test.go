package browser_test

import (
	"strings"
	"testing"

	"drover/internal/test/harness"
	"drover/internal/words"
	"drover/test/judge"
)

// TestDetails: the pages about one process, one task and the whole fleet say what happened and why, in both languages,
// on wide and narrow windows.
func TestDetails(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	// A bad release leaves the end of a run, and a good one runs while the pages are read, however long that takes.
	for _, good := range []bool{false, true} {
		f.release(good)
		code, _, _ := f.Run("server", "", f.Drover, "restart", "shop/api", "--yes", "--data-dir", f.ServerDir())
		if good && code != 0 {
			t.Fatalf("the restart of the good release: exit code %d", code)
		}
		if !good {
			harness.Eventually(t, "the end of a run", func() bool {
				return strings.Contains(f.CLI("events", "shop/api", "--hosts", f.hosts[0]), "exit status 3")
			})
		}
	}
	here := "/ui/processes/shop/api/at/" + f.hosts[0]
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		for _, width := range []int64{1440, 390} {
			b := f.as(t).signIn(browser{language: l.Tag(), width: width})
			b.load(here)
			b.shows(words.Timeline.Title.In(l), words.Inside.StartedBy.In(l))
			b.await("the end of a run", "document.querySelector('.timeline text.bad')")
			if drawn := evaluate[bool](b, `document.querySelector(".timeline rect").getBoundingClientRect().height > 5`); !drawn {
				t.Error("the timeline is not to be seen")
			}
			b.whole(l, "instance")
			b.click("#wrap")
			if wraps := evaluate[string](b, `getComputedStyle(document.querySelector("#log pre")).whiteSpace`); wraps != "pre-wrap" {
				t.Errorf("the lines of the log are %s", wraps)
			}
			b.load(here + "?check=1")
			b.shows(words.Inside.Checked.In(l))
			b.whole(l, "check")
			for _, tab := range []words.Text{words.Page.Hosts, words.Head.Why, words.Head.Log, words.Tabs.History, words.Head.Spec} {
				id := map[string]string{"Hosts": "hosts", "Why": "why", "Log": "logs", "History": "history", "Spec": "spec"}[tab.In(words.English)]
				b.load("/ui/processes/shop/api?tab=" + id)
				b.shows(tab.In(l))
				b.whole(l, "process-"+id)
			}
			b.shows("run: ./app", words.Tabs.WhoRuns.In(l))
		}
	})
}

// whole fails the test unless a page is accessible, within its window and in one language, and keeps a picture of it. The
// short form asks axe-core about the wide page only.
func (b *tab) whole(l words.Lang, name string) {
	b.t.Helper()
	if b.set.width > narrow || judge.Long() {
		b.accessible()
	}
	b.fits()
	b.saysOnce()
	b.speaks(l)
	b.keep(name + "-" + b.t.Name())
	if n := evaluate[int](b, "document.querySelectorAll('*').length"); n > 3000 {
		b.t.Errorf("%s has %d elements", b.where(), n)
	}
}
