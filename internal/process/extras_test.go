package process_test

import (
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/spec"
)

// storing are the operations that leave the spec that was sent in force.
func storing() []process.Op {
	return []process.Op{process.Start, process.Host, process.Restart, process.Register, process.Update}
}

func TestValidateExtras(t *testing.T) {
	const how = ", with * for all, lists 1,2, ranges 1-5 and steps */2"
	periodic := func(rule string) func(s *process.Spec) {
		return func(s *process.Spec) { s.SetKind(process.Periodic, rule, 0) }
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
		{
			"a bad rule that is not used", func(s *process.Spec) { s.SetKind(process.Resident, "often", 0) }, "",
		},
		{
			"a rule and a cycle", func(s *process.Spec) { s.SetKind(process.Periodic, "@daily", 5) },
			"spec.monitor_policy.crontab_rule and cycle_time are both set: expected one of them",
		},
		{"limits", func(s *process.Spec) { s.Limits = &spec.Limits{Memory: 4 << 20, CPU: 1, Tasks: 1} }, ""},
		{
			"limits that are none", func(s *process.Spec) {
				s.Limits = &spec.Limits{Memory: 4096, CPU: -50, Tasks: 5 << 20}
			},
			"limits.memory is 4096: expected 4194304 to 1125899906842624 bytes, or 0 for none; " +
				"limits.cpu is -50: expected 1 to 409600 percent of one processor, or 0 for none; " +
				"limits.tasks is 5242880: expected 1 to 4194304 processes and threads, or 0 for none",
		},
		{"execution", func(s *process.Spec) {
			s.Environment, s.Groups = spec.Variables{"A": "b"}, []string{"www"}
			s.EnvironmentFiles, s.Capabilities = []string{"-/etc/e"}, []string{"cap_kill"}
			s.Limits, s.RuntimeDirectory = &spec.Limits{OpenFiles: spec.Unlimited}, "run"
		}, ""},
		{
			"an execution that no host has", func(s *process.Spec) {
				s.Environment = spec.Variables{"DROVER_X": "", "A": "\x00"}
				s.Groups, s.Group, s.EnvironmentFiles = []string{""}, "a\n", []string{"-e"}
				s.Capabilities, s.RuntimeDirectory = []string{"FLY"}, "a/b"
				s.Limits = &spec.Limits{OpenFiles: -2, FileSize: new(spec.LimitSize(-3))}
			},
			"environment.A holds a NUL byte; environment has the name \"DROVER_X\", which drover sets itself; " +
				"environment_files \"e\" is not absolute: expected a path that begins with /; " +
				"groups is empty; groups holds a control character at byte 1; " +
				"capabilities has \"FLY\": expected a name such as NET_BIND_SERVICE; " +
				"limits.open_files is -2: expected 0 or more, or -1 for infinity; " +
				"limits.file_size is -3: expected 0 or more, or -1 for infinity; " +
				"runtime_directory is \"a/b\": expected the name of a directory below /run",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, op := range storing() {
				s := valid()
				c.set(s)
				check(t, process.Validate(s, op), process.Failed, c.want)
			}
			for _, op := range []process.Op{
				process.Stop, process.Kill, process.Reload, process.Retry, process.Query,
				process.SetGroups,
			} {
				s := valid()
				c.set(s)
				if err := process.Validate(s, op); err != nil {
					t.Errorf("%s looks at what it does not need: %v", op, err)
				}
			}
		})
	}
}

// TestNamesOfFiles: a spec without Compat has the names of files in its faults, and may lack what files may lack.
func TestNamesOfFiles(t *testing.T) {
	for _, s := range []*process.Spec{{Run: "x"}, {Start: "x", PIDFile: "/p"}, {Start: "x", ProcessName: "x"}} {
		check(t, process.Validate(s, process.Start), process.Failed, "")
	}
	s := &process.Spec{
		Run: "x\x00", Start: "x", PIDFile: "p", ProcessName: "a/b", Directory: "opt", User: "\n", LogFile: long(process.MaxPath + 1),
		Stop: "\x00", Reload: &spec.Reload{Command: "\x00"}, VersionCommand: "\x00", Health: &spec.Health{Exec: "\x00"},
		Preflight: &spec.Before{Run: "\x00"}, BeforeStart: &spec.Before{Run: "\x00"}, BeforeStop: &spec.BeforeStop{Run: "\x00"},
		Ready: &spec.Ready{Exec: "\x00"}, Schedule: &spec.Schedule{Cron: "x", TimeZone: "Nowhere"},
		ConfigFiles: []spec.ConfigFile{{Path: "c", MD5: "x"}, {Path: "/c", SHA256: "y"}},
	}
	want := strings.Fields("process_name directory pid_file log_file user start pid_file run stop reload version_command " +
		"health.exec preflight.run before_start.run before_stop.run ready.exec schedule.time_zone schedule.cron " +
		"config_files[0].path config_files[0].md5 config_files[1].sha256")
	var got []string
	for _, f := range process.Faults(s, process.Start) {
		if got = append(got, f.Field); !strings.HasPrefix(f.Text, f.Field+" ") {
			t.Errorf("%s: %s", f.Field, f.Text)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the faults are\n%q, want\n%q", got, want)
	}
	s.Compat = &spec.Compat{RestartCommand: "\x00", KillCommand: "\x00", ConfigPath: long(process.MaxPath + 1)}
	for _, f := range process.FileFaults(s, process.Start) {
		if strings.HasPrefix(f.Field, "spec.") {
			t.Errorf("in a file: %s", f.Text)
		}
	}
}

// A periodic process that is hosted needs a timetable; one that is only put on record may get it later.
func TestPeriodicNeedsATimetable(t *testing.T) {
	const want = `spec.monitor_policy.crontab_rule is empty: a periodic process (auto_type 0) needs it, such as "*/5 * * * *", or a cycle_time in seconds`
	s := valid()
	s.Schedule = &spec.Schedule{}
	for _, op := range []process.Op{process.Start, process.Host, process.Restart} {
		check(t, process.Validate(s, op), process.Failed, want)
	}
	for _, op := range []process.Op{
		process.Stop, process.Unhost, process.Register, process.Update, process.Reload,
		process.Kill, process.Query,
	} {
		check(t, process.Validate(s, op), process.Failed, "")
	}
	s.SetKind(process.Periodic, "", 60)
	check(t, process.Validate(s, process.Start), process.Failed, "")
	s.SetKind(process.Periodic, "", 2592001)
	check(t, process.Validate(s, process.Start), process.Failed,
		"spec.monitor_policy.cycle_time is 2592001: expected 1 to 2592000 seconds")
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	s := &process.Spec{
		ProcessName: "a/b",
		Directory:   "opt",
		PIDFile:     "\n",
		Start:       "\x00",
		Schedule:    &spec.Schedule{},
		Health:      &spec.Health{Exec: strings.Repeat("a", process.MaxCommand+1)},
		Limits:      &spec.Limits{Memory: 1},
		Compat:      &spec.Compat{},
	}
	check(t, process.Validate(s, process.Start), process.Failed, strings.Join([]string{
		`spec.identity.proc_name "a/b" holds a slash: expected the base name of the executable`,
		`spec.identity.setup_path "opt" is not absolute: expected a path that begins with /`,
		`spec.identity.pid_path holds a control character at byte 0`,
		`spec.identity.user is empty: expected an account of the host`,
		`spec.control.start_cmd holds a NUL byte`,
		`spec.control.health_cmd is 65537 bytes long: expected at most 65536`,
		`spec.monitor_policy.crontab_rule is empty: a periodic process (auto_type 0) needs it, such as "*/5 * * * *", or a cycle_time in seconds`,
		`limits.memory is 1: expected 4194304 to 1125899906842624 bytes, or 0 for none`,
	}, "; "))
	list := process.Faults(s, process.Start)
	if len(list) != 8 || list[3].Field != "spec.identity.user" {
		t.Errorf("got %+v", list)
	}
}
