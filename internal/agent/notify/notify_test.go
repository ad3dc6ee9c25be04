package notify_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch/gate"
	"drover/internal/agent/notify"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
	"drover/internal/test/harness"
)

// senderVariable makes the test binary a sender: it sends each of its arguments to NOTIFY_SOCKET, and then waits for
// the end of its input.
const senderVariable = "DROVER_TEST_SENDER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(senderVariable); mode != "" {
		if err := send(mode, os.Args[1:]); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(pidns.Run(m)) // a stand-in outlives its listener
}

func send(mode string, texts []string) error {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	for flood := mode == "flood"; flood; {
		if _, err := conn.Write([]byte("READY=1")); err != nil {
			return nil //nolint:nilerr // the test is over
		}
	}
	if mode == "linger" {
		if err := linger(conn.(*net.UnixConn)); err != nil {
			return err
		}
	}
	for _, text := range texts {
		if _, err := conn.Write([]byte(text)); err != nil {
			return err
		}
	}
	if _, err := os.Stdout.WriteString("sent\n"); err != nil || mode == "brief" {
		return err
	}
	_, err = io.ReadAll(os.Stdin)
	return err
}

// unread is the other end of the socket.
var unread net.Conn

// linger sends the only descriptor of a socket whose close waits for a reader that never reads.
func linger(to *net.UnixConn) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	if unread, err = l.Accept(); err != nil {
		return err
	}
	tcp := conn.(*net.TCPConn)
	if err := tcp.SetLinger(100_000); err != nil {
		return err
	}
	if err := tcp.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		return err
	}
	for err == nil { // until both buffers are full
		_, err = tcp.Write(make([]byte, 1<<20))
	}
	file, err := tcp.File()
	if err != nil {
		return err
	}
	socket, err := to.File()
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(int(socket.Fd()), []byte("X=1"), unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
		return err
	}
	return errors.Join(file.Close(), tcp.Close())
}

// TestDescriptorsOfStrangers: a descriptor that takes long to close holds up nobody.
func TestDescriptorsOfStrangers(t *testing.T) {
	r := &rig{t: t, path: newRig(t).path + "2", runs: map[int]string{}}
	run := r.openIdle()
	for range 3 { // in the socket before anybody reads, so that the listener has the last descriptors
		r.sender("", "linger")
	}
	run()
	r.sender("a", "stay", "READY=1")
	r.said("a", ready)
}

// TestDeaf: while more is said than the listener can hear, silence is no evidence; afterwards it is.
func TestDeaf(t *testing.T) {
	r := newRig(t)
	var flood []*exec.Cmd
	for range 20 {
		flood = append(flood, r.sender("", "flood"))
	}
	began := clock()
	heard := func() time.Duration {
		said, _ := r.State("silent")
		return said.Watchdog
	}
	harness.Eventually(t, "silence not to count", func() bool { return heard() > began+time.Second })
	for _, cmd := range flood {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	harness.Eventually(t, "silence to count again", func() bool {
		r.Settle(20 * time.Second)
		before := heard()
		r.Settle(20 * time.Second)
		return heard() == before
	})
}

// rig is a listener whose runs are what a test says.
type rig struct {
	*notify.Listener
	t    *testing.T
	path string
	kept string

	mu   sync.Mutex
	runs map[int]string // by pid
}

func clock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") //nolint:usetesting // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{t: t, path: filepath.Join(dir, "s", "notify"), runs: map[int]string{}}
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	r.openIdle()()
}

// openIdle opens the listener, which hears nothing before run is called.
func (r *rig) openIdle() (run func()) {
	r.t.Helper()
	k, err := notify.Open(notify.Config{
		Path: r.path, FS: procfs.New("/proc"), Clock: clock, RunOf: func(pid int) string {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.runs[pid]
		},
		Backlog: r.kept, Gate: func() (*os.File, error) { return gate.Open(r.t.TempDir()) }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Listener = k
	return func() {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		r.t.Cleanup(func() {
			cancel()
			if err := errors.Join(<-done, k.Close()); err != nil {
				r.t.Error(err)
			}
		})
	}
}

// sender starts a process of a run, which may be empty. It says nothing before tell.
func (r *rig) sender(run, mode string, texts ...string) *exec.Cmd {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	// The shell waits until its pid is known as one of the run.
	cmd := exec.Command("/bin/sh", append([]string{"-c", `read -r go && exec "$0" "$@"`, self}, texts...)...)
	cmd.Env = []string{"NOTIFY_SOCKET=" + r.path, senderVariable + "=" + mode}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r.mu.Lock()
	r.runs[cmd.Process.Pid] = run
	r.mu.Unlock()
	if _, err := io.WriteString(in, "go\n"); err != nil {
		r.t.Fatal(err)
	}
	if mode != "flood" {
		if _, err := io.ReadFull(out, make([]byte, len("sent\n"))); err != nil {
			r.t.Fatal(err)
		}
	}
	return cmd
}

// said waits until a run has said what it has to say.
func (r *rig) said(run string, enough func(notify.State) bool) notify.State {
	r.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		said, changed := r.State(run)
		if enough(said) {
			return said
		}
		select {
		case <-changed:
		case <-limit:
			r.t.Fatalf("%s has said only %+v", run, said)
		}
	}
}

func ready(s notify.State) bool { return s.Ready }

func TestWords(t *testing.T) {
	r := newRig(t)
	main := r.sender("a", "stay").Process.Pid
	began := clock()
	r.sender("a", "stay", "RELOADING=1\nMONOTONIC_USEC=5\n", "STATUS=one", "STATUS=a\x1b[2Jb\u202ec\xffd"+strings.Repeat("é", 200),
		"WATCHDOG=trigger", "EXTEND_TIMEOUT_USEC=2000000", "STOPPING=1", "MAINPID="+strconv.Itoa(main),
		"nonsense\n=\nREADY=0\nWATCHDOG_USEC=5\nMAINPID=x", "READY=1\nSTATUS=")
	s := r.said("a", ready)
	if s.Reloading || s.Reloads != 1 || s.Status != "" || !s.HasStatus || !s.Triggered || !s.Stopping ||
		s.Main.PID != main || s.Extended < began+2*time.Second || s.Extended > clock()+2*time.Second ||
		s.ExtendedAt < began {
		t.Errorf("%+v", s)
	}
	r.sender("a", "stay", "STATUS=a\x1b[2Jb\u202ec\xffd"+strings.Repeat("é", 200), "WATCHDOG=1\nREADY=1")
	s = r.said("a", func(s notify.State) bool { return !s.Triggered })
	if want := "a[2Jbcd" + strings.Repeat("é", 124); s.Status != want || s.Watchdog < began {
		t.Errorf("%+v, want the text %q", s, want)
	}
	if run, ok := r.AwaitNotice(t.Context()); !ok || run != "a" {
		t.Errorf("heard of %q", run)
	}
}

// TestStrangers: what others say counts for no run, nor what a run says of the processes of others.
func TestStrangers(t *testing.T) {
	r := newRig(t)
	stranger := r.sender("", "stay", "READY=1", "MAINPID=1").Process.Pid
	other := r.sender("b", "stay", "READY=1").Process.Pid
	r.sender("a", "stay", "MAINPID="+strconv.Itoa(stranger), "MAINPID="+strconv.Itoa(other), "MAINPID=1",
		"MAINPID=99999999999", strings.Repeat("x", 5000)+"\nREADY=1", "STATUS=last")
	s := r.said("a", func(s notify.State) bool { return s.Status == "last" })
	if s.Ready || s.Main.PID != 0 {
		t.Errorf("%+v", s)
	}
	r.said("b", ready)
	// Two messages of the stranger, two names of processes of others, one message that is too long.
	if n := r.Ignored(); n != 5 {
		t.Errorf("%d ignored, want 5", n)
	}
}

// TestFlood: a flood of strangers neither keeps out what others say, nor takes memory.
func TestFlood(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.sender("", "flood")
	}
	for i := range 5 {
		run := strconv.Itoa(i)
		r.sender(run, "stay", "READY=1")
		r.said(run, ready)
	}
	r.sender("busy", "flood")
	r.sender("last", "stay", "READY=1")
	r.said("last", ready)
	if r.Ignored() == 0 {
		t.Error("the flood did not arrive")
	}
}

// TestLastWords: the first process of a run is believed even if it has ended since, and nobody else.
func TestLastWords(t *testing.T) {
	r := &rig{t: t, path: newRig(t).path + "2", runs: map[int]string{}}
	run := r.openIdle()
	for name, expected := range map[string]bool{"first": true, "other": false} {
		cmd := r.sender(name, "stay", "READY=1")
		if id, err := procfs.New("/proc").Identify(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		} else if expected {
			r.Expect(name, id)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // nobody can look at it any more
		r.mu.Lock()
		delete(r.runs, cmd.Process.Pid)
		r.mu.Unlock()
	}
	run()
	r.said("first", ready)
	r.Settle(20 * time.Second)
	if s, _ := r.State("other"); s.Ready || r.Ignored() != 1 {
		t.Errorf("%+v, %d ignored", s, r.Ignored())
	}
	r.Keep(func(string) bool { return false })
	if s, _ := r.State("first"); s.Ready {
		t.Error("what is over is not forgotten")
	}
}

// TestSettle: after it, everything counts that was sent before.
func TestSettle(t *testing.T) {
	r := newRig(t)
	for i := range 50 {
		run := strconv.Itoa(i)
		r.sender(run, "stay", "STATUS=x", "READY=1")
		r.Settle(20 * time.Second)
		if s, _ := r.State(run); !s.Ready {
			t.Fatal("it came later")
		}
	}
}

// TestTheNextAgent listens at the same path, and a restart is no silence.
func TestTheNextAgent(t *testing.T) {
	r := newRig(t)
	r.sender("a", "stay", "WATCHDOG=1")
	before := r.said("a", func(s notify.State) bool { return s.Watchdog > 0 })
	r.open()
	if s, _ := r.State("a"); s.Watchdog < before.Watchdog {
		t.Errorf("%v after a restart, %v before", s.Watchdog, before.Watchdog)
	}
	r.sender("a", "stay", "READY=1")
	r.said("a", ready)
}

// TestBarrier: a sender learns when its words were read, and its descriptors are closed.
func TestBarrier(t *testing.T) {
	r := newRig(t)
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := descriptors()
	for range 100 {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fd := int(write.Fd())
		// More descriptors than anybody needs.
		rights := syscall.UnixRights(fd, fd, fd, fd, fd, fd, fd, fd, fd, fd, fd, fd)
		if err := syscall.Sendmsg(socket, []byte("BARRIER=1"), rights, &syscall.SockaddrUnix{Name: r.path}, 0); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(syscall.Close(socket), write.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(read); err != nil {
			t.Fatal(err)
		}
		_ = read.Close()
	}
	if n := descriptors(); n > before+3 {
		t.Errorf("NEVER A FLAKE: %d descriptors, %d before", n, before)
	}
}

func TestNoSocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := notify.Open(notify.Config{Path: filepath.Join(file, "notify"), FS: procfs.New("/proc"), Clock: clock})
	if err == nil || !strings.Contains(err.Error(), "cannot listen for notifications") {
		t.Errorf("%v", err)
	}
}
