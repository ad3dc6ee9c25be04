package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// Member is a process of ours that does what it is told on its standard input, a word a line, and answers each with a
// line.
type Member struct {
	*Child
	in  io.WriteCloser
	out *bufio.Reader
}

// Enlist starts a member in a stage.
func Enlist(log, stage string, args ...string) (*Member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{stage}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// not the command's own, which would be closed at its end although nobody has read it yet
	out, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	cmd.Stdout = write
	child, err := Start(cmd, log)
	if err != nil {
		return nil, err
	}
	return &Member{Child: child, in: in, out: bufio.NewReader(out)}, nil
}

// Tell has the member do something, and returns its answer.
func (m *Member) Tell(word string) (string, error) {
	if _, err := io.WriteString(m.in, word+"\n"); err != nil {
		return "", fmt.Errorf("cannot tell a member to %s: %w", word, err)
	}
	line, err := m.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("a member did not %s: %w", word, err)
	}
	answer, ok := strings.CutPrefix(strings.TrimSpace(line), "ok")
	if !ok {
		return "", fmt.Errorf("a member could not %s: %s", word, strings.TrimSpace(line))
	}
	return strings.TrimSpace(answer), nil
}

// Dismiss ends the member.
func (m *Member) Dismiss() {
	_ = m.in.Close()
	m.End(syscall.SIGKILL) // all that it keeps is thrown away
}

// Crew is members that do the same side by side.
type Crew []*Member

// Tell has every member do something, and returns when all have.
func (c Crew) Tell(word string) error {
	var done sync.WaitGroup
	errs := make([]error, len(c))
	for i, m := range c {
		done.Go(func() { _, errs[i] = m.Tell(word) })
	}
	done.Wait()
	return errors.Join(errs...)
}

// PIDs are the processes of the members.
func (c Crew) PIDs() []int {
	var pids []int
	for _, m := range c {
		pids = append(pids, m.PID())
	}
	return pids
}

// Dismiss ends the members.
func (c Crew) Dismiss() {
	for _, m := range c {
		m.Dismiss()
	}
}

// Obey is the life of a member: each word that comes has a deed. It ends with its standard input.
func Obey(ctx context.Context, deeds map[string]func(context.Context) (string, error)) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		deed := deeds[lines.Text()]
		if deed == nil {
			return fmt.Errorf("there is no deed %q", lines.Text())
		}
		answer, err := deed(ctx)
		if err != nil {
			answer = "failed: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		} else {
			answer = "ok " + answer
		}
		if _, err := fmt.Fprintln(os.Stdout, answer); err != nil {
			return err
		}
	}
	return nil
}
