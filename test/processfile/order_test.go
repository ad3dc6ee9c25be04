package processfile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// ordered is a database that takes a second, a service after it, and a job after both.
const ordered = `
namespace: shop
defaults: {hosts: ["*"], directory: DIR}
processes:
  db:
    run: sh -c 'sleep 1; echo db >>order; exec sleep 1000'
    ready: {exec: grep -q db order, within: 20s}
    stop_signals: [TERM 10s]
  api:
    run: sh -c 'echo api >>order; exec sleep 1000'
    ready: {exec: grep -q api order}
    after: {db: ready}
  job:
    run: sh -c 'echo job >>order'
    once: true
    after: {api: ready, shop/db: started}
`

// TestOrder: apply starts in order and a stop of all goes backwards; a start alone waits, says so and fails by name.
func TestOrder(t *testing.T) {
	p := newPlace(t)
	p.Apply(ordered)
	if got := strings.Fields(p.read("order")); strings.Join(got, " ") != "db api job" {
		t.Errorf("started %v", got)
	}
	restarted := p.CLI("restart", "shop/db")
	if restarted.Code != 0 || !strings.Contains(restarted.Out, "not restarted, although after it: shop/api") {
		t.Errorf("%d\n%s%s", restarted.Code, restarted.Out, restarted.Errors)
	}
	if s := p.CLI("stop", "shop/db", "--with-dependents", "--dry-run"); !strings.Contains(s.Out, "shop/api") {
		t.Errorf("%s%s", s.Out, s.Errors)
	}
	if s := p.CLI("stop", "shop/db", "shop/api", "--yes"); s.Code != 0 {
		t.Errorf("%s%s", s.Out, s.Errors)
	}
	late := p.CLI("apply", "--yes", "-f", p.Write("file.yaml", ordered+`
  late:
    run: sleep 1000
    after: {db: ready}
    ready: {alive: 0s, within: 1s}
`))
	if want := "not begun after a wait of 1 second: shop/db is not ready (stopped)"; late.Code != 1 || !strings.Contains(late.Out, want) {
		t.Errorf("exit code %d, want 1 and %q\n%s%s", late.Code, want, late.Out, late.Errors)
	}
	if why := p.CLI("why", "shop/late"); !strings.Contains(why.Out, "it waits: shop/db is not ready (stopped)") {
		t.Errorf("of a new process that waits:\n%s%s", why.Out, why.Errors)
	}
	if s := p.CLI("start", "shop/db"); s.Code != 0 {
		t.Errorf("%s%s", s.Out, s.Errors)
	}
	harness.Eventually(t, "the process that waited", func() bool {
		return strings.Contains(p.CLI("ps", "shop/late", "--no-headers").Out, " running ")
	})
}

// TestFirstStart: the first start of a process is seen while it waits for readiness, and a kill of it leaves a process
// that is stopped.
func TestFirstStart(t *testing.T) {
	p := newPlace(t)
	began := p.CLI("apply", "--yes", "--no-wait", "-f", p.Write("file.yaml", `
namespace: shop
defaults: {hosts: ["*"], directory: DIR}
processes:
  slow:
    run: sh -c 'echo began >>slow; exec sleep 1000'
    ready: {exec: "false", within: 60s}
  web:
    run: sleep 1000
    after: {slow: ready}
`))
	if began.Code != 0 {
		t.Fatalf("%s%s", began.Out, began.Errors)
	}
	p.await("slow", "began")
	harness.Eventually(t, "both under way", func() bool {
		list := p.CLI("ps", "shop/*", "--no-headers").Out
		return strings.Count(list, " operating ") == 2
	})
	if why := p.CLI("why", "shop/web"); !strings.Contains(why.Out, "start waits: shop/slow is not ready") {
		t.Errorf("%s%s", why.Out, why.Errors)
	}
	if k := p.CLI("kill", "shop/*", "--yes"); k.Code != 0 {
		t.Errorf("%d\n%s%s", k.Code, k.Out, k.Errors)
	}
	harness.Eventually(t, "both stopped", func() bool {
		return strings.Count(p.CLI("ps", "shop/*", "--no-headers").Out, " stopped ") == 2
	})
}

// TestOrderFaults: names that nobody has and circles are refused, also if they arise with what hosts have.
func TestOrderFaults(t *testing.T) {
	p := newPlace(t)
	refused := func(file, want string) {
		t.Helper()
		a := p.CLI("apply", "-f", p.Write("file.yaml", file), "--yes")
		if a.Code != 2 || !strings.Contains(a.Errors, want) {
			t.Errorf("exit code %d, want 2 and %q:\n%s", a.Code, want, a.Errors)
		}
	}
	refused("namespace: shop\nprocesses:\n  a: {hosts: ['*'], run: sleep 9, after: {b: ready, far/c: started}}\n",
		"processes.a.after.b: no file and no host has this process")
	two := "namespace: shop\nprocesses:\n  a: {hosts: ['*'], run: sleep 1000, ready: {alive: 0s}}\n" +
		"  b: {hosts: ['*'], run: sleep 1000, ready: {alive: 0s}, after: {a: started}}\n"
	p.Apply(two)
	refused("namespace: shop\nprocesses:\n  a: {hosts: ['*'], run: sleep 1000, ready: {alive: 0s}, after: {b: ready}}\n",
		"the process waits for itself: shop/a → shop/b → shop/a")
	all := "namespace: shop\nprocesses:\n  x: {hosts: ['*'], run: x, after: {yy: ready, bb: ready}}\n" +
		"  yyy: {hosts: ['nope'], run: x, nice: 77, after: {yyy: ready}}\n---\n" +
		"namespace: far\nprocesses:\n  z: {hosts: ['*'], run: x, after: {far2/z: ready}}\n---\n" +
		"namespace: far2\nprocesses:\n  z: {hosts: ['*'], run: x, after: {far/z: ready}}\n"
	for _, want := range []string{
		":3: processes.x.after.yy: no file and no host has this process, did you mean yyy?\n",
		":3: processes.x.after.bb: no file and no host has this process, did you mean b?\n",
		":4: processes.yyy.hosts[0]: ", ":4: processes.yyy.nice: is 77: expected -20 to 19\n", ":4: processes.yyy.after: the process waits for itself: shop/yyy → shop/yyy\n",
		":8: processes.z.after: the process waits for itself: far/z → far2/z → far/z\n",
	} {
		refused(all, want)
	}
}

// TestOrderAcrossNamespaces: a first apply of two namespaces, in one file or in two, goes first through the one that
// the other is after. Circles are refused.
func TestOrderAcrossNamespaces(t *testing.T) {
	p := newPlace(t)
	web := func(ns, name string) string {
		return "namespace: " + ns + `
defaults: {hosts: ["*"], directory: DIR}
processes:
  ` + name + `:
    run: sh -c 'echo ` + name + ` >>order; exec sleep 1000'
    ready: {exec: grep -q ` + name + ` order}
`
	}
	two := web("front", "web") + "    after: {back/db: ready, back/queue@2: started}\n---\n" + web("back", "db") +
		"  queue: {run: sleep 1000, copies: 2, ready: {alive: 0s}}\n"
	plan := p.CLI("apply", "--dry-run", "-f", p.Write("two.yaml", two))
	if plan.Code != 0 || strings.Index(plan.Out, "+ front/web") < strings.Index(plan.Out, "+ back/db") {
		t.Errorf("%d\n%s%s", plan.Code, plan.Out, plan.Errors)
	}
	p.Apply(two)
	if got := strings.Fields(p.read("order")); strings.Join(got, " ") != "db web" {
		t.Errorf("started %v", got)
	}
	third := p.Write("third.yaml", web("third", "c")+"    after: {fourth/d: ready}\n")
	fourth := p.Write("fourth.yaml", web("fourth", "d")+"    after: {third/c: ready}\n")
	circle := p.CLI("apply", "--yes", "-f", third, "-f", fourth)
	want := "fourth.yaml:4: processes.d.after: the process waits for itself: fourth/d → third/c → fourth/d"
	if circle.Code != 2 || !strings.Contains(circle.Errors, want) {
		t.Errorf("exit code %d, want 2 and %q:\n%s", circle.Code, want, circle.Errors)
	}
	if s := p.CLI("apply", "--yes", "-f", third); s.Code != 2 || !strings.Contains(s.Errors, "after.fourth/d: no file and no host") {
		t.Errorf("%d\n%s%s", s.Code, s.Out, s.Errors)
	}
	p.Write("fourth.yaml", web("fourth", "d"))
	if s := p.CLI("apply", "--yes", "-f", third, "-f", fourth); s.Code != 0 {
		t.Errorf("%d\n%s%s", s.Code, s.Out, s.Errors)
	}
}

// TestSignal: a signal reaches the main process alone, or the whole run; other words are refused.
func TestSignal(t *testing.T) {
	p := newPlace(t)
	p.Apply(`
namespace: shop
processes:
  api:
    hosts: ["*"]
    directory: DIR
    run: |
      trap 'echo main >>got' HUP USR1; trap 'echo realtime >>got' 37 63; sh -c 'trap "echo worker >>got" USR1; while :; do sleep 0.1; done' & while :; do wait; done
    ready: {exec: "true"}
`)
	if s := p.CLI("signal", "SIGHUP", "shop/api"); s.Code != 0 || !strings.Contains(s.Out, "HUP sent to pid") {
		t.Fatalf("%d\n%s%s", s.Code, s.Out, s.Errors)
	}
	p.await("got", "main")
	if s := p.CLI("signal", "usr1", "shop/api", "--scope", "tree"); s.Code != 0 || !strings.Contains(s.Out, "of its run") {
		t.Fatalf("%d\n%s%s", s.Code, s.Out, s.Errors)
	}
	p.await("got", "worker")
	for i, name := range [][2]string{{"RTMIN+3", "RTMIN+3"}, {"sigrtmin+29", "RTMAX-1"}} {
		if s := p.CLI("signal", name[0], "shop/api"); s.Code != 0 || !strings.Contains(s.Out, name[1]+" sent to pid") {
			t.Fatalf("%d\n%s%s", s.Code, s.Out, s.Errors)
		}
		harness.Eventually(t, name[1], func() bool { return strings.Count(p.read("got"), "realtime") == i+1 })
	}
	if e := p.CLI("events", "shop/api", "--kind", "signalled"); strings.Count(e.Out, "signalled") != 4 ||
		!strings.Contains(e.Out, "USR1 sent to pid") || !strings.Contains(e.Out, "of its run") {
		t.Errorf("%s%s", e.Out, e.Errors)
	}
	if s := p.CLI("signal", "QUIT", "shop/api"); s.Code != 0 {
		t.Errorf("%d\n%s%s", s.Code, s.Out, s.Errors)
	}
	var exited []struct{ Actor struct{ Kind, User string } }
	harness.Eventually(t, "the end by the signal", func() bool {
		e := p.CLI("events", "shop/api", "--kind", "exited", "-o", "json")
		return json.Unmarshal([]byte(e.Out), &exited) == nil && len(exited) == 1
	})
	if by := exited[0].Actor; by.Kind != "caller" || by.User == "" {
		t.Errorf("%+v has ended it", by)
	}
	for _, args := range [][]string{{"HOP", "shop/api"}, {"RTMIN+31", "shop/api"}, {"shop/api"}, {"HUP", "shop/api", "--scope", "all"}} {
		if s := p.CLI(append([]string{"signal"}, args...)...); s.Code != 2 {
			t.Errorf("%v: exit code %d", args, s.Code)
		}
	}
	p.CLI("stop", "shop/api")
	if s := p.CLI("signal", "HUP", "shop/api"); s.Code != 1 {
		t.Errorf("stopped: exit code %d, %s", s.Code, s.Out)
	}
}
