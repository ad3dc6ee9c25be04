package stopping_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// shop is a database that notes when it begins and when it is stopped, and a service after it. Neither is relaunched
// more than once, and the database is never.
const shop = `
namespace: shop
defaults: {hosts: ["*"], directory: DIR, ready: {alive: 0s}}
processes:
  db:
    run: sh -c 'echo start db >>order; exec sleep 1000'
    before_stop: {run: echo stop db >>order}
    restart: {when: never}
  api:
    run: sh -c 'echo start api >>order; exec sleep 1000'
    before_stop: {run: sleep 1; echo stop api >>order}
    after: {db: ready}
  deaf:
    run: sh -c 'trap "" TERM; while :; do sleep 1; done'
    stop_signals: [TERM 1000s]
`

// TestShutdown: 'drover-agent shutdown' ends what runs in the reverse of its order with its own stop, names what does
// not end, and changes nothing of what is wanted: the next agent starts all again, in order.
func TestShutdown(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	shutdown := func(timeout string) harness.Finished {
		return harness.Finish(t, "", harness.Environment(p.Dir), binaries.agent, "shutdown", "--data-dir", p.S.DataDir,
			"--timeout", timeout)
	}
	order := func() string {
		text, err := os.ReadFile(filepath.Join(p.Dir, "order"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(text)), " ")
	}
	p.Apply(shop)
	deaf := p.PID("deaf")
	f := shutdown("20s")
	if f.Code != 1 || !strings.Contains(f.Errors, "2 ended, 1 left: shop/deaf") ||
		!strings.Contains(f.Out, "left  shop/deaf: it has not ended in time") ||
		!strings.Contains(f.Out, "ended shop/db: pid ") {
		t.Errorf("exit code %d\n%s%s", f.Code, f.Out, f.Errors)
	}
	if got, want := order(), "start db start api stop api stop db"; got != want {
		t.Errorf("the order is %q, want %q", got, want)
	}
	if !harness.Alive(deaf) {
		t.Error("what does not end by its own rules was killed")
	}
	if e := p.CLI("events", "shop/db").Out; !strings.Contains(e, "because the host shuts down") {
		t.Errorf("the events of the database are\n%s", e)
	}

	// The host has not gone down after all.
	p.S.Kill()
	if f := shutdown("10s"); f.Code != 1 || !strings.Contains(f.Errors, "no agent answers in ") {
		t.Errorf("without an agent: exit code %d\n%s%s", f.Code, f.Out, f.Errors)
	}
	p.S.Run()
	harness.Eventually(t, "both to run again", func() bool {
		return p.State("db") == "running" && p.State("api") == "running"
	})
	if got, want := order(), "start db start api stop api stop db start db start api"; got != want {
		t.Errorf("the order is %q, want %q", got, want)
	}
}
