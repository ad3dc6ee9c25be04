package browser_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/internal/words"
)

// draft is a process file as a person writes it in the page.
func draft(p *harness.Place, processes string) string {
	return strings.ReplaceAll(`namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
`, "DIR", p.Dir) + processes
}

// TestApply: faults are shown at their lines with the nearest known name. The plan is that of drover diff. A second writer
// gets the difference, and nothing is done. The confirmed plan is carried out.
func TestApply(t *testing.T) {
	t.Parallel()
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		p := place(t)
		b := open(t, p.S.URL, browser{language: l.Tag()})
		b.signIn(p)
		b.allow("status of 4(12|22)")
		b.goTo("/ui/apply?ns=shop")
		b.shows("shop")
		b.paste("#text", draft(p, "  api: {run: sleep 1000, environmen: {A: b}}\n  web: {run: 5, hosts: nowhere at all}\n"))
		b.click("button[value=plan]")
		b.await("the faults", "document.querySelector('.failed [data-line]')")
		faults := b.text(".failed")
		for _, want := range []string{"4", "environmen", "environment"} {
			if !strings.Contains(faults, want) {
				t.Errorf("the faults do not name %q:\n%s", want, faults)
			}
		}
		b.accessible()

		text := draft(p, "  api: {run: sleep 2000}\n  web: {run: sleep 1000}\n  bad: {run: sleep 1000}\n  new: {run: sleep 1000}\n")
		b.paste("#text", text)
		b.click("button[value=plan]")
		b.await("the plan", "document.getElementById('plan')")
		b.accessible()
		diff := p.CLI("diff", "-f", p.Write("draft.yaml", text))
		plan := b.text("#plan")
		for _, name := range []string{"shop/api", "shop/bad", "shop/new"} {
			if !strings.Contains(plan, name) || !strings.Contains(diff.Out, name) {
				t.Errorf("%s is missing in the plan or in drover diff:\n%s\n%s", name, plan, diff.Out)
			}
		}
		if op := evaluate[string](b, `[...document.querySelectorAll("#plan tbody tr")].find((r) => r.innerText.includes("shop/web"))
			?.cells[2].innerText ?? "–"`); op != "–" {
			t.Errorf("the plan has a %s of shop/web, which does not change", op)
		}

		p.Apply(strings.ReplaceAll(file, "sleep 1000}\n  bad", "sleep 3000}\n  bad")) // a second writer
		b.click("button[value=confirm]")
		b.await("the difference", "document.querySelector('.warned')")
		b.accessible()
		if !strings.Contains(b.text(".warned"), "uid:0") {
			t.Errorf("it does not say who was first:\n%s", b.text(".warned"))
		}
		if got := evaluate[string](b, "document.getElementById('text').value"); got != text {
			t.Errorf("the text is lost: %q", got)
		}
		if p.State("new") == "running" {
			t.Error("the plan of the second writer has been carried out")
		}
		b.click("button[value=again]")
		b.await("the new plan", "document.getElementById('plan')")
		b.click("button[value=confirm]")
		b.at("/ui/tasks/op-")
		harness.Eventually(t, "shop/new to run", func() bool { return p.State("new") == "running" })
	})
}

// TestDraftSurvivesSignIn: the text that a person has not applied yet is there again after the session has ended. It is
// for the revision that the person has seen, so that what somebody else has applied since is not lost. The next person in
// the tab does not get the text.
func TestDraftSurvivesSignIn(t *testing.T) {
	t.Parallel()
	p := place(t)
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.load("/ui/apply?ns=shop")
	text := draft(p, "  mine: {run: sleep 1}\n")
	b.paste("#text", text)
	age(p, session(b), 2*time.Hour)
	b.click("button[value=plan]")
	b.await("the sign-in page", "document.getElementById('login')")
	p.Apply(strings.ReplaceAll(file, "sleep 1000}\n  bad", "sleep 3000}\n  bad")) // a second writer
	_, code, _ := strings.Cut(link(p), "#")
	b.typeInto("#login [name=code]", code)
	b.click("#login button.main")
	b.await("the page", "document.getElementById('text')")
	b.await("the text", "document.getElementById('text').value.includes('mine: {run: sleep 1}')")
	if b.where() != "/ui/apply?ns=shop" {
		t.Errorf("after the sign-in there is %s", b.where())
	}
	b.allow("status of 412")
	b.click("button[value=plan]")
	b.await("the difference", "document.querySelector('.warned')")
	if got := evaluate[string](b, "document.getElementById('text').value"); got != text {
		t.Errorf("the text is lost: %q", got)
	}

	must(p, "user", "create", "anna")
	must(p, "user", "grant", "anna", "maintainer on shop")
	b.signIn(p, "anna")
	b.load("/ui/apply?ns=shop")
	b.await("what is stored", "document.getElementById('text').value.includes('sleep 3000')")
	if evaluate[bool](b, "document.getElementById('text').value.includes('mine:') || !document.getElementById('restored').hidden") {
		t.Error("the next person gets the text")
	}
}
