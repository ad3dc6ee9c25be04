package gse_test

import (
	"fmt"
	"strings"
	"testing"

	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/spec"

	"github.com/google/go-cmp/cmp"
)

func scripted(t *testing.T, fields string) gse.Operation {
	t.Helper()
	ops, err := gse.ReadJobScripted(
		[]byte(
			fmt.Sprintf(
				`{"bk_biz_id": 2, "op_type": 0, "process_infos": [{%s, "ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}]}]}`, fields)))
	if err != nil {
		t.Fatal(err)
	}
	return ops[0]
}

func TestJobFillsInWhatOperateProcCannotSay(t *testing.T) {
	o := scripted(t,
		`"setup_path": "/usr/local/xxx", "proc_name": "agent", "pid_path": "/p", "value_key": "mine", "contact": "me", "start_cmd": "rm -rf /", "kill_cmd": "x", "type": 2, "op_timeout": 99`)
	want := &process.Spec{
		ProcessName: "agent",
		Directory:   "/usr/local/xxx",
		PIDFile:     "/p",
		User:        "root",
		Start:       "cd /usr/local/xxx && ./start.sh agent &",
		Stop:        "cd /usr/local/xxx && ./stop.sh agent &",
		Reload:      &spec.Reload{Command: "cd /usr/local/xxx && ./reload.sh agent &"},
		Thresholds:  &spec.Thresholds{CPU: 50, Memory: 30},
		Compat: &spec.Compat{
			RestartCommand: "cd /usr/local/xxx && ./restart.sh agent &", StartCheckBegin: 5, StartCheckEnd: 1, StopCheck: 5,
			StartRetries: 4, StartInterval: 10, OpTimeout: 10, Contact: "mapleleaf",
		},
	}
	if diff := cmp.Diff(want, o.Spec); diff != "" || o.Problem != nil {
		t.Errorf("spec (-want +got): %s, problem %v", diff, o.Problem)
	}
	if o.ID.Name != "/usr/local/xxx/agent" || o.Targets[0].Key != "/usr/local/xxx/agent:0:10.0.0.1" {
		t.Errorf("process %v, key %q", o.ID, o.Targets[0].Key)
	}
}

func TestScriptedCommands(t *testing.T) {
	for fields, want := range map[string][2]string{
		`"setup_path": "/a b/", "proc_name": "it's"`: {
			`cd '/a b/' && ./start.sh 'it'\''s' &`,
			"/a b/it's",
		},
		`"setup_path": "/x", "proc_name": "a;b$c"`: {
			`cd /x && ./start.sh 'a;b$c' &`,
			"/x/a;b$c",
		},
		`"setup_path": "/x", "proc_name": "n", "cmd_shell_ext": ""`:         {"cd /x && ./start.sh n &", "/x/n"},
		`"setup_path": "C:\\gse", "proc_name": "n", "cmd_shell_ext": "bat"`: {`cd C:\gse && start.bat n`, `C:\gse\n`},
		`"setup_path": "C:\\gse\\", "proc_name": "n", "cmd_shell_ext": "ps1"`: {
			`cd C:\gse\ && start.ps1 n`,
			`C:\gse\n`,
		},
	} {
		o := scripted(t, fields+`, "pid_path": "/p"`)
		if o.Spec.Start != want[0] || o.ID.Name != want[1] {
			t.Errorf("%s: %q named %q, want %q named %q", fields, o.Spec.Start, o.ID.Name, want[0], want[1])
		}
	}
}

func TestScriptedLimits(t *testing.T) {
	for limits, want := range map[string]spec.Thresholds{
		`"cpu_lmt": 0, "mem_lmt": "100"`: {CPU: 0, Memory: 100}, `"cpu_lmt": null, "mem_lmt": 101`: {CPU: 50, Memory: 30},
		`"cpu_lmt": -1, "mem_lmt": 12.5`: {CPU: 50, Memory: 12.5},
	} {
		if o := scripted(t, `"setup_path": "/x", "proc_name": "n", "pid_path": "/p", `+limits); o.Spec.Shares() != want {
			t.Errorf("%s: %+v, want %+v", limits, o.Spec.Shares(), want)
		}
	}
	if o := scripted(t, `"setup_path": "/x", "proc_name": "n", "pid_path": "/p", "cpu_lmt": []`); o.Problem == nil ||
		!strings.HasPrefix(o.Problem.Text, "cpu_lmt") {
		t.Errorf("a limit that is none: %v", o.Problem)
	}
}

func TestScriptedNeedsItsFields(t *testing.T) {
	for fields, want := range map[string]string{
		`"proc_name": "n", "pid_path": "/p"`:                                             "process_infos[0].setup_path is missing",
		`"setup_path": "/x", "pid_path": "/p"`:                                           "process_infos[0].proc_name is missing",
		`"setup_path": "/x", "proc_name": "n", "pid_path": " "`:                          "process_infos[0].pid_path is blank",
		`"setup_path": "/x", "proc_name": "n", "pid_path": "/p", "cmd_shell_ext": "exe"`: `process_infos[0].cmd_shell_ext is "exe": expected sh, bat or ps1`,
	} {
		_, err := gse.ReadJobScripted(
			[]byte(
				fmt.Sprintf(
					`{"bk_biz_id": 2, "op_type": 0, "process_infos": [{%s, "ip_list": [{"bk_cloud_id": 0, "ip": "10.0.0.1"}]}]}`, fields)))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", fields, err, want)
		}
	}
}

func TestMeansJob(t *testing.T) {
	for body, want := range map[string]bool{
		`{"bk_biz_id": 1}`: true, `{"bk_scope_id": "1"}`: true, `{"action": "x"}`: true, `{"bk_biz_id": null}`: false,
		`{"meta": {"action": 1}}`: false, `{}`: false, `[`: false,
	} {
		if got := gse.MeansJob([]byte(body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}
