package processes

import (
	"reflect"
	"strings"
	"testing"

	"drover/client"
)

// TestSpecFaults: all of them, each once, with its line and the name that was meant.
func TestSpecFaults(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"nothing wrong", specExample, ""},
		{
			"an anchor and a merge",
			"identity: &i {proc_name: x}\nlabels: {any: [thing, 1]}\ncommands:\n  start: |\n    a\n    b\n", "",
		},
		{
			"misspelt names",
			"identty: {proc_name: x}\npolicy:\n  op_timout: 5\n  stop_checks: 1\n  frobnicate: 2\nop_timeout: 60\ncommand:\n  start: x\ncommands: {sotp: x}\n",
			"line 1: unknown field identty; did you mean identity?\n  " +
				"line 3: unknown field policy.op_timout; did you mean op_timeout?\n  " +
				"line 4: unknown field policy.stop_checks; did you mean stop_check?\n  " +
				"line 5: unknown field policy.frobnicate\n  " +
				"line 6: unknown field op_timeout; did you mean policy.op_timeout?\n  " +
				"line 7: unknown field command; did you mean commands?\n  " +
				"line 9: unknown field commands.sotp; did you mean stop?",
		},
		{
			"values of another kind",
			"identity: {proc_name: 5, user: [root]}\npolicy: {op_timeout: 2h, start_retries: many, start_interval: 1.5}\nlimits: {cpu: half}\n" +
				"probes: {restart: 1}\nconfig: {path: x}\nready: yes\nhard_limits:\n  memory: 1G\n",
			"line 1: identity.proc_name is 5: expected a string; put the value in quotes\n  " +
				"line 1: identity.user is [root]: expected a string; put the value in quotes\n  " +
				"line 2: policy.op_timeout is 2h: expected a whole number; 2h is 7200 seconds\n  " +
				"line 2: policy.start_retries is many: expected a whole number\n  " +
				"line 2: policy.start_interval is 1.5: expected a whole number\n  " +
				"line 3: limits.cpu is half: expected a number\n  " +
				"line 4: probes.restart is 1: expected true or false\n  " +
				"line 5: config: expected a list\n  " +
				"line 6: ready: expected names with values\n  " +
				"line 8: hard_limits.memory is 1G: expected a whole number",
		},
		{"JSON", `{"policy": {"kindd": "resident"}}`, "line 1: unknown field policy.kindd; did you mean kind?"},
		{"a text", "nginx", "line 1: the file: expected names with values"},
	} {
		_, err := readSpec(strings.NewReader(tt.yaml), "-")
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "- is not a valid spec:\n  ")
		}
		if got != tt.want {
			t.Errorf("%s: got\n  %s\nwant\n  %s", tt.name, got, tt.want)
		}
	}
}

// TestHelpShowsTheWholeSpec: each field that there is stands in the help of register.
func TestHelpShowsTheWholeSpec(t *testing.T) {
	help := NewRegister().Long
	eachSpecName("", reflect.TypeFor[client.Spec](), func(name string) {
		last := name[strings.LastIndexByte(name, '.')+1:]
		if !strings.Contains(help, last+":") {
			t.Errorf("the help of register does not show %s", name)
		}
	})
	for _, last := range []string{"path:", "md5:"} {
		if !strings.Contains(help, last) {
			t.Errorf("the help of register does not show %s", last)
		}
	}
}
