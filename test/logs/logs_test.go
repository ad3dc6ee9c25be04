package logs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/test/harness"
)

// TestLogs: what a process wrote, by run, stream, time and expression; no control character reaches the terminal.
func TestLogs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.program("api", `
n=$(cat DIR/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >DIR/n
echo "run $n begins"
printf 'a \033[31mred\007 word\tand a tab\r\n'
echo "run $n complains" >&2
while [ ! -e DIR/applied ]; do sleep 0.01; done
if [ $n -lt 3 ]; then printf 'half'; exit 1; fi
exec sleep 1000
`)
	before := time.Now().UTC().Format(time.RFC3339Nano)
	p.apply(`
  api:
    hosts: ["0:127.0.0.1"]
    run: DIR/api
    restart: {delay: 100ms, max_delay: 100ms}
    ready: {alive: 0s}
`)
	p.Touch("applied") // before it no run ends, so the start succeeds
	harness.Eventually(t, "the third run", func() bool { return slices.Contains(p.logs("shop/api"), "run 3 complains") })
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"a ?[31mred? word\tand a tab", "run 3 begins", "run 3 complains"}},
		{[]string{"--tail", "0"}, []string{""}},
		{[]string{"--raw", "--grep", "red"}, []string{"a \x1b[31mred\a word\tand a tab\r"}},
		{[]string{"--run", "-1"}, []string{"a ?[31mred? word\tand a tab", "half", "run 2 begins", "run 2 complains"}},
		{[]string{"--run", "-2", "--stderr"}, []string{"run 1 complains"}},
		{[]string{"--since", "1h", "--grep", "^run . [bc]", "--tail", "2"}, []string{"run 3 begins", "run 3 complains"}},
		{[]string{"--since", before, "--stderr"}, []string{"run 1 complains", "run 2 complains", "run 3 complains"}},
	} {
		got := p.logs(append([]string{"shop/api"}, c.args...)...)
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
	stamped := p.logs("shop/api", "--timestamps", "--grep", "begins")[0]
	if at, err := time.Parse("2006-01-02T15:04:05.000Z", strings.Fields(stamped)[0]); err != nil ||
		time.Since(at) > time.Minute || time.Since(at) < 0 {
		t.Errorf("with its time: %q", stamped)
	}
	if a := p.CLI("logs", "shop/apu"); a.Code != 4 || !strings.Contains(a.Errors, "shop/api") {
		t.Errorf("of an unknown process: %d %q", a.Code, a.Errors)
	}
	if a := p.CLI("logs", "shop/api", "--run", "-9"); a.Code != 1 || !strings.Contains(a.Errors, "there is no run -9: the log knows 3 runs") {
		t.Errorf("of an unknown run: %d %q", a.Code, a.Errors)
	}
	if a := p.CLI("logs", "shop/api", "--run", "-9", "-o", "json"); a.Code != 1 || !strings.Contains(a.Out, `"error":"there is no run -9`) {
		t.Errorf("of an unknown run as JSON: %d %q %q", a.Code, a.Out, a.Errors)
	}
	if a := p.CLI("events", "shop/api", "--kind", "exited", "-o", "json"); !strings.Contains(a.Out, "half\\nrun 2 complains") {
		t.Errorf("the events say %q", a.Out)
	}
}

// TestRemoved: a removed file comes back. A process that has lost its log altogether says so, until its restart.
func TestRemoved(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(`
  api:
    hosts: ["0:127.0.0.1"]
    run: while :; do echo line; sleep 0.05; done
    ready: {alive: 0s}
`)
	log := filepath.Join(p.S.DataDir, "agent", "log", process.Hash(process.ID{Namespace: "shop", Name: "api"}))
	if err := os.Remove(filepath.Join(log, "stdout")); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the file to be back", func() bool {
		_, err := os.Stat(filepath.Join(log, "stdout"))
		return err == nil
	})
	if err := os.Rename(log, filepath.Join(p.Dir, "log")); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the loss to be told", func() bool {
		a := p.CLI("logs", "shop/api")
		return a.Code == 1 && strings.Contains(a.Errors, "somebody has removed its log files")
	})
	harness.Eventually(t, "why to tell it", func() bool {
		a := p.CLI("why", "shop/api")
		return a.Code == 3 && strings.Contains(a.Out, "until a restart [log-removed]")
	})
	if a := p.CLI("restart", "shop/api"); a.Code != 0 {
		t.Fatalf("restart: %d %s", a.Code, a.Errors)
	}
	harness.Eventually(t, "the new lines", func() bool { return p.CLI("logs", "shop/api").Code == 0 })
	harness.Eventually(t, "nothing to be wrong", func() bool { return p.CLI("why", "shop/api").Code == 0 })
}

// TestFollow: new lines come as they are written, also of later runs; Ctrl-C ends the command, and the process lives.
func TestFollow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.program("api", `echo "pid $$"; while [ ! -e DIR/go ]; do sleep 0.05; done; rm DIR/go; echo "goes $$"; exit 1
`)
	p.apply(`
  api:
    hosts: ["0:127.0.0.1"]
    run: DIR/api
    restart: {delay: 100ms, max_delay: 100ms}
    ready: {alive: 0s}
`)
	f := p.follow("shop/api")
	lines := func(n int) func() bool {
		return func() bool { return strings.Count(f.Out.String(), "\n") >= n }
	}
	for n := range 3 {
		harness.Eventually(t, "the first line of a run", lines(2*n+1))
		p.Touch("go")
		harness.Eventually(t, "the last line of a run", lines(2*n+2))
	}
	harness.Eventually(t, "the fourth run", lines(7))
	got := strings.Fields(f.Out.String())
	for i := 1; i < 12; i += 4 {
		if got[i] != got[i+2] {
			t.Errorf("a run is of %s and %s", got[i], got[i+2])
		}
	}
	pid := got[len(got)-1]
	f.End(syscall.SIGINT)
	if err := f.Terminate(); err != nil {
		t.Errorf("after Ctrl-C the command ended with %v", err)
	}
	if n, _ := strconv.Atoi(pid); p.PID("api") != n {
		t.Errorf("the process is %d, not %s", p.PID("api"), pid)
	}
}

// TestDroverDies: a chatty process goes on while drover dies again and again, and no line of it is lost, doubled or out
// of order.
func TestDroverDies(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.program("api", `exec awk 'BEGIN { for (n = 1; ; n++) { print "line", n, "of a process that writes much"; if (n % 100 == 0) { fflush(); system("sleep 0.01") } } }'
`)
	p.apply(`
  api:
    hosts: ["0:127.0.0.1"]
    run: DIR/api
    log: {max_size: 2MiB, keep: 100}
`)
	pid := p.PID("api")
	for n := 1; n <= 4; n++ {
		last := func() int {
			lines := p.logs("shop/api", "--tail", "1")
			number, _ := strconv.Atoi(strings.Fields(lines[0] + " 0 0")[1])
			return number
		}
		harness.Eventually(t, "more lines", func() bool { return last() > 30_000*n })
		p.S.Kill()
		p.S.Run()
	}
	now := 0 // the last drover has just begun, and may not have looked yet
	harness.Eventually(t, "the process to be seen", func() bool {
		now = p.PID("api")
		return now != 0
	})
	if now != pid {
		t.Fatalf("the process was %d, and is %d", pid, now)
	}
	lines := p.logs("shop/api")
	for i, line := range lines {
		if want := "line " + strconv.Itoa(i+1) + " of a process that writes much"; line != want && i < len(lines)-1 {
			t.Fatalf("line %d of %d is %q", i+1, len(lines), line)
		}
	}
	if len(lines) < 120_000 {
		t.Errorf("there are %d lines", len(lines))
	}
}

// TestFlood: a process that writes as fast as it can lives, its log stays bounded, and what is missing is shown where it
// is missing. A slow reader holds up nobody.
func TestFlood(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(`
  flood:
    hosts: ["0:127.0.0.1"]
    run: yes a line of a flood
    log: {max_size: 1MiB, keep: 2}
  quiet:
    hosts: ["0:127.0.0.1"]
    run: sh -c "echo hello; exec sleep 1000"
`)
	pid := p.PID("flood")
	reader := p.follow("shop/flood")
	harness.Eventually(t, "a line of the flood", func() bool { return reader.Out.String() != "" })
	harness.Signal(t, reader.PID(), syscall.SIGSTOP) // from now on it reads nothing
	var most int64
	for begun := time.Now(); time.Since(begun) < 3*time.Second; {
		most = max(most, p.held())
		if got := p.logs("shop/quiet"); !slices.Equal(got, []string{"hello"}) {
			t.Fatalf("the quiet process wrote %q", got)
		}
	}
	// The bound holds for 200 MB/s; yes writes ten times as fast where nothing slows it down.
	const bound = 512 << 20
	if t.Logf("the logs held at most %.1f MiB", float64(most)/(1<<20)); most > bound {
		t.Errorf("the logs held %d bytes", most)
	}
	if now := p.PID("flood"); now != pid || !harness.Alive(pid) {
		t.Errorf("the flood was %d, and is %d", pid, now)
	}
	if a := p.CLI("stop", "shop/flood"); a.Code != 0 {
		t.Errorf("the flood is not stopped: %s", a.Errors)
	}
	harness.Eventually(t, "a loss in the log", func() bool {
		a := p.CLI("logs", "shop/flood", "--since", "1h", "--grep", "^$")
		return a.Code == 0 && strings.Contains(a.Out, " bytes lost ...]")
	})
}

// TestLogFile: of a daemon drover shows the log file, read with the rights of its account.
func TestLogFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if err := os.Mkdir(filepath.Join(p.Dir, "log"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.program("daemon", `cd DIR; echo "from the command"; setsid sh -c 'echo $$ >pid; echo "from the daemon" >>log/a.log; exec sleep 1000' </dev/null &
while [ ! -s pid ]; do sleep 0.01; done
`)
	p.apply(`
  filed:
    hosts: ["0:127.0.0.1"]
    start: DIR/daemon
    pid_file: DIR/pid
    process_name: sleep
    log_file: DIR/log
  plain:
    hosts: ["0:127.0.0.1"]
    start: echo "from a start"; sh -c 'sleep 1000 & echo $! >DIR/plain.pid'
    pid_file: DIR/plain.pid
    process_name: sleep
`)
	if got := p.logs("shop/filed"); !slices.Equal(got, []string{"from the daemon"}) {
		t.Errorf("the log file has %q", got)
	}
	if got := p.logs("shop/plain"); !slices.Equal(got, []string{"from a start"}) {
		t.Errorf("the output is %q", got)
	}
	if a := p.CLI("logs", "shop/filed", "--run", "-1"); a.Code != 1 || !strings.Contains(a.Errors, "leave out run") {
		t.Errorf("a run of a log file: %d %q", a.Code, a.Errors)
	}
	if a := p.CLI("logs", "shop/filed", "--stderr"); a.Code != 1 || !strings.Contains(a.Errors, "a daemon has no stderr") {
		t.Errorf("stderr of a log file: %d %q", a.Code, a.Errors)
	}
}

// TestBoundsChangeAtOnce: a change of log never touches the process, and bounds what it wrote before.
func TestBoundsChangeAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.program("api", `seq 1 200000; exec sleep 1000
`)
	file := func(log string) string {
		return `
  api:
    hosts: ["0:127.0.0.1"]
    run: DIR/api
    log: ` + log + "\n"
	}
	p.apply(file("{max_size: 10MiB}"))
	harness.Eventually(t, "the last line", func() bool { return slices.Equal(p.logs("shop/api", "--tail", "1"), []string{"200000"}) })
	pid, before := p.PID("api"), p.held()
	p.apply(file("{max_size: 64KiB, keep: 1, compress: false}"))
	harness.Eventually(t, "the log to be small", func() bool { return p.held() < 300<<10 })
	p.program("more", `echo more >>/proc/$1/fd/1
`)
	if a := harness.Finish(t, "", harness.Environment(p.Dir), filepath.Join(p.Dir, "more"), strconv.Itoa(pid)); a.Code != 0 {
		t.Fatal(a.Errors)
	}
	if before < 1<<20 || p.PID("api") != pid {
		t.Errorf("it held %d bytes; the pid was %d and is %d", before, pid, p.PID("api"))
	}
	lines := p.logs("shop/api", "--tail", "2")
	if !slices.Equal(lines, []string{"200000", "more"}) {
		t.Errorf("the last lines are %q", lines)
	}
}
