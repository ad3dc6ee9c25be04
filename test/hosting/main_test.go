// Package hosting_test holds the black-box tests of what hosting promises beside the relaunch: timetables, single runs,
// health, configuration, readiness, budgets, and the events of all that. The built binary is called as its callers call
// it, through the compatible calls first and drover's own API second.
package hosting_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover":        &binaries.drover,
		"./test/daemons/oddd": &binaries.oddd,
	}))
}

type object = harness.Object

// proc is a process of a test, with a directory of its own. Its start command is a shell line of the test's.
type proc struct {
	*harness.Process
	t   *testing.T
	dir string
	// own are the fields of the spec that only drover's own API takes, and further ones of health and schedule.
	own object
}

// command returns a process that is run by a shell line in its directory. It is known by no pid file.
func command(t *testing.T, s *harness.Server, name, start string) *proc {
	t.Helper()
	dir := harness.Workdir(t)
	return &proc{t: t, dir: dir, own: object{}, Process: &harness.Process{
		Server: s, Namespace: "hosting", Name: name,
		Identity: object{"proc_name": "of-" + name, "setup_path": dir, "pid_path": dir + "/none.pid", "user": "root"},
		Control:  object{"start_cmd": start, "stop_cmd": ""},
		Policy:   object{"start_check_secs": 1},
	}}
}

// daemon returns a process that is an odd daemon.
func daemon(t *testing.T, s *harness.Server, name, modes string, flags ...string) *proc {
	t.Helper()
	p, dir := harness.Odd(t, s, binaries.oddd, name, modes, flags...)
	p.Namespace, p.Policy = "hosting", object{"start_check_secs": 1}
	return &proc{t: t, dir: dir, own: object{}, Process: p}
}

// must carries out an operation, which must end with the code.
func (p *proc) must(op, code int) harness.Result {
	p.t.Helper()
	return p.Operate(op).Want(p.t, fmt.Sprintf("operation %d of %s", op, p.Name), code)
}

// spec is the spec as drover's own API takes it. With ready it is drover's own, because callers of GSE know no
// readiness.
func (p *proc) spec() object {
	spec := object{}
	maps.Copy(spec, p.own)
	for ours, theirs := range map[string]string{
		"process_name": "proc_name", "directory": "setup_path", "pid_file": "pid_path", "user": "user",
		"log_file": "log_path",
	} {
		if v, ok := p.Identity[theirs]; ok {
			spec[ours] = v
		}
	}
	for ours, theirs := range map[string]string{
		"start": "start_cmd", "stop": "stop_cmd", "version_command": "version_cmd",
	} {
		if line, ok := p.Control[theirs]; ok {
			spec[ours] = line
		}
	}
	if line, ok := p.Control["health_cmd"]; ok {
		spec["health"] = with(part(p.own, "health"), "exec", line)
	}
	switch p.Policy["auto_type"] {
	case 0:
		spec["schedule"] = with(part(p.own, "schedule"), "every", fmt.Sprintf("%ds", p.Policy["cycle_time"]))
	case 2:
		spec["once"] = true
	}
	if p.own["ready"] != nil {
		spec["timeouts"] = object{"start": "30s"}
		spec["restart"] = object{"delay": "1s", "factor": 1}
		return spec
	}
	compat := object{"stop_check_secs": 5, "start_interval": 1, "op_timeout": 30}
	for ours, theirs := range map[string]string{
		"start_check_begin": "start_check_secs", "start_interval": "start_interval", "start_retries": "start_retries",
	} {
		if v, ok := p.Policy[theirs]; ok {
			compat[ours] = v
		}
	}
	spec["compat"] = compat
	return spec
}

// with returns a copy of an object that has one more field.
func with(o object, field string, value any) object {
	more := object{field: value}
	maps.Copy(more, o)
	return more
}

// ask carries out an operation through /api/v1, with the whole spec if there is one, and returns its result.
func (p *proc) ask(op string, spec object) object {
	p.t.Helper()
	return p.Server.Outcome(p.Ask(op, spec))
}

// succeed is ask for what must succeed.
func (p *proc) succeed(op string, spec object) {
	p.t.Helper()
	if r := p.ask(op, spec); r["outcome"] != "ok" {
		p.t.Fatalf("%s %s: %v", op, p.Name, r)
	}
}

// await waits until the status is as it should be, and returns it.
func (p *proc) await(what string, is func(s object) bool) object {
	p.t.Helper()
	var s object
	defer func() {
		if p.t.Failed() {
			p.t.Logf("status of %s: %v", p.Name, s)
		}
	}()
	harness.Eventually(p.t, p.Name+" "+what, func() bool {
		s = p.Status()
		return is(s)
	})
	return s
}

// becomes waits for a condition.
func (p *proc) becomes(condition string) object {
	p.t.Helper()
	return p.await("to be "+condition, func(s object) bool { return cond(s) == condition })
}

// cond is the condition of a status.
func cond(status object) any { return cmp.Or(status["condition"], status["state"]) }

// kinds are the words of events.
func kinds(events []object) []string {
	words := make([]string, len(events))
	for i, e := range events {
		words[i] = e["kind"].(string)
	}
	return words
}

// part returns a part of an object, empty where it is not there.
func part(o object, name string) object {
	inner, _ := o[name].(object)
	return inner
}

// runs are those that the status lists, the latest first.
func runs(status object) []object {
	var list []object
	all, _ := status["runs"].([]any)
	for _, r := range all {
		list = append(list, r.(object))
	}
	return list
}

// write puts a file into the directory.
func (p *proc) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *proc) remove(name string) {
	p.t.Helper()
	if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

// lines counts the lines of a file in the directory.
func (p *proc) lines(name string) int {
	data, _ := os.ReadFile(filepath.Join(p.dir, name))
	return strings.Count(string(data), "\n")
}

// awaitLines waits until a file has so many lines.
func (p *proc) awaitLines(name string, n int) {
	p.t.Helper()
	harness.Eventually(p.t, fmt.Sprintf("%s of %s to have %d lines", name, p.Name, n),
		func() bool { return p.lines(name) >= n })
}

// pid is that of an odd daemon.
func (p *proc) pid() int {
	p.t.Helper()
	return harness.ReadPID(p.t, p.dir+"/oddd.pid")
}

// together runs subtests side by side on one server.
func together(t *testing.T, tests map[string]func(t *testing.T, s *harness.Server)) {
	t.Helper()
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}
