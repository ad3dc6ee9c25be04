package launch_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVariable); name != "" {
		os.Exit(runHelper(name))
	}
	os.Exit(pidns.Run(prepared{m}))
}

type prepared struct{ pidns.Main }

func (p prepared) Run() int {
	if err := launch.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	null() // before any test counts its descriptors
	if err := first.OpenGate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return p.Main.Run()
}

func live() procfs.FS { return procfs.New("/proc") }

// first has the gate of all forkers.
var first = launch.NewForker(live(), slog.New(slog.DiscardHandler), os.TempDir())

// forker forks on the threads that call it.
func forker() *launch.Forker { return first.Again() }

func me(t testing.TB) launch.Account {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	account, err := launch.LookupAccount("/", u.Username)
	if err != nil {
		t.Fatal(err)
	}
	return account
}

func output(t testing.TB) *launch.Output {
	t.Helper()
	out, err := launch.CreateOutput(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return out
}

func command(t testing.TB, line string, out *launch.Output) launch.Command {
	t.Helper()
	return launch.Command{Line: line, Dir: "/", Account: me(t), Mark: "m1", Output: out.File(), Proof: null()}
}

// null takes the proofs that nobody asks for.
var null = sync.OnceValue(func() *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	return f
})

// wait blocks until a child has ended and takes its exit status.
func wait(t testing.TB, child *launch.Child) syscall.WaitStatus {
	t.Helper()
	pid := child.Identity().PID
	fd, err := pidfd.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := pidns.AwaitEnd(fd); err != nil {
		t.Fatal(err)
	}
	end, err := pidfd.Reap(fd, pid)
	if err != nil {
		t.Fatal(err)
	}
	return end.Status
}

// do runs a command to its end.
func do(t *testing.T, c launch.Command) syscall.WaitStatus {
	t.Helper()
	child, err := forker().Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	return wait(t, child)
}

// lines are commands for which the gate must make no difference.
func lines() map[string]string {
	return map[string]string{
		"status":             "echo hi; exit 3",
		"name and arguments": `printf '%s|%s|%s' "$0" "$#" "$*"`,
		"environment":        "env | sort",
		"descriptors":        "ls /proc/self/fd",
		"no left-over":       "set | grep -v BASH_EXECUTION_STRING | grep -i gate; echo ${DROVER_GATE-unset}",
		"descriptor 3":       "exec 3>&1; echo x >&3",
		"here-document":      "cat <<END\na $HOME\nEND\necho b",
		"comment first":      "# nothing\necho a # b",
		"comment only":       "# nothing",
		"comment joined":     "echo a \\\n# b\necho c",
		"several lines":      "if true; then\n  echo 'a\nb'\nfi\n\n\nexit 7",
		"nothing":            "",
		"blank":              "  \n\t\n",
		"syntax error":       "if",
		"late syntax error":  "echo a\necho b; )",
		"unfinished":         "echo 'a",
		"not found":          "no-such-program-anywhere",
		"signal":             "kill -9 $$",
		"own signal":         "trap 'echo caught' TERM; kill $$; echo on",
		"empty stdin":        "cat; read x; echo $?",
		"umask":              "umask",
		"masks":              "grep -E '^Sig(Blk|Ign)' /proc/self/status",
		"exec":               "exec sh -c 'echo $0'",
		"background":         "sleep 0 & wait; echo done",
		"long":               "echo " + strings.Repeat("x", 60<<10) + " | wc -c",
	}
}

func TestGateMakesNoDifference(t *testing.T) {
	for _, path := range []string{"/bin/dash", "/bin/bash", "/bin/busybox"} {
		shell, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // whichever the host has: /bin/sh itself always is one of them
		}
		t.Run(filepath.Base(shell), func(t *testing.T) {
			beShell(t, shell)
			for name, line := range lines() {
				t.Run(name, func(t *testing.T) { compareWithPlain(t, line) })
			}
		})
	}
}

// beShell puts a shell in the place of /bin/sh, for this namespace only.
func beShell(t *testing.T, shell string) {
	t.Helper()
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if sh == shell {
		return
	}
	if err := unix.Mount(shell, sh, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(sh, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func compareWithPlain(t *testing.T, line string) {
	t.Helper()
	gated, plain := output(t), output(t)
	status := do(t, command(t, line, gated))

	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = "/"
	cmd.Env = environmentOf(t)
	cmd.Stdout, cmd.Stderr = plain.File(), plain.File()
	_ = cmd.Run()
	if want := cmd.ProcessState.Sys().(syscall.WaitStatus); status != want {
		t.Errorf("wait status %#x, plain %#x", status, want)
	}
	// Line numbers are one more.
	number := regexp.MustCompile(`(line )?\d+: `)
	strip := func(s string) string { return number.ReplaceAllString(s, "N: ") }
	if diff := cmp.Diff(strip(plain.Text()), strip(gated.Text())); diff != "" {
		t.Errorf("-plain +gated\n%s", diff)
	}
}

// environmentOf is what a command says its environment is.
func environmentOf(t *testing.T) []string {
	t.Helper()
	out := output(t)
	do(t, command(t, `exec cat /proc/self/environ | tr '\0' '\n'`, out))
	var env []string
	for line := range strings.Lines(out.Text() + "\n") {
		// The shell adds its own.
		if name, _, _ := strings.Cut(line, "="); name != "PWD" && name != "OLDPWD" && name != "SHLVL" && name != "_" {
			env = append(env, strings.TrimSuffix(line, "\n"))
		}
	}
	slices.Sort(env)
	return env
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Setenv("DROVER_TEST_SECRET", "not for commands")
	t.Setenv("LANG", "")
	t.Setenv("TZ", "Asia/Shanghai")
	account := me(t)
	want := []string{
		"HOME=" + account.Home, "USER=" + account.Name, "LOGNAME=" + account.Name, "SHELL=" + account.Shell,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TZ=Asia/Shanghai",
		"DROVER_PROCESS=m1",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, environmentOf(t)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	t.Setenv("LANG", "de_DE.UTF-8")
	t.Setenv("TZ", "")
	got := strings.Join(environmentOf(t), "\n")
	if !strings.Contains(got, "LANG=de_DE.UTF-8") || !regexp.MustCompile(`(?m)^TZ=\S+$`).MatchString(got) {
		t.Errorf("got %s", got)
	}
}

func TestChildWaitsAtItsGate(t *testing.T) {
	before := descriptors(t)
	mark := filepath.Join(t.TempDir(), "ran")
	out := output(t)
	child, err := forker().Start(command(t, "echo ran > "+mark, out))
	if err != nil {
		t.Fatal(err)
	}
	id := child.Identity()
	if !live().Same(id) || child.GroupError() != nil {
		t.Errorf("child %+v is not alive, or %v", id, child.GroupError())
	}
	st, err := live().Stat(id.PID)
	if err != nil || st.Session != id.PID || st.PGID != id.PID {
		t.Errorf("child is not in a session of its own: %+v %v", st, err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran before it was released")
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	if status := wait(t, child); status != 0 {
		t.Errorf("wait status %#x", status)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the command did not run: %v", err)
	}
	if err := child.Release(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a second release: %v", err)
	}
	child.Abandon()
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("NEVER A FLAKE: %d descriptors, %d before", after, before)
	}
}

func TestAbandonedChildrenRunNothing(t *testing.T) {
	dir := t.TempDir()
	out := output(t)
	var children []*launch.Child
	for i := range 20 {
		child, err := forker().Start(command(t, fmt.Sprintf("echo > %s/%d", dir, i), out))
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	for i, child := range children {
		if i%2 == 0 {
			// While the others wait: none of them may hold this one's gate open.
			child.Abandon()
			if status := wait(t, child); status.ExitStatus() != launch.UnrunStatus {
				t.Errorf("wait status %#x", status)
			}
			if err := child.Release(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("release of an abandoned child: %v", err)
			}
		}
	}
	for i, child := range children {
		if i%2 == 1 {
			if err := child.Release(); err != nil {
				t.Error(err)
			}
			wait(t, child)
		}
		if _, err := os.Stat(fmt.Sprintf("%s/%d", dir, i)); (err == nil) != (i%2 == 1) {
			t.Errorf("child %d: %v", i, err)
		}
	}
}

func TestReleaseOfADeadChild(t *testing.T) {
	child, err := forker().Start(command(t, "echo", output(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(child.Identity().PID, unix.SIGKILL); err != nil { // ours, and unreaped
		t.Fatal(err)
	}
	if status := wait(t, child); status.Signal() != syscall.SIGKILL {
		t.Errorf("wait status %#x", status)
	}
	if err := child.Release(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsAreACallers(t *testing.T) {
	before := descriptors(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := output(t)
	for path, want := range map[string]string{
		dir + "/none": "cannot enter setup_path " + dir + "/none: no such file or directory",
		file:          "cannot enter setup_path " + file + ": not a directory",
		file + "/x":   "cannot enter setup_path " + file + "/x: not a directory",
	} {
		err := me(t).MayEnter("setup_path", path)
		var failure *process.Error
		if !errors.As(err, &failure) || failure.Fault != process.Failed || failure.Text != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("NEVER A FLAKE: %d descriptors, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func words(t *testing.T, out *launch.Output) []int {
	t.Helper()
	var pids []int
	for word := range strings.FieldsSeq(out.Text()) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("output %q: %v", out.Text(), err)
		}
		pids = append(pids, n)
	}
	return pids
}

// TestUnexecutable: a file that is there and that no kernel executes is not told as one that is missing.
func TestUnexecutable(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"script": "#! /no/such/interp -x\n", "crlf": "#!/bin/sh\r\n", "own": "#!/bin/sh\necho own $f\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	for name, want := range map[string]struct {
		code int
		text string
	}{
		"/script": {126, "drover: no interpreter /no/such/interp for " + dir + "/script"},
		"/":       {126, "drover: " + dir + "/ is a directory"},
		"/none":   {127, "drover: cannot execute " + dir + "/none"},
		"/crlf":   {126, "drover: the first line of " + dir + "/crlf ends with CR LF, expected LF"},
		"/own":    {0, "own"},
	} {
		out := output(t)
		status := do(t, command(t, "exec "+dir+name, out))
		if got := out.Text(); status.ExitStatus() != want.code || !strings.Contains(got, want.text) {
			t.Errorf("%s: exit status %d, %q, want %d, %q", name, status.ExitStatus(), got, want.code, want.text)
		}
	}
	c := command(t, "exec script", output(t))
	c.Variables = map[string]string{"PATH": dir}
	if status := do(t, c); status.ExitStatus() != 126 {
		t.Errorf("in a directory of PATH: exit status %d", status.ExitStatus())
	}
}
