package processfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/processfile"
)

// TestNotifications: what a file says of notifications is what the agent gets.
func TestNotifications(t *testing.T) {
	for text, c := range map[string]struct {
		ready  *process.Readiness
		probes process.Probes
		within int
	}{
		"ready: {notify: true}": {ready: &process.Readiness{Notify: true}, within: 30},
		"ready: {notify: true, within: 5s, on_timeout: stop}": {
			ready: &process.Readiness{Notify: true, StopLate: true}, within: 5,
		},
		"ready: {http: 'https://a', insecure: true}": {
			ready: &process.Readiness{HTTP: "https://a", Insecure: true}, within: 30,
		},
		"health: {http: 'HTTPS://a', insecure: true}": {probes: process.Probes{HTTP: "HTTPS://a", Insecure: true}},
		"ready: {notify_fd: 3}":                       {ready: &process.Readiness{NotifyFD: 3}, within: 30},
		"ready: {notify_fd: 255}":                     {ready: &process.Readiness{NotifyFD: 255}, within: 30},
		"health: {watchdog: true, every: 2s, failures: 1, action: restart}": {
			probes: process.Probes{Watchdog: true, HealthInterval: 2, Failures: 1, Restart: true},
		},
	} {
		docs, err := processfile.Read("x.yaml", fmt.Appendf(nil, "namespace: a\nprocesses: {b: {hosts: [x], run: x, %s}}\n", text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		f := docs[0].Processes[0].Spec
		s := processfile.ToSpec(f)
		if d := cmp.Diff(c.ready, s.Ready) + cmp.Diff(c.probes, s.Probes); d != "" || s.Policy.StartCheckEnd != c.within {
			t.Errorf("%s: within %d s\n%s", text, s.Policy.StartCheckEnd, d)
		}
		if err := s.Validate(process.Start); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		back := processfile.ToSpec(processfile.FromSpec(&s))
		if !s.Same(&back) {
			t.Errorf("%s comes back as %+v", text, back)
		}
	}
}

// TestDescriptors: a file cannot ask for a descriptor that a process cannot have, and neither can a server.
func TestDescriptors(t *testing.T) {
	for text, want := range map[string]string{
		"run: x, ready: {notify_fd: 2}":   "is 2: expected a descriptor from 3 to 255",
		"run: x, ready: {notify_fd: 256}": "is 256: expected a descriptor from 3 to 255",
		"start: x, process_name: x, ready: {notify_fd: 3}": "is for a process with run: a daemon closes its " +
			"descriptors",
	} {
		_, err := processfile.Read("x.yaml", fmt.Appendf(nil, "namespace: a\nprocesses: {b: {hosts: [x], %s}}\n", text))
		if want = "x.yaml:2: processes.b.ready.notify_fd: " + want; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	s := process.Spec{Commands: process.Commands{Run: "x"}, Identity: process.Identity{SetupPath: "/"}, Stop: &process.StopPolicy{}}
	for _, fd := range []int{-1, 1, 2, 256, 1 << 30} {
		s.Ready = &process.Readiness{NotifyFD: fd}
		if s.Validate(process.Start) == nil {
			t.Errorf("descriptor %d is taken", fd)
		}
	}
}

// TestInsecure: only a check by https can leave certificates unverified.
func TestInsecure(t *testing.T) {
	for _, text := range []string{
		"ready: {http: 'http://a', insecure: true}", "ready: {tcp: 'a:1', insecure: true}", "ready: {alive: 1s, insecure: true}",
		"health: {http: 'http://a', insecure: true}", "health: {exec: x, insecure: true}",
	} {
		field, _, _ := strings.Cut(text, ":")
		want := "x.yaml:2: processes.b." + field + ".insecure: is for http with a URL that begins with https://: remove it"
		_, err := processfile.Read("x.yaml", fmt.Appendf(nil, "namespace: a\nprocesses: {b: {hosts: [x], run: x, %s}}\n", text))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestWholeSeconds: a field takes parts of a second unless its description says that it takes whole seconds.
func TestWholeSeconds(t *testing.T) {
	beside := map[string]string{
		"preflight": "run: x, ", "before_start": "run: x, ", "before_stop": "run: x, ", "health": "exec: x, ", "ready": "tcp: 'a:1', ", "rollout": "batch: 1, ",
		"restart": "max_delay: 1500ms, ",
	}
	n := 0
	for _, f := range processfile.Fields() {
		part, field, nested := strings.Cut(f.Path, ".")
		if !strings.HasPrefix(f.Value, "duration") {
			continue
		}
		n++
		value := f.Path + ": 1500ms, once: true"
		switch {
		case f.Path == "ready.alive":
			value = "ready: {alive: 1500ms}"
		case f.Path == "restart.max_delay":
			value = "restart: {max_delay: 1500ms}"
		case nested:
			value = part + ": {" + beside[part] + field + ": 1500ms}"
		}
		if f.Path == "schedule.jitter" {
			value = "schedule: {every: 9s, jitter: 1500ms}"
		}
		_, err := processfile.Read("", fmt.Appendf(nil, "namespace: a\nprocesses: {b: {hosts: [x], run: x, %s}}\n", value))
		whole := strings.Contains(f.Value, "whole seconds")
		if whole != (err != nil) || whole && !strings.Contains(err.Error(), "expected whole seconds") {
			t.Errorf("%s is a %s: %v", f.Path, f.Value, err)
		}
	}
	if n < 15 {
		t.Errorf("found %d durations", n)
	}
}
