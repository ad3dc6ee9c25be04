package past_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/test/harness"
)

const host = "0:127.0.0.2"

// world is a server with one agent, and what 'ps' showed at some moments.
type world struct {
	*harness.Fleet
	moments []moment
}

// moment is what 'ps' showed before and after a time; down tells that no agent ran then.
type moment struct {
	what string
	at   time.Time
	rows map[string]row
	down bool
}

// row is what a moment of the past can prove.
type row struct {
	State, Cause, Want string
	PID, Restarts      int
	Hosted             bool
}

func rowsOf(t *testing.T, text string) map[string]row {
	t.Helper()
	var all []v1.Process
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for i := range all {
		p := &all[i]
		r := row{State: p.State, Hosted: p.Hosted, Want: p.Want, Restarts: p.Restarts}
		if p.Cause != nil {
			r.Cause = p.Cause.ID
		}
		if p.Instance != nil {
			r.PID = p.Instance.PID
		}
		rows[p.Name] = r
	}
	return rows
}

func (w *world) ps() map[string]row {
	w.T.Helper()
	return rowsOf(w.T.(*testing.T), w.CLI("ps", "-o", "json"))
}

// see waits until a process is in a state and nothing moves, and notes the moment.
func (w *world) see(what, name string, states ...string) row {
	w.T.Helper()
	var before, after map[string]row
	var at time.Time
	harness.Eventually(w.T, what, func() bool {
		before = w.ps()
		at = time.Now()
		after = w.ps()
		return cmp.Equal(before, after) && cmp.Equal(after, w.ps()) && (name == "" || strings.Contains(" "+strings.Join(states, " ")+" ",
			" "+after[name].State+" "))
	})
	w.moments = append(w.moments, moment{what: what, at: at, rows: after})
	return after[name]
}

// heard waits until the server has heard the agent after a time: what was before is certain then.
func (w *world) heard(after time.Time) {
	w.T.Helper()
	harness.Eventually(w.T, "a message of the agent", func() bool {
		var all []v1.JoinedHost
		must(w.T, json.Unmarshal([]byte(w.CLI("agents", "-o", "json")), &all))
		return len(all) == 1 && all[0].LastSeen != nil && all[0].LastSeen.After(after)
	})
}

func (w *world) at(t time.Time) map[string]row {
	w.T.Helper()
	code, out, errs := w.Run("server", "", w.Drover, "ps", "--at", t.Format(time.RFC3339Nano), "-o", "json", "--data-dir",
		w.ServerDir())
	if code == 4 {
		return map[string]row{}
	}
	if code != 0 {
		w.T.Fatalf("ps --at: exit code %d: %s", code, errs)
	}
	return rowsOf(w.T.(*testing.T), out)
}

// before returns times between two moments, the latest first: those of all events, and one in each 50 ms.
func (w *world) before(last, first time.Time) (all []time.Time) {
	w.T.Helper()
	for then := last; then.After(first); then = then.Add(-50 * time.Millisecond) {
		all = append(all, then)
	}
	text := w.CLI("events", "--since", first.Format(time.RFC3339Nano), "--until", last.Format(time.RFC3339Nano), "--limit", "0",
		"-o", "json")
	var events []v1.Event
	must(w.T, json.Unmarshal([]byte(text), &events))
	for i := range events {
		all = append(all, events[i].At)
	}
	slices.SortFunc(all, func(a, b time.Time) int { return b.Compare(a) })
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apply applies a process file of three processes: one that runs, one that crashes again and again, and one that fails
// when a file says so.
func (w *world) apply(message string) {
	w.T.Helper()
	path := filepath.Join(w.Dir, "shop.yaml")
	must(w.T, os.WriteFile(path, fmt.Appendf(nil, `namespace: shop
defaults:
  hosts: ["%s"]
  directory: %s
processes:
  api:
    run: exec sleep 100000
    restart: {delay: 1s}
  flaps:
    run: "sleep 0.3; exit 3"
    ready: {alive: 100ms}
    restart: {delay: 1s, factor: 1}
  stops:
    run: exec sleep 100000
`, host, w.Dir), 0o600))
	w.CLI("apply", "-f", path, "--yes", "-m", message)
}

// TestEveryMomentIsAsItWas: what 'ps' showed while processes started, crashed, flapped and stopped, and while agent and
// server were killed, is what 'ps --at' shows of each of these moments.
func TestEveryMomentIsAsItWas(t *testing.T) {
	t.Parallel()
	w := &world{Fleet: harness.NewFleet(t, binaries.drover, binaries.agent)}
	joined := time.Now()
	agent := w.JoinAndStart("127.0.0.2", "127.0.0.2", 0)
	began := time.Now()
	w.apply("the first release")
	w.see("all have started", "api", v1.StateRunning)
	w.see("one process flaps", "flaps", v1.StateFlapping)

	harness.Signal(t, w.ps()["api"].PID, syscall.SIGKILL)
	w.see("the end of a process", "api", v1.StateBackoff, v1.StateRunning)
	w.see("its relaunch", "api", v1.StateRunning)
	w.CLI("stop", "shop/flaps", "--hosts", host, "--yes")
	w.CLI("stop", "shop/stops", "--hosts", host, "--yes")
	w.see("a stop", "stops", v1.StateStopped)
	w.CLI("unregister", "shop/flaps", "--hosts", host, "--yes")
	w.see("a removal", "")

	alive := w.see("the moment before the death of the agent", "api", v1.StateRunning)
	w.heard(time.Now())
	agent.Kill()
	w.Away(host)
	down := time.Now()
	w.moments = append(w.moments, moment{what: "no agent runs", at: down, down: true})
	harness.Signal(t, alive.PID, syscall.SIGKILL)
	// A shorter time is a restart of the agent, and not an absence.
	harness.Eventually(t, "operations to be given up", func() bool {
		code, out, errs := w.Run("server", "", w.Drover, "restart", "shop/stops", "--hosts", host, "--yes", "--data-dir", w.ServerDir())
		return code != 0 && strings.Contains(out+errs, "offline")
	})
	w.StartAgent("127.0.0.2")
	w.Online(host)
	again := w.see("the return of the agent", "api", v1.StateRunning)

	w.Server.Kill()
	harness.Signal(t, again.PID, syscall.SIGKILL)
	harness.Eventually(t, "the end of the process without a server", func() bool { return !harness.Alive(again.PID) })
	ended := time.Now()
	w.StartServer()
	back := time.Now()
	w.Online(host)
	harness.Eventually(t, "the relaunch without a server", func() bool {
		p := w.ps()["api"]
		return p.State == v1.StateRunning && p.PID != again.PID
	})
	w.see("the return of the server", "api", v1.StateRunning)

	earliest := began
	for _, m := range w.moments {
		got := w.at(m.at)
		if m.down {
			for name, r := range got {
				if r.State != v1.StateUnknown || r.PID != 0 {
					t.Errorf("%s: %s is %+v", m.what, name, r)
				}
			}
			if len(got) != 2 {
				t.Errorf("%s: the processes are %v", m.what, got)
			}
			continue
		}
		// 'ps' is behind the host by the way of a report: it may show for long what the host had for a moment.
		for _, then := range w.before(m.at, earliest) {
			if cmp.Equal(m.rows, got) {
				break
			}
			got = w.at(then)
		}
		earliest = m.at
		if d := cmp.Diff(m.rows, got); d != "" {
			t.Errorf("%s, at %s (-ps +ps --at):\n%s", m.what, m.at.Format(time.RFC3339Nano), d)
		}
	}
	if got := w.at(joined); len(got) > 0 {
		t.Errorf("before the host had joined there were %v", got)
	}
	away := w.at(ended)["api"]
	for then := ended; away.PID == again.PID && then.Before(back); {
		then = then.Add(50 * time.Millisecond) // the agent notices the end a moment later
		away = w.at(then)["api"]
	}
	on := []string{v1.StateBackoff, v1.StateStarting, v1.StateRunning} // the host relaunches it on its own
	if !slices.Contains(on, away.State) || away.PID == again.PID {
		t.Errorf("while no server ran, the process was %+v", away)
	}

	changes := func(from, to time.Time) (c v1.Changes) {
		t.Helper()
		must(t, json.Unmarshal([]byte(w.CLI("changes", "--from", from.Format(time.RFC3339Nano), "--to",
			to.Format(time.RFC3339Nano), "-o", "json")), &c))
		return c
	}
	c := changes(began, down)
	if len(c.Revisions) != 2 || c.Revisions[0].Message != "the first release" || c.Revisions[0].Namespace != "shop" {
		t.Errorf("the revisions are %+v", c.Revisions)
	}
	var ops []string
	for _, o := range c.Operations {
		ops = append(ops, o.Op)
	}
	if d := cmp.Diff([]string{"start", "stop", "stop", "unregister"}, ops); d != "" {
		t.Errorf("operations (-want +got):\n%s", d)
	}
	c = changes(down, time.Now())
	kinds := map[string]int{}
	for _, h := range c.Hosts {
		kinds[h.Kind]++
	}
	if kinds[v1.HostCameBack] != 1 || kinds[v1.HostRestarted] != 1 {
		t.Errorf("the changes of hosts are %+v", c.Hosts)
	}
}

// TestWhatHappenedAtTen follows docs/past.md: a release whose process does not start.
func TestWhatHappenedAtTen(t *testing.T) {
	t.Parallel()
	w := &world{Fleet: harness.NewFleet(t, binaries.drover, binaries.agent)}
	w.JoinAndStart("127.0.0.2", "127.0.0.2", 0)
	release := func(message, run string) (code int) {
		t.Helper()
		path := filepath.Join(w.Dir, "shop.yaml")
		must(t, os.WriteFile(path, fmt.Appendf(nil, `namespace: shop
processes:
  api:
    run: %q
    hosts: ["%s"]
    directory: %s
    ready: {alive: 200ms}
    restart: {delay: 100ms, factor: 1, give_up_after: 2}
`, run, host, w.Dir), 0o600))
		code, _, _ = w.Run("server", "", w.Drover, "apply", "-f", path, "--yes", "-m", message, "--data-dir", w.ServerDir())
		return code
	}
	if code := release("first", "exec sleep 100000"); code != 0 {
		t.Fatalf("the first release: exit code %d", code)
	}
	w.see("the first release", "api", v1.StateRunning)
	ten := time.Now()
	if code := release("new image", "echo no such table; exit 1"); code == 0 {
		t.Error("the bad release succeeds")
	}
	w.see("the end of the attempts", "api", v1.StateGivenUp)
	w.heard(time.Now())
	out := w.CLI("changes", "--from", ten.Format(time.RFC3339Nano))
	for _, line := range []string{
		`(?m)^1 process changed from .* to .*$`,
		`(?m)^COUNT +HOSTS +CHANGE +CAUSE\n1 +1 +running → given-up +(exit-status|died-in-start-check)$`,
		`(?m)^Revisions:\nTIME +REVISION +BY +MESSAGE +PROCESSES\n.* shop 2 +uid:\d+ +new image +~ api on 1 host: run$`,
		`(?m)^Operations:\nTIME +TASK +OP +PROCESS +BY +TARGETS +FAILED\n.* op-\w+ +\w+ +shop/api +uid:\d+ +1 +1$`,
		`(?m)^Processes:\nNAME +HOST +CHANGE +SINCE +PID +VERSION +WHY\nshop/api +0:127.0.0.2 +running → given-up .* \d+ → - +- +given up after 2 starts`,
	} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("%s is not in\n%s", line, out)
		}
	}
	if then := w.at(ten)["api"]; then.State != v1.StateRunning || then.PID == 0 {
		t.Errorf("at ten the process was %+v", then)
	}
	if out := w.CLI("history", "shop/*", "--from", ten.Format(time.RFC3339Nano)); !strings.Contains(out, "given-up") {
		t.Errorf("the history is\n%s", out)
	}
}
