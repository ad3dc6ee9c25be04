package process

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Longest values that are accepted, in bytes.
const (
	MaxName    = 255
	MaxPath    = 4095
	MaxCommand = 64 << 10
)

// ValidateID reports what is wrong with a name, naming the field as the callers know it.
func ValidateID(id ID) error {
	if err := checkText("meta.namespace", id.Namespace, MaxName); err != nil {
		return err
	}
	return checkText("meta.name", id.Name, MaxName)
}

// Validate reports the first thing that makes the spec unfit for op, naming the field as the callers know it. Query and
// Unhost need no spec at all. What only the host can know (does the directory exist, is there such a user) is not
// checked here.
func (s *Spec) Validate(op Op) error {
	switch op {
	case Query, Unhost, Unregister:
		return nil
	case Start, Stop, Host, Restart, Reload, Kill, Register, Update:
	default:
		return Errorf(IllegalOp, "there is no operation %q", op)
	}
	id := s.Identity
	switch {
	case id.ProcName == "":
		return Errorf(Failed, "spec.identity.proc_name is empty: expected the base name of the executable")
	case strings.Contains(id.ProcName, "/"):
		return Errorf(Failed, "spec.identity.proc_name %q holds a slash: expected the base name of the executable", id.ProcName)
	case id.SetupPath == "":
		return Errorf(Failed, "spec.identity.setup_path is empty: expected an absolute directory")
	case id.User == "":
		return Errorf(Failed, "spec.identity.user is empty: expected an account of the host")
	}
	if err := checkText("spec.identity.proc_name", id.ProcName, MaxName); err != nil {
		return err
	}
	if err := checkText("spec.identity.user", id.User, MaxName); err != nil {
		return err
	}
	for _, p := range []struct{ field, value string }{
		{"spec.identity.setup_path", id.SetupPath},
		{"spec.identity.pid_path", id.PIDPath},
	} {
		if p.value == "" {
			continue
		}
		if err := checkText(p.field, p.value, MaxPath); err != nil {
			return err
		}
		if !path.IsAbs(p.value) {
			return Errorf(Failed, "%s %q is not absolute: expected a path that begins with /", p.field, p.value)
		}
	}
	for _, c := range []struct{ field, value string }{
		{"start_cmd", s.Commands.Start},
		{"stop_cmd", s.Commands.Stop},
		{"restart_cmd", s.Commands.Restart},
		{"reload_cmd", s.Commands.Reload},
		{"kill_cmd", s.Commands.Kill},
		{"version_cmd", s.Commands.Version},
		{"health_cmd", s.Commands.Health},
	} {
		if strings.ContainsRune(c.value, 0) {
			return Errorf(Failed, "spec.control.%s holds a NUL byte", c.field)
		}
		if len(c.value) > MaxCommand {
			return Errorf(Failed, "spec.control.%s is %d bytes long: expected at most %d", c.field, len(c.value), MaxCommand)
		}
	}
	return nil
}

func checkText(field, value string, longest int) error {
	if value == "" {
		return Errorf(Failed, "%s is empty", field)
	}
	if len(value) > longest {
		return Errorf(Failed, "%s is %d bytes long: expected at most %d", field, len(value), longest)
	}
	if !utf8.ValidString(value) {
		return Errorf(Failed, "%s is not valid UTF-8", field)
	}
	if i := strings.IndexFunc(value, unicode.IsControl); i >= 0 {
		return &Error{Fault: Failed, Text: fmt.Sprintf("%s holds a control character at byte %d", field, i)}
	}
	return nil
}
