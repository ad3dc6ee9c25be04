package cli_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/config"
	"drover/internal/test/harness"
)

// levels runs drover doctor, and returns the worst level of each check.
func levels(t *testing.T, code int, args ...string) map[string]string {
	t.Helper()
	out, err := exec.Command(binaries.drover, append([]string{"doctor", "-o", "json"}, args...)...).Output()
	if (err != nil || code != 0) && exitCode(err) != code {
		t.Errorf("doctor %q: exit code %d, want %d: %s", args, exitCode(err), code, out)
	}
	var found []struct{ Check, Level, Message, Remedy string }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	worst := map[string]string{}
	for _, f := range found {
		if f.Level == "problem" && f.Remedy == "" {
			t.Errorf("no remedy: %+v", f)
		}
		if f.Level > worst[f.Check] { // ok < problem < warning, and there is no check with both of the latter here
			worst[f.Check] = f.Level
		}
	}
	return worst
}

// TestDoctor: a sound installation has no problem but a full disk of the machine; then one thing after the other breaks.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	at := []string{"--data-dir", s.DataDir}
	checks := levels(t, 0, at...)
	for _, check := range []string{"server", "readiness", "version", "clock", "hosts", "directory", "socket", "agent"} {
		if checks[check] != "ok" {
			t.Errorf("%s is %q", check, checks[check])
		}
	}
	own := filepath.Join(s.DataDir, "server")
	if err := os.Chmod(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if checks := levels(t, 3, at...); checks["directory"] != "problem" {
		t.Errorf("a directory that others can read is %q", checks["directory"])
	}
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	checks = levels(t, 6, at...)
	for check, want := range map[string]string{"server": "problem", "socket": "warning", "agent": "problem"} {
		if checks[check] != want {
			t.Errorf("without a server %s is %q, want %q", check, checks[check], want)
		}
	}
	if checks := levels(t, 6, append(at, "--agent-dir", t.TempDir())...); checks["agent"] != "problem" {
		t.Errorf("a host without an agent is %q", checks["agent"])
	}
	out, _ := exec.Command(binaries.drover, "doctor", "--data-dir", s.DataDir).CombinedOutput() // its exit code is 6
	if !strings.Contains(string(out), "✖ problem agent: the agent of 0:127.0.0.1 does not run\n    remedy: systemctl start") {
		t.Errorf("as text: %s", out)
	}
}

// TestDoctorOfASilentServer: a server that accepts calls and does not answer is told from one that does not run.
func TestDoctorOfASilentServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "server"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, config.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(l.Addr().String(), 0o600); err != nil {
		t.Fatal(err)
	}
	checks := levels(t, 6, "--data-dir", dir, "--timeout", "300ms")
	if checks["server"] != "problem" || checks["socket"] != "ok" || checks["port"] != "" {
		t.Errorf("found %v", checks)
	}
}
