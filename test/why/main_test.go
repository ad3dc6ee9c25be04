// Package why_test holds the black-box tests of `drover why`: each brings one kind of trouble about for real, and the
// first line that the built binary prints has to name it.
package why_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &binaries.drover, "./test/daemons/oddd": &binaries.oddd},
		harness.Need{Test: "TestNeedsRoot", Accounts: true},
		harness.Need{Test: "TestLastWordsOfALog", Accounts: true},
		harness.Need{Test: "TestWhy/out-of-memory", Groups: true},
		harness.Need{Test: "TestWhy/worker-out-of-memory", Groups: true},
		harness.Need{Test: "TestWhy/no-such-user", Accounts: true},
	))
}

// subject is a process that something is wrong with.
type subject struct {
	*harness.Process
	t    *testing.T
	dir  string
	spec harness.Object
}

// named is one whose directory and spec do not matter.
func named(t *testing.T, s *harness.Server, name string) *subject {
	return &subject{Process: &harness.Process{Server: s, Namespace: "why", Name: name}, t: t}
}

// newSubject returns a process that would run well: an oddd in a directory of its own, which is relaunched by the
// rules. Its relaunches hang until the test is over, so that what led to them can be seen.
func newSubject(t *testing.T, s *harness.Server, name, modes string, flags ...string) *subject {
	t.Helper()
	dir := harness.Workdir(t)
	o := named(t, s, name)
	o.dir = dir
	o.spec = harness.Object{
		"process_name": "oddd", "directory": dir, "pid_file": dir + "/oddd.pid", "user": "root",
		"start":  o.once(o.daemon(modes, flags...)),
		"compat": harness.Object{"start_check_begin": 1, "stop_check_secs": 2, "start_interval": 1, "op_timeout": 300},
	}
	return o
}

// daemon is the command that starts an oddd.
func (o *subject) daemon(modes string, flags ...string) string {
	return fmt.Sprintf("%s %s -pidfile %s/oddd.pid -runlog %s/run.log -siglog %s/sig.log %s", binaries.oddd, modes,
		o.dir, o.dir, o.dir, strings.Join(flags, " "))
}

// once is a start command that works once, and hangs from then on.
func (o *subject) once(command string) string {
	fifo := filepath.Join(o.dir, "fifo")
	return fmt.Sprintf("if [ -e begun ]; then mkfifo %s; read x <%s; fi; touch begun; %s", fifo, fifo, command)
}

// compat is the part of the spec that says what callers of GSE demand, to be changed.
func (o *subject) compat() harness.Object { return o.spec["compat"].(harness.Object) }

// ask asks for an operation and returns its id. With a spec it is carried out with that, else with the stored one.
func (o *subject) ask(op string, withSpec bool) string {
	o.t.Helper()
	if withSpec {
		return o.Ask(op, o.spec)
	}
	return o.Ask(op, nil)
}

// outcome waits for an operation, and returns what came of it.
func (o *subject) outcome(id string) (outcome, message string) {
	o.t.Helper()
	result := o.Server.Outcome(id)
	message, _ = result["message"].(string)
	return result["outcome"].(string), message
}

// does carries an operation out, which must end well.
func (o *subject) does(op string, withSpec bool) {
	o.t.Helper()
	if outcome, message := o.outcome(o.ask(op, withSpec)); outcome != "ok" {
		o.t.Fatalf("%s of %s: %s, %s", op, o.Name, outcome, message)
	}
}

// fails carries an operation out, which must not end well.
func (o *subject) fails(op string) {
	o.t.Helper()
	if outcome, message := o.outcome(o.ask(op, false)); outcome == "ok" {
		o.t.Fatalf("%s of %s has succeeded: %s", op, o.Name, message)
	}
}

// failsToStart registers it, and tries in vain to start it.
func (o *subject) failsToStart() {
	o.t.Helper()
	o.does("register", true)
	o.fails("start")
}

// state is what the list shows of it.
func (o *subject) state() string {
	o.t.Helper()
	state, _ := o.Status()["state"].(string)
	return state
}

// pid is what its pid file says.
func (o *subject) pid() int {
	o.t.Helper()
	return harness.ReadPID(o.t, o.dir+"/oddd.pid")
}

// run runs a command of the test itself.
func run(t *testing.T, dir, command string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// script writes a file of the process's directory.
func (o *subject) script(name, text string, mode os.FileMode) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), mode); err != nil {
		o.t.Fatal(err)
	}
}

// why asks why it is as it is.
func (o *subject) why(flags ...string) answer {
	o.t.Helper()
	return why(o.t, o.Server, append([]string{o.Namespace + "/" + o.Name}, flags...)...)
}

// answer is what `drover why` has printed, and its exit code.
type answer struct{ harness.Finished }

// first is the first line.
func (a answer) first() string {
	line, _, _ := strings.Cut(a.Out, "\n")
	return line
}

func why(t *testing.T, s *harness.Server, args ...string) answer {
	t.Helper()
	return answer{harness.Finish(t, "", os.Environ(), binaries.drover, append([]string{"why", "--data-dir", s.DataDir},
		args...)...)}
}

// names waits until the first line names the cause, and fails the test if the exit code does not go with it.
func (o *subject) names(cause string, code int, flags ...string) answer {
	o.t.Helper()
	var a answer
	begin, end := fmt.Sprintf("%s/%s on %s: ", o.Namespace, o.Name, harness.Agent), " ["+cause+"]"
	harness.Eventually(o.t, "the first line to end with"+end, func() bool {
		a = o.why(flags...)
		return strings.HasSuffix(a.first(), end)
	})
	if !strings.HasPrefix(a.first(), begin) || len(a.first()) <= len(begin+end) {
		o.t.Errorf("the first line is %q", a.first())
	}
	if a.Code != code {
		o.t.Errorf("exit code %d, want %d:\n%s", a.Code, code, a.Out)
	}
	if !strings.Contains(a.Out, "\nWhat to do: ") || !strings.Contains(a.Out, "\nMore: drover why "+o.Namespace+"/"+o.Name+" --page "+cause) {
		o.t.Errorf("it does not say what to do:\n%s", a.Out)
	}
	return a
}

// shows fails the test unless the answer holds the texts.
func (o *subject) shows(a answer, texts ...string) {
	o.t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.Out, text) {
			o.t.Errorf("it does not say %q:\n%s", text, a.Out)
		}
	}
}
