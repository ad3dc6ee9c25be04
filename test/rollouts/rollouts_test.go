package rollouts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// app is the program on each host. It notes each of its starts; a bad release ends after a moment.
const app = `#!/bin/sh
echo started $RELEASE >> starts
[ -e bad ] && sleep 2 && exit 1
[ "$RELEASE" = broken ] && sleep 2 && exit 1
exec sleep 100000
`

type fleet struct {
	*harness.Fleet
	hosts []string
}

// newFleet is a fleet of hosts that run shop/web, each in a directory of its own.
func newFleet(t *testing.T, hosts int, flags ...string) *fleet {
	t.Helper()
	f := &fleet{Fleet: harness.NewFleet(t, binaries.drover, binaries.agent, flags...)}
	for i := range hosts {
		ip := fmt.Sprint("127.0.0.", i+2)
		f.JoinAndStart(fmt.Sprint("host", i), ip, 0, "--facts-dir", "/nonexistent")
		f.hosts = append(f.hosts, "0:"+ip)
		dir := f.dir(i)
		must(t, os.Mkdir(dir, 0o700))
		must(t, harness.WriteProgram(filepath.Join(dir, "app"), []byte(app)))
		spec := filepath.Join(f.Dir, fmt.Sprint(i, ".yaml"))
		must(t, os.WriteFile(spec, fmt.Appendf(nil, "run: ./app\ndirectory: %s\n", dir), 0o600))
		f.CLI("register", "shop/web", "--hosts", "0:"+ip, "--file", spec)
	}
	f.CLI(append([]string{"agents", "label", "role=web"}, f.hosts...)...)
	for _, host := range f.hosts { // a fleet may have a limit of hosts at once
		f.CLI("start", "shop/web", "--hosts", host, "--yes")
	}
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) dir(host int) string { return filepath.Join(f.Dir, fmt.Sprint("app", host)) }

// starts returns how often the program was started on each host.
func (f *fleet) starts() (n []int) {
	f.T.Helper()
	for i := range f.hosts {
		text, err := os.ReadFile(filepath.Join(f.dir(i), "starts"))
		if err != nil {
			f.T.Fatal(err)
		}
		n = append(n, strings.Count(string(text), "\n"))
	}
	return n
}

func (f *fleet) started(what string, want ...int) {
	f.T.Helper()
	if got := f.starts(); fmt.Sprint(got) != fmt.Sprint(want) {
		f.T.Errorf("%s: the hosts have started it %v times, want %v", what, got, want)
	}
}

// drover runs a command that must end with an exit code, and returns all that it prints.
func (f *fleet) drover(code int, args ...string) string {
	f.T.Helper()
	got, out, errs := f.Run("server", "", f.Drover, append(args, "--data-dir", f.ServerDir())...)
	if got != code {
		f.T.Fatalf("drover %q: exit code %d, want %d: %s%s", args, got, code, out, errs)
	}
	return out + errs
}

// rollout is what the tests read of a rollout.
type rollout struct {
	ID, State, Reason, Undoes string
	Batch                     int
	Counts                    struct{ OK, Failed, Waiting, Skipped int }
}

func (f *fleet) status(id string) (r rollout) {
	f.T.Helper()
	must(f.T.(*testing.T), json.Unmarshal([]byte(f.CLI("rollout", "status", id, "-o", "json")), &r))
	return r
}

// release makes the next start of the program on all hosts good or bad.
func (f *fleet) release(good bool) {
	f.T.Helper()
	for i := range f.hosts {
		path := filepath.Join(f.dir(i), "bad")
		var err error
		if good {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			f.T.Fatal(err)
		}
	}
}

// TestSteeringAFleet follows docs/steering-a-fleet.md: a restart in batches, a bad release that its canary stops, the
// repair, and a host that is away.
func TestSteeringAFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5)
	f.drover(0, "restart", "shop/web", "-l", "role=web", "--batch", "2", "--canary", "1", "--bake", "1s", "--yes")
	f.started("a good release", 2, 2, 2, 2, 2)

	f.release(false)
	said := f.drover(7, "restart", "shop/web", "-l", "role=web", "--batch", "40%", "--canary", "1", "--bake", "8s",
		"--max-failures", "3", "--yes")
	for _, text := range []string{"1 of 5 hosts failed among the canaries", "drover rollout resume ro-", "shop/web"} {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %q: %s", text, said)
		}
	}
	for i, n := range f.starts() {
		if canary := i == 0; canary != (n > 2) {
			t.Errorf("host %d has started the bad release %d times", i, n-2)
		}
	}
	id := strings.Fields(f.CLI("rollout", "list", "--state", "paused", "-o", "name"))[0]
	if busy := f.drover(1, "stop", "shop/web", "--batch", "1", "--yes"); !strings.Contains(busy, "rollout "+id+" over shop/web") {
		t.Errorf("a second rollout is answered with %s", busy)
	}

	f.release(true)
	before := f.starts()
	f.CLI("rollout", "retry", id)
	f.drover(0, "rollout", "watch", id)
	for i, n := range f.starts() {
		if i > 0 && n != before[i]+1 {
			t.Errorf("%shost %d has started the good release %d times", harness.MoreThan(1, n-before[i]), i, n-before[i])
		}
	}
	if r := f.status(id); r.State != "done" || r.Counts.OK != 5 {
		t.Errorf("after the retry it is %+v", r)
	}
}

// TestRolloutOverTheDeathOfTheServer: the server is killed in the middle of a batch, twice. Every host gets the operation
// once.
func TestRolloutOverTheDeathOfTheServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	id := strings.TrimSpace(f.CLI("restart", "shop/web", "--batch", "1", "--bake", "1s", "--yes", "--no-wait"))
	for batch := range 2 {
		harness.Eventually(t, "the next batch", func() bool { return f.status(id).Batch > batch })
		f.Server.Kill()
		f.StartServer()
	}
	f.drover(0, "rollout", "watch", id)
	f.started("a rollout over deaths", 2, 2, 2, 2)
	if r := f.status(id); r.State != "done" || r.Counts.OK != 4 {
		t.Errorf("it ends as %+v", r)
	}
}

// TestHostThatIsAway: a host that is away counts as failed, or is left out, and gets the operation by a retry only.
func TestHostThatIsAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	agent := f.JoinAndStart("late", "127.0.0.9", 0, "--facts-dir", "/nonexistent")
	dir := filepath.Join(f.Dir, "late-app")
	must(t, os.Mkdir(dir, 0o700))
	must(t, harness.WriteProgram(filepath.Join(dir, "app"), []byte(app)))
	spec := filepath.Join(f.Dir, "late.yaml")
	must(t, os.WriteFile(spec, fmt.Appendf(nil, "run: ./app\ndirectory: %s\n", dir), 0o600))
	f.CLI("register", "shop/web", "--hosts", "0:127.0.0.9", "--file", spec)
	f.CLI("start", "shop/web", "--hosts", "0:127.0.0.9")
	agent.Kill()
	f.Away("0:127.0.0.9")
	said := f.drover(0, "restart", "shop/web", "--batch", "3", "--skip-away", "--yes")
	if !strings.Contains(said, "1 skipped, away: ") || !strings.Contains(said, "(0:127.0.0.9)\n"+
		"repeat on the hosts that were away: drover rollout retry ro-") {
		t.Errorf("the host that is away is not named: %s", said)
	}
	id := strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0]
	if r := f.status(id); r.State != "done" || r.Counts.OK != 2 || r.Counts.Skipped != 1 {
		t.Errorf("without the host it is %+v", r)
	}
	f.StartAgent("late", "--facts-dir", "/nonexistent")
	f.Online("0:127.0.0.9")
	text, err := os.ReadFile(filepath.Join(dir, "starts"))
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("a host that comes back has started it: %q %v", text, err)
	}
	f.CLI("rollout", "retry", id, "--away")
	f.drover(0, "rollout", "watch", id)
	if r := f.status(id); r.State != "done" || r.Counts.OK != 3 {
		t.Errorf("with the host it is %+v", r)
	}
	f.started("two rollouts", 2, 2)
}

// TestEveryOperationInBatches: operations that only change what drover watches go in batches as well.
func TestEveryOperationInBatches(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, "--approval-above", "1")
	for _, op := range []string{"unhost", "host", "retry", "unregister"} {
		if out := f.drover(5, op, "shop/web", "--yes"); !strings.Contains(out, "approval of a second person") {
			t.Errorf("%s on two hosts: %s", op, out)
		}
		dry := f.drover(0, op, "shop/web", "--batch", "1", "--dry-run")
		if !strings.Contains(dry, "in 2 batches: ") || !strings.Contains(dry, "approval of a second person") {
			t.Errorf("the dry run of %s on two hosts: %s", op, dry)
		}
		f.drover(0, op, "shop/web", "-l", "role=web", "--limit", "1", "--batch", "1", "--bake", "1s", "--yes")
	}
	if out := f.CLI("ps", "shop/web", "-o", "name"); strings.Count(out, "shop/web") != 1 {
		t.Errorf("after an unregister on one host of two: %s", out)
	}
}

// TestEventsNameTheTask: the events of one restart of several hosts name the one task that a person finds.
func TestEventsNameTheTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	task := strings.TrimSpace(f.CLI("restart", "shop/web", "--no-wait", "--yes"))
	f.drover(0, "task", "watch", task)
	var events []struct {
		Host  struct{ ID string }
		Actor struct{ Operation string }
	}
	harness.Eventually(t, "the events of all hosts", func() bool {
		must(t, json.Unmarshal([]byte(f.CLI("events", "shop/web", "--kind", "restarted", "-o", "json")), &events))
		return len(events) == len(f.hosts)
	})
	for _, e := range events {
		if e.Actor.Operation != task {
			t.Errorf("the event of %s names %s, want the task %s", e.Host.ID, e.Actor.Operation, task)
		}
	}
	if out := f.drover(0, "task", "get", events[0].Actor.Operation); !strings.Contains(out, "restart") {
		t.Errorf("the task is %s", out)
	}
}

// TestCancelOfATask: what waits behind another operation never begins, also when the agent is killed meanwhile.
func TestCancelOfATask(t *testing.T) {
	t.Parallel()
	f := &fleet{Fleet: harness.NewFleet(t, binaries.drover, binaries.agent)}
	agent := f.JoinAndStart("host0", "127.0.0.2", 0, "--facts-dir", "/nonexistent")
	f.hosts = []string{"0:127.0.0.2"}
	must(t, os.Mkdir(f.dir(0), 0o700))
	must(t, harness.WriteProgram(filepath.Join(f.dir(0), "app"), []byte(app)))
	spec := filepath.Join(f.Dir, "0.yaml")
	must(t, os.WriteFile(spec, fmt.Appendf(nil,
		"run: ./app\ndirectory: %s\nreload: echo reloading >> reloads; while [ -e hold ]; do sleep 0.1; done\n", f.dir(0)), 0o600))
	hold := filepath.Join(f.dir(0), "hold")
	must(t, os.WriteFile(hold, nil, 0o600))
	f.CLI("register", "shop/web", "--hosts", f.hosts[0], "--file", spec)
	f.CLI("start", "shop/web")
	first := strings.TrimSpace(f.CLI("reload", "shop/web", "--no-wait"))
	reloads := filepath.Join(f.dir(0), "reloads")
	harness.Eventually(t, "the first reload", func() bool { _, err := os.Stat(reloads); return err == nil })
	waiting := strings.TrimSpace(f.CLI("restart", "shop/web", "--no-wait"))
	// The agent has this one: a stop passes older operations on its way, and waits for them on the host.
	taken := strings.TrimSpace(f.CLI("stop", "shop/web", "--no-wait"))
	f.drover(0, "task", "cancel", waiting)
	f.drover(0, "task", "cancel", taken)
	harness.Eventually(t, "the server to know that the first reload has begun", func() bool {
		return strings.Contains(f.drover(0, "task", "cancel", first), "0 cancelled, 0 for their hosts to decide, 1 go on")
	})
	agent.Kill()
	f.Server.Kill()
	must(t, os.Remove(hold))
	f.StartServer()
	f.StartAgent("host0", "--facts-dir", "/nonexistent")
	for _, task := range []string{waiting, taken} {
		f.drover(1, "task", "watch", task)
		if out := f.drover(0, "task", "get", task); !strings.Contains(out, "cancelled") {
			t.Errorf("the task is %s", out)
		}
	}
	f.started("cancelled", 1)
	if state := f.CLI("ps", "shop/web", "-o", "json"); !strings.Contains(state, `"running"`) {
		t.Errorf("after a cancelled stop the process is %s", state)
	}
}
