package process

import (
	"fmt"
	"slices"
	"strings"
)

// Unexecuted begins what the gate of a command and the shell after it say if they cannot execute the command. Shell is
// the shell that runs a line that is more than one command.
const (
	Unexecuted = "drover: "
	Shell      = "/bin/sh"
)

// CauseOfEnd names the kind of an end of the process, whose last output is given. A foreground process whose command
// was not found, or could not be executed, ends with 127 or 126 (POSIX, sh, "Exit status for commands"). So does a
// script that has met such a command.
func CauseOfEnd(s *Spec, e *Exit, output string) CauseID {
	if s.Foreground() && e != nil && e.Known && e.Signal == 0 {
		if cause := CauseOfStatus(e.Code, output); cause != "" {
			return cause
		}
	}
	return e.Cause()
}

// CauseOfStatus is the cause of an exit status by which drover, or its shell, says that it could not execute a command;
// empty if the status is another one, or if it is that of a program. Only drover and its shell begin so.
func CauseOfStatus(code int, output string) CauseID {
	output = strings.TrimSpace(output)
	last := output[strings.LastIndexByte(output, '\n')+1:]
	if !strings.HasPrefix(output, Unexecuted) && !strings.HasPrefix(last, Shell+": ") {
		return ""
	}
	return map[int]CauseID{127: CauseCommandMissing, 126: CauseCommandDenied}[code]
}

// Unrun says which command of Run was not found or could not be executed, and what such an exit status means
// if it is that of a program; empty if there is nothing to say.
func Unrun(s *Spec, cause CauseID, e *Exit) string {
	if !s.Foreground() {
		return ""
	}
	problem := map[CauseID]string{CauseCommandMissing: "was not found", CauseCommandDenied: "cannot be executed"}[cause]
	switch words, exact := Words(s.Run); {
	case problem != "" && exact:
		return fmt.Sprintf("run: %q %s", words[0], problem)
	case problem != "":
		return "run: a command of its line " + problem
	case e == nil || !e.Known || e.Signal != 0:
	case e.Code == 127:
		return "drover has executed it; a script ends so if a command is missing, " +
			"a program if one of its libraries is missing"
	case e.Code == 126:
		return "drover has executed it; a script ends so if it cannot execute a command"
	}
	return ""
}

// Replacing returns the line for a shell that becomes the process: the shell executes a command without shell syntax in
// its own place. It stays for any other line.
func Replacing(run string) string {
	if needsShell(run) {
		return run
	}
	return "exec " + run
}

// shellWords are the first words of a line that only a shell knows, as no program has these names (POSIX, "Shell
// Command Language").
func shellWords() []string {
	return strings.Fields("! { . : alias bg break cd command continue eval exec exit export fc fg getopts hash jobs read " +
		"readonly return set shift source times trap type ulimit umask unalias unset wait")
}

// needsShell reports whether a line means more to a shell than words. A quoted character is only itself. A newline
// separates commands, but not at the end.
func needsShell(line string) bool {
	line = strings.TrimRight(line, "\n")
	words := strings.Fields(line)
	if len(words) == 0 || strings.Contains(words[0], "=") || slices.Contains(shellWords(), words[0]) {
		return true
	}
	quote := rune(0)
	escaped := false
	for _, c := range line {
		switch {
		case escaped:
			if c == '\n' {
				return true // a shell joins the lines
			}
			escaped = false
		case quote == '\'':
			if c == '\'' {
				quote = 0
			}
		case c == '\\':
			escaped = true
		case c == '$' || c == '`' || c == '\n':
			return true
		case quote == '"':
			if c == '"' {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.ContainsRune("~*?[|&;<>()#", c):
			return true
		}
	}
	return quote != 0 || escaped // the shell reports the error
}

// Words returns the words of a command line, as a shell splits them, without exec before them. exact is false if the
// line means more to a shell: then only the first word counts, and it is empty if only the shell knows the command.
func Words(line string) (words []string, exact bool) {
	line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "set -f; "), "exec ")
	exact = !needsShell(line)
	if !exact {
		first, _, _ := strings.Cut(line, " ")
		if first == "" || needsShell(first) {
			return []string{""}, false
		}
		line = first
	}
	var word strings.Builder
	quote, escaped, begun := rune(0), false, false
	for _, c := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", c) {
				word.WriteRune('\\')
			}
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote == c && quote != 0:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		words = []string{""}
	}
	return words, exact
}
