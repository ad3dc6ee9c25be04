package processfile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/spec"
)

// TestNotifications: what a file says of notifications is what the agent gets.
func TestNotifications(t *testing.T) {
	for text, c := range map[string]struct {
		ready        *spec.Ready
		health       *spec.Health
		within       time.Duration
		stops, socks bool
		descriptor   int
		watchdog     time.Duration
	}{
		"ready: {notify: true}": {ready: &spec.Ready{Notify: true}, within: 30 * time.Second, socks: true},
		"ready: {notify: true, within: 5s, on_timeout: stop}": {
			ready: &spec.Ready{Notify: true, Within: seconds(5), OnTimeout: "stop"}, within: 5 * time.Second, stops: true, socks: true,
		},
		"ready: {http: 'https://a', insecure: true}": {
			ready: &spec.Ready{HTTP: "https://a", Insecure: true}, within: 30 * time.Second,
		},
		"health: {http: 'HTTPS://a', insecure: true}": {health: &spec.Health{HTTP: "HTTPS://a", Insecure: true}},
		"ready: {notify_fd: 3}": {
			ready: &spec.Ready{NotifyFD: new(3)}, within: 30 * time.Second, descriptor: 3,
		},
		"ready: {notify_fd: 255, within: 30s, on_timeout: report}": {
			ready: &spec.Ready{NotifyFD: new(255)}, within: 30 * time.Second, descriptor: 255,
		},
		"health: {watchdog: true, every: 2s, failures: 1, action: restart}": {
			health: &spec.Health{Watchdog: true, Every: seconds(2), Failures: new(1), Action: "restart"},
			socks:  true, watchdog: 2 * time.Second,
		},
	} {
		docs, err := processfile.Read("x.yaml", fmt.Appendf(nil, "namespace: a\nprocesses: {b: {hosts: [x], run: x, %s}}\n", text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		s := processfile.Canonical(docs[0].Processes[0].Spec)
		if d := cmp.Diff(c.ready, s.Ready) + cmp.Diff(c.health, s.Health); d != "" {
			t.Errorf("%s:\n%s", text, d)
		}
		if _, end := s.StartCheck(); end != c.within || s.Ready.StopsLate() != c.stops || s.Notifies() != c.socks ||
			s.Ready.Descriptor() != c.descriptor || s.WatchdogTime() != c.watchdog {
			t.Errorf("%s: within %s; stops late %v, a socket %v, descriptor %d, watchdog %s", text, end, s.Ready.StopsLate(),
				s.Notifies(), s.Ready.Descriptor(), s.WatchdogTime())
		}
		if err := process.Validate(&s, process.Start); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		back := processfile.Canonical(*s.Unnumbered())
		if !s.Same(&back) {
			t.Errorf("%s comes back as %+v", text, back)
		}
	}
}

func seconds(n int) *spec.Duration { return new(spec.Duration(time.Duration(n) * time.Second)) }

// TestDescriptors: a file cannot ask for a descriptor that a process cannot have, and neither can a caller of the API.
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
	for _, fd := range []int{-1, 1, 2, 256, 1 << 30} {
		if faults := processfile.CheckSpec(spec.Spec{Run: "x", Ready: &spec.Ready{NotifyFD: &fd}}); len(faults) != 1 {
			t.Errorf("descriptor %d: %v", fd, faults)
		}
	}
}

// TestAddresses: only host:port is an address, with brackets around an address of IPv6.
func TestAddresses(t *testing.T) {
	for _, field := range []string{"ready", "health"} {
		read := func(address string) error {
			_, err := processfile.ReadSpecJSON(fmt.Appendf(nil, `{"run": "x", %q: {"tcp": %q}}`, field, address))
			return err
		}
		for _, address := range []string{
			"", ":80", "host:", "host:0", "host:65536", "host:http", "::1:80", "[::1]", "[::1:80", "[host]:80", "a b:80",
			"http://host:80", "a/b:80",
		} {
			if err := read(address); err == nil || address != "" && !strings.Contains(err.Error(), "expected host:port") {
				t.Errorf("%s: %q: %v", field, address, err)
			}
		}
		for _, address := range []string{"127.0.0.1:80", "[::1]:65535", "localhost:1", "a.b-c:8080"} {
			if err := read(address); err != nil {
				t.Errorf("%s: %q: %v", field, address, err)
			}
		}
	}
}

// TestWays: a process tells in one way that it is ready, and each way has its form.
func TestWays(t *testing.T) {
	for text, want := range map[string]string{
		`{"http": "https://localhost:8443/ready?x=1"}`: "", `{"exec": "./check | grep up"}`: "", `{"log": "^started in \\d+ ms$"}`: "",
		`{}`: "ready: has 0 of notify, notify_fd, http, tcp, log, exec and alive: expected exactly one",
		`{"tcp": "localhost", "http": "/ready", "exec": "a\u0000", "log": "("}`: "ready: has 4 of notify, notify_fd, http, tcp, log, " +
			"exec and alive: expected exactly one\n" + `ready.http: is "/ready": expected a URL that begins with http:// or https://` +
			"\n" + `ready.tcp: is "localhost": expected host:port` + "\n" +
			"ready.log: is not a regular expression (RE2): error parsing regexp: missing closing ): `(`",
		`{"exec": "a\u0000"}`: "ready.exec: holds a NUL byte",
	} {
		_, err := processfile.ReadSpecJSON([]byte(`{"run": "x", "ready": ` + text + `}`))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", text, got, want)
		}
	}
}

// TestLongestTimes: no operation blocks its process for more than an hour, and no probe waits for more than 30 days.
func TestLongestTimes(t *testing.T) {
	for text, want := range map[string]string{
		`"ready": {"tcp": "a:1", "within": "1h"}`:       "",
		`"ready": {"tcp": "a:1", "within": "1h1s"}`:     "ready.within: is 1h1s: expected at most 1h",
		`"ready": {"alive": "1h"}`:                      "",
		`"ready": {"alive": "2h"}`:                      "ready.alive: is 2h: expected at most 1h",
		`"ready": {"alive": "2h", "within": "3h"}`:      "",
		`"timeouts": {"start": "1h"}`:                   "",
		`"timeouts": {"start": "2h"}`:                   "timeouts.start: is 2h: expected at most 1h",
		`"health": {"exec": "x", "every": "30d"}`:       "",
		`"health": {"exec": "x", "every": "30d1s"}`:     "health.every: is 30d1s: expected at most 30d",
		`"health": {"exec": "x", "timeout": "31d"}`:     "health.timeout: is 31d: expected at most 30d",
		`"health": {"exec": "x", "grace": "31d"}`:       "health.grace: is 31d: expected at most 30d",
		`"schedule": {"every": "30d", "jitter": "1d"}`:  "",
		`"schedule": {"every": "31d"}`:                  "schedule.every: is 31d: expected at most 30d",
		`"schedule": {"every": "30d", "jitter": "25h"}`: "schedule.jitter: is 1d1h: expected at most 24h",
		`"schedule": {"every": "5s", "jitter": "5s"}`:   "schedule.jitter: is 5s: expected less than the 5s between two runs",
		`"schedule": {"cron": "@hourly", "jitter": "1h"}`: "schedule.jitter: is 1h: expected less than the 1h between two " +
			"runs",
	} {
		_, err := processfile.ReadSpecJSON([]byte(`{"run": "x", ` + text + `}`))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", text, got, want)
		}
	}
	for n, want := range map[int]bool{0: false, 1: true, 10_000: true, 10_001: false} {
		s := spec.Spec{Start: "x", ProcessName: "x", ExpectedInstances: &n}
		if faults := processfile.CheckSpec(s); (len(faults) == 0) != want {
			t.Errorf("%d instances: %v", n, faults)
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
