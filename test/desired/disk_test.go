package desired_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// pid returns the pid of the process on a host; 0 if the host has none.
func (f *fleet) pid(host string) int {
	f.T.Helper()
	var list []struct {
		Instance struct {
			PID int `json:"pid"`
		} `json:"instance"`
	}
	must(f.T, json.Unmarshal([]byte(f.CLI("ps", "--hosts", host, "-o", "json")), &list))
	if len(list) == 0 { // the agent has no record yet
		return 0
	}
	return list[0].Instance.PID
}

// TestRestoredDisk: an agent whose data directory was restored from an older copy goes on with a process that was started
// since, and starts nothing beside it. Its end is an end like any other.
func TestRestoredDisk(t *testing.T) {
	t.Parallel()
	for _, since := range []string{"restarted", "registered"} {
		f := newFleet(t)
		f.Place = nil // the processes outlive their agent
		agent := f.join(first, "role=web")
		_, ip, _ := strings.Cut(first, ":")
		if since == "restarted" {
			f.CLI("apply", "-f", f.file("one", ""), "--yes")
		}
		agent.Kill()
		copied := map[string][]byte{}
		for _, name := range []string{"state.db", "runtime.db"} {
			data, err := os.ReadFile(filepath.Join(f.AgentDir(ip), "agent", name))
			must(t, err)
			copied[name] = data
		}
		agent = f.StartAgent(ip, "--facts-dir", "/nonexistent")
		f.Online(first)
		f.CLI("apply", "-f", f.file("two", ""), "--yes")
		before, pid := f.starts(), f.pid(first)
		agent.Kill()
		for name, data := range copied {
			must(t, os.WriteFile(filepath.Join(f.AgentDir(ip), "agent", name), data, 0o600))
		}
		f.StartAgent(ip, "--facts-dir", "/nonexistent")
		harness.Eventually(t, "the process to be taken over", func() bool {
			return strings.Contains(f.CLI("events", "--hosts", first), "the agent's disk was an old co") && f.pid(first) == pid
		})
		if got := f.starts(); got != before {
			t.Errorf("%s: started %q, want %q", since, got, before)
		}
		harness.Signal(t, pid, syscall.SIGKILL)
		harness.Eventually(t, "a relaunch", func() bool { return f.starts() == before+", "+first+" two" })
		f.CLI("stop", "shop/web", "--yes")
	}
}
