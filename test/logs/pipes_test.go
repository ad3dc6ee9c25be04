package logs_test

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// TestPipes: programs of root and of other accounts open their output by name, and empty nothing. The last words of a
// failed start are in its message.
func TestPipes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const run = "echo begun > /dev/stdout; echo both | tee /dev/stderr; exec >> /dev/stdout; echo appended; exec sleep 1000"
	p.apply(`
  root:
    hosts: ["0:127.0.0.1"]
    run: ` + run + `
    log: {pipe: true}
  other:
    hosts: ["0:127.0.0.1"]
    run: ` + run + `
    user: nobody
    directory: /
    log: {pipe: true}
`)
	for range 2 {
		if a := p.CLI("restart", "shop/*", "--yes"); a.Code != 0 {
			t.Fatalf("restart: %d %s%s", a.Code, a.Out, a.Errors)
		}
	}
	one := []string{"appended", "begun", "both", "both"}
	want := slices.Sorted(slices.Values(slices.Concat(one, one, one)))
	for _, name := range []string{"shop/root", "shop/other"} {
		harness.Eventually(t, "the lines of all runs of "+name, func() bool {
			got := p.logs(name, "--since", "1h")
			slices.Sort(got)
			return slices.Equal(got, want) && len(p.logs(name, "--since", "1h", "--stderr")) == 3
		})
	}
	p.Write("doomed.yaml", `namespace: shop
processes:
  doomed:
    hosts: ["0:127.0.0.1"]
    run: seq 20000; echo the last words > /dev/stderr; exit 3
    user: nobody
    directory: /
    ready: {alive: 1m}
    restart: {when: never}
    log: {pipe: true}
`)
	a := p.CLI("apply", "-f", p.Dir+"/doomed.yaml", "--yes")
	if all := a.Out + a.Errors; a.Code == 0 || !strings.Contains(all, "the last words") {
		t.Errorf("a failed start: exit code %d\n%s", a.Code, all)
	}
}

// TestPipesWithoutDrover: a process that has replaced its descriptors by those that it opened by name goes on while
// drover dies again and again. No line is lost, doubled or out of order.
func TestPipesWithoutDrover(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.program("api", `exec > /dev/stdout 2> /dev/stderr
exec awk 'BEGIN { for (n = 1; ; n++) { print "line", n; if (n % 100 == 0) { fflush(); system(": > DIR/wrote; sleep 0.01") } } }'
`)
	p.apply(`
  api:
    hosts: ["0:127.0.0.1"]
    run: DIR/api
    log: {max_size: 2MiB, keep: 100, pipe: true}
`)
	pid := p.PID("api")
	for range 4 {
		p.awaitWrite()
		p.S.Kill()
		for range 3 {
			p.awaitWrite() // to nobody
		}
		p.S.Run()
	}
	p.awaitWrite()
	harness.Signal(t, pid, syscall.SIGSTOP) // so that what it has written is all
	harness.Eventually(t, "the process to be seen", func() bool { return p.PID("api") == pid })
	last := ""
	harness.Eventually(t, "the last line", func() bool {
		was := last
		last = p.logs("shop/api", "--tail", "1")[0]
		return last == was
	})
	harness.Signal(t, pid, syscall.SIGCONT)
	lines := p.logs("shop/api")
	for i, line := range lines {
		if want := "line " + strconv.Itoa(i+1); line != want && i < len(lines)-1 {
			t.Fatalf("line %d of %d is %q", i+1, len(lines), line)
		}
	}
	if len(lines) < 1300 {
		t.Errorf("there are %d lines", len(lines))
	}
}

// awaitWrite waits until the process has written once more.
func (p *place) awaitWrite() {
	p.T.Helper()
	p.remove("wrote")
	harness.Eventually(p.T, "the process to write", func() bool { return p.has("wrote") })
}

// TestFloodThroughAPipe: a process that writes as fast as it can waits for drover, and its log stays bounded.
func TestFloodThroughAPipe(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(`
  flood:
    hosts: ["0:127.0.0.1"]
    run: yes a line through a pipe
    log: {max_size: 1MiB, keep: 2, pipe: true}
`)
	pid := p.PID("flood")
	var most int64
	for begun := time.Now(); time.Since(begun) < 3*time.Second; {
		most = max(most, p.held())
		_ = p.logs("shop/flood", "--tail", "10") // which can be read meanwhile
	}
	// Twice as much as the files may have, because the file system allocates space ahead.
	const bound = 2 * (3 + 2 + 1) << 20
	if t.Logf("the logs held at most %.1f MiB", float64(most)/(1<<20)); most > bound {
		t.Errorf("the logs held %d bytes", most)
	}
	if now := p.PID("flood"); now != pid || !harness.Alive(pid) {
		t.Errorf("the flood was %d, and is %d", pid, now)
	}
	harness.Eventually(t, "a loss in the log", func() bool {
		a := p.CLI("logs", "shop/flood", "--since", "1h", "--grep", "^$")
		return a.Code == 0 && strings.Contains(a.Out, " bytes lost ...]")
	})
	if a := p.CLI("stop", "shop/flood"); a.Code != 0 {
		t.Errorf("the flood is not stopped: %s", a.Errors)
	}
}
