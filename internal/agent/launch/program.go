package launch

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"drover/internal/agent/trail"
	"drover/internal/process"
)

const (
	// maxInterpreters is how many scripts the kernel follows from a script to its interpreter, and longestHeader how
	// much of the first line counts, in bytes (execve(2)).
	maxInterpreters, longestHeader = 5, 256
)

// MayRun fails, in a caller's words, if this process cannot change to the account.
func (a Account) MayRun() error {
	_, err := credentialFor(a)
	return err
}

// MayExecute fails, in a caller's words, if it is certain that the account cannot execute the program of a command line
// in a directory, with these variables. It runs nothing. What a shell would call is not known, and is no failure. It
// may hang if a file system hangs.
func (a Account) MayExecute(line, dir string, variables map[string]string) error {
	words, exact := process.Words(line)
	if !exact || len(words) == 0 || words[0] == "" {
		return nil
	}
	look := programs{Account: a, dir: dir, path: cmp.Or(variables["PATH"], DefaultPath)}
	if !strings.HasPrefix(line, "exec ") && slices.Contains(builtins(), words[0]) {
		return nil // the shell does it
	}
	return look.find(words[0], 0)
}

// builtins are the commands of shells that may be no programs (POSIX, "Utilities", and those of common shells).
func builtins() []string {
	return strings.Fields("[ [[ declare echo enable false function kill let local newgrp printf pwd select test time true " +
		"typeset")
}

// programs looks for programs as an account in a directory.
type programs struct {
	Account
	dir, path string
}

// find fails if a program cannot be executed: a path, or a name that is looked for in PATH. depth counts the scripts
// that led to it.
func (p programs) find(name string, depth int) error {
	if strings.Contains(name, "/") {
		return p.executable(name, depth)
	}
	var denied error
	for dir := range strings.SplitSeq(p.path, ":") {
		err := p.executable(path.Join(cmp.Or(dir, "."), name), depth)
		if err == nil {
			return nil
		}
		if denied == nil && process.CauseOf(err) == process.CauseCommandDenied {
			denied = err
		}
	}
	if denied != nil {
		return denied
	}
	return process.Errorf(process.Failed, "%q is in no directory of PATH, which is %s", name,
		p.path).Because(process.CauseCommandMissing)
}

// executable fails if a file is no program that the account may execute. depth counts the scripts that led to it.
func (p programs) executable(name string, depth int) error {
	at := name
	if !path.IsAbs(at) {
		at = strings.TrimSuffix(p.dir, "/") + "/" + at
	}
	var f format
	err := p.Visit(nil, at, func(way *trail.Trail) error {
		if way.IsDir() {
			return &fs.PathError{Op: "execute", Path: at, Err: syscall.EISDIR}
		}
		if !way.IsRegular() {
			return &fs.PathError{Op: "execute", Path: at, Err: syscall.EACCES}
		}
		if err := way.Execute(); err != nil {
			return err
		}
		f = readFormat(way, openForWriting)
		return nil
	})
	switch {
	case err != nil:
		return p.explain(name, err)
	case f.fault != "":
		return process.Errorf(process.Failed, "%q %s", name, f.fault).Because(process.CauseCommandDenied)
	case f.loader != "" && depth < maxInterpreters: // the kernel does not ask for the loader of a loader
		if err := p.executable(f.loader, maxInterpreters); err != nil {
			return interpreterFault(name, err)
		}
		return nil
	}
	interpreter, argument, ok := interpreterOf(f.header)
	if !ok || depth >= maxInterpreters {
		return nil
	}
	if err := p.executable(interpreter, depth+1); err != nil {
		return interpreterFault(name, err)
	}
	if program := programOfEnv(interpreter, argument); program != "" {
		if err := p.find(program, depth+1); err != nil {
			return interpreterFault(name, err)
		}
	}
	return nil
}

// programOfEnv is the program that env would execute for a script; empty if that is not certain.
func programOfEnv(interpreter, argument string) string {
	if path.Base(interpreter) != "env" {
		return ""
	}
	if words, split := strings.CutPrefix(argument, "-S "); split {
		argument, _, _ = strings.Cut(strings.TrimLeft(words, " "), " ")
	}
	if strings.HasPrefix(argument, "-") || strings.ContainsAny(argument, "= $'\"\\") {
		return ""
	}
	return argument
}

// explain says why a file cannot be executed.
func (p programs) explain(name string, err error) error {
	failed := func(cause process.CauseID, format string, args ...any) error {
		return process.Errorf(process.Failed, format, args...).Because(cause)
	}
	problem, ok := errors.AsType[*fs.PathError](err)
	switch {
	case !ok:
		return nil // the rights of the account cannot be taken: nothing is known
	case errors.Is(problem, syscall.EMFILE), errors.Is(problem, syscall.ENFILE):
		return failed("", "drover has no file descriptor left: %v", problem.Err)
	case errors.Is(problem, syscall.ENOENT) && strings.HasSuffix(name, "\r"):
		return failed(process.CauseCommandMissing, "%q was not found: a line ends with CR LF, expected LF", name)
	case errors.Is(problem, syscall.ENOENT), errors.Is(problem, syscall.ENOTDIR):
		return failed(process.CauseCommandMissing, "%q was not found", name)
	case errors.Is(problem, syscall.EISDIR):
		return failed(process.CauseCommandDenied, "%q is a directory", name)
	case errors.Is(problem, syscall.EACCES):
		return failed(process.CauseCommandDenied, "user %s may not execute %q: %v", p.Name, name, syscall.EACCES)
	}
	return failed(process.CauseCommandDenied, "cannot execute %q: %v", name, problem.Err)
}

// interpreterFault says that a script cannot be executed because of its interpreter.
func interpreterFault(script string, err error) error {
	return process.Errorf(process.Failed, "%q cannot be executed: its interpreter %v", script,
		err).Because(process.CauseOf(err))
}

// readFormat is the format of a file; empty if the account may not read it. busy tells whether somebody writes the
// file; it may be nil.
func readFormat(way *trail.Trail, busy func(*os.File) bool) (f format) {
	if !way.IsRegular() {
		return format{}
	}
	file, err := way.Open()
	if err != nil {
		return format{}
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if f = formatOf(file); f.fault == "" && busy != nil && busy(file) {
		f.fault = "is open for writing by a process: " + syscall.ETXTBSY.Error()
	}
	return f
}

// IsScript reports whether a file is a script that the account may read, which an interpreter executes. It opens the
// file with the rights of the account, and may hang if a file system hangs.
func (a Account) IsScript(path string) (script bool) {
	_ = a.Visit(nil, path, func(way *trail.Trail) error { // what cannot be opened is none
		script = readFormat(way, nil).header != ""
		return nil
	})
	return script
}

// interpreterOf returns the interpreter of a script, and its argument, as the kernel splits its first line. A carriage
// return belongs to the name.
func interpreterOf(header string) (interpreter, argument string, ok bool) {
	interpreter, argument, _ = strings.Cut(strings.ReplaceAll(strings.Trim(header, " \t"), "\t", " "), " ")
	return interpreter, strings.Trim(argument, " "), interpreter != ""
}
