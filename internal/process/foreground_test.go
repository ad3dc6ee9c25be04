package process_test

import (
	"testing"

	"drover/internal/process"
)

// TestReplacing: only a line that means the same to a shell and to execve is executed in the place of the shell.
func TestReplacing(t *testing.T) {
	for _, line := range []string{
		"exec sleep 1", "cd /srv", "ulimit -n 9", ". ./env", "A=1 ./api", "! true", "./api $HOME", "ls *.go", "a; b",
		"a | b", "a\nb", `./api "$X"`, "./api `x`", "./api 'open", "", "  exec x",
		"a\nb\n", "cd /srv\n", "./api \\\n", "./api 'open\n", "\n",
	} {
		if got := process.Replacing(line); got != line {
			t.Errorf("%q: %q, want a shell", line, got)
		}
	}
	for _, line := range []string{
		"./api --port 80", "sleep 1", "./api '$HOME *'", `./api "a b" c\ d`, "executor run", "./api --port 80\n", "./api\n\n",
	} {
		if got := process.Replacing(line); got != "exec "+line {
			t.Errorf("%q: %q, want the program itself", line, got)
		}
	}
}

// TestUnrun: the words name the command if the line is one command, and nothing of a longer line.
func TestUnrun(t *testing.T) {
	for _, tt := range []struct {
		line  string
		cause process.CauseID
		want  string
	}{
		{"/opt/api --port 1", process.CauseCommandMissing, `run: "/opt/api" was not found`},
		{"/opt/api", process.CauseCommandDenied, `run: "/opt/api" cannot be executed`},
		{"cd /x && ./api", process.CauseCommandMissing, "run: a command of its line was not found"},
		{"/opt/api", process.CauseExitStatus, ""},
		{"", process.CauseCommandMissing, ""},
	} {
		s := process.Spec{Commands: process.Commands{Run: tt.line}}
		if got := s.Unrun(tt.cause); got != tt.want {
			t.Errorf("%q, %s: got %q, want %q", tt.line, tt.cause, got, tt.want)
		}
	}
}
