// Package screen_test holds the black-box tests of the terminal screen: the built binary in a real terminal, tmux, with
// a real drover dev. A test sends keys, and waits for a text on the screen.
package screen_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
	"drover/internal/words"
)

var binaries struct{ drover, agent string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
	}, harness.Need{Test: "Test", Program: "/usr/bin/tmux"}))
}

// terminal is a tmux of its own with one window.
type terminal struct {
	t      *testing.T
	socket string
	env    []string
	lang   words.Lang
}

// open opens a terminal for the server of a place.
func open(t *testing.T, p *harness.Place, width, height int, env ...string) *terminal {
	t.Helper()
	return openFor(t, p.S.DataDir, width, height, env...)
}

// openFor opens a terminal that runs a shell, with drover as the command "drover" for the server of a data directory.
func openFor(t *testing.T, dataDir string, width, height int, env ...string) *terminal {
	t.Helper()
	dir := t.TempDir()
	alias := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" --data-dir %s\n", binaries.drover, dataDir)
	if err := harness.WriteProgram(filepath.Join(dir, "drover"), []byte(alias)); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, socket: filepath.Join(dir, "tmux"), env: append(harness.Environment(dir,
		"TERM=xterm-256color", "LANG=C.UTF-8"), env...)}
	term.env = append(term.env, "PATH="+dir+":"+os.Getenv("PATH"))
	term.tmux("new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "exec sh")
	term.tmux("set-option", "-s", "set-clipboard", "on") // what the screen copies is in show-buffer
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	term.types("PS1='rea''dy> '")
	term.keys("Enter")
	term.sees("ready>")
	return term
}

func (s *terminal) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-u", "-S", s.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// text is what the terminal shows.
func (s *terminal) text() string { return s.tmux("capture-pane", "-p") }

// sees waits until the terminal shows each of the texts.
func (s *terminal) sees(texts ...string) string {
	s.t.Helper()
	return s.until(fmt.Sprintf("the terminal to show %q", texts), func(now string) bool {
		for _, text := range texts {
			if !strings.Contains(now, text) {
				return false
			}
		}
		return true
	})
}

func (s *terminal) until(what string, yes func(now string) bool) string {
	s.t.Helper()
	now, seen := "", false
	s.t.Cleanup(func() {
		if !seen {
			s.t.Logf("waited for %s; it showed %q", what, now) // in one line, which the summary of .ci/run has
		}
	})
	harness.Eventually(s.t, what, func() bool {
		now = s.text()
		seen = yes(now)
		return seen
	})
	return now
}

// keys presses keys by the names of tmux, such as Enter or C-z; types types a text as it is.
func (s *terminal) keys(keys ...string) { s.tmux(append([]string{"send-keys", "--"}, keys...)...) }

func (s *terminal) types(text string) { s.tmux("send-keys", "-l", "--", text) }
