package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Log keeps what a program writes, and can be read meanwhile.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what has been written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// goroutines is what a Go program writes before the stacks of its goroutines, when SIGQUIT ends it.
const goroutines = "SIGQUIT: quit"

// ShowIfFailed has the end of a test that has failed show what was written last, and where the goroutines were.
func (l *Log) ShowIfFailed(t testing.TB, whose string) {
	t.Cleanup(func() {
		if t.Failed() {
			text, stacks, _ := strings.Cut(l.String(), goroutines)
			t.Logf("log of %s:\n%s", whose, text[max(0, len(text)-20000):])
			if stacks != "" {
				t.Logf("goroutines of %s:\n%s", whose, stacks[:min(len(stacks), 20000)])
			}
		}
	})
}

// Program is a program that a test has started and that runs beside it.
type Program struct {
	// Out is what it has written to standard output.
	Out *Log

	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
}

// Launch starts a program, which is killed at the end of the test. What it writes to standard error is added to the
// log. If the test has failed, a Go program writes there what its goroutines do.
func Launch(t testing.TB, log *Log, env []string, name string, args ...string) *Program {
	t.Helper()
	p := &Program{Out: &Log{}, t: t, cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, p.Out, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			p.quit()
		}
		p.Kill()
	})
	return p
}

// lastWords is how long a program that is asked for its goroutines may take to write them.
const lastWords = 10 * time.Second

// quit ends a Go program with the stacks of its goroutines.
func (p *Program) quit() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(lastWords):
	}
}

// End signals it and waits until it has ended. It may be called again.
func (p *Program) End(sig syscall.Signal) {
	p.t.Helper()
	_ = p.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(Patience):
		p.t.Fatalf("%s did not end", p.cmd.Path)
	}
}

// Kill ends it as if it had crashed.
func (p *Program) Kill() { p.End(syscall.SIGKILL) }

// Terminate asks it to end and returns how it has.
func (p *Program) Terminate() error {
	p.t.Helper()
	p.End(syscall.SIGTERM)
	return p.err
}

// PID is its process.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Ended reports whether it has.
func (p *Program) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// URL waits until it says where it takes calls, which it does once it does.
func (p *Program) URL() string {
	p.t.Helper()
	at := ""
	Eventually(p.t, "drover to be ready", func() bool {
		select {
		case <-p.ended:
			p.t.Fatalf("drover ended before it was ready: %v", p.err)
		default:
		}
		for line := range strings.Lines(p.Out.String()) {
			if url, ok := strings.CutPrefix(strings.TrimSpace(line), "URL"); ok && strings.HasSuffix(line, "\n") {
				at = strings.TrimSpace(url)
			}
		}
		return at != ""
	})
	return at
}

// Finished is a program that has run to its end.
type Finished struct {
	Code        int
	Out, Errors string
}

// Finish runs a program to its end, with the words on its standard input.
func Finish(t testing.TB, stdin string, env []string, name string, args ...string) Finished {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), CommandPatience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok || ctx.Err() != nil {
			t.Fatalf("%s: %v\n%s", name, err, errs.String())
		}
	}
	return Finished{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// Environment is PATH, a home directory, and further variables.
func Environment(home string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, more...)
}

// FirstApp are the variables that make the tests' app the first one.
func FirstApp() []string {
	return []string{"DROVER_BOOTSTRAP_APP_CODE=" + AppCode, "DROVER_BOOTSTRAP_APP_SECRET=" + AppSecret}
}

// WriteProgram writes an executable file. Nothing forks meanwhile: a child would keep the file open for writing until it
// executes its own program, and until then nobody could execute this one (ETXTBSY).
func WriteProgram(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o755)
}
