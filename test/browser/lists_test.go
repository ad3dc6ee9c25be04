package browser_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"drover/internal/test/harness"
	"drover/internal/words"
	"drover/test/judge"
)

// several are processes beside shop/api: one that has failed, one that is stopped, and one of another namespace.
const several = `
namespace: shop
defaults: {hosts: ["0:127.0.0.2"], user: root, directory: /, ready: {alive: 0s}}
processes:
  bad: {run: "sleep 0.3; exit 3", restart: {give_up_after: 1, delay: 1s}}
  web: {run: sleep 1000, labels: {tier: back}, version_command: echo 2.0}
`

// TestFilters: each filter alone, and each pair, shows the rows that the printed command lists. The same address shows
// them to another person in the other language. The short form pairs each filter with one other.
func TestFilters(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.applyFailing(several)
	harness.Eventually(t, "shop/bad to be given up", func() bool {
		return strings.Contains(f.CLI("ps", "-o", "json"), `"given-up"`)
	})
	harness.Eventually(t, "the versions", func() bool {
		_, out := f.shell("drover ps --process-version 1.1", "-o json")
		return len(rowsOf(t, out)) == 1
	})
	filters := [][2]string{
		{"namespace", "sh*"},
		{"name", "a*"},
		{"hosts", "0:127.0.0.2"},
		{"state", "running"},
		{"selector", "env=prod"},
		{"process-label", "tier=front"},
		{"process-version", "1.0"},
		{"state", "given-up,stopped"},
		{"name", "nobody"},
	}
	b := f.signIn(browser{})
	f.CLI("user", "create", "li")
	f.CLI("user", "grant", "li", "viewer on shop")
	other := f.signIn(browser{language: words.Chinese.Tag()}, "li")
	for i, one := range filters {
		others := filters[i:]
		if !judge.Long() {
			others = others[:min(2, len(others))]
		}
		for _, two := range others {
			q := url.Values{one[0]: {one[1]}}
			q.Set(two[0], two[1])
			path := "/ui/processes?" + q.Encode()
			b.load(path)
			command := b.text(".command code")
			_, out := f.shell(command, "-o json")
			if got, want := b.rows(), rowsOf(t, out); !slices.Equal(got, want) {
				t.Errorf("%s shows %q; %s lists %q", path, got, command, want)
			}
			if i > 2 { // the other person's rows come by the same way
				continue
			}
			other.load(path)
			if got, want := other.rows(), b.rows(); !slices.Equal(got, want) {
				t.Errorf("%s shows %q to another person, want %q", path, got, want)
			}
		}
	}
}

// TestOverview: the overview groups what is wrong by cause, with the counts of drover why. A tile leads to a list with the
// very number of rows.
func TestOverview(t *testing.T) {
	t.Parallel()
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		p := harness.NewPlace(t, binaries.drover)
		p.ApplyFailing(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}, restart: {give_up_after: 1, delay: 1s}}
processes:
  good: {run: sleep 1000}
  status1: {run: "sleep 0.2; exit 1"}
  status2: {run: "sleep 0.2; exit 2"}
  signal: {run: "sleep 0.2; kill -9 $$"}
  crash: {run: "sleep 0.2; kill -SEGV $$"}
  ended: {run: "sleep 0.2"}
  idle: {run: "sleep 1000"}
`)
		must(p, "stop", "shop/idle", "--yes")
		for _, name := range []string{"status1", "status2", "signal", "crash", "ended"} {
			harness.Eventually(t, name+" to be given up", func() bool { return p.State(name) == "given-up" })
		}
		b := open(t, p.S.URL, browser{language: l.Tag()})
		b.signIn(p)
		b.goTo("/ui/")
		var why struct {
			Wrong  int
			Causes []struct {
				ID    string
				Count int
			}
		}
		a := p.CLI("why", "-o", "json")
		must0(t, json.Unmarshal([]byte(a.Out), &why))
		if why.Wrong != 5 || len(why.Causes) < 3 {
			t.Fatalf("drover why says %s", a.Out)
		}
		b.await("what is wrong", "document.querySelector('[data-region=wrong] h2').innerText.includes('5')")
		region := b.text("[data-region=wrong]")
		last := -1
		for _, c := range why.Causes {
			at := strings.Index(region, c.ID)
			if at < 0 {
				t.Errorf("the overview does not name %s:\n%s", c.ID, region)
			}
			if at < last {
				t.Errorf("%s is not in the order of drover why", c.ID)
			}
			last = at
		}
		for _, state := range []string{"running", "given-up", "stopped"} {
			tile := evaluate[struct {
				URL string
				N   int
			}](b, fmt.Sprintf(`(() => {
				const a = [...document.querySelectorAll(".tiles a")].find((a) => a.innerText.includes(%q));
				return {URL: a?.getAttribute("href") ?? "", N: Number(a?.innerText.match(/\d+/)?.[0])};
			})()`, words.State(state).In(l)))
			b.click(".tiles a[href='" + tile.URL + "']")
			b.at(tile.URL)
			b.await("the rows", "document.querySelector('[data-region=rows]')")
			if got := len(b.rows()); got != tile.N || got != map[string]int{"running": 1, "given-up": 5, "stopped": 1}[state] {
				t.Errorf("the tile %s says %d, the list has %d rows", state, tile.N, got)
			}
			b.load("/ui/")
		}
	})
}
