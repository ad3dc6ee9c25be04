package trust_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestTheOwnerOfAHostDecides: what the file forbids nobody can have done, a change counts at once, and everybody can
// see it.
func TestTheOwnerOfAHostDecides(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	policy := f.write("policy.conf", "# only what belongs to others\nnamespaces other-*\n")
	f.JoinAndStart("one", "127.0.0.2", 0, "--policy", policy)
	p, dir := f.daemon("p")
	r := f.Operate(p, 0, first)[first]
	if r.Code != 65535 || !strings.Contains(r.Msg, policy+" line 2: namespace") {
		t.Errorf("it answered %d %s", r.Code, r.Msg)
	}
	if list := f.CLI("agents", "-o", "wide"); !strings.Contains(list, "namespaces other-*") {
		t.Errorf("hosts are\n%s", list)
	}
	f.write("policy.conf", "operations read start\n")
	f.Want(0, f.Operate(p, 0, first))
	f.Want(65535, f.Operate(p, 1, first))
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))
	if !harness.Alive(pid) || harness.Starts(t, dir) != 1 {
		t.Error("it was ended")
	}
	f.write("policy.conf", "operation read\n")
	if r := f.Operate(p, 2, first)[first]; r.Code != 65535 ||
		!strings.Contains(r.Msg, `line 1: "operation" is unknown`) {
		t.Errorf("with a broken file it answered %d %s", r.Code, r.Msg)
	}
	code, _, errs := f.Run("one", "", f.Agent, "policy", "--policy", policy)
	if code != 1 || !strings.Contains(errs, "nothing is allowed") {
		t.Errorf("it says %d %s", code, errs)
	}
	f.write("policy.conf", "users root "+f.user()+"\n")
	f.Want(0, f.Operate(p, 1, first))
	if events := f.CLI("events", "-o", "json"); !strings.Contains(events, "refused-by-policy") {
		t.Errorf("no event tells of it:\n%s", events)
	}
}

// user is who the daemons of the test run as.
func (f *fleet) user() string {
	p, _ := f.daemon("user")
	spec, _ := p.Request(0)["spec"].(harness.Object)
	identity, _ := spec["identity"].(harness.Object)
	name, _ := identity["user"].(string)
	return name
}

// TestObserveOnly: drover tells what it sees, and neither starts nor ends anything, also not by itself.
func TestObserveOnly(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	policy := f.write("policy.conf", "# nothing is narrowed\n")
	f.JoinAndStart("one", "127.0.0.2", 0, "--policy", policy)
	p, dir := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	pid := harness.ReadPID(t, filepath.Join(dir, "oddd.pid"))

	f.write("policy.conf", "observe-only\n")
	for _, op := range []int{1, restart, 9} {
		f.Want(65535, f.Operate(p, op, first))
	}
	if !harness.Alive(pid) {
		t.Fatal("it was ended")
	}
	if r := f.Operate(p, 2, first)[first]; r.Code != 0 || r.PID != pid {
		t.Errorf("it answered %+v", r)
	}
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the refusal to be told", func() bool {
		return strings.Contains(f.CLI("events", "-o", "json"), "drover does not relaunch it: refused by the policy")
	})
	if _, status, _ := f.Run("server", "", f.Drover, "why", "--data-dir", f.ServerDir()); !strings.Contains(status,
		"[refused-by-policy]") {
		t.Errorf("the cause is\n%s", status)
	}
	if n := harness.Starts(t, dir); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	f.write("policy.conf", "# nothing is narrowed\n")
	harness.Eventually(t, "it to be started again", func() bool { return harness.Starts(t, dir) == 2 })
}

// TestTheOwnersUsersAndPathsHold: they bind what is run, ended, read and told of, wherever links and ".." lead.
func TestTheOwnersUsersAndPathsHold(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir, elsewhere := harness.Workdir(t), t.TempDir()
	policy := f.write("policy.conf", "users "+f.user()+"\npaths "+dir+"\n")
	f.JoinAndStart("one", "127.0.0.2", 0, "--policy", policy)
	victim := exec.Command(harness.Sleeper(t, elsewhere, "tickd"), "100000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	pid := fmt.Sprintf("%d\n", victim.Process.Pid)
	secret := filepath.Join(elsewhere, "secret")
	for path, text := range map[string]string{elsewhere + "/d.pid": pid, secret: "ghp_0123456789\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/var/log", dir+"/logs"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]func(identity, control harness.Object){
		"a link and back": func(_, control harness.Object) {
			control["start_cmd"] = dir + "/logs/../../bin/sh -c true"
		},
		"a relative way": func(_, control harness.Object) {
			control["start_cmd"] = "./logs/../../bin/sh -c true"
		},
		"through a link":       func(_, control harness.Object) { control["start_cmd"] = dir + "/link/tickd 1" },
		"a pid file elsewhere": func(identity, _ harness.Object) { identity["pid_path"] = elsewhere + "/d.pid" },
		"a pid file by a link": func(identity, _ harness.Object) { identity["pid_path"] = dir + "/link/d.pid" },
		"a log elsewhere":      func(identity, _ harness.Object) { identity["log_path"] = secret },
	} {
		p, _ := f.daemon("p")
		p.Identity["proc_name"], p.Identity["setup_path"], p.Identity["pid_path"] = "tickd", dir, dir+"/none.pid"
		p.Control["start_cmd"] = dir + "/none"
		set(p.Identity, p.Control)
		for _, op := range []int{0, 1, 9, 2} {
			r := f.Operate(p, op, first)[first]
			if op == 2 && r.PID != -1 || op != 2 && (r.Code != 65535 || !strings.Contains(r.Msg, policy+" line 2: ")) {
				t.Errorf("%s: operation %d: %d %s, pid %d", name, op, r.Code, r.Msg, r.PID)
			}
			if strings.Contains(r.Msg, "ghp_") {
				t.Errorf("%s: it quotes %s", name, r.Msg)
			}
		}
	}
	if !harness.Alive(victim.Process.Pid) {
		t.Error("a process outside the paths was ended")
	}
}
