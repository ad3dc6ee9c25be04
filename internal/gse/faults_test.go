package gse_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/gse"
	"drover/internal/process"
)

// problem returns the text of the only operation's problem, empty where there is none.
func problem(t *testing.T, ops []gse.Operation, err error) string {
	t.Helper()
	if err != nil || len(ops) != 1 {
		t.Fatalf("%d operations: %v", len(ops), err)
	}
	if p := ops[0].Problem; p != nil {
		if p.Fault != process.Failed {
			t.Errorf("fault is %s", p.Fault)
		}
		return p.Text
	}
	return ""
}

func operate(t *testing.T, opType, policy, identity string) string {
	t.Helper()
	ops, err := gse.ReadOperate([]byte(`{"meta": {"namespace": "n", "name": "p"}, "op_type": ` + opType +
		`, "agent_id_list": ["a"], "spec": {
		"identity": ` + identity + `, "control": {"start_cmd": "./start"}, "alive_monitor_policy": ` + policy + `}}`))
	return problem(t, ops, err)
}

const identity = `{"proc_name": "p", "setup_path": "/opt", "pid_path": "/run/p.pid", "user": "root"}`

func TestTimetables(t *testing.T) {
	const missing = `spec.alive_monitor_policy.crontab_rule is empty: a periodic process (auto_type 0) needs it, such as "*/5 * * * *", or a cycle_time in seconds`
	for _, c := range []struct{ op, policy, want string }{
		{"0", `{"auto_type": 0, "crontab_rule": "*/5 * * * *"}`, ""},
		{"3", `{"auto_type": 0, "crotab_rule": "@daily"}`, ""},
		{"0", `{"auto_type": 0}`, missing},
		{"3", `{"auto_type": "0", "crontab_rule": null, "crotab_rule": ""}`, missing},
		{"1", `{"auto_type": 0}`, ""}, // a stop needs no timetable
		{"4", `{"auto_type": 0, "crontab_rule": "never"}`, ""},
		{"2", `{"auto_type": 0}`, ""},
		{"0", `{"auto_type": 1, "crontab_rule": "never"}`, ""}, // stored, not used
		{
			"0", `{"auto_type": 0, "crontab_rule": "0 25 * * *"}`,
			`spec.alive_monitor_policy.crontab_rule "0 25 * * *": hour "25": expected 0 to 23, with * for all, lists 1,2, ranges 1-5 and steps */2`,
		},
		{
			"0", `{"auto_type": 0, "crotab_rule": "0 25 * * *"}`,
			`spec.alive_monitor_policy.crotab_rule "0 25 * * *": hour "25": expected 0 to 23, with * for all, lists 1,2, ranges 1-5 and steps */2`,
		},
		{"0", `{"auto_type": 0, "crotab_rule": []}`, "spec.alive_monitor_policy.crotab_rule is not a string: []"},
		// A kind that cannot be read is not 0, which would need a timetable.
		{"0", `{"auto_type": "resident"}`, `spec.alive_monitor_policy.auto_type is not an integer: "resident"`},
		{"0", `{"auto_type": 0, "crontab_rule": {}}`, "spec.alive_monitor_policy.crontab_rule is not a string: {}"},
	} {
		if got := operate(t, c.op, c.policy, identity); got != c.want {
			t.Errorf("op %s with %s:\n got %s\nwant %s", c.op, c.policy, got, c.want)
		}
	}
}

func TestAllFaultsOfAKeyAreTold(t *testing.T) {
	got := operate(t, "0", `{"auto_type": 7, "op_timeout": "soon", "start_retries": 99999999}`,
		`{"proc_name": {}, "setup_path": "opt", "pid_path": "/run/p.pid"}`)
	want := strings.Join([]string{
		"spec.identity.proc_name is not a string: {}",
		"spec.alive_monitor_policy.auto_type is 7: expected 0 (periodic), 1 (resident) or 2 (single run)",
		"spec.alive_monitor_policy.start_retries is 99999999: expected at most 1000000",
		`spec.alive_monitor_policy.op_timeout is not an integer: "soon"`,
		`spec.identity.setup_path "opt" is not absolute: expected a path that begins with /`,
		"spec.identity.user is empty: expected an account of the host",
	}, "; ")
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestOrderOfUnreadableFields: callers of JOB see the faults in the order of the fields.
func TestOrderOfUnreadableFields(t *testing.T) {
	names := strings.Fields("cfg_path log_path account start_cmd stop_cmd restart_cmd reload_cmd kill_cmd " +
		"cpu_lmt mem_lmt func_id instance_id contact cycle_time type start_check_begin_time start_check_end_time " +
		"op_timeout instance_num")
	var fields strings.Builder
	for _, name := range names {
		fields.WriteString(`, "` + name + `": []`)
	}
	ops, err := gse.ReadJobOperate([]byte(`{"bk_biz_id": 2, "op_type": 0, "process_infos": [{"setup_path": "/",
		"proc_name": "p", "pid_path": "/p", "ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}]` + fields.String() + `}]}`))
	var got []string
	for text := range strings.SplitSeq(problem(t, ops, err), "; ") {
		name, _, _ := strings.Cut(text, " ")
		got = append(got, name)
	}
	if !slices.Equal(got, names) {
		t.Errorf("the faults are of\n%q, want\n%q", got, names)
	}
}

// TestFaultsOfEveryField: each fault has the name of the field as callers of GSE, and of JOB, know it.
func TestFaultsOfEveryField(t *testing.T) {
	const nul = "\"\\u0000\""
	labels := `{"drover.stop_scope": "tree"}`
	read := func(spec string) string {
		ops, err := gse.ReadRegistration([]byte(`{"meta": {"namespace": "n", "name": "p", "labels": `+labels+`},
			"hosts": [{"ip": "::1", "bk_cloud_id": 0}], "spec": `+spec+`}`), process.Register)
		return problem(t, ops, err)
	}
	long := `"` + strings.Repeat("a", process.MaxPath+1) + `"`
	got := read(`{"identity": {"config_path": ` + long + `, "log_path": ` + long + `, "pid_path": "p", "setup_path": "/",
		"proc_name": "a/b", "user": ` + nul + `}, "control": {"start_cmd": ` + nul + `, "stop_cmd": ` + nul + `,
		"restart_cmd": ` + nul + `, "reload_cmd": ` + nul + `, "kill_cmd": ` + nul + `, "version_cmd": ` + nul + `,
		"health_cmd": ` + nul + `}, "monitor_policy": {"auto_type": 0, "crontab_rule": "x"},
		"configmap": [{"path": "c", "md5": "x"}]}`)
	want := `spec.identity.proc_name "a/b" holds a slash: expected the base name of the executable; ` +
		`spec.identity.pid_path "p" is not absolute: expected a path that begins with /; ` +
		`spec.identity.config_path is 4096 bytes long: expected at most 4095; ` +
		`spec.identity.log_path is 4096 bytes long: expected at most 4095; ` +
		`spec.identity.user holds a control character at byte 0; ` +
		`spec.control.start_cmd holds a NUL byte; spec.control.stop_cmd holds a NUL byte; ` +
		`spec.control.restart_cmd holds a NUL byte; spec.control.reload_cmd holds a NUL byte; ` +
		`spec.control.kill_cmd holds a NUL byte; spec.control.version_cmd holds a NUL byte; ` +
		`spec.control.health_cmd holds a NUL byte; ` +
		`meta.labels[drover.stop_scope] is "tree": expected "process", or no such label; ` +
		`spec.monitor_policy.crontab_rule "x": has 1 field: expected five (minute, hour, day of month, month, day of week); ` +
		`spec.configmap[0].path "c" is not absolute: expected a path that begins with /; ` +
		`spec.configmap[0].md5 is "x": expected 32 hexadecimal digits, or nothing`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	ops, err := gse.ReadJobOperate([]byte(`{"bk_biz_id": 2, "op_type": 0, "process_infos": [{"setup_path": "opt",
		"proc_name": "a/b", "pid_path": "p", "cfg_path": ` + long + `, "log_path": ` + long + `, "account": ` + nul + `,
		"start_cmd": ` + nul + `, "stop_cmd": ` + nul + `, "restart_cmd": ` + nul + `, "reload_cmd": ` + nul + `,
		"kill_cmd": ` + nul + `, "ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}]}]}`))
	want = `proc_name "a/b" holds a slash: expected the base name of the executable; ` +
		`setup_path "opt" is not absolute: expected a path that begins with /; ` +
		`pid_path "p" is not absolute: expected a path that begins with /; ` +
		`cfg_path is 4096 bytes long: expected at most 4095; log_path is 4096 bytes long: expected at most 4095; ` +
		`account holds a control character at byte 0; start_cmd holds a NUL byte; stop_cmd holds a NUL byte; ` +
		`restart_cmd holds a NUL byte; reload_cmd holds a NUL byte; kill_cmd holds a NUL byte`
	if got := problem(t, ops, err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJobTypes(t *testing.T) {
	for _, c := range []struct {
		op, fields, problem string
		kind                process.Kind
		assumed             bool
	}{
		{"0", ``, "", process.Resident, true},
		{"0", `, "type": null`, "", process.Resident, true},
		{"0", `, "cycle_time": 60`, "", process.Periodic, false},
		{"0", `, "type": 1`, "", process.Resident, false},
		{"0", `, "type": 0, "cycle_time": 60`, "", process.Periodic, false},
		{"0", `, "type": 0`, "cycle_time is missing: type 0 (periodic) needs it, in seconds", process.Periodic, false},
		{
			"3", `, "type": "0", "cycle_time": "0", "setup_path": "opt"`,
			`setup_path "opt" is not absolute: expected a path that begins with /; cycle_time is missing: type 0 (periodic) needs it, in seconds`, process.Periodic, false,
		},
		{"1", `, "type": 0`, "", process.Periodic, false},
		{"0", `, "type": "x"`, `type is not an integer: "x"`, process.Resident, false},
		{
			"0", `, "type": 0, "cycle_time": 1000000000000000000`,
			"cycle_time is 1000000000000000000: expected at most 2592000", process.Periodic, false,
		},
		{"0", `, "type": 0, "cycle_time": "x"`, `cycle_time is not an integer: "x"`, process.Periodic, false},
		{
			"0", `, "type": 3, "op_timeout": 99999999`,
			"type is 3: expected 0 (periodic), 1 (resident) or 2 (single run); op_timeout is 99999999: expected at most 3600", process.Resident, false,
		},
	} {
		ops, err := gse.ReadJobOperate([]byte(`{"bk_biz_id": 2, "op_type": ` + c.op +
			`, "process_infos": [{"setup_path": "/opt", "proc_name": "p", "pid_path": "/p.pid",
			"ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}]` + c.fields + `}]}`))
		if got := problem(t, ops, err); got != c.problem {
			t.Errorf("op %s%s:\n got %s\nwant %s", c.op, c.fields, got, c.problem)
		}
		if s := ops[0].Spec; s.Kind() != c.kind || s.Compat.KindAssumed != c.assumed {
			t.Errorf("op %s%s: kind %s, assumed %v", c.op, c.fields, s.Kind(), s.Compat.KindAssumed)
		}
	}
}

// TestCheckTimesAndTimeoutsAreBounded: a check keeps others from the process for as long as it lasts.
func TestCheckTimesAndTimeoutsAreBounded(t *testing.T) {
	for _, field := range []string{"start_check_secs", "stop_check_secs", "op_timeout"} {
		if got := operate(t, "0", `{"`+field+`": 3600}`, identity); got != "" {
			t.Errorf("3600: %s", got)
		}
		want := "spec.alive_monitor_policy." + field + " is 3601: expected at most 3600"
		for _, op := range []string{"0", "1", "9", "7"} {
			if got := operate(t, op, `{"`+field+`": 3601}`, identity); got != want {
				t.Errorf("op %s: got %q, want %q", op, got, want)
			}
		}
	}
	for _, field := range []string{"start_check_begin_time", "start_check_end_time", "op_timeout"} {
		for value, want := range map[string]string{"3600": "", `"3601"`: field + " is 3601: expected at most 3600"} {
			ops, err := gse.ReadJobOperate(
				[]byte(
					`{"bk_biz_id": 2, "op_type": 0, "process_infos": [{"setup_path": "/opt", "proc_name": "p", "pid_path": "/p.pid",
				"ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}], "` + field + `": ` + value + `}]}`))
			if got := problem(t, ops, err); got != want {
				t.Errorf("%s %s: got %q, want %q", field, value, got, want)
			}
		}
	}
	// How far apart relaunches are keeps nobody waiting.
	if got := operate(t, "0", `{"start_interval": 86400}`, identity); got != "" {
		t.Error(got)
	}
}

// TestAFaultOfTheAgentIsInTheCallersWords: the agent does not know who asks.
func TestAFaultOfTheAgentIsInTheCallersWords(t *testing.T) {
	for text, want := range map[string][2]string{
		`spec.identity.user: user "x" is unknown`: {
			`spec.identity.user: user "x" is unknown`,
			`account: user "x" is unknown`,
		},
		"spec.monitor_policy.crontab_rule \"a\": b": {"crontab_rule \"a\": b", "crontab_rule \"a\": b"},
		"[spec.identity.user: said the command]": {
			"[spec.identity.user: said the command]",
			"[spec.identity.user: said the command]",
		},
		"spec.": {"spec.", "spec."},
	} {
		it := gse.Item{Op: process.Start, Outcome: &process.Outcome{Fault: process.Failed, Text: text}}
		if got := gse.Result(it, time.Now()); got.ErrorMsg != want[0] {
			t.Errorf("GSE is told %q, want %q", got.ErrorMsg, want[0])
		}
		if got := gse.JobResult(it, time.Now()); got.ErrorMsg != want[1] {
			t.Errorf("JOB is told %q, want %q", got.ErrorMsg, want[1])
		}
	}
}

// TestSuccessIsOneWord: callers compare it; a hint is for others to show.
func TestSuccessIsOneWord(t *testing.T) {
	it := gse.Item{Op: process.Start, Outcome: &process.Outcome{Text: "success: crontab_rule is stored and not used"}}
	for name, e := range map[string]gse.Entry{
		"gse": gse.Result(it, time.Now()), "job": gse.JobResult(it, time.Now()),
		"registration": gse.RegistrationResult(it),
	} {
		text, err := json.Marshal(e)
		if err != nil || e.ErrorMsg != process.Success || strings.Contains(string(text), "stored") {
			t.Errorf("%s: %s; error %v", name, text, err)
		}
	}
}
