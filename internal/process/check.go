package process

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"drover/internal/crontab"
	"drover/internal/spec"
)

// The longest accepted values, in bytes.
const (
	MaxName    = 255
	MaxPath    = 4095
	MaxCommand = 64 << 10
	// MaxSpec bounds a spec in JSON: drover stores a spec for each process, and shows specs in lists.
	MaxSpec = 512 << 10
)

// The ranges of fields of a spec.
const (
	maxVariables = 1000
	maxConfig    = 256
	md5Digits    = 32
	sha256Digits = 64

	minHardMemory = 4 << 20 // bytes: less is not even enough for the shell
	maxHardMemory = 1 << 50
	maxHardCPU    = 100 * 4096 // percent of one CPU
	maxHardTasks  = 4 << 20    // the kernel's largest number of pids

	maxInterval = 30 * 24 * time.Hour
	maxJitter   = 24 * time.Hour
)

// ValidateID reports the errors in a name, and names the field as the callers know it.
func ValidateID(id ID) error {
	var f faults
	f.text("meta.namespace", id.Namespace, MaxName)
	f.text("meta.name", id.Name, MaxName)
	return JoinFaults(f.list)
}

// Validate reports all errors that make a spec unfit for op; the error is an *Error. Fields have the names that callers
// know: those of GSE for a spec with Compat, else those of process files. An operation with SpecIgnored accepts any
// spec. Validate does not check what only the host knows, such as whether a directory or a user exists.
func Validate(s *Spec, op Op) error {
	if !op.Known() {
		return Errorf(IllegalOp, "there is no operation %q", op)
	}
	return JoinFaults(Faults(s, op))
}

// Faults returns the errors of Validate one by one.
func Faults(s *Spec, op Op) []FieldFault { return faultsOf(s, op, s != nil && s.Compat != nil) }

// FileFaults is Faults with the names that fields have in process files.
func FileFaults(s *Spec, op Op) []FieldFault { return faultsOf(s, op, false) }

func faultsOf(s *Spec, op Op, wire bool) []FieldFault {
	f := faults{spec: s, wire: wire}
	if n := Size(s); n > MaxSpec { // also for an operation that ignores the spec, because the store keeps the spec
		f.add("spec", "spec", "is %d bytes long in all: expected at most %d", n, MaxSpec)
		return f.list
	}
	row := op.Info()
	if row.Spec == SpecIgnored {
		return nil
	}
	f.identity()
	f.commands()
	if value, ok := s.ScopeLabel(); ok {
		f.add("labels", "meta.labels[drover.stop_scope]", "is %q: expected %q, or no such label", value, ScopeProcess)
	}
	if !row.StoresSpec { // the timetable and the limits do not matter to this operation
		return f.list
	}
	if s.Kind() == Periodic && (row.Spec != SpecSent || s.Schedule.Cron != "") {
		f.timetable()
	}
	f.groupLimits()
	f.execution()
	f.configFiles()
	return f.list
}

// Size is the length of a spec in JSON, in bytes; 0 without a spec.
func Size(s *Spec) int {
	if s == nil {
		return 0
	}
	text, _ := json.Marshal(s) // a spec always encodes
	return len(text)
}

func (f *faults) identity() {
	s := f.spec
	name, wire := "process_name", "spec.identity.proc_name"
	switch {
	case s.ProcessName == "" && (s.Foreground() || s.Compat == nil && s.PIDFile != ""): // GSE and JOB ask for the name
	case s.ProcessName == "":
		f.add(name, wire, "is empty: expected the base name of the executable")
	case strings.Contains(s.ProcessName, "/"):
		f.add(name, wire, "%.200q holds a slash: expected the base name of the executable", s.ProcessName)
	default:
		f.text(f.name(name, wire), s.ProcessName, MaxName)
	}
	directory := f.name("directory", "spec.identity.setup_path")
	switch {
	case s.Directory != "":
		f.absolute(directory, s.Directory)
	case s.Compat != nil:
		f.add(directory, directory, "is empty: expected an absolute directory")
	}
	if s.PIDFile != "" {
		f.absolute(f.name("pid_file", "spec.identity.pid_path"), s.PIDFile)
	}
	if s.Compat != nil {
		f.short(f.name("compat.config_path", "spec.identity.config_path"), s.Compat.ConfigPath)
	}
	f.short(f.name("log_file", "spec.identity.log_path"), s.LogPath())
	switch user := f.name("user", "spec.identity.user"); {
	case s.User != "":
		f.text(user, s.User, MaxName)
	case s.Compat != nil: // a process file may leave it out: the account of the agent
		f.add(user, user, "is empty: expected an account of the host")
	}
}

func (f *faults) commands() {
	s := f.spec
	if s.Foreground() {
		for _, c := range []struct{ field, wire, value, why string }{
			{"start", "spec.control.start_cmd", s.Start, "run starts the process"},
			{
				"compat.restart_cmd", "spec.control.restart_cmd", s.RestartCommand(),
				"a restart is a stop and a start of run",
			},
			{"pid_file", "spec.control.pid_path", s.PIDFile, "drover knows the process of run without a pid file"},
		} {
			if c.value != "" {
				f.add(c.field, c.wire, "is set beside run: expected none, because %s", c.why)
			}
		}
	}
	for _, c := range []struct{ field, wire, value string }{
		{"run", "run", s.Run},
		{"start", "start_cmd", s.Start},
		{"stop", "stop_cmd", s.Stop},
		{"compat.restart_cmd", "restart_cmd", s.RestartCommand()},
		{"reload", "reload_cmd", s.ReloadCommand()},
		{"compat.kill_cmd", "kill_cmd", s.KillCommand()},
		{"version_command", "version_cmd", s.VersionCommand},
		{"health.exec", "health_cmd", s.HealthCommand()},
	} {
		f.command(f.name(c.field, "spec.control."+c.wire), c.value)
	}
	if s.Preflight != nil {
		f.command("preflight.run", s.Preflight.Run)
	}
	if s.BeforeStart != nil {
		f.command("before_start.run", s.BeforeStart.Run)
	}
	if s.BeforeStop != nil {
		f.command("before_stop.run", s.BeforeStop.Run)
	}
	if s.Ready != nil {
		f.command("ready.exec", s.Ready.Exec)
	}
}

func (f *faults) command(field, line string) {
	if strings.ContainsRune(line, 0) {
		f.add(field, field, "holds a NUL byte")
	}
	if len(line) > MaxCommand {
		f.add(field, field, "is %d bytes long: expected at most %d", len(line), MaxCommand)
	}
}

// short notes a path that is too long; the path may otherwise have any form.
func (f *faults) short(field, value string) {
	if len(value) > MaxPath {
		f.add(field, field, "is %d bytes long: expected at most %d", len(value), MaxPath)
	}
}

func (f *faults) absolute(field, value string) {
	if f.text(field, value, MaxPath) && !path.IsAbs(value) {
		f.add(field, field, "%.200q is not absolute: expected a path that begins with /", value)
	}
}

// text notes the errors in a line of text, and reports whether there are none.
func (f *faults) text(field, value string, longest int) bool {
	control := strings.IndexFunc(value, unicode.IsControl)
	switch {
	case value == "":
		f.add(field, field, "is empty")
	case len(value) > longest:
		f.add(field, field, "is %d bytes long: expected at most %d", len(value), longest)
	case !utf8.ValidString(value):
		f.add(field, field, "is not valid UTF-8")
	case control >= 0:
		f.add(field, field, "holds a control character at byte %d", control)
	default:
		return true
	}
	return false
}

// TimetableFaults returns the errors in the timetable of a spec, whatever its kind.
func TimetableFaults(s *Spec) []FieldFault {
	f := faults{spec: s, wire: s.Compat != nil}
	f.timetable()
	return f.list
}

func (f *faults) timetable() {
	const jitter = "schedule.jitter"
	t := f.spec.Timetable()
	rule := f.name("schedule.cron", "spec.monitor_policy.crontab_rule")
	cycle := f.name("schedule.every", "spec.monitor_policy.cycle_time")
	every, spread := t.Interval(), t.Spread()
	switch {
	case t.Cron == "" && every == 0:
		f.add(rule, rule,
			"is empty: a periodic process (auto_type 0) needs it, such as \"*/5 * * * *\", or a cycle_time in seconds")
	case t.Cron != "" && every != 0:
		f.add(rule, rule, "and cycle_time are both set: expected one of them")
	}
	switch outside := every < 0 || every > maxInterval; {
	case outside && f.wire:
		f.add(cycle, cycle, "is %d: expected 1 to %d seconds", int(every.Seconds()), int(maxInterval.Seconds()))
	case outside:
		f.add(cycle, cycle, "is %s: expected at most %s", spec.Duration(every), spec.Duration(maxInterval))
	}
	var zone *time.Location
	var err error
	if t.TimeZone != "" {
		if zone, err = crontab.Zone(t.TimeZone); err != nil {
			f.add("schedule.time_zone", "schedule.time_zone", "%v", err)
		}
	}
	gap := every
	if t.Cron != "" {
		r, err := crontab.Parse(t.Cron, zone)
		if err != nil {
			f.add(rule, rule, "%.60q: %v", t.Cron, err)
		}
		if gap = 0; err == nil && spread > 0 {
			gap = shortest(r)
		}
	}
	if spread < 0 || spread > maxJitter {
		f.add(jitter, jitter, "is %s: expected at most 24h", spec.Duration(spread))
	}
	if gap > 0 && spread >= gap {
		f.add(jitter, jitter, "is %s: expected less than the %s between two runs", spec.Duration(spread),
			spec.Duration(gap))
	}
}

// shortest is the least time between two of the next runs of a rule on a usual day; 0 if the rule has no runs.
func shortest(r crontab.Rule) (gap time.Duration) {
	const looks = 200
	last, ok := r.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for range looks {
		if !ok {
			break
		}
		next, more := r.Next(last)
		if between := next.Sub(last); more && (gap == 0 || between < gap) {
			gap = between
		}
		last, ok = next, more
	}
	return gap
}

func (f *faults) groupLimits() {
	h := f.spec.GroupLimits()
	for _, l := range []struct {
		name         string
		value, least int64
		most         int64
		unit         string
	}{
		{"memory", h.Memory, minHardMemory, maxHardMemory, "bytes"},
		{"cpu", int64(h.CPU), 1, maxHardCPU, "percent of one processor"},
		{"tasks", h.Tasks, 1, maxHardTasks, "processes and threads"},
	} {
		if l.value != 0 && (l.value < l.least || l.value > l.most) {
			f.add("limits."+l.name, "limits."+l.name, "is %d: expected %d to %d %s, or 0 for none", l.value, l.least,
				l.most, l.unit)
		}
	}
}

func (f *faults) execution() {
	s := f.spec
	if len(s.Environment) > maxVariables {
		f.add("environment", "environment", "has %d variables: expected at most %d", len(s.Environment), maxVariables)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		if fault := VariableFault(name); fault != "" {
			f.add("environment", "environment", "has the name %.80q, which %s", name, fault)
		}
		if strings.ContainsRune(s.Environment[name], 0) {
			f.add("environment."+name, "environment."+name, "holds a NUL byte")
		}
	}
	for _, entry := range s.EnvironmentFiles {
		file, _ := EnvironmentFile(entry)
		f.absolute("environment_files", file)
	}
	for _, group := range slices.Concat(s.Groups, []string{s.Group}) {
		if group != "" || slices.Contains(s.Groups, "") {
			f.text("groups", group, MaxName)
		}
	}
	for _, name := range s.Capabilities {
		if _, ok := Capability(name); !ok {
			f.add("capabilities", "capabilities", "has %.80q: expected a name such as NET_BIND_SERVICE", name)
		}
	}
	for _, l := range s.RLimits() {
		if l.Value < Unlimited {
			f.add("limits."+l.Name, "limits."+l.Name, "is %d: expected 0 or more, or -1 for infinity", l.Value)
		}
	}
	if dir := s.RuntimeDirectory; dir != "" && (strings.Contains(dir, "/") || dir == "." || dir == "..") {
		f.add("runtime_directory", "runtime_directory", "is %.80q: expected the name of a directory below /run", dir)
	}
}

// configFiles notes the errors in the list of configuration files. A file without a checksum is not compared.
func (f *faults) configFiles() {
	list := f.spec.ConfigFiles
	if len(list) > maxConfig {
		f.add("config_files", "spec.configmap", "names %d files: expected at most %d", len(list), maxConfig)
		return
	}
	sums := map[string]string{}
	for i, c := range list {
		at := fmt.Sprintf("%s[%d].", f.name("config_files", "spec.configmap"), i)
		f.absolute(at+"path", c.Path)
		sum := cmp.Or(c.SHA256, c.MD5)
		if sum == "" {
			continue
		}
		if c.MD5 != "" && !isHex(c.MD5, md5Digits) {
			f.add(at+"md5", at+"md5", "is %.40q: expected %d hexadecimal digits, or nothing", c.MD5, md5Digits)
		}
		if c.SHA256 != "" && !isHex(c.SHA256, sha256Digits) {
			f.add(at+"sha256", at+"sha256", "is %.80q: expected %d hexadecimal digits, or nothing", c.SHA256, sha256Digits)
		}
		if other, twice := sums[c.Path]; twice && !strings.EqualFold(other, sum) {
			f.add(at+"path", at+"path", "%.200q is named twice, with different checksums", c.Path)
		}
		sums[c.Path] = sum
	}
}

func isHex(text string, length int) bool {
	const digits = "0123456789abcdefABCDEF"
	return len(text) == length && strings.Trim(text, digits) == ""
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

// EnvironmentFile returns the path of an entry of EnvironmentFiles. A minus before the path makes the file optional.
func EnvironmentFile(entry string) (file string, optional bool) {
	return strings.CutPrefix(entry, "-")
}

// capabilities are the names of capabilities(7), without CAP_, in the order of their numbers.
const capabilities = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE " +
	"NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE " +
	"SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL " +
	"SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"

// Capability returns the number of a capability by its name, with or without CAP_; ok is false for an unknown name.
func Capability(name string) (number int, ok bool) {
	number = slices.Index(Capabilities(), spec.CapabilityName(name))
	return number, number >= 0
}

// Capabilities returns the names of capabilities(7), without CAP_.
func Capabilities() []string { return strings.Fields(capabilities) }

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
