package main

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

	"golang.org/x/sys/unix"

	"drover/test/bench/lab"
)

// spare is how many descriptors a process needs beside those that are counted.
const spare = 1000

// most is how many connections one process of this machine can have.
func most() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max > 1<<20 {
		return 1 << 15
	}
	return max(int(limit.Max)-spare, leastMost)
}

// leastMost is what most returns where there is no room for more.
const leastMost = 20

// member is a process of ours that does what it is told on its standard input, a word a line, and answers each with a
// line.
type member struct {
	*lab.Child
	in  io.WriteCloser
	out *bufio.Reader
}

// enlist starts a member in a stage.
func enlist(log, stage string, args ...string) (*member, error) {
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
	child, err := lab.Start(cmd, log)
	if err != nil {
		return nil, err
	}
	return &member{Child: child, in: in, out: bufio.NewReader(out)}, nil
}

// tell has the member do something, and returns its answer.
func (m *member) tell(word string) (string, error) {
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

// dismiss ends the member.
func (m *member) dismiss() {
	_ = m.in.Close()
	m.End(syscall.SIGKILL) // all that it keeps is thrown away
}

// crew is members that do the same side by side.
type crew []*member

// tell has every member do something, and returns when all have.
func (c crew) tell(word string) error {
	var done sync.WaitGroup
	errs := make([]error, len(c))
	for i, m := range c {
		done.Go(func() { _, errs[i] = m.tell(word) })
	}
	done.Wait()
	return errors.Join(errs...)
}

func (c crew) pids() []int {
	var pids []int
	for _, m := range c {
		pids = append(pids, m.PID())
	}
	return pids
}

func (c crew) dismiss() {
	for _, m := range c {
		m.dismiss()
	}
}

// obey is the life of a member: each word that comes has a deed. It ends with its standard input.
func obey(ctx context.Context, deeds map[string]func(context.Context) (string, error)) error {
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
