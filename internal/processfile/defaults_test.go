package processfile_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/processfile"
	"drover/internal/spec"
)

// meanings are the values that count for a process: what the methods of a spec and of its parts return, by name.
func meanings(s *spec.Spec) map[string]any {
	all := map[string]any{}
	// These return the spec or its texts as they stand, or its parts, whose methods count.
	apart := map[string]bool{"Digest": true, "Unnumbered": true, "LabelsJSON": true, "Timetable": true}
	each := func(name string, v any, arguments map[string][]any) {
		of := reflect.ValueOf(v)
		for i := range of.NumMethod() {
			method := of.Type().Method(i)
			given, listed := arguments[method.Name]
			if !listed && (method.Type.NumIn() > 1 || method.Type.NumOut() == 0) || apart[method.Name] ||
				strings.HasPrefix(method.Name, "Marshal") {
				continue
			}
			var in []reflect.Value
			for _, a := range given {
				in = append(in, reflect.ValueOf(a))
			}
			var out []any
			for _, value := range of.Method(i).Call(in) {
				out = append(out, value.Interface())
			}
			all[name+"."+method.Name] = out
		}
	}
	each("spec", s, map[string][]any{"Field": {"file", "wire"}})
	each("preflight", s.Preflight, map[string][]any{"Limit": {spec.DefaultPreflight}})
	each("before_start", s.BeforeStart, map[string][]any{"Limit": {spec.DefaultTimeout}})
	each("before_stop", s.BeforeStop, nil)
	each("ready", s.Ready, nil)
	each("health", s.Health, nil)
	each("log", s.Log, nil)
	each("schedule", s.Timetable(), nil)
	t := s.Timetable()
	all["schedule"] = []any{
		t.Cron, t.TimeZone, t.Overlap == spec.OverlapWait, t.Overlap == spec.OverlapReplace, t.Missed == spec.MissedRun,
	}
	all["choices"] = []any{s.Leave == spec.LeaveStop, s.Drift == spec.DriftMend}
	return all
}

// besides is what a process needs beside a field.
func besides(path string) string {
	part, _, _ := strings.Cut(path, ".")
	beside := map[string]string{
		"preflight": "preflight: {run: x}", "before_start": "before_start: {run: x}", "before_stop": "before_stop: {run: x}",
		"schedule": "schedule: {every: 9s}", "health": "health: {exec: x}", "rollout": "rollout: {batch: 1}",
	}[part]
	switch path {
	case "ready.insecure":
		beside = "ready: {http: 'https://a'}"
	case "health.insecure":
		beside = "health: {http: 'https://a'}"
	case "ready.within", "ready.on_timeout":
		beside = "ready: {tcp: 'a:1'}"
	case "expected_instances":
		return "start: x, process_name: x"
	}
	if beside != "" {
		return "run: x, " + beside
	}
	return "run: x"
}

// readOne reads a process of a file without hosts.
func readOne(text string) (spec.Spec, error) {
	docs, err := processfile.Read("", []byte("namespace: a\nprocesses:\n  b: {hosts: [x], "+text+"}\n"))
	if err != nil {
		return spec.Spec{}, err
	}
	f := docs[0].Processes[0].Spec
	f.Hosts = spec.Hosts{}
	return f, nil
}

// withField adds a field to the text of a process.
func withField(text, path, value string) string {
	part, field, nested := strings.Cut(path, ".")
	switch {
	case !nested:
		return text + ", " + path + ": " + value
	case strings.Contains(text, part+": {"):
		return strings.Replace(text, part+": {", part+": {"+field+": "+value+", ", 1)
	}
	return text + ", " + part + ": {" + field + ": " + value + "}"
}

// TestDefaults: a field that has its default, as the table tells it, means the same as an absent field, and is stored
// as one. So does a part with all defaults.
func TestDefaults(t *testing.T) {
	n := 0
	for _, f := range processfile.Fields() {
		switch {
		case f.Default == "none", f.Default == "required", f.Default == "as below", strings.HasPrefix(f.Default, "the "),
			strings.HasPrefix(f.Default, "all hosts"), f.Default == "no limit":
			continue // a text about the default
		}
		n++
		for _, more := range []string{"", ", timeouts: {start: 3s}", ", once: true", ", umask: '077'"} {
			if more != "" && (strings.HasPrefix(f.Path, "timeouts.") || strings.HasPrefix(f.Path, "restart.") ||
				strings.HasPrefix(f.Path, "schedule.") || f.Path == "on_demand" || f.Path == "once" || f.Path == "health.timeout") {
				continue // they do not go together, or the default depends on the other field
			}
			base := besides(f.Path) + more
			without, err := readOne(base)
			if err != nil {
				t.Fatalf("%s: %v", base, err)
			}
			with, err := readOne(withField(base, f.Path, f.Default))
			if err != nil {
				t.Errorf("%s: the default %s is not right: %v", f.Path, f.Default, err)
				continue
			}
			if d := cmp.Diff(meanings(&without), meanings(&with)); d != "" {
				t.Errorf("%s: %s means something else beside %q (-absent +given):\n%s", f.Path, f.Default, base, d)
			}
			a, b := processfile.Canonical(without), processfile.Canonical(with)
			if !a.Same(&b) {
				t.Errorf("%s: %s is stored as\n%s\nwithout it\n%s", f.Path, f.Default, text(t, b), text(t, a))
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d fields have a default", n)
	}
	if got := len(meanings(&spec.Spec{})); got < 60 {
		t.Errorf("only %d values count", got)
	}
	for _, f := range processfile.Fields() { // each value of a spec is seen: another one than the default changes something
		if f.Path == "ready.alive" || f.Path == "log.max_age" || f.Path == "restart.jitter" || f.Path == "timeouts.stop" {
			base := besides(f.Path)
			value := map[string]string{"restart.jitter": "11%"}[f.Path]
			if value == "" {
				value = "77s"
			}
			without, err := readOne(base)
			with, problem := readOne(withField(base, f.Path, value))
			if err != nil || problem != nil || cmp.Equal(meanings(&without), meanings(&with)) {
				t.Errorf("%s: %s means nothing: %v, %v", f.Path, value, err, problem)
			}
		}
	}
}
