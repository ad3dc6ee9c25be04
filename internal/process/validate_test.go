package process_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/spec"
)

func valid() *process.Spec {
	return &process.Spec{
		ProcessName: "nginx",
		Directory:   "/opt/nginx",
		PIDFile:     "/run/nginx.pid",
		User:        "www",
		Start:       "start",
		Compat:      &spec.Compat{},
	}
}

func acting() []process.Op {
	return []process.Op{
		process.Start, process.Stop, process.Host, process.Restart, process.Reload, process.Kill, process.Register,
		process.Update,
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func TestValidate(t *testing.T) {
	long := long(process.MaxName + 1)
	for _, c := range []struct {
		name string
		set  func(s *process.Spec)
		want string
	}{
		{"as it should be", func(*process.Spec) {}, ""},
		{"without a pid file", func(s *process.Spec) { s.PIDFile = "" }, ""},
		{"without a command", func(s *process.Spec) { s.Start = "" }, ""},
		{"a command of several lines", func(s *process.Spec) { s.Start = "a\n\tb\r\n" }, ""},
		{"the longest values", func(s *process.Spec) {
			s.ProcessName, s.User = long[1:], long[1:]
			s.Directory = "/" + strings.Repeat("a", process.MaxPath-1)
			s.PIDFile = s.Directory
			s.Compat.KillCommand = strings.Repeat("a", process.MaxCommand)
		}, ""},
		{"names in other scripts", func(s *process.Spec) {
			s.ProcessName, s.Directory = "進程",
				"/opt/進 程"
		}, ""},

		{
			"no name", func(s *process.Spec) { s.ProcessName = "" },
			"spec.identity.proc_name is empty: expected the base name of the executable",
		},
		{
			"a path for a name", func(s *process.Spec) { s.ProcessName = "sbin/nginx" },
			`spec.identity.proc_name "sbin/nginx" holds a slash: expected the base name of the executable`,
		},
		{
			"a long name", func(s *process.Spec) { s.ProcessName = long },
			"spec.identity.proc_name is 256 bytes long: expected at most 255",
		},
		{
			"a name that is no text", func(s *process.Spec) { s.ProcessName = "a\xff" },
			"spec.identity.proc_name is not valid UTF-8",
		},
		{
			"a name with a newline", func(s *process.Spec) { s.ProcessName = "ng\ninx" },
			"spec.identity.proc_name holds a control character at byte 2",
		},
		{
			"no directory", func(s *process.Spec) { s.Directory = "" },
			"spec.identity.setup_path is empty: expected an absolute directory",
		},
		{
			"a relative directory", func(s *process.Spec) { s.Directory = "opt/nginx" },
			`spec.identity.setup_path "opt/nginx" is not absolute: expected a path that begins with /`,
		},
		{
			"a long directory", func(s *process.Spec) { s.Directory = strings.Repeat("/", process.MaxPath+1) },
			"spec.identity.setup_path is 4096 bytes long: expected at most 4095",
		},
		{
			"a directory with a NUL", func(s *process.Spec) { s.Directory = "/opt\x00" },
			"spec.identity.setup_path holds a control character at byte 4",
		},
		{
			"a relative pid file", func(s *process.Spec) { s.PIDFile = "nginx.pid" },
			`spec.identity.pid_path "nginx.pid" is not absolute: expected a path that begins with /`,
		},
		{
			"a home directory", func(s *process.Spec) { s.PIDFile = "~/nginx.pid" },
			`spec.identity.pid_path "~/nginx.pid" is not absolute: expected a path that begins with /`,
		},
		{
			"a pid file with an escape", func(s *process.Spec) { s.PIDFile = "/run/\x1b[31m" },
			"spec.identity.pid_path holds a control character at byte 5",
		},
		{
			"no user", func(s *process.Spec) { s.User = "" },
			"spec.identity.user is empty: expected an account of the host",
		},
		{
			"a user with a DEL", func(s *process.Spec) { s.User = "www\x7f" },
			"spec.identity.user holds a control character at byte 3",
		},
		{
			"a start command with a NUL", func(s *process.Spec) { s.Start = "a\x00b" },
			"spec.control.start_cmd holds a NUL byte",
		},
		{
			"a stop command with a NUL", func(s *process.Spec) { s.Stop = "\x00" },
			"spec.control.stop_cmd holds a NUL byte",
		},
		{"a long restart command", func(s *process.Spec) {
			s.Compat.RestartCommand = strings.Repeat("a", process.MaxCommand+1)
		}, "spec.control.restart_cmd is 65537 bytes long: expected at most 65536"},
		{"a long reload command", func(s *process.Spec) {
			s.Reload = &spec.Reload{Command: strings.Repeat("a", process.MaxCommand+1)}
		}, "spec.control.reload_cmd is 65537 bytes long: expected at most 65536"},
		{
			"a kill command with a NUL", func(s *process.Spec) { s.Compat.KillCommand = "\x00" },
			"spec.control.kill_cmd holds a NUL byte",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, op := range acting() {
				s := valid()
				c.set(s)
				check(t, process.Validate(s, op), process.Failed, c.want)
			}
			for _, op := range []process.Op{process.Query, process.Unhost, process.Unregister} {
				s := valid()
				c.set(s)
				if err := process.Validate(s, op); err != nil {
					t.Errorf("%s looks at the spec: %v", op, err)
				}
			}
		})
	}
	check(t, process.Validate(valid(), "freeze"), process.IllegalOp, `there is no operation "freeze"`)
	check(t, process.Validate(&process.Spec{}, ""), process.IllegalOp, `there is no operation ""`)
}

// check fails unless the error is a fault with that text; an empty text is none.
func check(t *testing.T, err error, fault process.Fault, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("got %v", err)
		}
		return
	}
	problem, ok := errors.AsType[*process.Error](err)
	if !ok || problem.Fault != fault || problem.Text != text {
		t.Errorf("got %#v,\nwant %s %s", err, fault, text)
	}
}

func TestValidateID(t *testing.T) {
	for _, c := range []struct {
		id   process.ID
		want string
	}{
		{process.ID{Namespace: "ns", Name: "nginx"}, ""},
		{process.ID{Namespace: "job:biz:1", Name: "../a b*>"}, ""},
		{process.ID{Namespace: strings.Repeat("n", 255), Name: strings.Repeat("界", 85)}, ""},
		{process.ID{Name: "nginx"}, "meta.namespace is empty"},
		{process.ID{Namespace: "ns"}, "meta.name is empty"},
		{
			process.ID{Namespace: strings.Repeat("n", 256), Name: "nginx"},
			"meta.namespace is 256 bytes long: expected at most 255",
		},
		{
			process.ID{Namespace: "ns", Name: strings.Repeat("界", 86)},
			"meta.name is 258 bytes long: expected at most 255",
		},
		{process.ID{Namespace: "n\x85s", Name: "nginx"}, "meta.namespace is not valid UTF-8"},
		{process.ID{Namespace: "n\u0085s", Name: "nginx"}, "meta.namespace holds a control character at byte 1"},
		{process.ID{Namespace: "ns", Name: "ngin\x00"}, "meta.name holds a control character at byte 4"},
	} {
		check(t, process.ValidateID(c.id), process.Failed, c.want)
	}
}

// TestHowLargeASpecMayBe: all of its texts count together, whatever is asked for, because it is kept with that; and no
// fault quotes much of it.
func TestHowLargeASpecMayBe(t *testing.T) {
	for _, op := range append(acting(), process.Query, process.Unhost, process.Unregister) {
		for name, set := range map[string]func(s *process.Spec){
			"label":    func(s *process.Spec) { s.Labels = map[string]string{"l": long(process.MaxSpec)} },
			"labels":   func(s *process.Spec) { s.Compat.Labels = `"` + long(process.MaxSpec) + `"` },
			"variable": func(s *process.Spec) { s.Environment = spec.Variables{"A": long(process.MaxSpec)} },
			"groups":   func(s *process.Spec) { s.Groups = []string{long(process.MaxSpec), "g"} },
			"ready":    func(s *process.Spec) { s.Ready = &spec.Ready{Log: long(process.MaxSpec + 1)} },
			"func_id":  func(s *process.Spec) { s.Compat.FuncID = long(process.MaxSpec) },
			"log_path": func(s *process.Spec) { s.LogFile = long(process.MaxSpec) },
			"config": func(s *process.Spec) {
				for range 130 {
					s.ConfigFiles = append(s.ConfigFiles, spec.ConfigFile{Path: "/" + long(process.MaxPath-1)})
				}
			},
		} {
			s := valid()
			set(s)
			check(t, process.Validate(s, op), process.Failed, fmt.Sprintf("spec is %d bytes long in all: expected at most %d",
				process.Size(s), process.MaxSpec))
			if process.Size(s) <= process.MaxSpec {
				t.Errorf("%s does not count", name)
			}
		}
	}
	s := valid()
	s.LogFile = long(process.MaxPath + 1)
	check(t, process.Validate(s, process.Start), process.Failed,
		"spec.identity.log_path is 4096 bytes long: expected at most 4095")
	s = valid()
	s.ProcessName = "/" + long(100_000)
	for range 100 {
		s.ConfigFiles = append(s.ConfigFiles, spec.ConfigFile{Path: long(4000)})
	}
	err := process.Validate(s, process.Start)
	if err == nil || len(err.Error()) > 6<<10 || !strings.HasSuffix(err.Error(), " more") {
		t.Errorf("it is told in %d bytes: %.300v", len(err.Error()), err)
	}
}
