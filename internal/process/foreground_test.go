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

// TestUnrun: the words name the command if the line is one command, and nothing of a longer line. A status that a
// program returned is told as that of the program.
func TestUnrun(t *testing.T) {
	const shell = "\n/bin/sh: 1: ./api: not found\n"
	for _, tt := range []struct {
		line, output string
		code         int
		cause        process.CauseID
		want         string
	}{
		{"/opt/api --port 1", "drover: cannot execute /opt/api\nx", 127, process.CauseCommandMissing, `run: "/opt/api" was not found`},
		{"/opt/api", "drover: /opt/api is a directory", 126, process.CauseCommandDenied, `run: "/opt/api" cannot be executed`},
		{"cd /x && ./api", "in /x" + shell, 127, process.CauseCommandMissing, "run: a command of its line was not found"},
		{"/opt/api", "", 1, process.CauseExitStatus, ""},
		{"/opt/api", "drover: x", 1, process.CauseExitStatus, ""},
		{
			"./p.sh", "works\n./p.sh: 3: jq: not found\n", 127, process.CauseExitStatus,
			"drover has executed it; a script ends so if a command is missing, a program if one of its libraries is missing",
		},
		{
			"./p.sh", "", 126, process.CauseExitStatus,
			"drover has executed it; a script ends so if it cannot execute a command",
		},
		{"", "drover: x", 127, process.CauseExitStatus, ""},
	} {
		s := &process.Spec{Run: tt.line}
		e := &process.Exit{Known: true, Code: tt.code}
		cause := process.CauseOfEnd(s, e, tt.output)
		if got := process.Unrun(s, cause, e); got != tt.want || cause != tt.cause {
			t.Errorf("%q, %d: got %q [%s], want %q [%s]", tt.line, tt.code, got, cause, tt.want, tt.cause)
		}
	}
}
