package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
)

// run runs drover against a server and returns its output; it fails the test on any exit code but 0.
func run(t *testing.T, s *harness.Server, args ...string) string {
	t.Helper()
	out, err := exec.Command(binaries.drover, append(args, "--data-dir", s.DataDir)...).CombinedOutput()
	if err != nil {
		t.Fatalf("drover %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// registered makes daemons known under the names.
func registered(t *testing.T, s *harness.Server, names ...string) {
	t.Helper()
	for _, name := range names {
		registeredAs(t, s, name, tickSpec(harness.Workdir(t)))
	}
}

// registeredAs makes a process known with a spec.
func registeredAs(t *testing.T, s *harness.Server, name, spec string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, s, "register", name, "--hosts", harness.Agent, "--file", file)
}

// TestInterruptLeavesTheTask: Ctrl-C ends the waiting, says how to come back, and the operation goes on.
func TestInterruptLeavesTheTask(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	dir := harness.Workdir(t)
	start := "start: " + binaries.tickd + " start"
	registeredAs(t, s, "ctrl/c", strings.Replace(tickSpec(dir), start,
		"start: until [ -e go ]; do sleep 0.05; done; "+binaries.tickd+" start", 1))
	cmd := exec.Command(binaries.drover, "start", "ctrl/c", "--data-dir", s.DataDir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the task to run",
		func() bool { return strings.Contains(run(t, s, "task", "list", "--state", "running"), "start") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); exitCode(err) != 6 {
		t.Errorf("ended with %v, want exit code 6", err)
	}
	id := strings.TrimSpace(run(t, s, "task", "list", "--limit", "1", "-o", "name"))
	if want := fmt.Sprintf("%[1]s continues; follow it with: drover task watch %[1]s --data-dir %[2]s\n", id,
		s.DataDir); stderr.String() != want {
		t.Errorf("said %q, want %q", stderr.String(), want)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, s, "task", "watch", id); !strings.Contains(out, "start: 1 ok, 0 failed") {
		t.Errorf("the task ended with %q", out)
	}
}

// terminal is a pseudo-terminal: what is written to it is typed, and what the program prints can be read.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// converse runs drover at a terminal, types the answer once it is asked, and returns all that it has printed there.
func converse(t *testing.T, s *harness.Server, locale, answer string, args ...string) (string, error) {
	t.Helper()
	return converseWith(t, s, nil, locale, answer, args...)
}

// converseWith is converse for a drover that has another stdin than its terminal, unless stdin is nil.
func converseWith(t *testing.T, s *harness.Server, stdin io.Reader, locale, answer string, args ...string) (string, error) {
	t.Helper()
	person, program := terminal(t)
	cmd := exec.Command(binaries.drover, append(args, "--data-dir", s.DataDir)...)
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=", "DROVER_LANG="+locale)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	in := bufio.NewReader(person)
	var seen strings.Builder
	for !strings.HasSuffix(seen.String(), "[y/N] ") && !strings.HasSuffix(seen.String(), " to confirm: ") {
		c, err := in.ReadByte()
		if err != nil {
			t.Fatalf("it did not ask: %q, %v", seen.String(), err)
		}
		seen.WriteByte(c)
	}
	if _, err := io.WriteString(person, answer+"\n"); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(in) // a terminal that nobody holds any longer ends with an error
	seen.Write(rest)
	return seen.String(), cmd.Wait()
}

func TestQuestionAtATerminal(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	registered(t, s, "ask/a", "ask/b")
	out, err := converse(t, s, "C", "", "start", "ask/*")
	if exitCode(err) != 1 || !strings.Contains(out, "start 2 processes on 1 host? [y/N] ") ||
		!strings.Contains(out, "nothing was done") {
		t.Errorf("without a yes: %v, %q", err, out)
	}
	if list := run(t, s, "task", "list"); strings.Contains(list, "start") {
		t.Errorf("it was done all the same: %s", list)
	}
	out, err = converse(t, s, "C", "y", "start", "ask/*")
	if err != nil || !strings.Contains(out, "\r\x1b[Kstart: 0/2 ok, 0 failed, 2 running") ||
		!strings.Contains(out, "\x1b[32mok\x1b[0m") {
		t.Errorf("with a yes: %v, %q", err, out)
	}
	many := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(many, []byte("namespace: many\nprocesses:\n  w: {hosts: ['*'], run: sleep 1000, copies: 21}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = converse(t, s, "C", "y", "apply", "-f", many)
	if exitCode(err) != 1 || !strings.Contains(out, "apply 21 changes? Type the number 21 to confirm: ") ||
		!strings.Contains(out, "nothing was done") {
		t.Errorf("a yes for many: %v, %q", err, out)
	}
	if out, err = converse(t, s, "C", "21", "apply", "-f", many); err != nil {
		t.Errorf("the number for many: %v, %q", err, out)
	}
	out, err = converse(t, s, "zh_CN.UTF-8", "", "stop", "ask/*")
	if exitCode(err) != 1 || !strings.Contains(out, "stop：1 台主机上的 2 个进程？[y/N] ") ||
		!strings.Contains(out, "drover: 没有执行任何操作") {
		t.Errorf("in Chinese: %v, %q", err, out)
	}
}

// TestQuestionAboutStdin: a file that comes through a pipe leaves the terminal to the person.
func TestQuestionAboutStdin(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	file := "namespace: piped\nprocesses: {a: {run: sleep 1000, hosts: [\"*\"]}}\n"
	out, err := converseWith(t, s, strings.NewReader(file), "C", "n", "apply", "-f", "-")
	if exitCode(err) != 1 || !strings.Contains(out, "nothing was done") {
		t.Errorf("with a no: %v, %q", err, out)
	}
	out, err = converseWith(t, s, strings.NewReader(file), "C", "y", "apply", "-f", "-")
	if err != nil || !strings.Contains(run(t, s, "ps", "piped/a"), "running") {
		t.Errorf("with a yes: %v, %q", err, out)
	}
}

// TestWatchAtATerminal: the screen follows what happens, and is as before when the person ends the watch.
func TestWatchAtATerminal(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	registered(t, s, "watched/p")
	person, program := terminal(t)
	cmd := exec.Command(binaries.drover, "ps", "watched/*", "--watch", "--data-dir", s.DataDir)
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	in := bufio.NewReader(person)
	var seen strings.Builder
	until := func(text string) {
		t.Helper()
		for !strings.Contains(seen.String(), text) {
			c, err := in.ReadByte()
			if err != nil {
				t.Fatalf("no %q in %q, %v", text, seen.String(), err)
			}
			seen.WriteByte(c)
		}
	}
	until("stopped")
	run(t, s, "start", "watched/p")
	until("running")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	until("\x1b[?1049l")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestPager: a long text goes through the pager of the person at a terminal, and nowhere else.
func TestPager(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"pager": true, "--no-pager": false, "pipe": false} {
		person, program := terminal(t)
		args := []string{"why", "--page", "exit-status"}
		if name == "--no-pager" {
			args = append(args, name)
		}
		cmd := exec.Command(binaries.drover, args...)
		cmd.Env = append(os.Environ(), "TERM=xterm", "PAGER=tr a-z A-Z")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
		var pipe bytes.Buffer
		if name == "pipe" {
			cmd.Stdout = &pipe
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = program.Close()
		out, _ := io.ReadAll(person) // a terminal that nobody holds any longer ends with an error
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := string(out) + pipe.String()
		if strings.Contains(text, "EXIT-STATUS") != want || !strings.Contains(strings.ToLower(text), "exit-status") {
			t.Errorf("%s: %.300q", name, text)
		}
	}
}
