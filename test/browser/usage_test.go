package browser_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/internal/words"
)

// TestUsageCharts: the page of a process draws what the process uses, says the same in words, and marks a restart. The
// chart renews itself, and each length of time has its link.
func TestUsageCharts(t *testing.T) {
	t.Parallel()
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		p := harness.NewPlace(t, binaries.drover)
		p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}, restart: {delay: 1s}}
processes:
  api: {run: exec sleep 100000}
`)
		b := open(t, p.S.URL, browser{language: l.Tag(), dark: l == words.Chinese, width: 390})
		b.signIn(p)
		b.load("/ui/processes/shop/api/at/0:127.0.0.1?last=15m")
		b.shows(words.Usage.Title.In(l))
		b.mark()
		b.await("two charts", "document.querySelectorAll('#usage svg polyline').length >= 2")
		texts := evaluate[[]string](b, "[...document.querySelectorAll('#usage svg[role=img]')].map((e) => e.getAttribute('aria-label'))")
		for i, name := range []words.Text{words.Head.Memory, words.Head.CPUOfHost} {
			if len(texts) != 2 || !strings.HasPrefix(texts[i], name.In(l)) || !strings.Contains(texts[i], "180") {
				t.Errorf("the charts are called %q", texts)
			}
		}
		if visible := evaluate[bool](b, `(() => {
			const line = document.querySelector("#usage polyline"), box = line.getBoundingClientRect(), style = getComputedStyle(line);
			return box.width > 0 && style.stroke !== "none" && style.fill === "none";
		})()`); !visible {
			t.Error("the line of a chart is not to be seen")
		}
		harness.Signal(t, p.PID("api"), syscall.SIGKILL)
		b.await("the mark of the restart", "document.querySelectorAll('#usage svg .restart').length === 2")
		b.marked()
		b.accessible()
		b.fits()
		b.speaks(l)
		b.picture("usage-" + l.Tag())
		for _, w := range []string{"1h", "24h"} {
			b.click(fmt.Sprintf(`#usage a[href="?last=%s#usage"]`, w))
			b.at("/ui/processes/shop/api/at/0:127.0.0.1?last=" + w)
			b.await("the chosen time", fmt.Sprintf("document.querySelector('#usage a[aria-current]').getAttribute('href') === '?last=%s#usage'", w))
			b.await("a chart", "document.querySelector('#usage svg .restart')")
		}
		b.allow("status of 400")
		b.load("/ui/processes/shop/api/at/0:127.0.0.1?last=2h")
		b.shows("15m, 1h")
	})
}
