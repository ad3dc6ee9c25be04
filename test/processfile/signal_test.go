package processfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestSignalPassesAStart: a signal reaches a process whose start or restart waits until it is ready, also at its first
// start. The start goes on.
func TestSignalPassesAStart(t *testing.T) {
	p := newPlace(t)
	file := p.Write("file.yaml", `
namespace: shop
processes:
  jvm:
    hosts: ["*"]
    directory: DIR
    run: trap 'echo dump >>dumps' QUIT; echo up >>ups; while :; do sleep 0.1; done
    ready: {exec: "test -e go", within: 10m}
`)
	for i, begin := range [][]string{
		{"apply", "--yes", "--no-wait", "-f", file}, {"restart", "shop/jvm", "--no-wait"}, {"start", "shop/jvm", "--no-wait"},
	} {
		if b := p.CLI(begin...); b.Code != 0 {
			t.Fatalf("%v: %d\n%s%s", begin, b.Code, b.Out, b.Errors)
		}
		harness.Eventually(t, "the process to run", func() bool { return p.count("ups") == i+1 })
		p.waits(begin[0])
		if s := p.CLI("signal", "QUIT", "shop/jvm", "--timeout", "60s"); s.Code != 0 ||
			!strings.Contains(s.Out, "QUIT sent to pid") {
			t.Fatalf("%v: %d\n%s%s", begin, s.Code, s.Out, s.Errors)
		}
		harness.Eventually(t, "the thread dump", func() bool { return p.count("dumps") == i+1 })
		p.waits(begin[0])
		if why := p.CLI("why", "shop/jvm"); !strings.Contains(why.Out, "QUIT sent to pid") {
			t.Errorf("%v: why says\n%s", begin, why.Out)
		}
		if e := p.CLI("events", "shop/jvm", "--kind", "signalled"); strings.Count(e.Out, "QUIT sent to pid") != i+1 {
			t.Errorf("%v: %s%s", begin, e.Out, e.Errors)
		}
		p.Touch("go")
		harness.Eventually(t, "the end of the "+begin[0], func() bool { return p.State("jvm") == "running" })
		if err := os.Remove(filepath.Join(p.Dir, "go")); err != nil {
			t.Fatal(err)
		}
		if begin[0] == "restart" {
			p.CLI("stop", "shop/jvm")
		}
	}
}

// TestSuccessorAfterASignal: a program that starts its successor at a signal goes on as that successor when it ends.
func TestSuccessorAfterASignal(t *testing.T) {
	p := newPlace(t)
	script := "#!/bin/sh\ntrap './main.sh &' USR2; trap 'exit 0' QUIT\necho up >>ups; while :; do sleep 0.1; done\n"
	if err := harness.WriteProgram(filepath.Join(p.Dir, "main.sh"), []byte(script)); err != nil {
		t.Fatal(err)
	}
	file := p.Write("file.yaml", `
namespace: shop
processes:
  main: {hosts: ["*"], directory: DIR, run: ./main.sh}
`)
	apply := p.CLI("apply", "--yes", "-f", file)
	if apply.Code != 0 {
		t.Fatalf("%s%s", apply.Out, apply.Errors)
	}
	harness.Eventually(t, "the process to run", func() bool { return p.count("ups") == 1 })
	was := p.PID("main")
	p.CLI("signal", "USR2", "shop/main")
	harness.Eventually(t, "the successor to run", func() bool { return p.count("ups") == 2 })
	if now := p.PID("main"); now != was {
		t.Errorf("drover watches pid %d while pid %d lives", now, was)
	}
	p.CLI("signal", "QUIT", "shop/main")
	process := harness.Process{Server: p.S, Namespace: "shop", Name: "main"}
	process.AwaitEvents(1, "main-pid-changed")
	now := p.PID("main")
	if !harness.Alive(now) || now == was || p.count("ups") != 2 || len(process.Events("relaunched")) != 0 {
		t.Errorf("drover watches pid %d in place of %d, %d starts", now, was, p.count("ups"))
	}
	p.CLI("stop", "shop/main")
	harness.Eventually(t, "the end of the successor", func() bool { return !harness.Alive(now) })
}

// waits waits until an operation on the process jvm is shown as under way.
func (p *place) waits(verb string) {
	p.T.Helper()
	harness.Eventually(p.T, verb+" to be under way", func() bool {
		why := p.CLI("why", "shop/jvm").Out
		return strings.Contains(why, "under way since") && p.State("jvm") == "operating"
	})
}
