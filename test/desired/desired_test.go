package desired_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
)

// web notes each of its starts, with its host and release.
const web = `#!/bin/sh
echo "$DROVER_HOST $RELEASE" >> starts
exec sleep 100000
`

const first, late = "0:127.0.0.2", "0:127.0.0.3"

// fleet is a server and hosts, each in a namespace of pids of its own: so each may run the same command.
type fleet struct {
	*harness.Fleet
	dir string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{Fleet: &harness.Fleet{T: t, Drover: binaries.drover, Agent: binaries.agent}}
	f.Place = func(name string) []string {
		if strings.HasPrefix(name, "127.") {
			return []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
		}
		return nil
	}
	f.Begin()
	f.dir = filepath.Join(f.Dir, "web")
	must(t, os.Mkdir(f.dir, 0o700))
	must(t, harness.WriteProgram(filepath.Join(f.dir, "web"), []byte(web)))
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// join lets a host join with a token that has labels, and starts its agent.
func (f *fleet) join(host string, labels string) *harness.Program {
	f.T.Helper()
	_, ip, _ := strings.Cut(host, ":")
	if code, errs := f.Join(ip, ip, f.Token(0, "--labels", labels)); code != 0 {
		f.T.Fatal(errs)
	}
	p := f.StartAgent(ip, "--facts-dir", "/nonexistent")
	f.Online(host)
	return p
}

// file writes a process file of a release.
func (f *fleet) file(release, more string) string {
	f.T.Helper()
	path := filepath.Join(f.Dir, "shop.yaml")
	must(f.T, os.WriteFile(path, fmt.Appendf(nil, `namespace: shop
processes:
  web:
    run: ./web
    directory: %s
    environment: {RELEASE: "%s"}
    hosts: {select: role=web}
    %s
`, f.dir, release, more), 0o600))
	return path
}

// starts returns all starts so far, in their order.
func (f *fleet) starts() string {
	f.T.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "starts"))
	if err != nil && !os.IsNotExist(err) {
		f.T.Fatal(err)
	}
	return strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), ", ")
}

func (f *fleet) started(what string, want ...string) {
	f.T.Helper()
	harness.Eventually(f.T, what, func() bool { return f.starts() == strings.Join(want, ", ") })
}

// state returns the state of the process on a host; empty if the host does not have it.
func (f *fleet) state(host string) string {
	f.T.Helper()
	code, out, errs := f.drover("ps", "shop/web", "--hosts", host, "--no-headers")
	if code != 0 && code != 4 {
		f.T.Fatalf("exit code %d: %s", code, errs)
	}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == host {
			return fields[2]
		}
	}
	return ""
}

func (f *fleet) drover(args ...string) (code int, stdout, stderr string) {
	f.T.Helper()
	return f.Run("server", "", f.Drover, append(args, "--data-dir", f.ServerDir())...)
}

// TestHostJoinsLate: a host that joins after the apply gets the process, and gives it up when it ceases to match. What
// a person did on one host stands, also over a death of the server.
func TestHostJoinsLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.CLI("apply", "-f", f.file("one", "leave: stop"), "--yes")
	f.started("the start on the first host", first+" one")

	f.join(late, "role=web")
	f.started("the start on the host that joins late", first+" one", late+" one")
	harness.Eventually(t, "the report of the start", func() bool { return f.state(late) == "running" })
	if out := f.CLI("revisions", "shop"); !strings.Contains(out, "selection") ||
		!strings.Contains(out, "hosts came to match") {
		t.Errorf("the revisions are:\n%s", out)
	}
	if out := f.CLI("get", "shop/web"); !strings.Contains(out, "select: role=web") {
		t.Errorf("the file is:\n%s", out)
	}

	if code, out, errs := f.drover("drift"); code != 0 || strings.Contains(errs, "not compared") {
		t.Errorf("drift: exit code %d: %s%s", code, out, errs)
	}
	f.CLI("stop", "shop/web", "--hosts", first, "--yes")
	if code, out, _ := f.drover("drift", "shop/web"); code != 3 || strings.Count(out, "\n") != 2 ||
		!strings.Contains(out, "stopped by") || !strings.Contains(out, "drover start shop/web --hosts "+first) {
		t.Errorf("drift after a stop: exit code %d:\n%s", code, out)
	}
	f.Server.End(syscall.SIGKILL)
	f.StartServer()
	f.Online(first)
	f.Online(late)
	code, _, errs := f.drover("agents", "label", late, "role=db", "--dry-run")
	if want := "1 host would be labelled\n1 host ceases to match \"role=web\" of shop/web\n"; code != 0 || errs != want {
		t.Errorf("the dry run of labels: exit code %d:\n%s", code, errs)
	}
	if out := f.CLI("agents", "-l", "role=web", "-o", "json"); !strings.Contains(out, late) {
		t.Errorf("a dry run has labelled: %s", out)
	}
	if code, _, errs = f.drover("agents", "label", late, "role=db"); code != 2 ||
		!strings.Contains(errs, "stop processes on 1 host: no terminal to ask for confirmation: give --yes") {
		t.Errorf("labels that end a process are set without a question: exit code %d:\n%s", code, errs)
	}
	f.CLI("agents", "label", late, "role=db", "--yes")
	harness.Eventually(t, "the end of the process on the host that ceases to match", func() bool {
		return f.state(late) == ""
	})
	if state := f.state(first); state != "stopped" {
		t.Errorf("the process that a person has stopped is %q", state)
	}
	f.CLI("agents", "label", late, "role=web")
	f.started("the start on the host that matches again", first+" one", late+" one", late+" one")
	f.CLI("start", "shop/web", "--hosts", first, "--yes")
	f.started("the start by a person", first+" one", late+" one", late+" one", first+" one")
}

// TestDeviation: the commands of drift give one host back what the file says. The file that drover shows, and its
// selection, do not change by a host that differs.
func TestDeviation(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.join(late, "role=web")
	f.CLI("apply", "-f", f.file("one", "leave: keep"), "--yes")
	harness.Eventually(t, "the processes", func() bool { return f.state(first) == "running" && f.state(late) == "running" })
	spec := filepath.Join(f.Dir, "spec.yaml")
	must(t, os.WriteFile(spec, fmt.Appendf(nil, "run: ./web\ndirectory: %s\nenvironment: {RELEASE: other}\n", f.dir), 0o600))
	for _, deviate := range []struct {
		what, host string
		by         []string
	}{
		{"changed", late, []string{"register", "shop/web", "--hosts", late, "--file", spec, "--replace", "--yes"}},
		{"removed", late, []string{"unregister", "shop/web", "--hosts", late, "--yes"}},
		{"aborted rollout", first, nil},
	} {
		what := deviate.what
		if deviate.by != nil {
			f.CLI(deviate.by...)
		} else {
			f.aborted("other")
		}
		before, again := f.starts(), 0
		for code, out := 3, ""; code != 0; again++ {
			if code, out, _ = f.drover("drift", "shop/web", "-o", "json"); code == 0 {
				break
			}
			var answer struct{ Items []struct{ Host, Mend string } }
			must(t, json.Unmarshal([]byte(out), &answer))
			if again == 3 || len(answer.Items) == 0 || slices.ContainsFunc(answer.Items,
				func(d struct{ Host, Mend string }) bool { return d.Host != deviate.host }) {
				t.Fatalf("%s: drift says %s", what, out)
			}
			if text := f.CLI("get", "shop/web"); !strings.Contains(text, "select: role=web") || strings.Contains(text, "other") {
				t.Errorf("%s: the file is:\n%s", what, text)
			}
			for command := range strings.SplitSeq(answer.Items[0].Mend, " && ") {
				f.CLI(append(strings.Fields(command)[1:], "--yes")...)
			}
		}
		if again == 0 {
			t.Errorf("%s: drift finds nothing", what)
		}
		other := map[string]string{first: late, late: first}[deviate.host]
		if now := strings.TrimPrefix(f.starts(), before); strings.Contains(now, other) || f.state(deviate.host) != "running" {
			t.Errorf("%s: these have started: %s", what, now)
		}
	}
	f.join("0:127.0.0.4", "role=web")
	harness.Eventually(t, "a start of the file on a host that joins late", func() bool {
		return strings.HasSuffix(f.starts(), "0:127.0.0.4 one")
	})
}

// aborted aborts the rollout of a release after its first host.
func (f *fleet) aborted(release string) {
	f.T.Helper()
	before := f.starts()
	said := strings.Fields(f.CLI("apply", "-f", f.file(release, "leave: keep"), "--batch", "1", "--pause", "10m", "--yes",
		"--no-wait"))
	f.started("the first host of a rollout", before, first+" "+release)
	harness.Eventually(f.T, "no drift during a rollout", func() bool {
		code, _, _ := f.drover("drift", "shop/web")
		return code == 0
	})
	f.CLI("rollout", "abort", said[len(said)-1])
}

// TestUndoAndAHostThatWasAway: the undo of an apply leaves a host out that was away all the time. When the host is back, it
// has the process as the file before has it.
func TestUndoAndAHostThatWasAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.join(late, "role=web").Kill()
	harness.Eventually(t, "the host to be away", func() bool {
		return strings.Contains(f.CLI("agents", late, "--no-headers"), "away")
	})
	apply := func(release string, want int, flags ...string) {
		t.Helper()
		args := append([]string{"apply", "-f", f.file(release, "leave: stop"), "--yes"}, flags...)
		if code, out, errs := f.drover(args...); code != want {
			t.Fatalf("apply: exit code %d\n%s%s", code, out, errs)
		}
	}
	apply("one", 7)
	apply("two", 0, "--batch", "2", "--skip-away")
	id := strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0]
	f.CLI("rollout", "undo", id, "--yes")
	if _, _, errs := f.drover("drift", "shop/web"); strings.Contains(errs, "no differences") {
		t.Errorf("drift does not tell that a host misses the process: %s", errs)
	}
	_, ip, _ := strings.Cut(late, ":")
	f.StartAgent(ip, "--facts-dir", "/nonexistent")
	f.started("the start of the former release on the host that is back", first+" one", first+" two", first+" one", late+" one")
}

// TestUndoOfANewProcess: hosts that were away have nothing to take back, and do not stop the undo.
func TestUndoOfANewProcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.join(late, "role=web").Kill()
	harness.Eventually(t, "the host to be away", func() bool {
		return strings.Contains(f.CLI("agents", late, "--no-headers"), "away")
	})
	other := func(release string) string {
		path := filepath.Join(f.Dir, "other-"+release+".yaml")
		must(t, os.WriteFile(path, fmt.Appendf(nil, "namespace: shop\nprocesses:\n  web: {run: ./web, directory: %s, "+
			"environment: {RELEASE: %s}, hosts: [%q%s]}\n", f.dir, release, first, map[bool]string{true: fmt.Sprintf(", %q", late)}[release == "two"]), 0o600))
		return path
	}
	f.CLI("apply", "-f", other("one"), "--yes")
	f.CLI("apply", "-f", other("two"), "--yes", "--batch", "2", "--skip-away", "--bake", "1s")
	id := strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0]
	if code, out, errs := f.drover("rollout", "undo", id, "--yes"); code != 0 {
		t.Fatalf("undo: exit code %d\n%s%s", code, out, errs)
	}
	f.started("the former release", first+" one", first+" two", first+" one")
}

// TestPartition: a host that is away during an apply gets the revision when it is back, although the server died in
// between. An operation never runs later.
func TestPartition(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	agent := f.join(late, "role=web")
	f.CLI("apply", "-f", f.file("one", ""), "--yes")
	harness.Eventually(t, "both starts", func() bool { return strings.Count(f.starts(), " one") == 2 })
	before := f.starts()

	cut(t, agent, syscall.SIGSTOP)
	f.Away(late)
	if code, out, errs := f.drover("apply", "-f", f.file("two", ""), "--yes"); code != 7 {
		t.Fatalf("apply: exit code %d: %s%s", code, out, errs)
	}
	f.started("the new release on one host", before, first+" two")
	f.Server.End(syscall.SIGKILL)
	f.StartServer()
	f.Online(first)
	cut(t, agent, syscall.SIGCONT)
	f.started("the new release on the host that was away", before, first+" two", late+" two")
}

// cut stops or continues the agent of a host; its processes run on.
func cut(t *testing.T, agent *harness.Program, signal syscall.Signal) {
	t.Helper()
	pid, child := agent.PID(), 0
	harness.Eventually(t, "the agent in its namespace", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		must(t, err)
		child, _ = strconv.Atoi(strings.TrimSpace(string(text))) // it has just been started
		return child > 0
	})
	must(t, syscall.Kill(child, signal))
}

// TestMend: a process whose limits somebody has changed is restarted, if the file says so.
func TestMend(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.CLI("apply", "-f", f.file("one", "drift: mend\n    limits: {open_files: 512}"), "--yes")
	f.started("the start", first+" one")
	pid := 0
	harness.Eventually(t, "the process", func() bool { pid = f.running(); return pid != 0 })
	must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: 100}, nil))
	if code, out, _ := f.drover("drift"); code != 3 || !strings.Contains(out, "limits.open_files") {
		t.Errorf("drift: exit code %d:\n%s", code, out)
	}
	f.Server.End(syscall.SIGKILL) // a new server asks the host at once
	f.StartServer()
	f.started("the restart", first+" one", first+" one")
	harness.Eventually(t, "the end of the drift", func() bool {
		code, _, _ := f.drover("drift")
		return code == 0
	})
}

// running returns the pid of web; 0 if it does not run.
func (f *fleet) running() int {
	f.T.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	must(f.T, err)
	for _, link := range links {
		dir := filepath.Dir(link)
		cwd, _ := os.Readlink(link)
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if cwd == f.dir && strings.HasPrefix(string(line), "sleep") {
			pid, err := strconv.Atoi(filepath.Base(dir))
			must(f.T, err)
			return pid
		}
	}
	return 0
}
