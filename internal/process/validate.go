package process

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The longest accepted values, in bytes.
const (
	MaxName    = 255
	MaxPath    = 4095
	MaxCommand = 64 << 10
	// MaxSpec bounds the sum of all texts of a spec: drover stores a spec for each process, and shows specs in lists.
	MaxSpec = 512 << 10
)

// ValidateID reports the errors in a name, and names the field as the callers know it.
func ValidateID(id ID) error {
	var f faults
	f.text("meta.namespace", id.Namespace, MaxName)
	f.text("meta.name", id.Name, MaxName)
	return JoinFaults(f)
}

// Validate reports all errors that make the spec unfit for op, and names the fields as the callers know them; the
// error is an *Error. An operation with SpecIgnored accepts any spec. Validate does not check what only the
// host knows, such as whether a directory or a user exists.
func (s *Spec) Validate(op Op) error {
	if !op.Known() {
		return Errorf(IllegalOp, "there is no operation %q", op)
	}
	return JoinFaults(s.Faults(op))
}

// Faults returns the errors of Validate one by one.
func (s *Spec) Faults(op Op) []FieldFault {
	if n := s.Size(); n > MaxSpec { // also for an operation that ignores the spec, because the store keeps the spec
		var f faults
		f.add("spec", "is %d bytes long in all: expected at most %d", n, MaxSpec)
		return f
	}
	row := op.Info()
	if row.Spec == SpecIgnored {
		return nil
	}
	var f faults
	s.identityFaults(&f)
	s.commandFaults(&f)
	s.labelFaults(&f)
	if !row.StoresSpec { // the timetable and the limits do not matter to this operation
		return f
	}
	if s.Policy.Kind == Periodic && (row.Spec != SpecSent || s.Policy.Crontab != "") {
		f = append(f, s.TimetableFaults()...)
	}
	f.hard(s.Hard)
	f.execution(s.Execution)
	if s.Ready != nil {
		f.ready(s.Ready)
	}
	f.probes(s.Probes)
	s.configFaults(&f)
	return f
}

// Size is the sum of the lengths of all texts of the spec, in bytes; 0 without a spec.
func (s *Spec) Size() (n int) {
	if s == nil {
		return 0
	}
	id, c := &s.Identity, &s.Commands
	for _, text := range []string{
		id.ProcName, id.SetupPath, id.PIDPath, id.ConfigPath, id.LogPath, id.User,
		c.Run, c.Start, c.Stop, c.Restart, c.Reload, c.Kill, c.Version, c.Health,
		s.Policy.Crontab, string(s.Policy.Kind), s.Schedule.TimeZone, string(s.Labels), s.FuncID, s.InstanceID,
		s.Contact,
	} {
		n += len(text)
	}
	if r := s.Ready; r != nil {
		n += len(r.TCP) + len(r.HTTP) + len(r.Exec) + len(r.Log)
	}
	for _, f := range s.Config {
		n += len(f.Path) + len(f.MD5)
	}
	return n + s.Execution.size()
}

func (s *Spec) identityFaults(f *faults) {
	id := s.Identity
	switch {
	case id.ProcName == "" && (s.Foreground() || s.Stop != nil && id.PIDPath != ""): // GSE and JOB ask for the name
	case id.ProcName == "":
		f.add("spec.identity.proc_name", "is empty: expected the base name of the executable")
	case strings.Contains(id.ProcName, "/"):
		f.add("spec.identity.proc_name", "%.200q holds a slash: expected the base name of the executable", id.ProcName)
	default:
		f.text("spec.identity.proc_name", id.ProcName, MaxName)
	}
	if id.SetupPath == "" {
		f.add("spec.identity.setup_path", "is empty: expected an absolute directory")
	} else {
		f.absolute("spec.identity.setup_path", id.SetupPath)
	}
	if id.PIDPath != "" {
		f.absolute("spec.identity.pid_path", id.PIDPath)
	}
	f.short("spec.identity.config_path", id.ConfigPath)
	f.short("spec.identity.log_path", id.LogPath)
	if id.User == "" && s.Stop != nil { // a process file may leave it out: the account of the agent
		return
	}
	if id.User == "" {
		f.add("spec.identity.user", "is empty: expected an account of the host")
	} else {
		f.text("spec.identity.user", id.User, MaxName)
	}
}

func (s *Spec) commandFaults(f *faults) {
	if s.Foreground() {
		for _, c := range []struct{ field, value, why string }{
			{"start_cmd", s.Commands.Start, "run starts the process"},
			{"restart_cmd", s.Commands.Restart, "a restart is a stop and a start of run"},
			{"pid_path", s.Identity.PIDPath, "drover knows the process of run without a pid file"},
		} {
			if c.value != "" {
				f.add("spec.control."+c.field, "is set beside run: expected none, because %s", c.why)
			}
		}
	}
	for _, c := range []struct{ field, value string }{
		{"run", s.Commands.Run},
		{"start_cmd", s.Commands.Start},
		{"stop_cmd", s.Commands.Stop},
		{"restart_cmd", s.Commands.Restart},
		{"reload_cmd", s.Commands.Reload},
		{"kill_cmd", s.Commands.Kill},
		{"version_cmd", s.Commands.Version},
		{"health_cmd", s.Commands.Health},
	} {
		f.command("spec.control."+c.field, c.value)
	}
}

func (f *faults) command(field, line string) {
	if strings.ContainsRune(line, 0) {
		f.add(field, "holds a NUL byte")
	}
	if len(line) > MaxCommand {
		f.add(field, "is %d bytes long: expected at most %d", len(line), MaxCommand)
	}
}

// short notes a path that is too long; the path may otherwise have any form.
func (f *faults) short(field, value string) {
	if len(value) > MaxPath {
		f.add(field, "is %d bytes long: expected at most %d", len(value), MaxPath)
	}
}

func (f *faults) absolute(field, value string) {
	if f.text(field, value, MaxPath) && !path.IsAbs(value) {
		f.add(field, "%.200q is not absolute: expected a path that begins with /", value)
	}
}

// text notes the errors in a line of text, and reports whether there are none.
func (f *faults) text(field, value string, longest int) bool {
	control := strings.IndexFunc(value, unicode.IsControl)
	switch {
	case value == "":
		f.add(field, "is empty")
	case len(value) > longest:
		f.add(field, "is %d bytes long: expected at most %d", len(value), longest)
	case !utf8.ValidString(value):
		f.add(field, "is not valid UTF-8")
	case control >= 0:
		f.add(field, "holds a control character at byte %d", control)
	default:
		return true
	}
	return false
}

// mostHostID is the length of the longest id of a host, in bytes.
const mostHostID = 64

// HostIDFault returns what is wrong with the id of a host; nil for an empty id. Everywhere an id stands in lists with
// commas, in patterns, paths and expressions: so it has only letters, digits and a few marks.
func HostIDFault(id string) error {
	odd := func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.:", c)
	}
	if len(id) > mostHostID || strings.ContainsFunc(id, odd) || strings.HasPrefix(id, "-") {
		return fmt.Errorf("%.80q is not the id of a host: expected at most %d bytes of letters, digits, -, _, . and :, "+
			"without - at the begin", id, mostHostID)
	}
	return nil
}
