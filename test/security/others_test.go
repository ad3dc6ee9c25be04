package security_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

const nobody = 65534

// victim is a process of root's that drover does not know.
type victim struct {
	cmd *exec.Cmd
	pid int
}

func newVictim(t *testing.T, name string) *victim {
	t.Helper()
	dir := t.TempDir()
	v := &victim{cmd: exec.Command(harness.Sleeper(t, dir, name), "100000")}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.pid = v.cmd.Process.Pid
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait()
	})
	return v
}

// service is a process of an account, whose commands write the pid of somebody else into their pid file.
func service(t *testing.T, s *harness.Server, v *victim, name, user string) (p *harness.Process, dir string) {
	t.Helper()
	dir = filepath.Join(harness.Workdir(t), "service")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	harness.Sleeper(t, dir, "tickd")
	return &harness.Process{
		Server: s, Namespace: "mine", Name: name,
		Identity: harness.Object{"proc_name": "tickd", "setup_path": dir, "pid_path": dir + "/d.pid", "user": user},
		Control: harness.Object{
			"start_cmd": fmt.Sprintf("echo %d >d.pid; setsid ./tickd 100000 >/dev/null 2>&1 &", v.pid), "stop_cmd": "",
			"reload_cmd": "true",
		},
		Policy: harness.Object{"start_check_secs": 1, "stop_check_secs": 1},
	}, dir
}

// TestAnAccountDoesNotDecideWhomRootEnds: a service that names a process of root's in its pid file has it neither taken
// for itself nor ended, whatever is asked for.
func TestAnAccountDoesNotDecideWhomRootEnds(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, drover)
	v := newVictim(t, "tickd")
	p, _ := service(t, s, v, "tickd", "nobody")
	r := p.Operate(0)
	if r.Code == 0 || !strings.Contains(r.Msg, fmt.Sprintf("pid %d of pid file", v.pid)) ||
		!strings.Contains(r.Msg, "runs as uid 0, not as user nobody") {
		t.Errorf("start: %d %s", r.Code, r.Msg)
	}
	for _, op := range []int{1, 9, 7, 8, 3, 1, 9} {
		if r := p.Operate(op); op != 3 && r.Code == 0 || r.PID == v.pid {
			t.Errorf("operation %d: %d %s, pid %d", op, r.Code, r.Msg, r.PID)
		}
	}
	if r := p.Query(); r.PID != -1 {
		t.Errorf("query shows pid %d", r.PID)
	}
	if !harness.Alive(v.pid) {
		t.Error("the process of root's was ended")
	}
}

// TestPIDFilesThatOthersCanReplace: a spec of root's may mean anybody, so its pid file counts only where nobody else
// can write it. The refusal names the place, the owner and the remedy; what drover has started counts all the same.
func TestPIDFilesThatOthersCanReplace(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, drover)
	v := newVictim(t, "tickd")
	p, dir := service(t, s, v, "other", "root")
	file := filepath.Join(dir, "d.pid")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d\n", v.pid), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, op := range []int{0, 1, 9, 7, 8} {
		r := p.Operate(op)
		if r.Code == 0 || !strings.Contains(r.Msg, file) || !strings.Contains(r.Msg, dir+" belongs to uid 65534") ||
			!strings.Contains(r.Msg, "(chown, chmod)") {
			t.Errorf("operation %d: %d %s", op, r.Code, r.Msg)
		}
	}
	if err := os.Chown(dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	p.Operate(0).Want(t, "start once nobody else can write the file", 828)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	own, _ := service(t, s, v, "own", "nobody")
	own.Identity["setup_path"], own.Identity["pid_path"] = dir, file
	own.Control["start_cmd"] = "setsid ./tickd 100000 >/dev/null 2>&1 & echo $! >d.pid"
	own.Operate(0).Want(t, "start of its own in a place of everybody's", 0)
	own.Operate(1).Want(t, "stop of its own", 0)
	if !harness.Alive(v.pid) {
		t.Error("the process of root's was ended")
	}
}

// TestWhatAFileHoldsIsNotQuoted: whoever names a file as pid file learns nothing of what it holds, and an account's
// spec opens only what the account may.
func TestWhatAFileHoldsIsNotQuoted(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, drover)
	dir := t.TempDir()
	secret := filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte("ghp_0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]string{
		"root":   "does not begin with a number",
		"nobody": "cannot be read: permission denied",
	} {
		p := &harness.Process{
			Server: s, Namespace: "mine", Name: user,
			Identity: harness.Object{
				"proc_name": "tickd", "setup_path": "/", "pid_path": secret, "log_path": secret,
				"user": user,
			},
			Control: harness.Object{"start_cmd": "true", "stop_cmd": ""},
			Policy:  harness.Object{"start_check_secs": 1},
		}
		r := p.Operate(0)
		if r.Code == 0 || !strings.Contains(r.Msg, want) || user == "nobody" && strings.Contains(r.Msg, "ghp_") {
			t.Errorf("as %s: %d %s", user, r.Code, r.Msg)
		}
		if pid, _, _ := strings.Cut(r.Msg, "the end of its log"); strings.Contains(pid, "ghp_") {
			t.Errorf("as %s: %s", user, r.Msg)
		}
	}
}
