package gse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"drover/internal/process"
	"drover/internal/spec"
)

// The largest accepted values, so that no sum of times overflows and no loop runs for ever. An operation blocks its
// process for as long as its check and its commands last. So a caller that sends milliseconds for seconds must get an
// error at once.
const (
	maxOperation = 3600
	maxSeconds   = 30 * 24 * 3600
	maxCount     = 1_000_000
)

// The tags of the structs below have the names for their readers.
type (
	specBody struct {
		Identity *identityBody `json:"identity"`
		Control  *controlBody  `json:"control"`
		Resource *resourceBody `json:"resource"`
		Monitor  *policyBody   `json:"monitor_policy"`
		Alive    *policyBody   `json:"alive_monitor_policy"`
		Warn     *warnBody     `json:"warn_report_policy"`
		Configs  []configBody  `json:"configmap"`
	}
	identityBody struct {
		ProcName   Str `json:"proc_name"`
		SetupPath  Str `json:"setup_path"`
		PIDPath    Str `json:"pid_path"`
		ConfigPath Str `json:"config_path"`
		LogPath    Str `json:"log_path"`
		User       Str `json:"user"`
	}
	controlBody struct {
		Start   Str `json:"start_cmd"`
		Stop    Str `json:"stop_cmd"`
		Restart Str `json:"restart_cmd"`
		Reload  Str `json:"reload_cmd"`
		Kill    Str `json:"kill_cmd"`
		Version Str `json:"version_cmd"`
		Health  Str `json:"health_cmd"`
	}
	resourceBody struct {
		CPU  Float `json:"cpu"`
		Mem  Float `json:"mem"`
		FD   Int   `json:"fd"`
		Disk Int   `json:"disk"`
		Net  Int   `json:"net"`
	}
	warnBody struct {
		ReportID Int `json:"report_id"`
	}
	configBody struct {
		Path Str `json:"path"`
		MD5  Str `json:"md5"`
	}
)

type policyBody struct {
	AutoType      Int `json:"auto_type"`
	StartCheck    Int `json:"start_check_secs"`
	StopCheck     Int `json:"stop_check_secs"`
	StartRetries  Int `json:"start_retries"`
	StartInterval Int `json:"start_interval"`
	OpTimeout     Int `json:"op_timeout"`
	Crontab       Str `json:"crontab_rule"`
	// Every published example misspells the name, so callers do too.
	Crotab Str `json:"crotab_rule"`
}

// specs caches the specs of one body. Callers send the same spec with each of a thousand hosts, and drover parses it
// only once.
type specs map[specText]readySpec

// specText is a spec as the caller sent it, with the labels, which are in another field.
type specText struct{ spec, labels string }

// readySpec is a translated spec.
type readySpec struct {
	spec   *process.Spec
	faults []process.FieldFault
	words  policyWords
}

// policyWords has the caller's spelling of fields that have several names on the wire.
type policyWords struct{ policy, crontab string }

// spelt replaces the field of a fault by the caller's name.
func (w policyWords) spelt(f process.FieldFault) process.FieldFault {
	const policy = "spec.monitor_policy."
	if name, ok := strings.CutPrefix(f.Field, policy); ok {
		if name == "crontab_rule" {
			name = w.crontab
		}
		return renamed(f, w.policy+name)
	}
	return f
}

// renamed is a fault with another name for its field.
func renamed(f process.FieldFault, field string) process.FieldFault {
	return process.FieldFault{Field: field, Text: field + strings.TrimPrefix(f.Text, f.Field)}
}

// read translates the spec of an operation.
func (s specs) read(at string, text, labels json.RawMessage) (readySpec, error) {
	if ready, ok := s[specText{string(text), string(labels)}]; ok {
		return ready, nil
	}
	body, err := readSpec(at, text)
	if err != nil {
		return readySpec{}, err
	}
	ready := body.translate(labels, operated)
	s[specText{string(text), string(labels)}] = ready
	return ready, nil
}

// readSpec reads the field spec; it returns nil if spec is missing or null.
func readSpec(at string, text json.RawMessage) (*specBody, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var b *specBody
	err := scan(text, func(s *scanner) {
		s.under = at + "spec."
		b = pointed(s, func(b *specBody) { b.read(s) })
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// generation decides which of the two policies counts if a caller sends both.
type generation uint8

const (
	registered generation = iota // monitor_policy before alive_monitor_policy
	operated                     // alive_monitor_policy before monitor_policy
)

// translate returns the spec in drover's form; nil for no spec. An unreadable value is a fault, and its field stays
// empty.
func (b *specBody) translate(labels json.RawMessage, g generation) readySpec {
	if b == nil {
		return readySpec{}
	}
	var (
		s = spec.Spec{Compat: &spec.Compat{}}
		r reader
	)
	c := s.Compat
	if i := b.Identity; i != nil {
		s.ProcessName = r.text("spec.identity.proc_name", i.ProcName)
		s.Directory = r.text("spec.identity.setup_path", i.SetupPath)
		s.PIDFile = r.text("spec.identity.pid_path", i.PIDPath)
		c.ConfigPath = r.text("spec.identity.config_path", i.ConfigPath)
		s.SetLogPath(r.text("spec.identity.log_path", i.LogPath))
		s.User = r.text("spec.identity.user", i.User)
	}
	if b := b.Control; b != nil {
		s.Start = r.text("spec.control.start_cmd", b.Start)
		s.Stop = r.text("spec.control.stop_cmd", b.Stop)
		c.RestartCommand = r.text("spec.control.restart_cmd", b.Restart)
		s.SetReload(r.text("spec.control.reload_cmd", b.Reload))
		c.KillCommand = r.text("spec.control.kill_cmd", b.Kill)
		s.VersionCommand = r.text("spec.control.version_cmd", b.Version)
		s.SetHealth(r.text("spec.control.health_cmd", b.Health))
	}
	if l := b.Resource; l != nil {
		s.SetResource(spec.CompatResource{
			CPU:  r.number("spec.resource.cpu", l.CPU),
			Mem:  r.number("spec.resource.mem", l.Mem),
			FD:   r.integer("spec.resource.fd", l.FD),
			Disk: r.integer("spec.resource.disk", l.Disk),
			Net:  r.integer("spec.resource.net", l.Net),
		})
	}
	words := b.policy(&r, g, &s)
	if b.Warn != nil {
		s.AlarmID = r.integer("spec.warn_report_policy.report_id", b.Warn.ReportID)
	}
	for i, c := range b.Configs {
		file := spec.ConfigFile{
			Path: r.text(fmt.Sprintf("spec.configmap[%d].path", i), c.Path),
			MD5:  r.text(fmt.Sprintf("spec.configmap[%d].md5", i), c.MD5),
		}
		if file != (spec.ConfigFile{}) { // the example in GSE's documents is an entry with two empty strings
			s.ConfigFiles = append(s.ConfigFiles, file)
		}
	}
	if !bytes.Equal(bytes.TrimSpace(labels), []byte("null")) {
		s.SetLabels(labels)
	}
	return readySpec{&s, r.faults, words}
}

// policy reads the monitor policy that counts, or the defaults if there is none. It returns the caller's spelling.
func (b *specBody) policy(r *reader, g generation, into *spec.Spec) policyWords {
	p, words := b.Alive, policyWords{"spec.alive_monitor_policy.", "crontab_rule"}
	if p == nil || (g == registered && b.Monitor != nil) {
		p, words.policy = b.Monitor, "spec.monitor_policy."
	}
	if p == nil {
		*into.Compat = into.Compat.Defaulted()
		return words
	}
	r.under = words.policy
	defer func() { r.under = "" }()
	crontab := r.text("crontab_rule", p.Crontab)
	if crontab == "" && (p.Crotab.state == bad || p.Crotab.value != "") {
		crontab, words.crontab = r.text("crotab_rule", p.Crotab), "crotab_rule"
	}
	c := into.Compat
	kind := r.kind("auto_type", p.AutoType, process.Resident)
	c.StartCheckBegin = r.bounded("start_check_secs", p.StartCheck, maxOperation)
	c.StopCheck = r.bounded("stop_check_secs", p.StopCheck, maxOperation)
	c.StartRetries = r.bounded("start_retries", p.StartRetries, maxCount)
	c.StartInterval = r.bounded("start_interval", p.StartInterval, maxSeconds)
	c.OpTimeout = r.bounded("op_timeout", p.OpTimeout, maxOperation)
	*c = c.Defaulted()
	into.SetKind(kind, crontab, 0)
	return words
}

// reader takes values out of lenient fields and collects the faults.
type reader struct {
	// under is the prefix of the field names.
	under  string
	faults []process.FieldFault
}

// fail adds a fault; its text begins with the field.
func (r *reader) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	field, _, _ := strings.Cut(text, " ")
	r.faults = append(r.faults, process.FieldFault{Field: field, Text: text})
}

func (r *reader) text(field string, v Str) string      { return taken(r, field, v.lenient) }
func (r *reader) number(field string, v Float) float64 { return taken(r, field, v.lenient) }
func (r *reader) integer(field string, v Int) int64    { return taken(r, field, v.lenient) }

func taken[T any](r *reader, field string, v lenient[T]) T {
	if v.state == bad {
		r.fail("%v", v.fault(r.under+field))
	}
	return v.value
}

// bounded reads an integer for which zero and less mean "not configured".
func (r *reader) bounded(field string, v Int, most int64) int {
	n := r.integer(field, v)
	if n > most {
		r.fail("%s is %d: expected at most %d", r.under+field, n, most)
		return 0
	}
	return int(max(n, 0))
}

func (r *reader) kind(field string, v Int, missing process.Kind) process.Kind {
	n := r.integer(field, v)
	if v.state != given { // an unreadable value is already reported, and does not count as 0
		return missing
	}
	if kind, ok := kindOf(n); ok {
		return kind
	}
	r.fail("%s is %d: expected 0 (periodic), 1 (resident) or 2 (single run)", r.under+field, v.value)
	return missing
}
