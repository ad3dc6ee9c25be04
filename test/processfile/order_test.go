package processfile_test

import (
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
	if want := "not begun: shop/db is not ready (stopped) after 1s"; late.Code != 1 || !strings.Contains(late.Out, want) {
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
      trap 'echo main >>got' HUP USR1; sh -c 'trap "echo worker >>got" USR1; while :; do sleep 0.1; done' & while :; do wait; done
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
	if e := p.CLI("events", "shop/api", "--kind", "signalled"); strings.Count(e.Out, "signalled") != 2 {
		t.Errorf("%s%s", e.Out, e.Errors)
	}
	for _, args := range [][]string{{"HOP", "shop/api"}, {"shop/api"}, {"HUP", "shop/api", "--scope", "all"}} {
		if s := p.CLI(append([]string{"signal"}, args...)...); s.Code != 2 {
			t.Errorf("%v: exit code %d", args, s.Code)
		}
	}
	p.CLI("stop", "shop/api")
	if s := p.CLI("signal", "HUP", "shop/api"); s.Code != 1 {
		t.Errorf("stopped: exit code %d, %s", s.Code, s.Out)
	}
}
