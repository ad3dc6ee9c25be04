package locate

import (
	"path"
	"slices"
	"strings"

	"drover/internal/agent/launch/gate"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// commLength is the longest name that the kernel keeps, in bytes.
const commLength = 15

// MatchName reports whether a process has this name, the base name of an executable or script. It checks, in this
// order, the executable, the first argument, the script of an interpreter, and the kernel's short name. The short name
// counts if it equals name. A short name of 15 bytes counts if name begins with it, unless one of the others also
// begins with it. A kernel thread never matches, nor does a gate: its arguments are those of a program that it has not
// executed yet.
func MatchName(info procfs.Info, name string) bool {
	if name == "" || info.Kernel || gate.Is(info.Exe) {
		return false
	}
	names := namesOf(info)
	if slices.Contains(names, name) {
		return true
	}
	if len(info.Comm) < commLength {
		return info.Comm == name
	}
	return strings.HasPrefix(name, info.Comm) && !slices.ContainsFunc(names, func(other string) bool {
		return strings.HasPrefix(other, info.Comm)
	})
}

// OtherName returns the name of the executable of a foreground process if the spec names another one. It is empty for a
// process that has not executed its program yet.
func OtherName(spec *process.Spec, info procfs.Info) string {
	want := spec.ProcessName
	if want == "" || !spec.Foreground() || gate.Is(info.Exe) || MatchName(info, want) {
		return ""
	}
	return path.Base(executable(info))
}

// namesOf returns the names of a process except its short name.
func namesOf(info procfs.Info) []string {
	var names []string
	add := func(file string) {
		if base := path.Base(file); file != "" && base != "/" && base != "." {
			names = append(names, base)
		}
	}
	exe := executable(info)
	add(exe)
	if len(info.Args) == 0 {
		return names
	}
	first := info.Args[0]
	word, _, titled := strings.Cut(first, " ")
	if titled && path.Base(first) == path.Base(exe) {
		word = first // the blank is part of the file name
	}
	// "-bash" is a login shell; "nginx: master process" and "/usr/bin/redis-server *:6379" are titles.
	add(word)
	add(strings.TrimSuffix(word, ":"))
	add(strings.TrimPrefix(word, "-"))
	for _, runner := range []string{path.Base(exe), path.Base(word)} {
		if script := scriptOf(runner, info.Args[1:]); script != "" {
			add(script)
			break
		}
	}
	return names
}

// executable is the file without the kernel's note that the file was replaced, as by an upgrade.
func executable(info procfs.Info) string { return strings.TrimSuffix(info.Exe, " (deleted)") }

// interpreter describes how a program takes the script that it runs.
type interpreter struct {
	// prefix says that a version may follow the name, as in python3.11.
	prefix bool
	// valued are the options whose value is the next argument. After an option in none there is no script.
	valued, none []string
	// naming is the option whose value is the script. variables says that arguments with "=" stand before it.
	naming    string
	variables bool
}

// interpreterOf returns the interpreter of a name. Searches ask it for every process of a host.
func interpreterOf(runner string) (in interpreter, ok bool) {
	name := strings.TrimRight(runner, "0123456789.-")
	switch name {
	case "sh", "dash", "ksh", "zsh":
		in = interpreter{valued: []string{"-o", "+o"}, none: []string{"-c", "-s"}}
	case "bash":
		in = interpreter{
			valued: []string{"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}, none: []string{"-c", "-s"},
		}
	case "busybox":
	case "env":
		in = interpreter{valued: []string{"-u", "-C", "--unset", "--chdir"}, variables: true}
	case "python":
		in = interpreter{prefix: true, valued: []string{"-W", "-X", "-Q"}, none: []string{"-c"}, naming: "-m"}
	case "pypy":
		in = interpreter{prefix: true, valued: []string{"-W", "-X"}, none: []string{"-c"}, naming: "-m"}
	case "perl":
		in = interpreter{prefix: true, valued: []string{"-I"}, none: []string{"-e", "-E"}}
	case "ruby":
		in = interpreter{prefix: true, valued: []string{"-I", "-r", "-C"}, none: []string{"-e"}}
	case "php":
		in = interpreter{prefix: true, valued: []string{"-c", "-d", "-z"}, none: []string{"-r"}, naming: "-f"}
	case "lua":
		in = interpreter{prefix: true, valued: []string{"-l"}, none: []string{"-e"}}
	case "node":
		in = interpreter{
			valued: []string{"-r", "--require", "--import", "--loader"},
			none:   []string{"-e", "--eval", "-p", "--print"},
		}
	case "java":
		in = interpreter{
			valued: []string{"-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-modules"},
			naming: "-jar",
		}
	default:
		return in, false
	}
	return in, in.prefix || name == runner
}

// ScriptOf returns the script that a program runs with these arguments, or its module: empty if the program is not an
// interpreter or runs no file.
func ScriptOf(program string, args []string) string { return scriptOf(path.Base(program), args) }

// scriptOf returns the script that a program named runner runs; empty if runner is not an interpreter or runs no file.
func scriptOf(runner string, args []string) string {
	in, ok := interpreterOf(runner)
	if !ok {
		return ""
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == in.naming || arg == "--":
			if len(args) == 0 {
				return ""
			}
			return args[0]
		case slices.Contains(in.none, arg):
			return ""
		case slices.Contains(in.valued, arg):
			args = args[min(1, len(args)):]
		case in.variables && strings.Contains(arg, "="):
		case !strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "+"):
			return arg
		}
	}
	return ""
}
