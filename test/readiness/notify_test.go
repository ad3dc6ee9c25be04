package readiness_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestLate: a process that is ready too late fails its start, is shown as not ready, and is ready when it says so.
func TestLate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := p.apply("  api: {run: HERALD say STATUS=loading await go say READY=1 hold, ready: {notify: true, within: 1s}}\n")
	if a.Code != 1 || !strings.Contains(a.Out, `not ready after 1 s: it has not said READY=1 at NOTIFY_SOCKET`) {
		t.Errorf("apply: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	if text := p.told("api"); p.State("api") != "not-ready" || !strings.Contains(text, "loading") {
		t.Errorf("status: %s", text)
	}
	if why := p.CLI("why", "shop/api"); why.Code != 3 || !strings.Contains(why.Out, "was not ready in time") {
		t.Errorf("why: exit code %d\n%s", why.Code, why.Out)
	}
	if w := p.CLI("wait", "shop/api", "--for", "running"); w.Code != 0 {
		t.Errorf("wait for running: %d %s", w.Code, w.Errors)
	}
	if w := p.CLI("wait", "shop/api", "--for", "ready", "--timeout", "1s"); w.Code != 6 ||
		!strings.Contains(w.Errors, "is not-ready") {
		t.Errorf("wait for ready: %d %s", w.Code, w.Errors)
	}
	pid := p.PID("api")
	p.Touch("go")
	if w := p.CLI("wait", "shop/api", "--timeout", "20s"); w.Code != 0 {
		t.Errorf("wait for ready after READY=1: %d %s", w.Code, w.Errors)
	}
	if p.State("api") != "running" || p.PID("api") != pid || p.CLI("why", "shop/api").Code != 0 {
		t.Errorf("ready: %s", p.told("api"))
	}
	if w := p.CLI("wait", "shop/none", "--timeout", "1s"); w.Code != 4 {
		t.Errorf("wait for an unknown process: %d %s", w.Code, w.Errors)
	}
	p.Process("api").AwaitEvents(1, "ready")
	p.CLI("stop", "shop/api")
	if w := p.CLI("wait", "shop/api", "--for", "stopped", "--timeout", "20s"); w.Code != 0 {
		t.Errorf("wait for stopped: %d %s", w.Code, w.Errors)
	}
}

// TestNever: with on_timeout stop, runs that were never ready are runs that did not last, and are given up.
func TestNever(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(`
  api:
    run: HERALD hold
    ready: {notify: true, within: 1s, on_timeout: stop}
    restart: {delay: 10ms, give_up_after: 2, reset_after: 500ms}
`)
	if w := p.CLI("wait", "shop/api", "--timeout", "60s"); w.Code != 1 || !strings.Contains(w.Errors, "given-up") {
		t.Errorf("wait: %d %s", w.Code, w.Errors)
	}
	if n := len(p.Process("api").Events("relaunched")); n != 2 {
		t.Errorf("%d relaunches, want 2", n)
	}
}

// TestRelaunch: after a relaunch a process is not ready until it says so, with every kind of readiness.
func TestRelaunch(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Touch("go")
	p.begin(`
  notify: {run: HERALD await go say READY=1 hold, ready: {notify: true}}
  fd: {run: HERALD await go signal 7 hold, ready: {notify_fd: 7}}
  exec: {run: HERALD hold, ready: {exec: "test -e go"}}
  log: {run: "sh -c 'exec HERALD await go hold & while [ ! -e go ]; do sleep 0.05; done; echo listening; wait'", ready: {log: ^listening$}}
`)
	names := []string{"notify", "fd", "exec", "log"}
	if err := os.Remove(filepath.Join(p.Dir, "go")); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		harness.Signal(t, p.PID(name), syscall.SIGKILL)
	}
	for _, name := range names {
		p.becomes(name, "not-ready")
	}
	p.Touch("go")
	for _, name := range names {
		p.becomes(name, "running")
		p.Process(name).AwaitEvents(1, "ready")
	}
}

// TestMainPID: the process that a run names is the main process from then on, also if the first one has ended.
func TestMainPID(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.begin(`
  api: {run: HERALD heir say READY=1 await go say STATUS=x, ready: {notify: true}, restart: {when: never}}
  later: {run: HERALD say READY=1 await go heir hold, ready: {notify: true}, restart: {when: never}}
  brief: {run: "sh -c 'HERALD tell READY=1; exec HERALD hold'", ready: {notify: true}}
  liar: {run: HERALD say MAINPID=1 say MAINPID=OTHER say READY=1 hold, ready: {notify: true}}
`)
	cmdline := func(name string) string {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID(name)) + "/cmdline")
		return strings.ReplaceAll(string(text), "\x00", " ")
	}
	if text := cmdline("api"); !strings.Contains(text, "herald say READY=1") {
		t.Errorf("the main process of api is %q", text)
	}
	if text := cmdline("liar"); !strings.Contains(text, "herald say MAINPID") {
		t.Errorf("the main process of liar is %q", text)
	}
	before := p.PID("later")
	p.Touch("go")
	p.Process("later").AwaitEvents(1, "main-pid-changed")
	harness.Eventually(t, "the new main process", func() bool { return p.PID("later") > 0 && p.PID("later") != before })
	if text := cmdline("later"); !strings.Contains(text, "herald hold") || p.State("later") != "running" {
		t.Errorf("later is %q, %s", text, p.told("later"))
	}
	p.becomes("api", "finished") // the end of its heir is its end
}

// TestForeigner: what others say, on the same account or another, counts for no process and holds up nobody.
func TestForeigner(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply("  api: {run: HERALD await go say READY=1 hold, ready: {notify: true, within: 1s}}\n")
	env := []string{"NOTIFY_SOCKET=" + p.socket("api")}
	for _, account := range []uint32{0, 65534} {
		say := exec.Command(binaries.herald, "say", "READY=1,MAINPID="+strconv.Itoa(os.Getpid()))
		say.Env, say.SysProcAttr = env, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: account, Gid: account}}
		if out, err := say.CombinedOutput(); err != nil {
			t.Fatalf("account %d cannot send: %v %s", account, err, out)
		}
		flood := exec.Command(binaries.herald, "flood", "READY=1")
		flood.Env, flood.SysProcAttr = env, say.SysProcAttr
		if err := flood.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = flood.Process.Kill()
			_ = flood.Wait()
		})
	}
	pid := p.PID("api")
	if w := p.CLI("wait", "shop/api", "--timeout", "1s"); w.Code != 6 {
		t.Errorf("a foreigner made it ready: %d %s", w.Code, w.Errors)
	}
	peak := harness.Peak(t, p.S.PID())
	p.Touch("go")
	p.becomes("api", "running")
	if p.PID("api") != pid {
		t.Errorf("main process %d, want %d", p.PID("api"), pid)
	}
	if more := harness.Peak(t, p.S.PID()) - peak; more > 32<<10 {
		t.Errorf("drover grew by %d KiB during a flood", more)
	}
}

// socket is the NOTIFY_SOCKET of a process.
func (p *place) socket(name string) string {
	p.T.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID(name)) + "/environ")
	if err != nil {
		p.T.Fatal(err)
	}
	for variable := range strings.SplitSeq(string(text), "\x00") {
		if path, ok := strings.CutPrefix(variable, "NOTIFY_SOCKET="); ok {
			return path
		}
	}
	p.T.Fatalf("%s has no NOTIFY_SOCKET", name)
	return ""
}

// TestWatchdog: silence makes a process unhealthy and has it relaunched; a restart of drover is no silence.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.begin(`
  silent: {run: HERALD say READY=1 repeat 150 WATCHDOG=1 hold, ready: {notify: true}, health: {watchdog: true, every: 1s, failures: 2, action: restart}}
  trouble: {run: HERALD say READY=1 await go say WATCHDOG=trigger hold, ready: {notify: true}, health: {watchdog: true, every: 60s, action: report}}
  steady: {run: HERALD say READY=1 repeat 1000000 WATCHDOG=1, ready: {notify: true}, health: {watchdog: true, every: 1s, failures: 1, action: restart}}
`)
	steady := p.PID("steady")
	p.Process("silent").AwaitEvents(1, "unhealthy")
	p.Process("silent").AwaitEvents(1, "relaunched")
	p.Touch("go")
	p.becomes("trouble", "unhealthy")
	p.S.Kill()
	p.S.Run()
	p.Process("silent").AwaitEvents(2, "relaunched")
	if p.PID("steady") != steady || len(p.Process("steady").Events("unhealthy")) > 0 {
		t.Errorf("steady: %s", p.told("steady"))
	}
}

// TestRestartsThatCannotStart: what drover restarts by itself is not good, so it is ended also if its start must fail. The
// look before tells of that, and the process is back as soon as it can start.
func TestRestartsThatCannotStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	program, err := os.ReadFile(binaries.herald)
	if err != nil {
		t.Fatal(err)
	}
	path := p.Dir + "/own-herald"
	install := func() {
		if err := harness.WriteProgram(path, program); err != nil {
			t.Fatal(err)
		}
	}
	install()
	p.begin(`
  silent: {run: DIR/own-herald say READY=1 repeat 1000000 WATCHDOG=1, ready: {notify: true}, health: {watchdog: true, every: 1s, failures: 2, action: restart}}
  sick: {run: DIR/own-herald hold, health: {exec: "test ! -e DIR/go", every: 1s, failures: 1, action: restart}}
`)
	pids := map[string]int{"silent": p.PID("silent"), "sick": p.PID("sick")}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	harness.Signal(t, pids["silent"], syscall.SIGSTOP)
	p.Touch("go")
	for name, pid := range pids {
		told := p.Process(name).AwaitEvents(1, "operation-failed")[0]
		want := fmt.Sprintf("pid %d is ended all the same", pid)
		if cause := fmt.Sprint(told["cause"]); !strings.Contains(cause, "preflight failed: ") || !strings.Contains(cause, want) {
			t.Errorf("%s: the event says %q, want %q", name, cause, want)
		}
		p.becomes(name, "backoff")
	}
	if err := os.Remove(p.Dir + "/go"); err != nil {
		t.Fatal(err)
	}
	install()
	for name, pid := range pids {
		harness.Eventually(t, name+" to be back", func() bool { return p.PID(name) > 1 && p.PID(name) != pid })
	}
}

// TestKilledInBetween: drover is killed between the start and READY=1. The next drover hears it; what was said before
// stays.
func TestKilledInBetween(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.begin("  was: {run: HERALD say READY=1 await go say STATUS=on hold, ready: {notify: true}}\n")
	p.apply(`
  was: {run: HERALD say READY=1 await go say STATUS=on hold, ready: {notify: true}}
  late: {run: HERALD await go say READY=1 hold, ready: {notify: true, within: 1s}}
  fd: {run: HERALD await alone signal 3 hold, ready: {notify_fd: 3, within: 1s}}
`)
	pids := map[string]int{}
	for _, name := range []string{"was", "late", "fd"} {
		pids[name] = p.PID(name)
	}
	p.S.Kill()
	p.Touch("alone") // it writes while no drover runs
	p.S.Run()
	p.becomes("fd", "running")
	p.becomes("was", "running")
	p.becomes("late", "not-ready")
	p.Touch("go")
	p.becomes("late", "running")
	harness.Eventually(t, "the text", func() bool { return strings.Contains(p.told("was"), "it says: on") })
	for name, pid := range pids {
		if p.PID(name) != pid {
			t.Errorf("%s is pid %d, was %d", name, p.PID(name), pid)
		}
	}
}

// TestSaidInBetween: the next drover hears what processes say after a kill -9, and nobody waits until it does.
func TestSaidInBetween(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.apply(`
  late: {run: HERALD await first tell READY=1 tell STATUS=one repeat 50 WATCHDOG=1 mark said-one await second tell STATUS=two mark said-two hold, ready: {notify: true, within: 1s}}
`)
	late := p.PID("late")
	for _, round := range []struct{ begin, said, text string }{
		{"first", "said-one", "it says: one"}, {"second", "said-two", "it says: two"},
	} {
		p.S.Kill()
		p.Touch(round.begin)
		harness.Eventually(t, "the end of what it says", func() bool {
			_, err := os.Stat(filepath.Join(p.Dir, round.said))
			return err == nil
		})
		p.S.Run()
		p.becomes("late", "running")
		harness.Eventually(t, "the text", func() bool { return strings.Contains(p.told("late"), round.text) })
	}
	p.Process("late").AwaitEvents(1, "ready")
	if p.PID("late") != late {
		t.Errorf("late is pid %d, was %d", p.PID("late"), late)
	}
}

// TestReload: a reload is over when the process confirms it. A process that has never confirmed one only has to live on.
func TestReload(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.begin(`
  api: {run: HERALD onhup RELOADING=1 READY=1 say READY=1 hold, ready: {notify: true}, reload: {signal: HUP}}
  half: {run: HERALD onhup RELOADING=1 STATUS=x say READY=1 hold, ready: {notify: true}, reload: {signal: HUP}, timeouts: {reload: 1s}}
  silent: {run: HERALD onhup STATUS=x STATUS=y say READY=1 hold, ready: {notify: true}, reload: {signal: HUP}}
  lapsed: {run: HERALD onhup STATUS=x STATUS=y say READY=1 tell RELOADING=1 tell READY=1 hold, ready: {notify: true}, reload: {signal: HUP}, timeouts: {reload: 1s}}
  mortal: {run: HERALD say READY=1 hold, ready: {notify: true}, reload: {signal: KILL}, restart: {when: never}}
`)
	for name, want := range map[string]string{
		"api": "", "half": "no READY=1 after RELOADING=1", "silent": "",
		"lapsed": "not confirmed within 1 s: no RELOADING=1", "mortal": "killed by signal 9",
	} {
		a := p.CLI("reload", "shop/"+name)
		if want == "" && a.Code != 0 || want != "" && (a.Code != 1 || !strings.Contains(a.Out, want)) {
			t.Errorf("reload of %s: %d\n%s%s", name, a.Code, a.Out, a.Errors)
		}
	}
}
