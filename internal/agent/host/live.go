package host

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"drover/internal/agent/launch"
	"drover/internal/agent/locate"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

// replaced is what the kernel puts behind the path of an executable that is no longer in its place (proc_pid_exe(5)).
const replaced = " (deleted)"

// Differs compares a running process with its spec. alive is false if the process has ended. The process of somebody
// else is compared by its executable and account only.
func (h *Host) Differs(of process.ID, spec *process.Spec, rt record.Runtime) (
	fields []process.LiveField, alive bool,
) {
	id := *rt.Process
	info, err := h.fs.Info(id.PID)
	if err != nil {
		return nil, false
	}
	fields = append(fields, h.otherAccount(spec, &info)...)
	fields = append(fields, h.otherExecutable(spec, rt, &info)...)
	if name := locate.OtherName(spec, info); name != "" {
		fields = append(fields, process.LiveField{Path: "process_name", Want: spec.ProcessName, Have: name})
	}
	if rt.Run != "" && !rt.Outside {
		fields = append(fields, otherLimits(spec, launch.Limits(id.PID))...)
		if h.executed(spec, &info) {
			fields = append(fields, otherLine(spec, &info)...)
			if environment, err := h.fs.Environ(id.PID); err == nil {
				fields = append(fields, h.otherVariables(of, spec, environment)...)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rt.Limits)) {
		at := "limits." + name
		if !slices.ContainsFunc(fields, func(f process.LiveField) bool { return f.Path == at }) {
			fields = append(fields, process.LiveField{
				Path: at, Problem: "it takes effect at the next start: " + rt.Limits[name],
			})
		}
	}
	return fields, h.fs.Same(id)
}

// otherExecutable compares the executable with what the line of the spec names now, links resolved.
func (h *Host) otherExecutable(spec *process.Spec, rt record.Runtime, info *procfs.Info) []process.LiveField {
	path, gone := strings.CutSuffix(info.Exe, replaced)
	field, named, now := process.LiveField{Path: "executable", Want: path, Have: "replaced on disk"}, "", ""
	if words, exact := process.Words(spec.Run); exact && rt.Run != "" && !rt.Outside && spec.Foreground() {
		named, now = h.resolved(spec, words[0])
	}
	_, err := os.Stat(path)
	switch {
	case path == "": // nobody may see it
		return nil
	case isOlder(named, now, path):
		field.Want, field.Have = now, path
		if gone && err != nil {
			field.Have += " (removed from disk)"
		}
	case !gone:
		return nil
	case err != nil && now != "" && now != path:
		field.Have = "removed from disk"
	case err != nil:
		field.Have, field.Problem = "removed from disk", "a restart fails until the file is back"
	}
	return []process.LiveField{field}
}

// resolved returns the file of a command as its line names it, and with its links resolved; empty if there is none, or
// if it is a script, which runs an interpreter.
func (h *Host) resolved(spec *process.Spec, word string) (named, now string) {
	type found struct{ named, now string }
	account, err := h.names.account(cmp.Or(spec.User, launch.OwnName()))
	if err != nil {
		return "", ""
	}
	f, err := within(h.files, account.Name, spec.Dir(), func() found {
		for _, named := range candidates(word, spec) {
			if now, err := trail.Resolve(named); err == nil {
				if account.IsScript(now) {
					return found{}
				}
				return found{named, now}
			}
		}
		return found{}
	})
	if err != nil {
		return "", ""
	}
	return f.named, f.now
}

// isOlder reports whether a process has executed what a path named before a link on the way was changed: the executable
// has the end of the path behind the link. If the link is the last part, it lies beside the target, and both names
// begin as that of the link. A program that executes another one fits neither.
func isOlder(named, now, have string) bool {
	if now == "" || named == now || have == now {
		return false
	}
	rest, end := named, now
	for filepath.Base(rest) == filepath.Base(end) && rest != "/" && end != "/" {
		rest, end = filepath.Dir(rest), filepath.Dir(end)
	}
	tail := strings.TrimPrefix(now, end)
	if tail == "" {
		name := filepath.Base(named)
		return filepath.Dir(have) == filepath.Dir(now) && strings.HasPrefix(filepath.Base(have), name) &&
			strings.HasPrefix(filepath.Base(now), name)
	}
	return strings.HasSuffix(have, tail)
}

// otherAccount compares the account. A process that starts as root may change to another account by itself.
func (h *Host) otherAccount(spec *process.Spec, info *procfs.Info) []process.LiveField {
	name := cmp.Or(spec.User, launch.OwnName())
	account, err := h.names.account(name)
	if err != nil || account.UID == 0 || int64(info.UID) == int64(account.UID) {
		return nil
	}
	return []process.LiveField{{Path: "user", Want: name, Have: "uid " + strconv.Itoa(info.UID)}}
}

// executed reports whether drover itself has executed the program: a foreground process whose line needs no shell, and
// whose executable is that of the line. A script, a wrapper or a daemon changes arguments and environment on the way.
func (h *Host) executed(spec *process.Spec, info *procfs.Info) bool {
	words, exact := process.Words(spec.Run)
	if !spec.Foreground() || !exact || !strings.Contains(words[0], "/") { // else it was found in a directory of PATH
		return false
	}
	path := words[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Dir(), path)
	}
	real, err := within(h.files, cmp.Or(spec.User, launch.OwnName()), path, func() string {
		real, _ := trail.Resolve(path)
		return real
	})
	return err == nil && real == strings.TrimSuffix(info.Exe, replaced)
}

// otherLine compares the command line of a program that drover has executed. There is nothing to compare if the program
// has written a title over its arguments.
func otherLine(spec *process.Spec, info *procfs.Info) []process.LiveField {
	words, _ := process.Words(spec.Run)
	args := info.Args
	if len(args) == 0 || slices.Equal(args[1:], words[1:]) || isTitle(args, words[0]) {
		return nil
	}
	return []process.LiveField{{Path: "run", Want: spec.Run, Have: strings.Join(args, " ")}}
}

// isTitle reports whether arguments are a title: one text, behind which all is empty that the program was started with,
// or a text with a blank that is not the name of the program.
func isTitle(args []string, program string) bool {
	rest := slices.ContainsFunc(args[1:], func(arg string) bool { return arg != "" })
	return !rest || args[0] != program && strings.Contains(args[0], " ")
}

// otherLimits compares the limits that setrlimit(2) sets.
func otherLimits(spec *process.Spec, have map[string]int64) (fields []process.LiveField) {
	for _, l := range spec.RLimits() {
		now, readable := have[l.Name]
		if !readable || now == launch.AsSet(l.Name, l.Value) {
			continue
		}
		fields = append(fields, process.LiveField{
			Path: "limits." + l.Name, Want: process.LimitText(l.Value), Have: process.LimitText(now),
		})
	}
	return fields
}

// otherVariables compares the environment variables, and tells their names, never their values. drover's own variables
// do not count: an earlier version may have set others. A program that has written over its environment has nothing to
// compare: what is left may be pieces of values.
func (h *Host) otherVariables(of process.ID, spec *process.Spec, environment []string) (fields []process.LiveField) {
	account, err := h.names.account(cmp.Or(spec.User, launch.OwnName()))
	if err != nil {
		return nil
	}
	wanted, err := h.variables(of, spec, account)
	if err != nil {
		faults := strings.ReplaceAll(err.Error(), "\n", "; ")
		return []process.LiveField{{Path: "environment_files", Problem: "drover could not look: " + faults}}
	}
	have := map[string]string{}
	for _, variable := range environment {
		name, value, found := strings.Cut(variable, "=")
		if !found || !isVariable(name) {
			return nil
		}
		have[name] = value
	}
	if _, marked := have[launch.MarkVariable]; !marked {
		return nil // the program has written over its environment
	}
	own := func(name string) bool {
		return strings.HasPrefix(name, "DROVER_") || slices.Contains(append(launch.BaseVariables(), "PWD",
			"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "RUNTIME_DIRECTORY"), name)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		value, there := have[name]
		switch {
		case own(name) || there && value == wanted[name]:
		case there:
			fields = append(fields, process.LiveField{
				Path: "environment." + name, Problem: "it gets a new value at the next start",
			})
		default:
			fields = append(fields, process.LiveField{Path: "environment." + name, Want: "set", Have: "not set"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, there := wanted[name]; !there && !own(name) {
			fields = append(fields, process.LiveField{Path: "environment." + name, Want: "not set", Have: "set"})
		}
	}
	return fields
}

// isVariable reports whether a text is the name of a variable as shells know it.
func isVariable(name string) bool {
	for i, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && (c < '0' || c > '9' || i == 0) {
			return false
		}
	}
	return name != ""
}
