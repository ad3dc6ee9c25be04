package launch_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
)

// forking gives a forker its thread until the test ends.
func forking(t testing.TB) *launch.Forker {
	t.Helper()
	f := forker().Busy()
	stop, err := f.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return f
}

// crowd opens many descriptors until the test ends.
func crowd(t testing.TB, n int) {
	t.Helper()
	for range n {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
}

// table lists what the descriptors of a thread of this process lead to.
func table(t *testing.T, tid string) []string {
	t.Helper()
	dir := filepath.Join("/proc/self/task", tid, "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // the thread has ended
	}
	var targets []string
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(dir, e.Name())) // the directory's own is closed by now
		targets = append(targets, target)
	}
	return targets
}

// small returns the threads whose tables are much smaller than that of the first.
func small(t *testing.T) []string {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	all := len(table(t, strconv.Itoa(os.Getpid())))
	var tids []string
	for _, e := range threads {
		if n := len(table(t, e.Name())); n > 0 && n < all/2 {
			tids = append(tids, e.Name())
		}
	}
	return tids
}

// started runs a command to its end and returns what it said.
func said(t *testing.T, f *launch.Forker, line string) string {
	t.Helper()
	out := output(t)
	child, err := f.Start(command(t, line, out))
	if err != nil {
		t.Error(err)
		return ""
	}
	if err := child.Release(); err != nil {
		t.Error(err)
	}
	wait(t, child)
	return out.Text()
}

func TestForkersThreadHasAFewDescriptorsOnly(t *testing.T) {
	crowd(t, 300)
	f := forking(t)
	tids := small(t)
	if len(tids) != 1 {
		t.Fatalf("threads with tables of their own: %v", tids)
	}
	before, all := table(t, tids[0]), descriptors(t)
	if len(before) > 12 {
		t.Errorf("its table: %v", before)
	}
	// None of it, and nothing of the large table, reaches a command.
	if got, want := said(t, f, "ls /proc/self/fd"), "0\n1\n2\n3"; got != want {
		t.Errorf("a command has %q, want %q", got, want)
	}
	for range 200 {
		if got := said(t, f, "echo a; exit 3"); got != "a" {
			t.Fatalf("a command said %q", got)
		}
	}
	c := command(t, "echo", output(t))
	c.Line = strings.Repeat("x", 1<<20) // no argument is as long
	for range 20 {
		if _, err := f.Start(c); err == nil || err.Error() != "cannot start the command: argument list too long" {
			t.Errorf("got %v", err)
		}
	}
	if after := table(t, tids[0]); !slices.Equal(after, before) {
		t.Errorf("its table is %v, was %v", after, before)
	}
	if err := c.Output.Close(); err != nil {
		t.Fatal(err)
	}
	// Each of the outputs, which have two, is closed when the test ends.
	if n := descriptors(t); n != all+2*202-1 {
		t.Errorf("%d descriptors, %d before", n, all)
	}
}

func TestForkerAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it runs a thousand commands")
	}
	crowd(t, 300)
	f := forking(t)
	var all sync.WaitGroup
	for worker := range 20 {
		all.Go(func() {
			for i := range 50 {
				want := fmt.Sprint(worker, i)
				if got := said(t, f, "echo "+want); got != want {
					t.Errorf("the output of another command: %q, want %q", got, want)
				}
			}
		})
	}
	all.Wait()
}

// The runtime polls for the network on the thread that has begun a collection.
func TestForkersThreadCollectsGarbage(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		t.Run(strconv.Itoa(procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			defer debug.SetGCPercent(debug.SetGCPercent(1))
			f := forking(t)
			// Each is a large allocation on the forker's thread.
			line := "# " + strings.Repeat("x", 100<<10) + "\necho a"
			for range 50 {
				if got := said(t, f, line); got != "a" {
					t.Fatalf("a command said %q", got)
				}
			}
		})
	}
}

func TestForkerEndsItsThread(t *testing.T) {
	crowd(t, 300)
	before := descriptors(t)
	f := forker().Busy()
	for range 10 {
		stop, err := f.Begin()
		if err != nil {
			t.Fatal(err)
		}
		child, err := f.Start(command(t, "echo a", output(t)))
		if err != nil {
			t.Fatal(err)
		}
		stop()
		// A thread that ends takes no child with it, and what it had given is kept.
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		if status := wait(t, child); status != 0 {
			t.Errorf("wait status %#x", status)
		}
	}
	if n := descriptors(t); n != before+20 { // the outputs, which have two each
		t.Errorf("%d descriptors, %d before", n, before)
	}
	if got := said(t, f, "echo a"); got != "a" {
		t.Errorf("without its thread a command said %q", got)
	}
}

func TestForkerRunsUntilToldToEnd(t *testing.T) {
	f := forker().Busy()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	for range 20 {
		// Whether there is a thread yet makes no difference.
		if got := said(t, f, "echo a"); got != "a" {
			t.Errorf("a command said %q", got)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// helperSandboxed runs its first argument where descriptors cannot be closed in numbers.
func helperSandboxed() error {
	const denied = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLOSE_RANGE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: denied},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := sandbox(filter); err != nil {
		return err
	}
	if err := launch.Prepare(); err != nil {
		return err
	}
	account, err := launch.LookupAccount("/", os.Args[2])
	if err != nil {
		return err
	}
	var log bytes.Buffer
	f := launch.NewForker(live(), slog.New(slog.NewTextHandler(&log, nil)), os.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Run(ctx); err != nil {
		return err
	}
	fmt.Print(log.String())
	child, err := f.Start(launch.Command{
		Line: os.Args[1], Dir: "/", Account: account, Output: os.Stdout,
		Proof: null(),
	})
	if err != nil {
		return err
	}
	return finish(child)
}

func TestForkerWithoutAThread(t *testing.T) {
	out, err := helper(t, "sandboxed", "true", "echo it ran", me(t).Name).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if n := strings.Count(string(out), "level=WARN"); n != 1 ||
		!strings.Contains(string(out), "close_range: operation not permitted") ||
		!strings.Contains(string(out), "it ran") {
		t.Errorf("got %q", out)
	}
}

// TestGateThatCannotBeOpenedYet: a gate that could not be opened is opened at the next start.
func TestGateThatCannotBeOpenedYet(t *testing.T) {
	f := forker().Busy()
	open, calls := f.RealGate(), 0
	f.Opening(func() (*os.File, error) {
		if calls++; calls == 1 {
			return nil, syscall.EAGAIN
		}
		return open()
	})
	c := command(t, "true", output(t))
	if _, err := f.Start(c); err == nil || !strings.Contains(err.Error(), syscall.EAGAIN.Error()) {
		t.Errorf("without a gate: %v", err)
	}
	for range 2 {
		child, err := f.Start(c)
		if err != nil {
			t.Fatal(err)
		}
		child.Abandon()
		wait(t, child)
	}
	if calls != 2 {
		t.Errorf("the gate was opened %d times, want 2", calls)
	}
}

func BenchmarkStart(b *testing.B) {
	for _, n := range []int{0, 2000} {
		for name, threads := range map[string]bool{"from all": false, "from few": true} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				crowd(b, n)
				f := forker()
				if threads {
					f = forking(b)
				}
				c := command(b, "", output(b))
				for b.Loop() {
					child, err := f.Start(c)
					if err != nil {
						b.Fatal(err)
					}
					child.Abandon()
					wait(b, child)
				}
			})
		}
	}
}

// BenchmarkLaunch runs commands of another account from the fork to their ends.
func BenchmarkLaunch(b *testing.B) {
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil || !others() {
		b.Skip("there is no other account")
	}
	f, c := forker(), command(b, "exec true", output(b))
	c.Account = nobody
	for b.Loop() {
		child, err := f.Start(c)
		if err == nil {
			err = child.Release()
		}
		if err != nil {
			b.Fatal(err)
		}
		wait(b, child)
	}
}

// TestManyDescriptors: once there were many, a low number no longer says that there are few.
func TestManyDescriptors(t *testing.T) {
	f := launch.NewForker(live(), slog.New(slog.DiscardHandler), t.TempDir())
	for _, c := range []struct {
		fd   int
		many bool
	}{{10, false}, {255, false}, {10, false}, {256, true}, {10, true}} {
		if got := f.Many(c.fd); got != c.many {
			t.Errorf("descriptor %d: %v", c.fd, got)
		}
	}
}
