package process

import "strings"

// Foreground reports whether the command of Commands.Run is itself the process.
func (s *Spec) Foreground() bool { return s.Commands.Run != "" }

// Starter returns the command line that starts the process, and its field as callers know it.
func (s *Spec) Starter() (field, line string) {
	if s.Foreground() {
		return "run", s.Commands.Run
	}
	return "start_cmd", s.Commands.Start
}

// Replacing returns the line for a shell that becomes the process: the shell executes a command without shell syntax in
// its own place. It stays for any other line.
func Replacing(run string) string {
	if needsShell(run) {
		return run
	}
	return "exec " + run
}

// needsShell reports whether a line means more to a shell than words. A quoted character is only itself.
func needsShell(line string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	if strings.Contains(first, "=") || first == "!" || first == "{" {
		return true
	}
	quote := rune(0)
	escaped := false
	for _, c := range line {
		switch {
		case escaped:
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
