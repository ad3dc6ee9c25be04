package browser_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
	"drover/internal/words"
)

// TestViewer: a viewer sees and cannot act; a forged call is rejected, does nothing, and is on record.
func TestViewer(t *testing.T) {
	t.Parallel()
	p := place(t)
	must(p, "user", "create", "anna")
	must(p, "user", "create", "benedict")
	must(p, "user", "grant", "anna", "viewer on shop")
	b := open(t, p.S.URL, browser{})
	b.signIn(p, "anna")
	before := p.PID("api")
	for path, right := range map[string]string{
		"/ui/processes/shop/api/at/0:127.0.0.1": "operator on shop", "/ui/processes/shop/api": "operator on shop",
		"/ui/processes": "operator on *", "/ui/hosts/0:127.0.0.1": "operator on *",
	} {
		b.goTo(path)
		b.shows("shop/api", right)
		if evaluate[bool](b, `document.querySelector("[name=op]:not(:disabled)") !== null`) {
			t.Errorf("a viewer can press a button of %s", path)
		}
	}
	b.allow("status of 40[0-9]")
	status := evaluate[int](b, `fetch("/ui/operate", {method: "POST", body: new URLSearchParams(
		{op: "stop", target: document.querySelector("[name=target]").value, confirm: "yes"})}).then((r) => r.status)`)
	if status != 403 || p.PID("api") != before {
		t.Errorf("a forged call is answered with %d, and the process has the pid %d, not %d", status, p.PID("api"), before)
	}
	for _, path := range []string{"/ui/admin/people", "/ui/admin/apps", "/ui/admin/keys"} {
		b.load(path)
		if strings.Contains(b.text("main"), "benedict") || strings.Contains(b.text("main"), harness.AppCode) {
			t.Errorf("a viewer sees %s", path)
		}
	}
	if denied := must(p, "audit", "--denied", "--user", "anna", "-o", "json"); !strings.Contains(denied, "not allowed: stop shop/") {
		t.Errorf("the rejected call is not on record: %s", denied)
	}
}

// TestRightsByLabel: rights at hosts with a label limit rows, counts, events and operations alike.
func TestRightsByLabel(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.CLI("user", "create", "anna")
	f.CLI("user", "grant", "anna", "operator on shop* at label:env=prod")
	b := f.signIn(browser{}, "anna")
	hidden := f.hosts[1] // env=test
	for _, path := range []string{"/ui/", "/ui/processes", "/ui/processes/shop/api", "/ui/events", "/ui/hosts"} {
		b.goTo(path)
		if strings.Contains(b.text("main"), hidden) {
			t.Errorf("%s shows what is on %s", path, hidden)
		}
	}
	b.load("/ui/processes?namespace=shop")
	if got, want := b.rows(), []string{"shop/api@" + f.hosts[0], "shop/api@" + f.hosts[2]}; len(got) != len(want) ||
		!strings.HasPrefix(got[0], "shop/api@") {
		t.Errorf("the rows are %q, want %q", got, want)
	}
	b.shows("2 / 2")
	b.allow("status of 404")
	b.load("/ui/processes/shop/api/at/" + hidden)
	b.shows(words.Page.NotFound.In(words.English))
}

// TestAudit: the page of the audit log shows who has restarted what, from where and by what. Cells of its file that a
// spreadsheet would compute are text.
func TestAudit(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.load("/ui/processes?name=api")
	b.choose("shop/api")
	b.operate("restart")
	b.typeInto("[name=reason]", "=hotfix 41")
	b.click("button.danger")
	b.at("/ui/tasks/op-")
	b.goTo("/ui/audit?action=tasks.create")
	row := evaluate[string](b, `[...document.querySelectorAll("main tbody tr")].find((r) => r.innerText.includes("hotfix 41"))?.innerText ?? ""`)
	for _, want := range []string{"uid:0", "console", "127.0.0.1", "restart", "=hotfix 41"} {
		if !strings.Contains(row, want) {
			t.Errorf("the row %q has no %s", row, want)
		}
	}
	b.click("main tbody tr a")
	b.at("/ui/tasks/op-")
	b.load("/ui/audit")
	cells := b.csv(`document.querySelector("a[href*='csv'], a[href*='file'], a[href*='export']").href`)
	if !slices.ContainsFunc(slices.Concat(cells...), func(cell string) bool { return strings.HasSuffix(cell, "=hotfix 41") }) {
		t.Errorf("the file has no reason: %q", cells)
	}
}

// csv fetches a file of comma-separated values, whose address an expression gives, and fails the test if a spreadsheet
// would compute one of its cells.
func (b *tab) csv(address string) [][]string {
	b.t.Helper()
	text := evaluate[string](b, "fetch("+address+").then((r) => r.text())")
	cells, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		b.t.Fatalf("%.500s: %v", text, err)
	}
	for _, line := range cells {
		for _, cell := range line {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				b.t.Errorf("a spreadsheet computes the cell %q", cell)
			}
		}
	}
	return cells
}

// TestExport: the file of a filtered list has all its rows, and is harmless to a spreadsheet.
func TestExport(t *testing.T) {
	t.Parallel()
	f := harness.NewFleet(t, binaries.drover, binaries.agent)
	l := newLiar(f, "10.66.0.1")
	l.introduce()
	var r wire.Report
	texts := hostile()
	for i, text := range texts {
		r.Observed = append(r.Observed, observation("evil", text, i, process.Status{
			State: process.StateGivenUp, Message: "=" + text, Cause: process.Cause{ID: process.CauseExitStatus, Text: "@" + text},
			Version: &process.Answer{OK: true, Text: "+" + text},
		}))
	}
	l.tell(r)
	b := open(t, f.URL, browser{})
	b.signInBy(strings.TrimSpace(f.CLI("login")))
	b.load("/ui/processes?namespace=evil")
	cells := b.csv(`document.querySelector("a[download]").href`)
	if len(cells) != len(texts)+1 {
		t.Errorf("the file has %d lines, want %d", len(cells), len(texts)+1)
	}
}

// copiesFile holds one process with a number of copies.
const copiesFile = `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  many: {run: sleep 1000, copies: %d}
`

// TestSelection: all that match but three are confirmed; five more that appear meanwhile are left out.
func TestSelection(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(fmt.Sprintf(copiesFile, 24))
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.load("/ui/processes?namespace=shop&group=none")
	b.await("24 rows", "document.querySelectorAll('[name=target]').length === 24")
	b.click("[name=all]")
	for i := range 3 {
		b.click(fmt.Sprintf("tbody tr:nth-child(%d) [name=target]", 2*i+1))
	}
	left := evaluate[[]string](b, `[...document.querySelectorAll("[name=target]:not(:checked)")].map((e) => decodeURIComponent(e.value))`)
	if len(left) != 3 {
		t.Fatalf("left out are %q", left)
	}
	b.operate("restart")
	p.Apply(fmt.Sprintf(copiesFile, 29))
	b.shows("21")
	b.typeInto("[name=confirm]", "21")
	b.click("button.danger")
	b.at("/ui/tasks/op-")
	b.shows(words.Fleet.LeftOut.In(words.English, "n", 5)) // those that have come since
	results := b.results(p)
	if len(results) != 21 {
		t.Errorf("the task has %d targets, want 21", len(results))
	}
	for _, r := range results {
		if slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf("shop/%v@", r["name"])) }) {
			t.Errorf("%v was left out, and is in the task", r["name"])
		}
	}
}

// TestMarkedAll: while all that match are marked, rows that come are marked, too. A row that a person has unmarked is not,
// though it leaves the list and returns.
func TestMarkedAll(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(fmt.Sprintf(copiesFile, 2))
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.load("/ui/processes?namespace=shop&state=running&group=none")
	rows := func(n int) {
		t.Helper()
		b.await(fmt.Sprint(n, " rows"), fmt.Sprintf("document.querySelectorAll('[name=target]').length === %d", n))
	}
	rows(2)
	b.click("[name=all]")
	b.choose("shop/many@1@")
	must(p, "stop", "shop/many@1", "--yes")
	rows(1)
	p.Apply(fmt.Sprintf(copiesFile, 4))
	rows(3)
	must(p, "start", "shop/many@1", "--yes")
	rows(4)
	marked := evaluate[[]string](b, `[...document.querySelectorAll("[name=target]:checked")].map((e) => decodeURIComponent(e.value))`)
	slices.Sort(marked)
	if len(marked) != 3 || strings.HasPrefix(marked[0], "shop/many@1@") {
		t.Errorf("marked are %q", marked)
	}
	b.operate("restart")
	b.shows(words.Act.AskHost.In(words.English, "op", words.Act.Restart.In(words.English), "n", 3, "host", "0:127.0.0.1"))
}

// TestNotAllowedTargetsBlock: one target that the person may not operate on blocks all, and is named.
func TestNotAllowedTargetsBlock(t *testing.T) {
	t.Parallel()
	p := place(t)
	p.Apply(strings.ReplaceAll(copies, "namespace: shop", "namespace: pay"))
	must(p, "user", "create", "anna")
	must(p, "user", "grant", "anna", "operator on shop", "viewer on pay")
	b := open(t, p.S.URL, browser{})
	b.signIn(p, "anna")
	b.load("/ui/processes?group=none&name=*e*")
	b.choose("shop/web")
	b.choose("pay/one")
	b.allow("status of 403")
	b.operate("restart")
	b.shows("pay/one")
	if evaluate[bool](b, "document.querySelector('button.danger') !== null") {
		t.Error("it can be confirmed all the same")
	}
}

// TestPaste: of 2,000 pasted addresses in several notations the known and the unknown ones are told apart.
func TestPaste(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	b := f.signIn(browser{})
	b.load("/ui/processes")
	list := []string{f.hosts[0], strings.TrimPrefix(f.hosts[1], "0:"), "0:127.0.0.4"}
	for i := range 1997 {
		list = append(list, fmt.Sprintf("10.9.%d.%d", i/256, i%256))
	}
	text := ""
	for i, address := range list {
		text += address + []string{", ", "\n", "; ", "\t", " "}[i%5]
	}
	b.click("details:has(textarea[name=hosts]) > summary")
	b.paste("textarea[name=hosts]", text)
	b.click("form[action='/ui/processes/paste'] button")
	b.at("/ui/processes?")
	b.shows("1997")
	if got := len(b.rows()); got != 3 {
		t.Errorf("%d rows are shown, want 3", got)
	}
	b.accessible()
}

// paste puts a long text into a field at once, as a paste does.
func (b *tab) paste(selector, text string) {
	b.t.Helper()
	quoted, err := json.Marshal(text)
	b.must(err)
	b.await("the element "+selector, fmt.Sprintf("document.querySelector(%q)", selector))
	evaluate[bool](b, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.focus();
		e.value = %s;
		return e.dispatchEvent(new Event("input", {bubbles: true}));
	})()`, selector, quoted))
}
