package fleet_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// cli runs a command of drover against the server, and returns its exit code with what it prints.
func (f *fleet) cli(args ...string) (code int, out, errs string) {
	f.T.Helper()
	return f.Run("server", "", f.Drover, append(args, "--data-dir", f.ServerDir())...)
}

// row is the line of a table that begins with a process and a host.
func row(table, process, host string) string {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == process && fields[1] == host {
			return strings.Join(fields[2:], " ")
		}
	}
	return ""
}

// TestHostsThatAreGone: an agent that was killed and one that hangs are told of within seconds each, what is known of
// the others is seen meanwhile, and neither is running by then. Whatever was given up does not begin when the hosts
// come back.
func TestHostsThatAreGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const third = "0:127.0.0.4"
	one, two := f.JoinAndStart("one", "127.0.0.2", 0), f.JoinAndStart("two", "127.0.0.3", 3)
	f.JoinAndStart("three", "127.0.0.4", 0)
	hosts := []string{first, second, third}
	dirs := map[string]string{}
	var processes []*harness.Process
	for i, host := range hosts {
		p, dir := f.daemon(fmt.Sprint("p", i))
		f.Want(0, f.Operate(p, 0, host))
		dirs[host] = dir
		processes = append(processes, p)
	}
	begun := starts(t, dirs)

	one.End(syscall.SIGKILL)
	harness.Signal(t, two.PID(), syscall.SIGSTOP)
	log := harness.Launch(t, &harness.Log{}, harness.Environment("/nonexistent", harness.FirstApp()...), f.Drover,
		"restart", "odd/p0", "odd/p1", "odd/p2", "--yes", "--data-dir", f.ServerDir())
	harness.Eventually(t, "the host that is there to be seen done while the one that hangs is waited for", func() bool {
		shown := log.Out.String()
		if row(shown, "odd/p1", second) != "" {
			t.Fatalf("the host that hangs was told of first:\n%s", shown)
		}
		return row(shown, "odd/p2", third) == "ok success"
	})
	harness.Eventually(t, "the command to end", func() bool { return log.Ended() })
	shown := log.Out.String()
	if got := row(shown, "odd/p0", first); got != "agent-unavailable agent not found or offline" {
		t.Errorf("of the killed one it says %q", got)
	}
	if got := row(shown, "odd/p1", second); !strings.HasPrefix(got,
		"agent-unavailable the agent does not answer: the operation has begun already, or never begins") {
		t.Errorf("of the one that hangs it says %q", got)
	}
	for name, host := range map[string]string{"odd/p0": first, "odd/p1": second} {
		code, out, _ := f.cli("status", name)
		if code != 3 || !strings.Contains(out, "running (stale)") || !strings.Contains(out, "away, last heard") {
			t.Errorf("status of %s on %s: exit code %d\n%s", name, host, code, out)
		}
	}
	// The next call does not wait for what is known to be gone, and no longer than it is told to.
	if code, out, errs := f.cli("restart", "odd/p1", "--host-timeout", "1s"); code != 6 ||
		!strings.Contains(out, "agent-unavailable") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}

	harness.Signal(t, two.PID(), syscall.SIGCONT)
	f.StartAgent("one")
	f.Online(first)
	f.Online(second)
	// Both have had all that was meant for them: it is answered behind that.
	for i, p := range processes {
		f.Want(0, f.Operate(p, 2, hosts[i]))
	}
	f.Want(828, f.Operate(processes[1], 0, second))
	begun[third]++
	for host, n := range starts(t, dirs) {
		if n != begun[host] {
			t.Errorf("%s: started %d times, want %d: what was given up has begun", host, n, begun[host])
		}
	}
}

// starts counts how often the daemon of each host has begun.
func starts(t *testing.T, dirs map[string]string) map[string]int {
	counts := map[string]int{}
	for host, dir := range dirs {
		counts[host] = harness.Starts(t, dir)
	}
	return counts
}
