package processfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// copied is a process with copies that note their starts and say their number, and one that is after all of them.
const copied = `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  api:
    run: echo "$DROVER_COPY $(env | sed -n s/^RUNTIME_D.*=//p)" >>starts-$DROVER_NAME; echo "copy $DROVER_COPY"; exec sleep 1000
    runtime_directory: drover-test-BASE
    copies: COPIES
  web:
    run: sleep 1000
    after: {api: ready}
`

func copies(n int) string { return strings.ReplaceAll(copied, "COPIES", strconv.Itoa(n)) }

// pids are those of the copies from 1 on.
func (p *place) pids(name string, n int) (all []int) {
	p.T.Helper()
	for i := range n {
		all = append(all, p.PID(fmt.Sprintf("%s@%d", name, i+1)))
	}
	return all
}

// removeRuntimeDirectories removes what the test may leave below /run.
func (p *place) removeRuntimeDirectories() {
	p.T.Cleanup(func() {
		left, _ := filepath.Glob("/run/drover-test-" + filepath.Base(p.Dir) + "*")
		for _, dir := range left {
			if err := os.RemoveAll(dir); err != nil {
				p.T.Error(err)
			}
		}
	})
}

// TestCopies: a number of copies makes and removes processes and touches no other; each copy is a process of its own,
// through a crash of the copy and of drover, and a name without a number means all of them.
func TestCopies(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.removeRuntimeDirectories()
	if out := p.Apply(copies(2)); !strings.Contains(out, "+ shop/api@1-2  1 host  new") {
		t.Errorf("the plan is %s", out)
	}
	before := p.pids("api", 2)
	if got, want := p.read("starts-api@2"), "2 /run/drover-test-"+filepath.Base(p.Dir)+"@2"; got != want {
		t.Errorf("copy 2 got %q, want %q", got, want)
	}

	out := p.Apply(copies(4))
	for _, line := range []string{"= shop/api@1-2  1 host  nothing to do", "+ shop/api@3-4  1 host  new"} {
		if !strings.Contains(out, line) {
			t.Errorf("the plan is %s, want %s", out, line)
		}
	}
	four := p.pids("api", 4)
	if !slices.Equal(four[:2], before) || slices.Contains(four, 0) {
		t.Errorf("pids %v after %v", four, before)
	}
	for n := range 4 {
		line := fmt.Sprintf("api@%d  copy %d\n", n+1, n+1)
		harness.Eventually(t, strings.TrimSpace(line)+" in the log", func() bool {
			return strings.Contains(p.CLI("logs", "shop/api").Out, line)
		})
	}
	if one := p.CLI("logs", "shop/api@3"); one.Out != "copy 3\n" {
		t.Errorf("the log of one copy is %q", one.Out)
	}
	got := p.CLI("get", "shop/*")
	if !strings.Contains(got.Out, "copies: 4") || strings.Contains(got.Out, "@") {
		t.Errorf("get prints\n%s", got.Out)
	}
	if a := p.CLI("diff", "-f", p.Write("file.yaml", got.Out)); a.Code != 0 {
		t.Errorf("what get printed: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	if one := p.CLI("get", "shop/api@2"); !strings.Contains(one.Out, "  api@2:") ||
		strings.Contains(one.Out, "copies") {
		t.Errorf("get of one copy prints\n%s", one.Out)
	} else if a := p.CLI("diff", "-f", p.Write("file.yaml", one.Out)); a.Code != 0 {
		t.Errorf("the file of one copy: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}

	harness.Signal(t, four[1], syscall.SIGKILL)
	harness.Eventually(t, "the relaunch of copy 2", func() bool {
		return p.count("starts-api@2") == 2 && p.State("api@2") == "running" && p.PID("api@2") != four[1]
	})
	second := p.PID("api@2")
	p.S.Kill()
	p.S.Run()
	harness.Eventually(t, "the same processes to run", func() bool {
		return slices.Equal(p.pids("api", 4), []int{four[0], second, four[2], four[3]})
	})

	if a := p.CLI("stop", "shop/api@1"); a.Code != 0 {
		t.Errorf("%s%s", a.Out, a.Errors)
	}
	if a := p.CLI("wait", "shop/api@1", "--for", "stopped", "--timeout", "20s"); a.Code != 0 {
		t.Errorf("%s%s", a.Out, a.Errors)
	}
	if out := p.Apply(copies(3)); !strings.Contains(out, "! shop/api@1    1 host  stopped by uid:0: stays stopped") ||
		!strings.Contains(out, "- shop/api@4    1 host  removed: the file has fewer copies") {
		t.Errorf("the plan is %s", out)
	}
	if ps := p.CLI("ps", "shop/api", "-o", "name"); ps.Out != "shop/api@1\nshop/api@2\nshop/api@3\n" ||
		harness.Alive(four[3]) {
		t.Errorf("there are %s", ps.Out)
	}
	if a := p.CLI("restart", "shop/api", "--yes"); a.Code != 0 ||
		strings.Count(a.Out, "not restarted, although after it: shop/web") != 3 {
		t.Errorf("%s%s", a.Out, a.Errors)
	}
	if a := p.CLI("wait", "shop/api", "--for", "ready", "--timeout", "20s"); a.Code != 0 || p.PID("api@3") == four[2] {
		t.Errorf("%s%s", a.Out, a.Errors)
	}
}

// TestOneCopyCrashes: one copy that ends again and again disturbs no other copy.
func TestOneCopyCrashes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Apply(`
namespace: shop
processes:
  api:
    hosts: ["0:127.0.0.1"]
    user: root
    directory: DIR
    run: echo >>starts-$DROVER_COPY; [ ! -e bad-$DROVER_COPY ] || exit 3; exec sleep 1000
    copies: 3
    ready: {alive: 0s}
    restart: {delay: 10ms, max_delay: 10ms, give_up_after: 4}
`)
	before := p.pids("api", 3)
	if err := os.WriteFile(filepath.Join(p.Dir, "bad-2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Signal(t, before[1], syscall.SIGKILL)
	harness.Eventually(t, "copy 2 to be given up", func() bool { return p.State("api@2") == "given-up" })
	if now := p.pids("api", 3); now[0] != before[0] || now[2] != before[2] || p.count("starts-1") != 1 ||
		p.count("starts-3") != 1 {
		t.Errorf("pids %v after %v", now, before)
	}
	if a := p.CLI("why", "shop/api"); !strings.Contains(a.Out, "shop/api@2") || strings.Contains(a.Out, "shop/api@1") {
		t.Errorf("why says\n%s", a.Out)
	}
	if a := p.CLI("history", "shop/api"); !strings.Contains(a.Out, "shop/api@1") ||
		strings.Count(a.Out, "shop/api@2") < 5 {
		t.Errorf("the history is\n%s%s", a.Out, a.Errors)
	}
}

// TestCopiesAfterReboot: after a reboot all copies run again, and what is after them waits for all.
func TestCopiesAfterReboot(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const file = `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR}
processes:
  api:
    run: |
      while [ $DROVER_COPY = 3 -a -e reboot -a ! -e go ]; do sleep 0.05; done; echo api >>order
      if [ $DROVER_COPY = 3 -a -e go ]; then touch written; fi; exec sleep 1000
    copies: 3
    ready: {exec: test -e written -o ! -e reboot, within: 30s}
  web:
    run: echo web >>order; exec sleep 1000
    ready: {alive: 0s}
    after: {api: ready}
`
	p.Apply(file)
	pids := append(p.pids("api", 3), p.PID("web"))
	if err := p.S.Terminate(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		harness.Signal(t, pid, syscall.SIGKILL)
		harness.Eventually(t, "the end of a process", func() bool { return !harness.Alive(pid) })
	}
	// What is known of running processes is kept for one boot only: without it the agent is as after a reboot.
	found, err := filepath.Glob(filepath.Join(p.S.DataDir, "agent", "runtime*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no file of running processes: %v", err)
	}
	for _, path := range found {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.Dir, "reboot"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.S.Run()
	harness.Eventually(t, "web to wait for the copies", func() bool {
		return strings.Contains(p.CLI("why", "shop/web").Out, "shop/api@3 is not ready")
	})
	if err := os.WriteFile(filepath.Join(p.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "all to run", func() bool {
		return p.State("web") == "running" && p.State("api@1") == "running" && p.State("api@3") == "running"
	})
	harness.Eventually(t, "all to have written", func() bool { return p.count("order") == 8 })
	if order := strings.Fields(p.read("order")); order[7] != "web" {
		t.Errorf("started %v", order)
	}
}

// TestCopiesInPlaceOfOne: copies take the place of a process, and the process that of its copies: with the same port.
func TestCopiesInPlaceOfOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const one = `
namespace: shop
processes:
  api:
    hosts: ["0:127.0.0.1"]
    user: root
    directory: DIR
    run: mkdir port || exit 9; trap 'sleep 0.3; rmdir port; exit 0' TERM; while :; do sleep 0.05; done
    ready: {alive: 200ms}
    restart: {when: never}
`
	p.Apply(one)
	if out := p.Apply(one + "    copies: 1\n"); !strings.Contains(out, "- shop/api    1 host  removed: the file has copies instead") {
		t.Errorf("the plan is %s", out)
	}
	if ps := p.CLI("ps", "shop/api"); strings.Count(ps.Out, "shop/api") != 1 || p.State("api@1") != "running" {
		t.Errorf("there are %s", ps.Out)
	}
	p.Apply(one)
	if ps := p.CLI("ps", "shop/api"); strings.Count(ps.Out, "shop/api") != 1 || p.State("api") != "running" {
		t.Errorf("there are %s", ps.Out)
	}
}
