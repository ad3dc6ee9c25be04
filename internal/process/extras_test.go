package process_test

import (
	"strings"
	"testing"

	"drover/internal/process"
)

// storing are the operations that leave the spec that was sent in force.
func storing() []process.Op {
	return []process.Op{process.Start, process.Host, process.Restart, process.Register, process.Update}
}

func TestValidateExtras(t *testing.T) {
	const how = ", with * for all, lists 1,2, ranges 1-5 and steps */2"
	periodic := func(rule string) func(s *process.Spec) {
		return func(s *process.Spec) { s.Policy.Kind, s.Policy.Crontab = process.Periodic, rule }
	}
	for _, c := range []struct {
		name string
		set  func(s *process.Spec)
		want string
	}{
		{"a rule", periodic("CRON_TZ=Asia/Shanghai */5 1-3 * jan mon-fri"), ""},
		{
			"a bad rule", periodic("61 * * * *"),
			`spec.monitor_policy.crontab_rule "61 * * * *": minute "61": expected 0 to 59` + how,
		},
		{"a bad rule that is not used", func(s *process.Spec) {
			s.Policy.Kind, s.Policy.Crontab = process.Resident,
				"often"
		}, ""},
		{"a rule and a cycle", func(s *process.Spec) {
			s.Policy = process.Policy{Kind: process.Periodic, Crontab: "@daily", CycleTime: 5}
		}, "spec.monitor_policy.crontab_rule and cycle_time are both set: expected one of them"},
		{"limits", func(s *process.Spec) { s.Hard = process.HardLimits{Memory: 4 << 20, CPU: 1, Tasks: 1} }, ""},
		{
			"limits that are none", func(s *process.Spec) {
				s.Hard = process.HardLimits{Memory: 4096, CPU: -50, Tasks: 5 << 20}
			},
			"spec.hard_limits.memory is 4096: expected 4194304 to 1125899906842624 bytes, or 0 for none; " +
				"spec.hard_limits.cpu is -50: expected 1 to 409600 percent of one processor, or 0 for none; " +
				"spec.hard_limits.tasks is 5242880: expected 1 to 4194304 processes and threads, or 0 for none",
		},
		{"ready by tcp", func(s *process.Spec) { s.Ready = &process.Readiness{TCP: "127.0.0.1:80"} }, ""},
		{"ready by tcp over IPv6", func(s *process.Spec) { s.Ready = &process.Readiness{TCP: "[::1]:65535"} }, ""},
		{"ready by http", func(s *process.Spec) {
			s.Ready = &process.Readiness{HTTP: "https://localhost:8443/ready?x=1"}
		}, ""},
		{"ready by exec", func(s *process.Spec) { s.Ready = &process.Readiness{Exec: "./check | grep up"} }, ""},
		{"ready by a line", func(s *process.Spec) { s.Ready = &process.Readiness{Log: `^started in \d+ ms$`} }, ""},
		{
			"ready in no way", func(s *process.Spec) { s.Ready = &process.Readiness{} },
			"spec.ready has 0 ways to be ready: expected one of tcp, http, exec, log and alive",
		},
		{
			"ready in all ways", func(s *process.Spec) {
				s.Ready = &process.Readiness{TCP: "localhost", HTTP: "/ready", Exec: "a\x00", Log: "("}
			},
			"spec.ready has 4 ways to be ready: expected one of tcp, http, exec, log and alive; " +
				`spec.ready.tcp is "localhost": expected host:port; spec.ready.http is "/ready": expected an absolute http or https URL; ` +
				"spec.ready.exec holds a NUL byte; spec.ready.log is not a regular expression (RE2): error parsing regexp: missing closing ): `(`",
		},
		{"probes", func(s *process.Spec) {
			s.Probes = process.Probes{HealthInterval: 1, Failures: 1000, Grace: 30 * 24 * 3600}
		}, ""},
		{
			"probes out of range", func(s *process.Spec) {
				s.Probes = process.Probes{
					HealthInterval: -1, HealthTimeout: 2592001, VersionInterval: -2, Grace: -3,
					Failures: 1001,
				}
			},
			"spec.probes.health_interval is -1: expected 1 to 2592000, or 0 for the default; spec.probes.health_timeout is 2592001: expected 1 to 2592000, or 0 for the default; " +
				"spec.probes.version_interval is -2: expected 1 to 2592000, or 0 for the default; spec.probes.grace is -3: expected 1 to 2592000, or 0 for the default; " +
				"spec.probes.failures is 1001: expected 1 to 1000, or 0 for the default",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, op := range storing() {
				s := valid()
				c.set(s)
				check(t, s.Validate(op), process.Failed, c.want)
			}
			for _, op := range []process.Op{
				process.Stop, process.Kill, process.Reload, process.Retry, process.Query,
				process.SetGroups,
			} {
				s := valid()
				c.set(s)
				if err := s.Validate(op); err != nil {
					t.Errorf("%s looks at what it does not need: %v", op, err)
				}
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{
		":80", "host:", "host:0", "host:65536", "host:http", "::1:80", "[::1]", "[::1:80",
		"[host]:80", "a b:80", "http://host:80", "a/b:80",
	} {
		s := valid()
		s.Ready = &process.Readiness{TCP: address, Log: "x"}
		err := s.Validate(process.Start)
		if err == nil || !strings.Contains(err.Error(), "expected host:port") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// A periodic process that is hosted needs a timetable; one that is only put on record may get it later.
func TestPeriodicNeedsATimetable(t *testing.T) {
	const want = `spec.monitor_policy.crontab_rule is empty: a periodic process (auto_type 0) needs it, such as "*/5 * * * *", or a cycle_time in seconds`
	s := valid()
	s.Policy.Kind = process.Periodic
	for _, op := range []process.Op{process.Start, process.Host, process.Restart} {
		check(t, s.Validate(op), process.Failed, want)
	}
	for _, op := range []process.Op{
		process.Stop, process.Unhost, process.Register, process.Update, process.Reload,
		process.Kill, process.Query,
	} {
		check(t, s.Validate(op), process.Failed, "")
	}
	s.Policy.CycleTime = 60
	check(t, s.Validate(process.Start), process.Failed, "")
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	s := &process.Spec{
		Identity: process.Identity{ProcName: "a/b", SetupPath: "opt", PIDPath: "\n"},
		Commands: process.Commands{Start: "\x00", Health: strings.Repeat("a", process.MaxCommand+1)},
		Policy:   process.Policy{Kind: process.Periodic},
		Hard:     process.HardLimits{Memory: 1},
	}
	check(t, s.Validate(process.Start), process.Failed, strings.Join([]string{
		`spec.identity.proc_name "a/b" holds a slash: expected the base name of the executable`,
		`spec.identity.setup_path "opt" is not absolute: expected a path that begins with /`,
		`spec.identity.pid_path holds a control character at byte 0`,
		`spec.identity.user is empty: expected an account of the host`,
		`spec.control.start_cmd holds a NUL byte`,
		`spec.control.health_cmd is 65537 bytes long: expected at most 65536`,
		`spec.monitor_policy.crontab_rule is empty: a periodic process (auto_type 0) needs it, such as "*/5 * * * *", or a cycle_time in seconds`,
		`spec.hard_limits.memory is 1: expected 4194304 to 1125899906842624 bytes, or 0 for none`,
	}, "; "))
	list := s.Faults(process.Start)
	if len(list) != 8 || list[3].Field != "spec.identity.user" {
		t.Errorf("got %+v", list)
	}
}
