package process

import (
	"slices"
	"strings"

	v1 "drover/api/v1"
)

// The ranges of Execution.
const (
	maxUmask     = 0o777
	minNice      = -20
	maxNice      = 19
	maxOOMAdjust = 1000
	maxVariables = 1000
)

func (f *faults) execution(e Execution) {
	const at = "spec.execution."
	if len(e.Environment) > maxVariables {
		f.add(at+"environment", "has %d variables: expected at most %d", len(e.Environment), maxVariables)
	}
	for _, name := range sortedNames(e.Environment) {
		if fault := VariableFault(name); fault != "" {
			f.add(at+"environment", "has the name %.80q, which %s", name, fault)
		}
		if strings.ContainsRune(e.Environment[name], 0) {
			f.add(at+"environment."+name, "holds a NUL byte")
		}
	}
	for _, entry := range e.EnvironmentFiles {
		path, _ := EnvironmentFile(entry)
		f.absolute(at+"environment_files", path)
	}
	for _, group := range slices.Concat(e.Groups, []string{e.Group}) {
		if group != "" || slices.Contains(e.Groups, "") {
			f.text(at+"groups", group, MaxName)
		}
	}
	for _, number := range []struct {
		name        string
		value       *int
		least, most int
	}{
		{"umask", e.Umask, 0, maxUmask},
		{"nice", e.Nice, minNice, maxNice},
		{"oom_score_adjust", e.OOMScoreAdjust, -maxOOMAdjust, maxOOMAdjust},
	} {
		if v := number.value; v != nil && (*v < number.least || *v > number.most) {
			f.add(at+number.name, "is %d: expected %d to %d", *v, number.least, number.most)
		}
	}
	for _, name := range e.Capabilities {
		if _, ok := Capability(name); !ok {
			f.add(at+"capabilities", "has %.80q: expected a name such as NET_BIND_SERVICE", name)
		}
	}
	for _, l := range e.RLimits.List() {
		if *l.Value < Unlimited {
			f.add(at+"rlimits."+l.Name, "is %d: expected 0 or more, or -1 for infinity", *l.Value)
		}
	}
	if dir := e.RuntimeDirectory; dir != "" && (strings.Contains(dir, "/") || dir == "." || dir == "..") {
		f.add(at+"runtime_directory", "is %.80q: expected the name of a directory below /run", dir)
	}
}

// OwnVariable is the fault of a variable that only drover sets.
const OwnVariable = "drover sets itself"

// VariableFault says what is wrong with the name of an environment variable; empty if nothing is. drover itself sets
// the names that begin with DROVER_.
func VariableFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case strings.ContainsAny(name, "=\x00\n"):
		return "holds an equals sign, a newline or a NUL byte"
	case strings.HasPrefix(name, "DROVER_"):
		return OwnVariable
	}
	return ""
}

func sortedNames(variables map[string]string) []string {
	names := make([]string, 0, len(variables))
	for name := range variables {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// size is the length of the texts, in bytes.
func (e *Execution) size() (n int) {
	for name, value := range e.Environment {
		n += len(name) + len(value)
	}
	for _, list := range [][]string{e.EnvironmentFiles, e.Groups, e.Capabilities} {
		for _, text := range list {
			n += len(text)
		}
	}
	return n + len(e.Group) + len(e.RuntimeDirectory)
}

// capabilities are the names of capabilities(7), without CAP_, in the order of their numbers.
const capabilities = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE " +
	"NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE " +
	"SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL " +
	"SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"

// Capability returns the number of a capability by its name, with or without CAP_; ok is false for an unknown name.
func Capability(name string) (number int, ok bool) {
	number = slices.Index(strings.Fields(capabilities), strings.TrimPrefix(strings.ToUpper(name), "CAP_"))
	return number, number >= 0
}

// Unlimited is the value of a limit of RLimits without a bound.
const Unlimited = v1.Unlimited

// LimitText is a limit of RLimits as a process file has it: a number or infinity.
func LimitText(n int64) string { return v1.LimitNumber(n).String() }

// RLimit is one limit of RLimits with its name.
type RLimit struct {
	Name  string
	Value *int64
}

// List returns the limits that are set.
func (r RLimits) List() []RLimit {
	all := []RLimit{
		{"open_files", r.OpenFiles},
		{"core_size", r.CoreSize},
		{"locked_memory", r.LockedMemory},
		{"stack_size", r.StackSize},
		{"processes", r.Processes},
		{"file_size", r.FileSize},
	}
	return slices.DeleteFunc(all, func(l RLimit) bool { return l.Value == nil })
}

// Set changes a limit that is set.
func (r *RLimits) Set(name string, value int64) {
	for i, field := range []**int64{
		&r.OpenFiles, &r.CoreSize, &r.LockedMemory, &r.StackSize, &r.Processes, &r.FileSize,
	} {
		if [...]string{"open_files", "core_size", "locked_memory", "stack_size", "processes", "file_size"}[i] == name {
			*field = &value
		}
	}
}

// ChangedLimits returns the names of the limits that differ between two specs and that a running process can get: all
// but the size of the stack.
func ChangedLimits(was, is *Spec) (names []string) {
	for _, l := range []struct {
		name    string
		differs bool
	}{
		{"memory", was.Hard.Memory != is.Hard.Memory},
		{"cpu", was.Hard.CPU != is.Hard.CPU},
		{"tasks", was.Hard.Tasks != is.Hard.Tasks},
	} {
		if l.differs {
			names = append(names, l.name)
		}
	}
	a, b := was.Execution.RLimits, is.Execution.RLimits
	for _, l := range []struct {
		name    string
		was, is *int64
	}{
		{"open_files", a.OpenFiles, b.OpenFiles},
		{"core_size", a.CoreSize, b.CoreSize},
		{"locked_memory", a.LockedMemory, b.LockedMemory},
		{"processes", a.Processes, b.Processes},
		{"file_size", a.FileSize, b.FileSize},
	} {
		if (l.was == nil) != (l.is == nil) || l.was != nil && *l.was != *l.is {
			names = append(names, l.name)
		}
	}
	return names
}

// Capabilities returns the names of capabilities(7), without CAP_.
func Capabilities() []string { return strings.Fields(capabilities) }

// EnvironmentFile returns the path of an entry of EnvironmentFiles. A minus before the path makes the file optional.
func EnvironmentFile(entry string) (path string, optional bool) {
	return strings.CutPrefix(entry, "-")
}
