package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"drover/internal/words"
	"drover/test/judge"
)

// question ends a step of a story that only a person's doing shows: a question, a form or a dialog. TestPages has no such step.
func (b *tab) question(l words.Lang, name string) {
	b.t.Helper()
	if !judge.Long() {
		b.accessible()
	}
	b.seen(l, name)
}

// seen ends a step of a story: the page is within its width and in one language, and accessible (checked). The long form
// keeps pictures of it, wide and narrow, light and dark.
func (b *tab) seen(l words.Lang, name string) {
	b.t.Helper()
	b.checked()
	b.fits()
	b.speaks(l)
	if !judge.Long() {
		return
	}
	was := b.set
	for _, width := range []int64{1280, 390} {
		for _, dark := range []bool{false, true} {
			b.set.width, b.set.dark = width, dark
			b.setUp()
			b.picture(fmt.Sprintf("stories/%s-%s-%d-%s", name, l.Tag(), width, map[bool]string{false: "light", true: "dark"}[dark]))
		}
	}
	b.set = was
	b.setUp()
}

// follow clicks on the link with a text.
func (b *tab) follow(text string) {
	b.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('main a')].find((a) => a.innerText.trim() === %q)", text)
	b.await("the link "+text, find)
	evaluate[bool](b, "(("+find+").click(), true)")
}

// TestStories: what a person does with the console, from the first page on and by clicks alone.
func TestStories(t *testing.T) {
	t.Parallel()
	languages(t, func(t *testing.T, l words.Lang) {
		t.Helper()
		f := newFleet(t, 3)
		f.CLI("user", "create", "anna")
		f.CLI("user", "grant", "anna", "operator on shop")
		b := f.signIn(browser{language: l.Tag(), zone: "Asia/Shanghai"})
		b.allow("status of 4(04|22|00)")
		somethingIsWrong(b, f, l)
		restartCarefully(b, f, l)
		badRelease(b, f, l)
		whoStoppedIt(b, f, l)
		addHosts(b, f, l)
		rightsOfAColleague(b, f, l)
		besides(b, f, l)
	})
}

// somethingIsWrong: from the overview to the cause, its remedy and the last words of one process.
func somethingIsWrong(b *tab, f *fleet, l words.Lang) {
	b.t.Helper()
	f.release(false)
	_, _, _ = f.Run("server", "", f.Drover, "restart", "shop/api", "--yes", "--data-dir", f.ServerDir())
	b.load("/ui/")
	b.shows(words.CauseOf("flapping").Title.In(l))
	b.seen(l, "wrong-1-overview")
	b.click("tr[data-key=flapping] a[href^='/ui/processes?cause=']")
	b.at("/ui/processes?cause=flapping")
	b.shows("shop/api")
	b.seen(l, "wrong-2-list")
	b.follow(f.hosts[0])
	b.at("/ui/processes/shop/api/at/")
	b.shows("cannot reach the database", words.Head.Remedy.In(l))
	b.seen(l, "wrong-3-instance")
	b.click("dd a[href='/ui/why/flapping']")
	b.at("/ui/why/")
	b.seen(l, "wrong-4-why")
	f.release(true)
	f.CLI("restart", "shop/api", "--yes")
}

// restartCarefully: some processes are restarted in batches, which the confirmation offers.
func restartCarefully(b *tab, f *fleet, l words.Lang) {
	b.t.Helper()
	b.load("/ui/processes")
	b.typeInto(".filter [name=name]", "api\r")
	b.at("/ui/processes?namespace=&name=api")
	b.choose("shop/api")
	b.operate("restart")
	b.shows(words.Act.Ask.In(l, "op", words.Act.Restart.In(l), "n", 3, "hosts", 3), words.Act.InBatches.In(l))
	b.question(l, "careful-1-confirm")
	b.paste("[name=batch]", "1")
	b.paste("[name=bake]", "1s")
	b.await("the choice of batches", "document.querySelector('[value=batches]').checked")
	b.click("button.danger")
	b.at("/ui/rollouts/ro-")
	b.question(l, "careful-2-runs")
	b.shows(words.State("done").In(l))
	if n := evaluate[int](b, "document.querySelectorAll('.lane').length"); n != 3 {
		b.t.Errorf("there are %d batches, want 3", n)
	}
	b.seen(l, "careful-3-done")
	b.load("/ui/rollouts")
	b.seen(l, "careful-4-rollouts")
}

// badRelease: an applied file fails on its one host, says why, and is undone. The process has one host, because
// all hosts of a test are this machine, and two drovers never manage the same command in the same directory.
func badRelease(b *tab, f *fleet, l words.Lang) {
	b.t.Helper()
	file := func(command string) string {
		return fmt.Sprintf("namespace: web\nprocesses:\n  site:\n    run: %s\n    directory: %s\n    user: root\n"+
			"    hosts: [%q]\n    ready: {alive: 1s}\n    rollout: {batch: 1, bake: 1s}\n",
			command, f.dir(0), f.hosts[0])
	}
	path := filepath.Join(f.Dir, "site.yaml")
	must0(b.t, os.WriteFile(path, []byte(strings.ReplaceAll(file("sleep 100000"), "    rollout: {batch: 1, bake: 1s}\n", "")), 0o600))
	f.CLI("apply", "-f", path, "--yes")
	b.load("/ui/apply?ns=web")
	b.seen(l, "release-1-apply")
	b.paste("#text", file("sh -c 'echo no database; exit 3'"))
	b.click("button[value=plan]")
	b.await("the plan", "document.getElementById('plan')")
	b.shows(words.Apply.AtOnce.In(l), words.Apply.AtRestart.In(l))
	b.question(l, "release-2-plan")
	b.click("button[value=confirm]")
	b.at("/ui/rollouts/ro-")
	b.shows(words.State("done-with-failures").In(l), words.Head.Failures.In(l))
	b.seen(l, "release-3-failed")
	b.click("form[action$='/undo'] button")
	b.shows(words.Act.UndoNote.In(l))
	b.click("main button.danger")
	b.await("the rollout that undoes it", "document.querySelector('[data-region=lanes]')")
	b.shows(words.State("done").In(l))
	b.seen(l, "release-4-undone")
}

// whoStoppedIt: the events of a process name the person, when, and the reason is in the audit log.
func whoStoppedIt(b *tab, f *fleet, l words.Lang) {
	b.t.Helper()
	anna := f.signIn(browser{language: l.Tag()}, "anna")
	anna.load("/ui/processes/shop/api/at/" + f.hosts[1])
	anna.operate("stop")
	anna.shows(words.Act.AskOne.In(l, "op", words.Act.Stop.In(l), "process", "shop/api", "host", f.hosts[1]))
	anna.question(l, "who-1-confirm")
	anna.typeInto("[name=reason]", "memory test")
	anna.click("button.danger")
	anna.at("/ui/tasks/op-")
	anna.await("the end of the task", "document.querySelector('[data-region=progress] .counts').innerText.startsWith('1/1')")
	anna.seen(l, "who-2-task")

	b.load("/ui/processes/shop/api/at/" + f.hosts[1])
	b.shows(words.State("stopped").In(l), "anna")
	b.seen(l, "who-3-instance")
	b.follow(words.Head.AllEvents.In(l))
	b.at("/ui/events?")
	b.typeInto("[name=kind]", "stopped")
	b.typeInto("[name=since]", "16h\r")
	b.await("the only event", "document.querySelectorAll('[data-region=rows] tbody tr').length === 1")
	b.shows("anna")
	b.await("its age", fmt.Sprintf("/^(%s|.*ago|.*前)$/.test(document.querySelector('main td time').textContent)", words.Head.Ago.In(l)))
	if title := evaluate[string](b, "document.querySelector('main td time').title"); !strings.Contains(title, "UTC") {
		b.t.Errorf("the whole time is %q", title)
	}
	b.seen(l, "who-4-events")
	b.load("/ui/audit?user=anna")
	b.shows("memory test")
	b.seen(l, "who-5-audit")
}

// addHosts: a token for ten hosts, and one of them joins with the lines of the page.
func addHosts(b *tab, f *fleet, l words.Lang) {
	b.t.Helper()
	b.load("/ui/hosts")
	b.seen(l, "hosts-1")
	b.follow("+ " + words.Admin.AddHosts.In(l))
	b.at("/ui/admin/tokens")
	b.paste("[name=uses]", "10")
	b.paste("[name=labels]", "rack=4")
	b.click("button[value=create]")
	b.await("the token", "document.getElementById('secret')")
	b.question(l, "hosts-2-token")
	if code, errs := f.Join("host3", "127.0.0.9", b.text("#secret")); code != 0 {
		b.t.Fatalf("the host does not join: %d %s", code, errs)
	}
	f.StartAgent("host3", "--facts-dir", "/nonexistent")
	f.Online("0:127.0.0.9")
	b.load("/ui/hosts")
	b.shows("0:127.0.0.9", "rack=4")
	b.seen(l, "hosts-3-joined")
	b.follow("0:127.0.0.9")
	b.at("/ui/hosts/")
	b.seen(l, "hosts-4-host")
}

// rightsOfAColleague: a new person gets a right on one namespace, and a link.
func rightsOfAColleague(b *tab, f *fleet, l words.Lang) {
	b.t.Helper()
	b.load("/ui/admin/people")
	b.seen(l, "rights-1-people")
	b.click("details.card summary")
	b.typeInto("details [name=name]", "bea")
	b.typeInto("details [name=right]", "viewer on web")
	b.click("button[value=create]")
	b.at("/ui/admin/people?name=bea")
	b.shows("viewer on web")
	b.seen(l, "rights-2-person")
	b.click("button[value=link]")
	b.await("the link", "document.getElementById('secret')")
	b.question(l, "rights-3-link")
	bea := open(b.t, f.URL, browser{language: l.Tag()})
	bea.signInBy(b.text("#secret"))
	bea.load("/ui/processes")
	bea.shows("web/site")
	if strings.Contains(bea.text("main"), "shop/api") {
		b.t.Error("bea sees more than her namespace")
	}
	bea.seen(l, "rights-4-processes")
}

// besides: the dialogs, a saved view and a followed log.
func besides(b *tab, f *fleet, l words.Lang) {
	b.t.Helper()
	b.load("/ui/processes?name=api")
	b.click("details.views summary")
	b.typeInto("details.views [name=name]", "apis")
	b.click("details.views form.fields button")
	b.await("the view", "document.querySelector('details.views li')")
	b.click("details.views summary")
	b.question(l, "besides-1-views")
	b.keys("?")
	b.await("the keys", "document.querySelector('#keys[open]')")
	b.question(l, "besides-2-keys")
	b.keys(kb.Escape)
	b.click("#jump")
	b.await("the palette", "document.querySelector('#palette[open]')")
	b.typeInto("#place", "nothing at all")
	b.await("no place", "document.querySelector('#places [aria-disabled]')")
	b.accessible()
	b.paste("#place", "api")
	b.await("the places", "document.querySelector('#places')?.innerText.includes('shop/api')")
	b.question(l, "besides-3-palette")
	b.keys(kb.Escape)
	b.load("/ui/processes/shop/api/at/" + f.hosts[0])
	b.click("button[name=follow]")
	b.await("the lines", "document.querySelector('#log-lines')?.innerText.includes('release')")
	b.seen(l, "besides-4-follow")
}
