package rollouts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// crashers is a fleet whose hosts run shop/web with one revision, as a caller of GSE starts it.
func crashers(t *testing.T, hosts int, flags ...string) (f *fleet, agents []*harness.Program) {
	t.Helper()
	f = &fleet{Fleet: harness.NewFleet(t, binaries.drover, binaries.agent, flags...)}
	var requests []any
	for i := range hosts {
		ip := fmt.Sprint("127.0.0.", i+2)
		agents = append(agents, f.JoinAndStart(fmt.Sprint("host", i), ip, 0, "--facts-dir", "/nonexistent"))
		f.hosts = append(f.hosts, "0:"+ip)
		dir := f.dir(i)
		must(t, os.Mkdir(dir, 0o755)) //nolint:gosec // the process of another account works there
		requests = append(requests, harness.Object{
			"meta": harness.Object{"namespace": "shop", "name": "web"}, "op_type": 0, "agent_id_list": []string{"0:" + ip},
			"spec": harness.Object{
				"identity": harness.Object{"proc_name": "sleep", "setup_path": dir, "pid_path": dir + "/web.pid", "user": "root"},
				"control": harness.Object{
					"start_cmd": "echo started >> starts; sleep 100000 >/dev/null 2>&1 & echo $! > web.pid", "stop_cmd": "",
				},
				"alive_monitor_policy": harness.Object{
					"auto_type": 1, "start_check_secs": 1, "stop_check_secs": 5, "start_interval": 1, "op_timeout": 30,
					"start_retries": 1000,
				},
			},
		})
	}
	f.Call("operate_proc_multi", harness.Object{"proc_operate_req": requests})
	harness.Eventually(t, "all hosts to run it", func() bool { return f.count("running") == hosts })
	return f, agents
}

// count counts the processes in a state.
func (f *fleet) count(state string) int {
	f.T.Helper()
	_, out, errs := f.Run("server", "", f.Drover, "ps", "shop/web", "--state", state, "-o", "json", "--data-dir", f.ServerDir())
	var list []any
	if err := json.Unmarshal([]byte(out), &list); err != nil && out != "" {
		f.T.Fatalf("%v: %s%s", err, out, errs)
	}
	return len(list)
}

// alive counts the hosts on which the process runs, also where it has failed often.
func (f *fleet) alive() int { return f.count("running") + f.count("flapping") }

// kill kills the process of a host, if it runs.
func (f *fleet) kill(host int) {
	f.T.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir(host), "web.pid"))
	if err != nil {
		return // a start is about to write it
	}
	var pid int
	if _, err := fmt.Sscan(string(data), &pid); err == nil && pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// withheld counts the hosts on which the breaker withholds the relaunch.
func (f *fleet) withheld() int {
	f.T.Helper()
	_, out, _ := f.Run("server", "", f.Drover, "why", "shop/web", "-o", "json", "--data-dir", f.ServerDir())
	return strings.Count(out, `"breaker-open"`)
}

// TestBreaker: hosts that fail together are not relaunched, over the death of the server and of an agent; a person's
// start goes through; a reset brings the others back.
func TestBreaker(t *testing.T) {
	t.Parallel()
	const hosts = 6
	f, agents := crashers(t, hosts)
	for i := range hosts {
		f.kill(i)
	}
	harness.Eventually(t, "the breaker to open", func() bool { return strings.Contains(f.CLI("breaker", "list"), "shop/web") })
	harness.Eventually(t, "all relaunches to be withheld", func() bool {
		for i := range hosts {
			f.kill(i)
		}
		return f.withheld() >= hosts
	})
	before := f.starts()
	f.Server.Kill()
	f.StartServer()
	harness.Eventually(t, "the agents to come back", func() bool {
		return strings.Contains(f.CLI("events", "shop/web", "--kind", "breaker-opened"), "killed-by-signal") && f.withheld() >= hosts
	})
	agents[0].Kill()
	f.StartAgent("host0", "--facts-dir", "/nonexistent")
	f.Online(f.hosts[0])
	harness.Eventually(t, "the agent to hear of the breaker again", func() bool {
		f.kill(0)
		return f.withheld() >= hosts
	})
	if after := f.starts(); fmt.Sprint(after[1:]) != fmt.Sprint(before[1:]) {
		t.Errorf("while the breaker is open the hosts start it: %v, then %v", before, after)
	}
	f.drover(0, "start", "shop/web", "--hosts", f.hosts[1])
	if n := f.count("running"); n != 1 {
		t.Errorf("%d hosts run it after a person's start on one", n)
	}
	for _, command := range []string{"status", "why"} { // what runs does not show the breaker
		text := f.drover(0, command, "shop/web", "--hosts", f.hosts[1])
		if !strings.Contains(text, "a breaker withholds relaunches of shop/web until ") ||
			!strings.Contains(text, "drover breaker reset shop/web") {
			t.Errorf("%s of a host that runs it says nothing of the breaker: %s", command, text)
		}
	}
	f.CLI("breaker", "reset", "shop/web")
	if text := f.drover(0, "breaker", "reset", "shop/web"); !strings.Contains(text, "shop/web was closed already") {
		t.Errorf("the second reset says %s", text)
	}
	harness.Eventually(t, "the relaunches", func() bool { return f.count("running") == hosts })
	var events []struct{ Kind string }
	must(t, json.Unmarshal([]byte(f.CLI("events", "shop/web", "--kind", "breaker-opened,breaker-closed", "-o", "json")), &events))
	if len(events) != 2 {
		t.Errorf("the breaker is told as %v, want one opening and one closing", events)
	}
}

// told returns the causes of the events of a kind about shop/web, latest first.
func (f *fleet) told(kind string) (texts []string) {
	f.T.Helper()
	var events []struct{ Cause struct{ Text string } }
	out := f.CLI("events", "shop/web", "--kind", kind, "-o", "json")
	if err := json.Unmarshal([]byte(out), &events); err != nil {
		f.T.Fatalf("%v: %s", err, out)
	}
	for _, e := range events {
		texts = append(texts, e.Cause.Text)
	}
	return texts
}

// TestBreakerThresholds: a breaker goes by the settings of the server. One of three hosts is too few for the share, and
// two are enough; with the defaults three hosts never trip one. A reset closes it, and later its time does.
func TestBreakerThresholds(t *testing.T) {
	t.Parallel()
	const hosts = 3
	thresholds := []string{"--breaker-share", "60%", "--breaker-hosts", "1", "--breaker-window", "10m", "--breaker-hold"}
	f, _ := crashers(t, hosts, append(thresholds, "10m")...)
	f.kill(0)
	harness.Eventually(t, "the server to know the relaunch", func() bool { return len(f.told("relaunched")) == 1 })
	f.kill(1)
	harness.Eventually(t, "the breaker to open", func() bool { return len(f.told("breaker-opened")) == 1 })
	if text := f.told("breaker-opened")[0]; !strings.HasPrefix(text, "2 of 3 hosts") {
		t.Errorf("the breaker opened because of %q, want 2 of 3 hosts", text)
	}
	harness.Eventually(t, "all relaunches to be withheld", func() bool {
		for i := range hosts {
			f.kill(i)
		}
		return f.withheld() >= hosts
	})
	f.CLI("breaker", "reset", "shop/web")
	harness.Eventually(t, "the relaunches after the reset", func() bool { return f.alive() == hosts })

	f.Server.Kill()
	f.Flags = append(thresholds, "2s")
	f.StartServer()
	for _, host := range f.hosts {
		f.Online(host)
	}
	harness.Eventually(t, "the breaker to close by itself", func() bool {
		closed := f.told("breaker-closed")
		if len(closed) == 1 { // by the reset: it is yet to open again
			for i := range hosts {
				f.kill(i)
			}
		}
		return len(closed) > 1 && closed[0] == "the breaker was open for 2s"
	})
	harness.Eventually(t, "the relaunches after the hold", func() bool { return f.alive() == hosts })
	if log := f.Logs["server"].String(); strings.Contains(log, "did not take the word") && strings.Contains(log, "not signed") {
		t.Error("the server cannot read what agents answer to a word about relaunches")
	}
}
