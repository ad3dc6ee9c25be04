package launch_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/launch"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
)

// helperVariable makes the test binary another program, one that may be ended or run as somebody else.
const helperVariable = "DROVER_LAUNCH_HELPER"

func runHelper(name string) int {
	var err error
	switch name {
	case "agent":
		err = helperAgent()
	case "sandboxed":
		err = helperSandboxed()
	case "dies":
		err = helperDies()
	case "opens":
		err = helperOpens()
	case "stops":
		err = helperStops()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// helperAgent prepares itself and runs its first argument as its second, in the group of its third. Before that it ignores what glibc's
// posix_spawn leaves ignored, which no shell can.
func helperAgent() error {
	const ignore, maskSize = 1, 8
	action := [8]uint64{ignore}
	for _, s := range []uintptr{32, 33} {
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, s, uintptr(unsafe.Pointer(&action)), 0, maskSize, 0,
			0); errno != 0 {
			return errno
		}
	}
	if err := launch.Prepare(); err != nil {
		return err
	}
	account, err := launch.LookupAccount("/", os.Args[2])
	if err == nil && len(os.Args) > 3 {
		account, err = account.In("/", os.Args[3], nil)
	}
	if err != nil {
		return err
	}
	child, err := forker().Start(launch.Command{
		Line: os.Args[1], Dir: "/", Account: account, Output: os.Stdout,
		Proof: null(),
	})
	if err != nil {
		return err
	}
	return finish(child)
}

// finish lets a command run and waits for its end.
func finish(child *launch.Child) error {
	fd, err := pidfd.Open(child.Identity().PID)
	if err != nil {
		return err
	}
	if err := child.Release(); err != nil {
		return err
	}
	return pidns.AwaitEnd(fd)
}

// sandbox puts all threads of this process behind a filter of system calls.
func sandbox(filter []unix.SockFilter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// helperDies starts a child and ends without having released it.
func helperDies() error {
	account, err := launch.LookupAccount("/", os.Args[2])
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	child, err := forker().Start(launch.Command{
		Line: os.Args[1], Dir: "/", Account: account, Output: null,
		Proof: null,
	})
	if err != nil {
		return err
	}
	fmt.Println(child.Identity().PID)
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

func helper(t *testing.T, name, before string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", before + `; exec "$0" "$@"`, self}, args...)...)
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	return cmd
}

func TestPrepareUndoesWhatWasInherited(t *testing.T) {
	dirty := `trap '' HUP INT PIPE TERM TSTP USR1; umask 077; exec 7</dev/null 9</dev/null`
	look := `grep -E '^Sig(Blk|Ign)' /proc/self/status; umask; ls /proc/self/fd`
	out, err := helper(t, "agent", dirty, look, me(t).Name).CombinedOutput()
	want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0022\n0\n1\n2\n3\n" // 3 is the listing's own
	if err != nil || string(out) != want {
		t.Errorf("got %q, want %q: %v", out, want, err)
	}
}

func TestChildOfADeadAgentRunsNothing(t *testing.T) {
	mark := t.TempDir() + "/ran"
	var out bytes.Buffer
	cmd := helper(t, "dies", "true", "echo > "+mark, me(t).Name)
	cmd.Stdout = &out
	if err := cmd.Run(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%v: %s", err, out.String())
	}
	var pid int
	if _, err := fmt.Sscan(out.String(), &pid); err != nil {
		t.Fatal(err)
	}
	// We are the reaper of orphans: it is ours now, and cannot vanish before we have asked.
	fd, err := pidfd.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := pidns.AwaitEnd(fd); err != nil {
		t.Fatal(err)
	}
	if end, err := pidfd.Reap(fd, pid); err != nil || end.Status.ExitStatus() != launch.UnrunStatus {
		t.Errorf("wait status %#x: %v", end.Status, err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

// others reports whether there are other users here: not in a namespace that maps only one.
func others() bool {
	uids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !strings.HasSuffix(strings.TrimSpace(string(uids)), " 1")
}

func TestRunAsAnotherUser(t *testing.T) {
	if !others() {
		return
	}
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	out := output(t)
	c := command(t, "id -u; id -ru; id -g; id -G", out)
	c.Account = nobody
	c.Account.Groups = append(c.Account.Groups, 54321)
	if status := do(t, c); status != 0 {
		t.Fatalf("wait status %#x: %s", status, out.Text())
	}
	want := fmt.Sprint([]int{int(nobody.UID), int(nobody.UID), int(nobody.GID), int(nobody.GID), 54321})
	if got := fmt.Sprint(words(t, out)); got != want {
		t.Errorf("got %v, want %v", got, want)
	}

	closed := t.TempDir() + "/closed"
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(closed+"/there", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{closed, closed + "/there", closed + "/not-there"} { // what is in it is not told
		want = "cannot enter setup_path " + dir + " as user nobody: permission denied"
		if err := nobody.MayEnter("setup_path", dir); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestOrdinaryAgent(t *testing.T) {
	if !others() {
		return
	}
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	// The test binary is in a directory of root's own.
	copied := t.TempDir() + "/helper"
	if out, err := exec.Command("/bin/sh", "-c", `cp /proc/`+fmt.Sprint(os.Getpid())+`/exe "$0" && chmod 755 "$0"`,
		copied).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	run := func(as ...string) string {
		cmd := exec.Command(copied, append([]string{"id -u"}, as...)...)
		cmd.Env = []string{helperVariable + "=agent"}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody.UID, Gid: nobody.GID}}
		out, _ := cmd.CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	for dir := copied; dir != "/tmp" && dir != "/"; dir = dir[:strings.LastIndex(dir, "/")] {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := run("nobody"), fmt.Sprint(nobody.UID); got != want {
		t.Errorf("as itself: %q, want %q", got, want)
	}
	if got, want := run("root"), `cannot run as user "root": needs root, the agent runs as "nobody"`; got != want {
		t.Errorf("as another: %q, want %q", got, want)
	}
	if got, want := run("nobody", fmt.Sprint(nobody.GID)), fmt.Sprint(nobody.UID); got != want {
		t.Errorf("in its own group: %q, want %q", got, want)
	}
	if got, want := run("nobody", "daemon"), `cannot run with other groups: needs root, the agent runs as "nobody"`; got != want {
		t.Errorf("in another group: %q, want %q", got, want)
	}
}

func TestBornInAGroup(t *testing.T) {
	tree, err := cgroup.Open(live(), "drover-test-launch-"+strings.ToLower(rand.Text()[:16]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
	}()
	g, err := tree.Create("g")
	if err != nil {
		t.Fatal(err)
	}
	out := output(t)
	c := command(t, "grep drover-test-launch /proc/self/cgroup", out)
	c.Group = g
	child, err := forker().Start(c)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := g.PIDs()
	if tree.Mode() != cgroup.ModeNone && (len(pids) != 1 || pids[0] != child.Identity().PID || err != nil) {
		t.Errorf("the group holds %v, not %d: %v", pids, child.Identity().PID, err)
	}
	if err := child.GroupError(); err != nil {
		t.Error(err)
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	if status := wait(t, child); tree.Mode() != cgroup.ModeNone && status != 0 {
		t.Errorf("wait status %#x: %s", status, out.Text())
	}
	if err := errors.Join(g.Remove(), g.Close()); err != nil {
		t.Error(err)
	}

	// A group that is gone costs the group, not the command.
	child, err = forker().Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if tree.Mode() != cgroup.ModeNone && child.GroupError() == nil {
		t.Error("no word of the group that is gone")
	}
	child.Abandon()
	wait(t, child)
}
