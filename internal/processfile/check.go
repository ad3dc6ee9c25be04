package processfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/crontab"
	"drover/internal/pattern"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/spec"
)

// checker collects the faults of one process: values that are each of the right form and do not fit together.
type checker struct {
	*Named
	path   string
	faults []Fault
	// among are the fields with fixed values.
	among map[string][]string
	// hostless is set if something else than the process names the hosts.
	hostless bool
}

// at is the path of a field.
func (c *checker) at(field string) string {
	if c.Name == "" {
		return field
	}
	return join(c.path, field)
}

// given reports whether the source has the field. Only Read and its like know.
func (c *checker) given(field string) bool {
	_, given := c.lines[c.at(field)]
	return given
}

// fault adds a fault of a field. Its line is that of the field, or of the nearest part around it.
func (c *checker) fault(field, format string, args ...any) {
	at := c.at(field)
	c.faults = append(c.faults, Fault{
		Line: cmp.Or(lineOf(c.lines, at), c.Line), Path: at, Text: fmt.Sprintf(format, args...),
	})
}

// lineOf returns the line of a field, or of what is around a field that is missing; 0 if it is unknown.
func lineOf(lines map[string]int, path string) int {
	for path != "" {
		if n, ok := lines[path]; ok {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// Check finds what is wrong with documents whose values are each of the right form. The faults have lines if Read has
// made the documents.
func Check(docs []Document) Faults { return check(docs) }

// CheckSpec finds what is wrong with a process that is in no file. It must not name hosts.
func CheckSpec(f v1.Spec) Faults { return checkSpec(Named{Spec: f}) }

// checkSpec checks a process without a name.
func checkSpec(p Named) Faults {
	faults := check([]Document{{hostless: true, Processes: []Named{p}}})
	for i := range faults {
		faults[i].Path = strings.TrimPrefix(strings.TrimPrefix(faults[i].Path, "processes."), ".")
	}
	if !p.Hosts.IsZero() {
		faults = append(faults, Fault{
			Line: p.lines["hosts"], Path: "hosts", Text: "is not for this call: the targets name the hosts",
		})
	}
	if p.Copies != nil {
		faults = append(faults, Fault{
			Line: p.lines["copies"], Path: "copies",
			Text: "is for process files: expected a process for each copy, such as NAME@2",
		})
	}
	return faults
}

// check finds what is wrong with values that are each of the right form.
func check(docs []Document) []Fault { return append(checkEach(docs), order(docs)...) }

// checkEach is check for each process by itself.
func checkEach(docs []Document) (faults []Fault) {
	among := choicesOf()
	for i := range docs {
		d := &docs[i]
		for j := range d.Processes {
			p := &d.Processes[j]
			c := &checker{Named: p, path: "processes." + p.Name, hostless: d.hostless, among: among}
			for _, name := range slices.Compact([]string{p.Name, longest(*p)}) {
				err := process.ValidateID(process.ID{Namespace: d.Namespace, Name: name})
				if err != nil && d.Namespace != "" {
					c.fault("", "%s", strings.TrimPrefix(err.Error(), "meta."))
					break
				}
			}
			c.copies()
			c.everything()
			c.ranges()
			faults = append(faults, c.faults...)
		}
	}
	return faults
}

// everything checks all of a process but its name.
func (c *checker) everything() {
	c.command()
	c.quotes()
	c.environment()
	c.numbers()
	c.kind()
	c.readiness()
	c.after()
	c.relaunch()
	c.stopping()
	c.files()
	c.times()
	c.compat()
	for _, f := range CheckRollout(c.Rollout) {
		c.fault("rollout."+f.Path, "%s", f.Text)
	}
	if c.given("rollout.max_unavailable") && c.Rollout.MaxUnavailable.IsZero() {
		c.fault("rollout.max_unavailable", "is 0: expected 1 or more, because one process at least is down meanwhile")
	}
	c.choices("", reflect.ValueOf(c.Spec))
}

// ranges adds what makes the stored spec unfit, of the fields that the file has and that have no fault so far.
func (c *checker) ranges() {
	for _, f := range FaultsOf(&c.Spec, process.Start) {
		path := c.at(f.Path)
		known := slices.ContainsFunc(c.faults, func(other Fault) bool {
			return strings.HasPrefix(other.Path+".", path+".") || strings.HasPrefix(path+".", other.Path+".")
		})
		if c.given(f.Path) && !known {
			c.fault(f.Path, "%s", f.Text)
		}
	}
}

// command checks what runs.
func (c *checker) command() {
	switch {
	case !c.Hosts.IsZero() || c.hostless:
	case c.given("hosts"):
		c.fault("hosts", "is empty: expected a list of hosts, here or in defaults")
	default:
		c.fault("hosts", "is missing: expected a list of hosts, here or in defaults")
	}
	if c.Hosts.Select != "" {
		if _, err := selector.Parse(c.Hosts.Select); err != nil {
			c.fault("hosts.select", "%v", err)
		}
	}
	switch {
	case c.Run == "" && c.Start == "" && c.Compat != nil:
	case c.Run == "" && c.Start == "" && c.given("start"):
		c.fault("start", "is blank: expected a command line")
	case c.Run == "" && c.Start == "" && c.given("run"):
		c.fault("run", "is blank: expected a command line")
	case c.Run == "" && c.Start == "":
		c.fault("run", "is missing: expected run (a foreground command) or start (a command that leaves a daemon)")
	case c.Run != "" && c.Start != "":
		c.fault("start", "stands beside run: expected one of them")
	case c.Run != "" && c.PIDFile != "":
		c.fault("pid_file", "stands beside run: a foreground process is known without it")
	case c.Start != "" && c.PIDFile == "" && c.ProcessName == "":
		c.fault("start", "leaves a daemon that nothing identifies: expected pid_file or process_name beside it")
	}
	switch several := c.ExpectedInstances != nil && *c.ExpectedInstances > 1; {
	case several && c.Run != "":
		c.fault("expected_instances", "stands beside run: a foreground process is one, expected copies for several")
	case several && c.Start != "" && c.ProcessName == "":
		c.fault("expected_instances", "counts the processes of a name: expected process_name beside it")
	}
	if strings.Contains(c.ProcessName, "/") {
		c.fault("process_name", "is %q: expected the base name of the executable, without a path", c.ProcessName)
	}
	c.absolute("directory", c.Directory)
	c.absolute("pid_file", c.PIDFile)
	c.absolute("log_file", c.LogFile)
	if c.BeforeStart != nil && c.BeforeStart.Run == "" {
		c.fault("before_start.run", "is missing: expected a command line")
	}
	if c.Preflight != nil && c.Preflight.Run == "" {
		c.fault("preflight.run", "is missing: expected a command line")
	}
	if c.BeforeStop != nil && c.BeforeStop.Run == "" {
		c.fault("before_stop.run", "is missing: expected a command line")
	}
	c.blanks()
}

// commandLine is a command line of a process, with its field.
type commandLine struct{ field, text string }

// commandLines are the command lines of a process.
func (c *checker) commandLines() []commandLine {
	list := []commandLine{
		{"run", c.Run},
		{"start", c.Start},
		{"stop", c.Stop},
		{"version_command", c.VersionCommand},
		{"reload", c.ReloadCommand()},
		{"health.exec", c.HealthCommand()},
	}
	if c.BeforeStart != nil {
		list = append(list, commandLine{"before_start.run", c.BeforeStart.Run})
	}
	if c.Preflight != nil {
		list = append(list, commandLine{"preflight.run", c.Preflight.Run})
	}
	if c.BeforeStop != nil {
		list = append(list, commandLine{"before_stop.run", c.BeforeStop.Run})
	}
	if c.Ready != nil {
		list = append(list, commandLine{"ready.exec", c.Ready.Exec})
	}
	return list
}

// blanks reports command lines that run nothing.
func (c *checker) blanks() {
	for _, l := range c.commandLines() {
		if l.text != "" && strings.TrimSpace(l.text) == "" && c.Compat == nil { // GSE and JOB let them pass
			c.fault(l.field, "is blank: expected a command line")
		}
	}
}

func (c *checker) absolute(field, value string) {
	if value != "" && !path.IsAbs(value) {
		c.fault(field, "is %q: expected an absolute path", value)
	}
}

// variableName is the form of the name of an environment variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment checks variables, files and accounts.
func (c *checker) environment() {
	for _, name := range slices.Sorted(maps.Keys(c.Environment)) {
		switch {
		case !variableName.MatchString(name):
			c.fault("environment."+name, "is not a name of a variable: expected letters, digits and _")
		case strings.HasPrefix(name, "DROVER_"):
			c.fault("environment."+name, "is set by drover: expected a name that does not begin with DROVER_")
		case strings.ContainsRune(c.Environment[name], 0):
			c.fault("environment."+name, "has a NUL byte")
		}
	}
	for i, entry := range c.EnvironmentFiles {
		file, _ := process.EnvironmentFile(entry)
		c.absolute(fmt.Sprintf("environment_files[%d]", i), file)
	}
	if n, err := strconv.ParseUint(c.Umask, 8, 16); c.Umask != "" && (err != nil || n > 0o777) {
		c.fault("umask", "is %q: expected octal digits from \"000\" to \"777\"", c.Umask)
	}
	if d := c.RuntimeDirectory; d != "" && (path.Base(path.Clean("/"+d)) != d || d == ".." || d == ".") {
		c.fault("runtime_directory", "is %q: expected a name without a slash", d)
	}
	for i, name := range c.Capabilities {
		if _, known := process.Capability(name); !known {
			c.fault(fmt.Sprintf("capabilities[%d]", i), "is %q: expected a name such as NET_BIND_SERVICE", name)
		}
	}
}

// numbers checks the ranges of numbers.
func (c *checker) numbers() {
	c.limits()
	within := func(field string, value *int, least, most int) {
		if value != nil && (*value < least || *value > most) {
			c.fault(field, "is %d: expected %d to %d", *value, least, most)
		}
	}
	within("nice", c.Nice, -20, 19)
	within("oom_score_adjust", c.OOMScoreAdjust, -1000, 1000)
	most := maxInstances
	if c.Compat != nil {
		most = maxCompatInstances
	}
	within("expected_instances", c.ExpectedInstances, 1, most)
	if c.Health != nil {
		within("health.failures", c.Health.Failures, 1, 1000)
	}
	if c.Log != nil {
		within("log.keep", c.Log.Keep, 1, 1000)
		if c.Log.MaxSize != nil && *c.Log.MaxSize == 0 {
			c.fault("log.max_size", "is 0: expected a size such as 10MiB")
		}
		if c.Log.MaxAge != nil && *c.Log.MaxAge == 0 {
			c.fault("log.max_age", "is 0: expected a duration such as 30d")
		}
	}
}

// maxInstances bounds the number of processes that may match; JOB lets more pass.
const (
	maxInstances       = 10_000
	maxCompatInstances = 1_000_000
)

// kind checks how long a process is meant to run.
func (c *checker) kind() {
	s := c.Schedule
	kind := map[bool]string{true: "once"}[c.Once]
	if c.OnDemand {
		if kind != "" {
			c.fault("once", "stands beside on_demand: expected one of them")
		}
		kind = "on_demand"
	}
	if kind != "" && s != nil {
		c.fault("schedule", "stands beside %s: expected one of them", kind)
	}
	if kind == "" && s != nil {
		kind = "schedule"
	}
	if c.Restart != nil && kind != "" {
		c.fault("restart", "stands beside %s, which is not relaunched: remove it, or write restart: null if it is in defaults",
			kind)
	}
	if c.TimeLimit != nil && kind == "" {
		c.fault("time_limit", "is for a process with once, on_demand or schedule: remove it")
	}
	if s == nil {
		return
	}
	var zone *time.Location // without one the rule may name its own
	if s.TimeZone != "" {
		var err error
		if zone, err = crontab.Zone(s.TimeZone); err != nil {
			c.fault("schedule.time_zone", "%v", err)
		}
	}
	switch {
	case s.Cron == "" && s.Every == nil && c.Compat != nil:
	case s.Cron == "" && s.Every == nil:
		c.fault("schedule", "has neither cron nor every: expected one of them")
	case s.Cron != "" && s.Every != nil:
		c.fault("schedule", "has cron and every: expected one of them")
	case s.Cron != "":
		if _, err := crontab.Parse(s.Cron, zone); err != nil {
			c.fault("schedule.cron", "%v", err)
		}
	}
}

// readiness checks ready and health.
func (c *checker) readiness() {
	if r := c.Ready; r != nil {
		c.one("ready", "notify, notify_fd, http, tcp, log, exec and alive", r.Within == nil && r.OnTimeout == "",
			r.Notify, r.NotifyFD != nil, r.HTTP != "", r.TCP != "", r.Log != "", r.Exec != "", r.Alive != nil)
		if r.NotifyFD != nil && (*r.NotifyFD < 3 || *r.NotifyFD > spec.MaxNotifyFD) {
			c.fault("ready.notify_fd", "is %d: expected a descriptor from 3 to %d", *r.NotifyFD, spec.MaxNotifyFD)
		}
		if r.NotifyFD != nil && c.Run == "" {
			c.fault("ready.notify_fd", "is for a process with run: a daemon closes its descriptors")
		}
		c.address("ready.http", r.HTTP, "ready.tcp", r.TCP)
		c.insecure("ready.insecure", r.Insecure, r.HTTP)
		if _, err := pattern.Parse(r.Log); err != nil {
			c.fault("ready.log", "%v", err)
		}
	}
	if h := c.Health; h != nil {
		c.one("health", "exec, http, tcp and watchdog", true, h.Exec != "", h.HTTP != "", h.TCP != "", h.Watchdog)
		c.address("health.http", h.HTTP, "health.tcp", h.TCP)
		c.insecure("health.insecure", h.Insecure, h.HTTP)
	}
}

// one checks that exactly one of several fields is set; none only if needed is false.
func (c *checker) one(field, names string, needed bool, set ...bool) {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	if n > 1 || n == 0 && needed {
		c.fault(field, "has %d of %s: expected exactly one", n, names)
		c.faults[len(c.faults)-1].lacks = n == 0
	}
}

func (c *checker) insecure(field string, set bool, link string) {
	if set && !strings.HasPrefix(strings.ToLower(link), "https://") {
		c.fault(field, "is for http with a URL that begins with https://: remove it")
	}
}

func (c *checker) address(httpField, link, tcpField, address string) {
	u, err := url.Parse(link)
	switch {
	case link == "":
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		c.fault(httpField, "is %q: expected a URL that begins with http:// or https://", link)
	case u.Port() != "":
		if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			c.fault(httpField, "has the port %s: expected 1 to 65535", u.Port())
		}
	}
	if address == "" {
		return
	}
	host, port, err := net.SplitHostPort(address)
	odd := strings.ContainsAny(host, " \t\n/[]") || strings.HasPrefix(address, "[") && !strings.Contains(host, ":")
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || odd || bad != nil || n == 0 {
		c.fault(tcpField, "is %q: expected host:port", address)
	}
}

// relaunch checks the restart policy.
func (c *checker) relaunch() {
	r := c.Restart
	if r == nil {
		return
	}
	if r.Factor != nil && !(*r.Factor >= 1 && *r.Factor <= 100) {
		c.fault("restart.factor", "is %v: expected a number from 1 to 100", *r.Factor)
	}
	if r.Jitter != nil && *r.Jitter > 100 {
		c.fault("restart.jitter", "is %s: expected at most 100%%", *r.Jitter)
	}
	if r.GiveUpAfter != nil && *r.GiveUpAfter == 0 {
		c.fault("restart.give_up_after", "is 0: expected a number from 1, or never; when: never means no relaunches")
	}
	if r.Delay != nil && r.MaxDelay != nil && *r.Delay > *r.MaxDelay {
		c.fault("restart.max_delay", "is %s, less than delay (%s)", *r.MaxDelay, *r.Delay)
	}
	if r.Delay == nil && r.MaxDelay != nil && time.Duration(*r.MaxDelay) < spec.DefaultDelay {
		c.fault("restart.max_delay", "is %s, less than the default of delay (%s): set delay, too", *r.MaxDelay,
			v1.Duration(spec.DefaultDelay))
	}
}

// mostStart is the longest time of a start command and of the check after it: meanwhile the process takes no other
// operation. mostProbe is the longest time of a health check, and between two checks.
const (
	mostStart = time.Hour
	mostProbe = 30 * 24 * time.Hour
)

// times checks the durations that may not be 0, or not be parts of a second.
func (c *checker) times() {
	whole := func(field string, d *v1.Duration, least time.Duration) {
		switch {
		case d == nil:
		case time.Duration(*d) < least:
			c.fault(field, "is %s: expected a duration above 0", *d)
		case time.Duration(*d)%time.Second != 0:
			c.fault(field, "is %s: expected whole seconds", *d)
		}
	}
	upTo := func(field string, d *v1.Duration, most time.Duration) {
		if d != nil && time.Duration(*d) > most {
			c.fault(field, "is %s: expected at most %s", *d, v1.Duration(most))
		}
	}
	above := func(field string, d *v1.Duration) {
		if d != nil && *d <= 0 {
			c.fault(field, "is %s: expected a duration above 0", *d)
		}
	}
	if s := c.Schedule; s != nil {
		whole("schedule.every", s.Every, 1)
		whole("schedule.jitter", s.Jitter, 0)
	}
	if h := c.Health; h != nil {
		whole("health.every", h.Every, 1)
		whole("health.timeout", h.Timeout, 1)
		whole("health.grace", h.Grace, 0)
		upTo("health.every", h.Every, mostProbe)
		upTo("health.timeout", h.Timeout, mostProbe)
		upTo("health.grace", h.Grace, mostProbe)
	}
	if r := c.Ready; r != nil {
		whole("ready.within", r.Within, 1)
		if c.AsksReady() {
			upTo("ready.within", r.Within, mostStart)
		} else if _, apart := c.Alive(); !apart {
			upTo("ready.alive", r.Alive, mostStart)
		}
		if r.Alive != nil && r.Within != nil && *r.Alive > *r.Within {
			c.fault("ready.alive", "is %s, longer than ready.within (%s)", *r.Alive, *r.Within)
		}
	}
	if t := c.Timeouts; t != nil {
		whole("timeouts.start", t.Start, 1)
		upTo("timeouts.start", t.Start, mostStart)
		above("timeouts.reload", t.Reload)
		above("timeouts.version", t.Version)
	}
	if b := c.BeforeStart; b != nil {
		above("before_start.timeout", b.Timeout)
	}
	if p := c.Preflight; p != nil {
		above("preflight.timeout", p.Timeout)
	}
	above("time_limit", c.TimeLimit)
}

// compat checks that a process of the GSE and JOB APIs has no policies that these APIs do not know.
func (c *checker) compat() {
	const scope = "drover.stop_scope"
	if _, ok := c.Labels[scope]; ok {
		c.fault("labels."+scope, "is a field of its own: expected stop_scope")
	}
	if c.Compat == nil {
		return
	}
	if text := c.Compat.Labels; text != "" && !json.Valid([]byte(text)) {
		c.fault("compat.labels", "is not JSON")
	}
	for _, f := range []struct {
		field  string
		stands bool
		other  string
	}{
		{"run", c.Run != "", "start"},
		{"timeouts", c.Timeouts != nil, "compat.op_timeout"},
		{"restart", c.Restart != nil, "compat.start_retries"},
		{"stop_signals", c.StopSignals != nil, "compat.stop_check_secs"},
		{"ready", c.Ready != nil, "compat.start_check_begin"},
	} {
		if f.stands {
			c.fault(f.field, "stands beside compat, with which the process runs as the GSE and JOB APIs demand it: "+
				"remove compat, or use %s", f.other)
		}
	}
	for _, f := range []struct {
		field string
		n     int
	}{
		{"op_timeout", c.Compat.OpTimeout},
		{"start_check_begin", c.Compat.StartCheckBegin},
		{"start_check_end", c.Compat.StartCheckEnd},
		{"stop_check_secs", c.Compat.StopCheck},
		{"start_retries", c.Compat.StartRetries},
		{"start_interval", c.Compat.StartInterval},
	} {
		if f.n < 0 {
			c.fault("compat."+f.field, "is %d: expected 0 or more", f.n)
		}
	}
}

// stopping checks the signals of a stop.
func (c *checker) stopping() {
	for i, s := range c.StopSignals {
		if i < len(c.StopSignals)-1 && s.Wait == 0 {
			c.fault(fmt.Sprintf("stop_signals[%d]", i), "has no duration: expected the time until the next signal, such as %q",
				s.Signal+" 10s")
		}
	}
	if r := c.Reload; r != nil && r.Command == "" && r.Signal == "" {
		c.fault("reload", "is empty: expected a command line, or {signal: NAME}")
	}
}

// hexadecimal is the form of a checksum.
var hexadecimal = regexp.MustCompile(`^[0-9a-fA-F]+$`)

// files checks the configuration files.
func (c *checker) files() {
	for i, f := range c.ConfigFiles {
		at := fmt.Sprintf("config_files[%d]", i)
		if f.Path == "" {
			c.fault(at+".path", "is missing: expected an absolute path")
		}
		c.absolute(at+".path", f.Path)
		c.one(at, "sha256 and md5", c.Compat == nil, f.SHA256 != "", f.MD5 != "")
		c.sum(at+".sha256", f.SHA256, 64)
		c.sum(at+".md5", f.MD5, 32)
	}
}

func (c *checker) sum(field, sum string, digits int) {
	if sum != "" && (len(sum) != digits || !hexadecimal.MatchString(sum)) {
		c.fault(field, "is %q: expected %d hexadecimal digits", clip(sum), digits)
	}
}

// choices checks the fields that have a few fixed values.
func (c *checker) choices(field string, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		at := join(field, tag(v.Type().Field(i)))
		if v.Field(i).Kind() == reflect.String && v.Field(i).String() != "" {
			if all := c.among[at]; all != nil && !slices.Contains(all, v.Field(i).String()) {
				c.fault(at, "is %q: expected %s", clip(v.Field(i).String()), strings.Join(all, ", "))
			}
			continue
		}
		c.choices(at, v.Field(i))
	}
}

// choicesOf are the fields with fixed values.
func choicesOf() map[string][]string {
	all := map[string][]string{}
	for _, f := range Fields() {
		if f.Choices != nil {
			all[f.Path] = f.Choices
		}
	}
	return all
}
