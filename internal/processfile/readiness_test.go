package processfile_test

import (
	"fmt"
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
		"ready: {notify_fd: 3}":   {ready: &process.Readiness{NotifyFD: 3}, within: 30},
		"ready: {notify_fd: 255}": {ready: &process.Readiness{NotifyFD: 255}, within: 30},
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
