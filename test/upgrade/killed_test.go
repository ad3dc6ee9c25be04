package upgrade_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// logged counts how often the agent has logged a text.
func (o *owner) logged(text string) int { return strings.Count(o.Logs["one"].String(), text) }

// programs are the processes that run a fetched program.
func (o *owner) programs() (pids []string) {
	o.t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		o.t.Fatal(err)
	}
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, o.AgentDir("one")) {
			pids = append(pids, link)
		}
	}
	return pids
}

// fetching reports whether a program is on its way to the host.
func (o *owner) fetching() bool {
	parts, err := filepath.Glob(filepath.Join(o.AgentDir("one"), "agent", "versions", "*.part"))
	if err != nil {
		o.t.Fatal(err)
	}
	for _, part := range parts {
		if info, err := os.Stat(part); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// TestKilledAmidUpgrade: at each step of an upgrade the agent or the server is killed, or the power of the host is cut.
// No other agent is left, the process runs on or again, the order gets one outcome, and the host takes the version in
// the end.
func TestKilledAmidUpgrade(t *testing.T) {
	t.Parallel()
	next := buildEdited(t, "fateful", fates(false))
	const agent, server, power = "agent", "server", "power"
	const trying, resumed, proven, ended = "trying another version", "agent resumed its processes",
		"has proven itself", "upgrade ended"
	for i, step := range []struct {
		name string
		// reached reports whether the step is reached; the counts are those of log lines before the upgrade.
		reached func(o *owner, before map[string]int) bool
	}{
		{"fetch", func(o *owner, _ map[string]int) bool { return o.fetching() }},
		{"trial begins", func(o *owner, b map[string]int) bool { return o.logged(trying) > b[trying] }},
		{"trial runs", func(o *owner, b map[string]int) bool { return o.logged(resumed) > b[resumed] }},
		{"proven", func(o *owner, b map[string]int) bool { return o.logged(proven) > b[proven] }},
		{"replaced", func(o *owner, b map[string]int) bool { return o.logged(resumed) > b[resumed]+1 }},
		{"done", func(o *owner, b map[string]int) bool { return o.logged(ended) > b[ended] }},
	} {
		for j, victim := range []string{agent, server, power} {
			if (i+j)%3 != 0 && !judge.Long() {
				continue // each step with one end, and each end at two steps
			}
			t.Run(step.name+" "+victim, func(t *testing.T) {
				t.Parallel()
				o := ownerOf(t, victim == power)
				o.add(next, "1.1.0")
				before := map[string]int{}
				for _, text := range []string{trying, resumed, proven, ended} {
					before[text] = o.logged(text)
				}
				id := o.beginUpgrade("1.1.0")
				harness.Eventually(t, step.name, func() bool { return step.reached(o, before) })
				switch victim {
				case server:
					o.Server.Kill()
					o.StartServer()
				case agent:
					o.agent.End(syscall.SIGKILL)
					harness.Eventually(t, "the end of all agents", func() bool { return len(o.programs()) == 0 })
					o.restart()
				case power:
					o.outlet.Cut()
					o.restart()
					former := o.pid
					harness.Eventually(t, "the process after the boot", func() bool {
						o.pid = pid(o.processes()["api"])
						return o.pid > 1 && o.pid != former
					})
				}
				state, message := o.end(id)
				switch {
				case state == "failed" && strings.Contains(message, "the agent or the host ended during its trial"),
					state == "failed" && victim == server && strings.Contains(message, "did not prove itself"),
					state == "failed" && victim == power && strings.Contains(message, "the host rebooted"):
					o.upgraded("1.1.0", "")
				case state == "failed" && victim == power && strings.Contains(message, "not connected at the end of the bake"):
					// it has the version, and was away when the rollout looked
				case state != "ok":
					t.Errorf("the upgrade ended as %s: %s", state, message)
				}
				o.unharmed()
				o.runs("1.1.0")
				if left := o.programs(); len(left) != 1 {
					t.Errorf("the programs %v run", left)
				}
			})
		}
	}
}
