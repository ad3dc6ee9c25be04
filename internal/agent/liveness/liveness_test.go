package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/agent/liveness"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(prepared{m})) }

// prepared makes the tests the reaper of orphans, as an agent is.
type prepared struct{ pidns.Main }

func (p prepared) Run() int {
	if err := launch.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return p.Main.Run()
}

const patience = 20 * time.Second

func live() procfs.FS { return procfs.New("/proc") }

// forker forks on the threads that call it. All tests share it, and so its gate.
var forker = sync.OnceValue(func() *launch.Forker {
	return launch.NewForker(live(), slog.New(slog.DiscardHandler), os.TempDir())
})

// watcher is one that runs until the test ends, set up by each of prepare before.
func watcher(t *testing.T, prepare ...func(*liveness.Watcher)) *liveness.Watcher {
	t.Helper()
	w, err := liveness.New(live(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prepare {
		p(w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// stage is a directory with FIFOs: programs say something through one and are told to go on through the others, each of
// which is read by one program only.
type stage struct{ dir string }

func newStage(t *testing.T) stage {
	t.Helper()
	s := stage{t.TempDir()}
	for _, name := range []string{"said", "go", "end"} {
		if err := unix.Mkfifo(filepath.Join(s.dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// start runs a script in the stage and returns the child that the script's shell is.
func (s stage) start(t *testing.T, script string, group *cgroup.Group) instance.Identity {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	account, err := launch.LookupAccount("/", u.Username)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	child, err := forker().Start(launch.Command{
		Line: script, Dir: s.dir, Account: account, Mark: "stage " + s.dir, Output: null, Proof: null, Group: group,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	return child.Identity()
}

// said waits for a line that holds pids.
func (s stage) said(t *testing.T) []instance.Identity {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []instance.Identity
	for word := range strings.FieldsSeq(string(data)) {
		var pid int
		if _, err := fmt.Sscan(word, &pid); err != nil {
			t.Fatal(err)
		}
		id, err := live().Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// next lets the program go on that waits to read.
func (s stage) next(t *testing.T) {
	t.Helper()
	s.tell(t, "go")
}

func (s stage) tell(t *testing.T, fifo string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, fifo), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// watch returns a channel that gets every call.
func watch(t *testing.T, w *liveness.Watcher, id instance.Identity) (exits <-chan liveness.Exit, stop func()) {
	t.Helper()
	c := make(chan liveness.Exit, 8)
	stop, err := w.Watch(id, func(e liveness.Exit) { c <- e })
	if err != nil {
		t.Fatal(err)
	}
	return c, stop
}

func await(t *testing.T, exits <-chan liveness.Exit) liveness.Exit {
	t.Helper()
	select {
	case e := <-exits:
		return e
	case <-time.After(patience):
		t.Fatal("nobody told of the end")
		return liveness.Exit{}
	}
}

func handle(t *testing.T, id instance.Identity) int {
	t.Helper()
	fd, err := pidfd.Open(id.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestExitString(t *testing.T) {
	for _, tc := range []struct {
		exit liveness.Exit
		want string
	}{
		{liveness.Exit{Known: true}, "exit status 0"},
		{liveness.Exit{Known: true, Code: 3}, "exit status 3"},
		{liveness.Exit{Known: true, Signal: 9}, "killed by signal 9 (SIGKILL)"},
		{liveness.Exit{Known: true, Signal: 11, CoreDumped: true}, "killed by signal 11 (SIGSEGV), core dumped"},
		{liveness.Exit{Known: true, Signal: 40}, "killed by signal 40 (SIGRTMIN+6)"},
		{liveness.Exit{Known: true, Signal: 33}, "killed by signal 33"},
		{liveness.Exit{}, "ended (exit status unknown)"},
	} {
		if got := tc.exit.String(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestChild(t *testing.T) {
	w := watcher(t)
	for script, want := range map[string]string{
		"read x < go; exit 3":     "exit status 3",
		"read x < go; exit 0":     "exit status 0",
		"read x < go; kill -9 $$": "killed by signal 9 (SIGKILL)",
		"read x < go; kill $$":    "killed by signal 15 (SIGTERM)",
	} {
		s := newStage(t)
		before := time.Now()
		id := s.start(t, script, nil)
		exits, stop := watch(t, w, id)
		s.next(t)
		got := await(t, exits)
		if got.String() != want || got.At.Before(before) || got.At.After(time.Now()) {
			t.Errorf("%q: %v at %v, want %s", script, got, got.At, want)
		}
		if again, ok := w.Exited(id); !ok || again != got {
			t.Errorf("asked later: %v %v", again, ok)
		}
		if st, err := live().Stat(id.PID); err == nil && st.StartTicks == id.StartTicks {
			t.Errorf("not reaped: %+v", st)
		}
		stop()
		stop()
	}
}

// daemon detaches itself and exits with 5 when told to.
const daemon = `(setsid sh -c 'echo $$ > said; read x < go; exit 5' &) ; exit 0`

func TestDaemonIsOurs(t *testing.T) {
	w := watcher(t)
	s := newStage(t)
	s.start(t, daemon, nil)
	id := s.said(t)[0]
	exits, _ := watch(t, w, id)
	s.next(t)
	if got := await(t, exits).String(); got != "exit status 5" {
		t.Errorf("got %s", got)
	}
}

// As after a restart of the agent: the process has another parent.
func TestStrangersChild(t *testing.T) {
	for name, prepare := range map[string]func(*liveness.Watcher){
		"told":    func(*liveness.Watcher) {},
		"unknown": (*liveness.Watcher).WithoutExitInfo,
	} {
		t.Run(name, func(t *testing.T) {
			w := watcher(t, prepare)
			s := newStage(t)
			s.start(t, `sh -c 'echo $$ > said; read x < go; exit 6'; read x < end`, nil)
			id := s.said(t)[0]
			exits, _ := watch(t, w, id)
			s.next(t)
			want := "ended (exit status unknown)"
			if w.TellsExit() {
				want = "exit status 6"
			}
			if got := await(t, exits).String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			s.tell(t, "end")
		})
	}
}

// TestParentThatDoesNotReap: the kernel shows the status of a zombie, except that 0 may also mean "hidden".
func TestParentThatDoesNotReap(t *testing.T) {
	for script, want := range map[string]string{
		"exit 6":     "exit status 6",
		"kill -9 $$": "killed by signal 9 (SIGKILL)",
		"exit 0":     "ended (exit status unknown)",
	} {
		t.Run(script, func(t *testing.T) {
			w := watcher(t)
			s := newStage(t)
			parent := s.start(t, `sh -c 'echo $$ > said; read x < go; `+script+`' & exec sleep 1000`, nil)
			id := s.said(t)[0]
			exits, _ := watch(t, w, id)
			s.next(t)
			if got := await(t, exits).String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if err := liveness.Signal(live(), parent, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSeveralWatchers(t *testing.T) {
	w := watcher(t)
	s := newStage(t)
	id := s.start(t, "read x < go; exit 9", nil)
	first, _ := watch(t, w, id)
	second, stopSecond := watch(t, w, id)
	third, _ := watch(t, w, id)
	stopSecond()
	s.next(t)
	for _, exits := range []<-chan liveness.Exit{first, third} {
		if got := await(t, exits).String(); got != "exit status 9" {
			t.Errorf("got %s", got)
		}
	}
	for _, exits := range []<-chan liveness.Exit{first, second, third} {
		if len(exits) != 0 {
			t.Errorf("called once too often: %v", <-exits)
		}
	}
}

func TestStoppedWatch(t *testing.T) {
	w := watcher(t)
	s := newStage(t)
	id := s.start(t, "read x < go; exit 9", nil)
	exits, stop := watch(t, w, id)
	stop()
	fd := handle(t, id)
	s.next(t)
	if err := pidns.AwaitReaped(fd); err != nil { // as an orphan
		t.Fatal(err)
	}
	if len(exits) != 0 {
		t.Errorf("called after stop: %v", <-exits)
	}
	if got, ok := w.Exited(id); !ok || got.String() != "exit status 9" {
		t.Errorf("asked later: %v %v", got, ok)
	}
	if last, got, ok := w.ExitedLast(id.PID); !ok || last != id || got.String() != "exit status 9" {
		t.Errorf("asked by its pid: %v %v %v", last, got, ok)
	}
	if last, got, ok := w.ExitedLast(1); ok {
		t.Errorf("nothing has ended as pid 1: %v %v", last, got)
	}
}

func TestNoSuchProcess(t *testing.T) {
	w := watcher(t)
	s := newStage(t)
	id := s.start(t, "read x < go", nil)
	for _, other := range []instance.Identity{
		{BootID: id.BootID, PID: id.PID, StartTicks: id.StartTicks - 1}, // its pid was used again
		{BootID: "another", PID: id.PID, StartTicks: id.StartTicks},
		{BootID: id.BootID, PID: 1, StartTicks: 0},
		{BootID: id.BootID, PID: 0, StartTicks: 0},
		{BootID: id.BootID, PID: -1, StartTicks: 0},
		{},
	} {
		if _, err := w.Watch(other, func(liveness.Exit) {}); !errors.Is(err, liveness.ErrGone) {
			t.Errorf("watch of %+v: %v", other, err)
		}
		if err := liveness.Signal(live(), other, syscall.SIGKILL); !errors.Is(err, liveness.ErrGone) {
			t.Errorf("signal to %+v: %v", other, err)
		}
		if exit, ok := w.Exited(other); ok {
			t.Errorf("exit of %+v: %v", other, exit)
		}
	}
	if !live().Same(id) {
		t.Fatal("a stranger was signalled")
	}
	exits, _ := watch(t, w, id)
	if err := liveness.Signal(live(), id, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := await(t, exits).String(); got != "killed by signal 10 (SIGUSR1)" {
		t.Errorf("got %s", got)
	}
	if _, err := w.Watch(id, func(liveness.Exit) {}); !errors.Is(err, liveness.ErrGone) {
		t.Errorf("watch of what has ended: %v", err)
	}
}

func TestChildrenOfOthersAreLeftAlone(t *testing.T) {
	w := watcher(t)
	_ = w
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 50 {
				code := (worker*50 + i) % 256
				// It leaves an orphan too, in a session of its own, which is ours to reap.
				err := exec.Command("/bin/sh", "-c", fmt.Sprintf("setsid true & exit %d", code)).Run()
				var exit *exec.ExitError
				if code == 0 && err != nil || code != 0 && (!errors.As(err, &exit) || exit.ExitCode() != code) {
					t.Errorf("exit %d became %v", code, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestOrphansAreReaped(t *testing.T) {
	watcher(t)
	s := newStage(t)
	s.start(t, daemon, nil)
	fd := handle(t, s.said(t)[0])
	s.next(t)
	if err := pidns.AwaitReaped(fd); err != nil {
		t.Error(err)
	}
}

func TestPolling(t *testing.T) {
	t.Parallel()
	w := watcher(t, (*liveness.Watcher).WithoutHandles)
	s := newStage(t)
	exits, _ := watch(t, w, s.start(t, "read x < go; exit 4", nil))
	s.next(t)
	if got := await(t, exits).String(); got != "exit status 4" {
		t.Errorf("got %s", got)
	}
}

func TestNoWakeUpsAtRest(t *testing.T) {
	w, err := liveness.New(live(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	id := s.start(t, "read x < go", nil)
	if _, err := w.Watch(id, func(liveness.Exit) {}); err != nil {
		t.Fatal(err)
	}
	if got := w.SleepAtRest(); got != -1 {
		t.Errorf("would wake in %d ms", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	s.next(t)
}

// lateEnd is a context that ends, and has called whoever waits for that, right after somebody was told that it had not
// ended.
type lateEnd struct {
	context.Context
	end    func()
	called []func()
	asked  sync.Once
}

// AfterFunc is what package context asks for where a context is not its own.
func (l *lateEnd) AfterFunc(f func()) (stop func() bool) {
	l.called = append(l.called, f)
	return func() bool { return false }
}

func (l *lateEnd) Err() (err error) {
	err = l.Context.Err()
	l.asked.Do(l.end)
	return err
}

// A watcher that is told to stop in the very moment in which it is woken for another reason stops.
func TestStopWhileAwake(t *testing.T) {
	w, err := liveness.New(live(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.Poke()
	inner, cancel := context.WithCancel(t.Context())
	ctx := &lateEnd{Context: inner}
	ctx.end = func() {
		cancel()
		for _, f := range ctx.called {
			f()
		}
		for n := 0; n < 2; runtime.Gosched() {
			if n, err = w.Pokes(); err != nil {
				t.Error(err)
				return
			}
		}
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
}

func TestRunGivesEverythingBack(t *testing.T) {
	newStage(t).start(t, "true", nil) // the gate stays open
	before, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	w, err := liveness.New(live(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	id := s.start(t, "read x < go", nil)
	exits, stop := watch(t, w, id)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !live().Same(id) {
		t.Error("the end of the watcher ended the process")
	}
	if _, err := w.Watch(id, func(liveness.Exit) {}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("watch afterwards: %v", err)
	}
	stop()
	if after, err := os.ReadDir("/proc/self/fd"); err != nil || len(after) != len(before) {
		t.Errorf("NEVER A FLAKE: %d descriptors, %d before: %v", len(after), len(before), err)
	}
	s.next(t)
	if len(exits) != 0 {
		t.Error("called after Run")
	}
}

// Many deaths at once, with watches coming and going, each told exactly once.
func TestMassDeath(t *testing.T) {
	w := watcher(t)
	const n = 200
	s := newStage(t)
	exits := make(chan instance.Identity, 2*n)
	expected := make(map[instance.Identity]bool)
	var ids []instance.Identity
	for range n {
		id := s.start(t, "exec sleep 1000", nil)
		ids = append(ids, id)
		stop, err := w.Watch(id, func(e liveness.Exit) {
			if e.Signal == syscall.SIGKILL {
				exits <- id
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(ids)%10 == 0 {
			stop()
		} else {
			expected[id] = true
		}
	}
	for _, id := range ids {
		if err := liveness.Signal(live(), id, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	for range len(expected) {
		select {
		case id := <-exits:
			if !expected[id] {
				t.Errorf("%+v was told twice or after stop", id)
			}
			delete(expected, id)
		case <-time.After(patience):
			t.Fatalf("%d were not told of", len(expected))
		}
	}
}
