package processfile_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestExecution: a process gets what its file says, and the values of its environment files show nowhere.
func TestExecution(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const secret = "7f-very-secret"
	if err := os.WriteFile(filepath.Join(p.Dir, "api.env"), []byte("# for api\nTOKEN=\""+secret+"\"\nMODE=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Apply(`
namespace: shop
processes:
  api:
    hosts: ["0:127.0.0.1"]
    run: sh -c 'id -u; id -g; id -G; echo "$MODE ${#TOKEN} $DROVER_NAMESPACE/$DROVER_NAME $DROVER_HOST"; umask; nice; ulimit -n; ulimit -c; cat /proc/self/oom_score_adj; grep -E "^(CapBnd|NoNewPrivs)" /proc/self/status; pwd' >DIR/out; mv DIR/out DIR/got; exec sleep 1000
    directory: DIR
    user: root
    group: daemon
    groups: [bin]
    environment: {MODE: own}
    environment_files: [DIR/api.env]
    umask: "027"
    nice: 3
    oom_score_adjust: 50
    no_new_privileges: true
    capabilities: [NET_BIND_SERVICE]
    limits: {open_files: 444, core_size: 0}
    ready: {alive: 0s}
`)
	want := []string{
		"0", "1", "1 2", "own 14 shop/api 0:127.0.0.1", "0027", "3", "444", "0", "50", "NoNewPrivs:\t1", "CapBnd:\t0000000000000400",
		p.Dir,
	}
	got := strings.Split(p.read("got"), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it got\n%q, want\n%q", got, want)
	}
	for _, args := range [][]string{{"get", "shop/api"}, {"status", "shop/api"}, {"why", "shop/api"}, {"events"}} {
		if a := p.CLI(args...); strings.Contains(a.Out+a.Errors, secret) {
			t.Errorf("%v shows a value of an environment file", args)
		}
	}
	if strings.Contains(p.S.Log(), secret) {
		t.Error("the log shows a value of an environment file")
	}
	err := filepath.WalkDir(p.S.DataDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), secret) {
			t.Errorf("%s holds a value of an environment file", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRestart: a process is relaunched after an end that its policy names, and only then.
func TestRestart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  done:
    run: echo >>done; exit 0
    restart: {when: on-failure}
  failing:
    run: echo >>failing; while [ ! -e go ]; do sleep 0.05; done; exit 3
    restart: {when: on-failure, delay: 50ms, give_up_after: 3}
  forbidden:
    run: echo >>forbidden; while [ ! -e go ]; do sleep 0.05; done; exit 4
    restart: {never_on: [4]}
  never:
    run: echo >>never; while [ ! -e go ]; do sleep 0.05; done; exit 5
    restart: {when: never}
  always:
    run: echo >>always; exec sleep 1000
`)
	if err := os.WriteFile(filepath.Join(p.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, state := range map[string]string{
		"done": "finished", "failing": "given-up", "forbidden": "given-up", "never": "given-up", "always": "running",
	} {
		harness.Eventually(t, name+" to be "+state, func() bool { return p.State(name) == state })
	}
	for name, runs := range map[string]int{"done": 1, "failing": 4, "forbidden": 1, "never": 1, "always": 1} {
		if n := p.count(name); n != runs {
			t.Errorf("%s%s ran %d times, want %d", harness.MoreThan(runs, n), name, n, runs)
		}
	}
	if a := p.CLI("why", "shop/done"); a.Code != 0 {
		t.Errorf("why of what is done: exit code %d\n%s", a.Code, a.Out)
	}
	harness.Signal(t, p.PID("always"), syscall.SIGKILL)
	harness.Eventually(t, "the relaunch", func() bool {
		return p.count("always") == 2 && p.State("always") == "running"
	})
	// A finished process stays finished when drover comes back.
	if err := p.S.Terminate(); err != nil {
		t.Fatal(err)
	}
	p.S.Run()
	harness.Eventually(t, "done to be finished again", func() bool { return p.State("done") == "finished" })
	if n := p.count("done"); n != 1 {
		t.Errorf("%sdone ran again after a restart of drover: %d times", harness.MoreThan(1, n), n)
	}
	if a := p.CLI("start", "shop/done"); a.Code != 0 {
		t.Errorf("start: %s", a.Errors)
	}
	harness.Eventually(t, "done to be finished once more", func() bool {
		return p.count("done") == 2 && p.State("done") == "finished"
	})
}

// TestOutlivesDrover: a foreground process goes on when drover is killed, and drover keeps it when it comes back.
func TestOutlivesDrover(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Apply(`
namespace: shop
processes:
  api:
    hosts: ["0:127.0.0.1"]
    run: echo $$ >>pids; exec sleep 1000
    directory: DIR
    ready: {alive: 0s}
`)
	pid := p.PID("api")
	for range 3 {
		p.S.Kill()
		p.S.Run()
		harness.Eventually(t, "the same process to run", func() bool {
			return p.PID("api") == pid && p.State("api") == "running"
		})
	}
	if n := p.count("pids"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the relaunch", func() bool { return p.count("pids") == 2 && p.State("api") == "running" })
}

// TestDaemon: a pid file says who a daemon is, with or without a name of its program.
func TestDaemon(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Apply(`
namespace: shop
processes:
  db:
    hosts: ["0:127.0.0.1"]
    start: sleep 1000 >/dev/null 2>&1 & echo $! >DIR/db.pid
    pid_file: DIR/db.pid
    directory: DIR
    ready: {alive: 0s}
`)
	pid := p.PID("db")
	p.S.Kill()
	p.S.Run()
	harness.Eventually(t, "the daemon to be found", func() bool { return p.State("db") == "running" })
	if p.read("db.pid") != strconv.Itoa(pid) || p.PID("db") != pid {
		t.Errorf("pid %d, now %d and %s in its file", pid, p.PID("db"), p.read("db.pid"))
	}
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the relaunch", func() bool { return p.PID("db") != pid && p.State("db") == "running" })
	if a := p.CLI("stop", "shop/db"); a.Code != 0 || p.alive("db.pid") {
		t.Errorf("stop: exit code %d, alive %t\n%s%s", a.Code, p.alive("db.pid"), a.Out, a.Errors)
	}
	if a := p.CLI("start", "shop/db"); a.Code != 0 || !p.alive("db.pid") {
		t.Errorf("start: exit code %d, alive %t\n%s%s", a.Code, p.alive("db.pid"), a.Out, a.Errors)
	}
}

// TestStop: a stop asks as the file says, and ends all that the process has started.
func TestStop(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Apply(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 100ms}}
processes:
  deaf:
    run: trap '' TERM; setsid sleep 1000 & echo $! >deaf.child; echo $$ >deaf.pid; while :; do sleep 1; done
    stop_signals: [TERM 100ms, KILL]
  polite:
    run: trap 'echo bye >polite.said; exit 0' INT; echo $$ >polite.pid; while :; do sleep 0.05; done
    stop_signals: [INT 30s, KILL]
    before_stop: {run: echo drained >polite.drained}
  hooked:
    run: echo $$ >hooked.pid; exec sleep 1000
    before_start: {run: echo checked >>hooked.checked}
`)
	for _, name := range []string{"deaf", "polite", "hooked"} {
		if !p.alive(name + ".pid") {
			t.Errorf("%s does not run", name)
		}
		if a := p.CLI("stop", "shop/"+name); a.Code != 0 {
			t.Errorf("stop of %s: exit code %d\n%s%s", name, a.Code, a.Out, a.Errors)
		}
		if p.alive(name + ".pid") {
			t.Errorf("%s runs on", name)
		}
	}
	if p.alive("deaf.child") {
		t.Error("a child of the deaf process runs on")
	}
	if said, drained := p.read("polite.said"), p.read("polite.drained"); said != "bye" || drained != "drained" {
		t.Errorf("the polite process said %q after %q", said, drained)
	}
	if n := p.count("hooked.checked"); n != 1 {
		t.Errorf("the command before the start ran %d times", n)
	}
}

// TestApply: live fields change at once, others restart the process, and the same file again does nothing.
func TestApply(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const file = `
namespace: shop
processes:
  api:
    hosts: ["0:127.0.0.1"]
    run: echo "$MODE" >>modes; exec sleep 1000
    directory: DIR
    user: root
    environment: {MODE: one}
    ready: {alive: 0s}
`
	p.Apply(file)
	pid := p.PID("api")
	if a := p.CLI("diff", "-f", p.Write("file.yaml", file)); a.Code != 0 || !strings.Contains(a.Out, "= shop/api") {
		t.Errorf("the same file: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	p.Apply(file + "    stop_signals: [INT 1s, KILL]\n    restart: {delay: 3s}\n")
	if now := p.PID("api"); now != pid {
		t.Errorf("a live change has replaced pid %d by %d", pid, now)
	}
	changed := strings.Replace(file, "MODE: one", "MODE: two", 1)
	if a := p.CLI("diff", "-f", p.Write("file.yaml", changed)); a.Code != 3 ||
		!strings.Contains(a.Out, "environment.MODE (restart)") {
		t.Errorf("a changed file: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	p.Apply(changed)
	if now := p.PID("api"); now == pid || p.read("modes") != "one\ntwo" {
		t.Errorf("pid %d after %d, modes %q", now, pid, p.read("modes"))
	}
	if a := p.CLI("stop", "shop/api"); a.Code != 0 {
		t.Fatal(a.Errors)
	}
	if out := p.Apply(file); !strings.Contains(out, "stays stopped") || p.State("api") != "stopped" {
		t.Errorf("a stopped process is %s after\n%s", p.State("api"), out)
	}
	got := p.CLI("get", "shop/api")
	if a := p.CLI("diff", "-f", p.Write("file.yaml", got.Out)); a.Code != 0 {
		t.Errorf("what get printed: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	wrong := p.CLI("apply", "-f", p.Write("file.yaml", strings.Replace(file, "directory:", "directry:", 1)), "--yes")
	if wrong.Code != 2 || !strings.Contains(wrong.Errors, "did you mean directory?") {
		t.Errorf("a misspelt field: exit code %d\n%s", wrong.Code, wrong.Errors)
	}
}

// TestHealthAndReadiness: drover asks over the network, and what is not ready in time ends if the file says so.
func TestHealthAndReadiness(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var sick atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer web.Close()
	p.Apply(`
namespace: shop
processes:
  api:
    hosts: ["0:127.0.0.1"]
    run: sleep 1000
    ready: {http: "` + web.URL + `", within: 20s}
    health: {http: "` + web.URL + `", every: 1s, failures: 1}
`)
	if state := p.State("api"); state != "running" {
		t.Errorf("a process that is ready is %s", state)
	}
	sick.Store(true)
	harness.Eventually(t, "the process to be unhealthy", func() bool { return p.State("api") == "unhealthy" })
	sick.Store(false)
	harness.Eventually(t, "the process to be healthy", func() bool { return p.State("api") == "running" })

	sick.Store(true)
	late := p.CLI("apply", "--yes", "-f", p.Write("file.yaml", `
namespace: shop
processes:
  late:
    hosts: ["0:127.0.0.1"]
    run: echo $$ >DIR/late.pid; exec sleep 1000
    ready: {http: "`+web.URL+`", within: 1s, on_timeout: stop}
    restart: {when: never}
`))
	if late.Code != 1 || !strings.Contains(late.Out, "not ready after 1 s") || p.alive("late.pid") {
		t.Errorf("exit code %d, alive %v\n%s%s", late.Code, p.alive("late.pid"), late.Out, late.Errors)
	}
}

// TestNewProcesses: drover keeps a new process whatever its first start comes to.
func TestNewProcesses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const file = `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], directory: DIR}
processes:
  failing:
    run: if [ -e mended ]; then exec sleep 1000; fi; exit 1
    restart: {max_delay: 1s}
  daemon:
    start: setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >daemon.pid
    pid_file: DIR/daemon.pid
    process_name: sleep
    ready: {alive: 0s}
`
	if a := p.CLI("apply", "--yes", "-f", p.Write("file.yaml", file)); a.Code != 7 ||
		!strings.Contains(a.Out, "exit status 1") {
		t.Errorf("exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	if err := os.WriteFile(filepath.Join(p.Dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the next attempt", func() bool { return p.State("failing") == "running" })
	pid := p.PID("daemon")
	if a := p.CLI("unregister", "shop/daemon"); a.Code != 0 {
		t.Fatal(a.Errors)
	}
	p.Apply(file)
	if now := p.PID("daemon"); now != pid || p.State("daemon") != "running" ||
		p.Process("daemon").Status()["hosted"] != true {
		t.Errorf("a process that ran already: pid %d after %d, %v", now, pid, p.Process("daemon").Status())
	}
}

// TestRuntimeDirectory: the directory is there while the process runs, through kill -9 of it and of drover, and gone when
// the process is at rest.
func TestRuntimeDirectory(t *testing.T) {
	p := newPlace(t)
	name := "drover-test-" + filepath.Base(p.Dir)
	p.Apply(`
namespace: shop
processes:
  api:
    hosts: ["*"]
    directory: DIR
    runtime_directory: ` + name + `
    run: sh -c 'env | grep ^RUNTIME >where; touch /run/` + name + `/socket; exec sleep 1000'
    ready: {exec: test -e where}
`)
	path := "/run/" + name
	if got := p.read("where"); got != "RUNTIME_DIRECTORY="+path {
		t.Errorf("the variable is %q", got)
	}
	p.S.Kill()
	p.S.Run()
	if _, err := os.Stat(path + "/socket"); err != nil {
		t.Error(err)
	}
	if s := p.CLI("stop", "shop/api"); s.Code != 0 {
		t.Errorf("%s%s", s.Out, s.Errors)
	}
	harness.Eventually(t, path+" to be gone", func() bool {
		_, err := os.Lstat(path)
		return os.IsNotExist(err)
	})
}
