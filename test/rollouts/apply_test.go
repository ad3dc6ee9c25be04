package rollouts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// file writes a process file with shop/web of a release on each host, and further lines for each process.
func (f *fleet) file(release string, more ...string) string {
	f.T.Helper()
	var text strings.Builder
	for i, host := range f.hosts {
		fmt.Fprintf(&text, "---\nnamespace: shop\nprocesses:\n  web:\n    run: ./app\n    directory: %s\n    hosts: [%q]\n"+
			"    environment: {RELEASE: %q}\n", f.dir(i), host, release)
		for _, line := range more {
			text.WriteString("    " + line + "\n")
		}
	}
	path := filepath.Join(f.Dir, "release-"+release+".yaml")
	must(f.T.(*testing.T), os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// releases returns the release that each host has started last.
func (f *fleet) releases() (last []string) {
	f.T.Helper()
	for i := range f.hosts {
		text, err := os.ReadFile(filepath.Join(f.dir(i), "starts"))
		must(f.T.(*testing.T), err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		last = append(last, strings.TrimPrefix(lines[len(lines)-1], "started "))
	}
	return last
}

func (f *fleet) run(what string, want ...string) {
	f.T.Helper()
	if got := f.releases(); !slices.Equal(got, want) {
		f.T.Errorf("%s: the hosts run %v, want %v", what, got, want)
	}
}

// latest returns the id of the newest rollout.
func (f *fleet) latest() string {
	f.T.Helper()
	return strings.Fields(f.CLI("rollout", "list", "-o", "name"))[0]
}

// TestUndoOfAnApply follows docs/steering-a-fleet.md: a file whose release is bad, its canary, and the way back.
func TestUndoOfAnApply(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	f.drover(0, "apply", "-f", f.file("1"), "--yes")
	f.run("the first release", "1", "1", "1", "1")
	before := f.starts()

	f.release(false)
	said := f.drover(7, "apply", "-f", f.file("2", "rollout: {batch: 2, canary: 1, bake: 8s}"), "--yes")
	for _, text := range []string{"1 of 4 hosts failed among the canaries", "drover rollout undo ro-"} {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %q: %s", text, said)
		}
	}
	f.run("a bad release", "2", "1", "1", "1")
	bad := f.latest()
	f.release(true)
	if said := f.drover(2, "rollout", "undo", f.restarted(), "--yes"); !strings.Contains(said, "of the operation restart") {
		t.Errorf("the undo of an operation is answered with %s", said)
	}
	f.drover(0, "rollout", "undo", bad, "--yes")
	f.run("after the undo", "1", "1", "1", "1")
	if got := f.starts(); !slices.Equal(got[1:], before[1:]) {
		t.Errorf("hosts without the bad release have started it %v times, want %v", got, before)
	}
	undo := f.latest()
	if r := f.status(undo); r.State != "done" || r.Undoes != bad || r.Counts.OK != 1 {
		t.Errorf("the undo is %+v", r)
	}
	if list := f.drover(0, "rollout", "list", "-o", "wide"); strings.Count(list, bad) != 2 {
		t.Errorf("the list does not say what the undo undoes: %s", list)
	}
	if r := f.status(bad); r.State != "aborted" {
		t.Errorf("the bad rollout is %+v", r)
	}
	if said := f.drover(0, "revisions", "shop"); !strings.Contains(said, "undo of "+bad) {
		t.Errorf("the revisions are %s", said)
	}
}

// TestUndoByItself: an apply whose plan says so goes back without a person, also over the death of the server, and the
// command that follows it tells of both rollouts.
func TestUndoByItself(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.drover(0, "apply", "-f", f.file("1"), "--yes")
	flags := []string{"--batch", "2", "--canary", "1", "--bake", "4s", "--undo-on-failure", "--yes"}
	said := f.drover(1, append([]string{"apply", "-f", f.file("broken")}, flags...)...)
	for _, text := range []string{"1 of 3 hosts failed among the canaries: undone by rollout ro-", "done, batch 1, "} {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %q: %s", text, said)
		}
	}
	f.run("after the undo", "1", "1", "1")
	undo := f.status(f.latest())
	if bad := f.status(undo.Undoes); undo.State != "done" || bad.State != "aborted" {
		t.Errorf("the undo is %+v, of %+v", undo, bad)
	}
	if told := f.CLI("events", "-o", "json"); !strings.Contains(told, "rollout-paused") {
		t.Error("no event tells of the failure")
	}

	before := f.latest()
	f.drover(0, append([]string{"apply", "-f", f.file("broken"), "--no-wait"}, flags...)...)
	bad := f.latest()
	if bad == before {
		t.Fatal("there is no rollout")
	}
	harness.Eventually(t, "the canary has the bad release", func() bool { return slices.Contains(f.releases(), "broken") })
	f.Server.Kill()
	f.StartServer()
	harness.Eventually(t, "the undo over the death of the server", func() bool {
		return f.status(bad).State == "aborted" && f.status(f.latest()).State == "done"
	})
	f.run("after the undo", "1", "1", "1")
}

// restarted begins and ends a rollout of an operation, and returns its id.
func (f *fleet) restarted() string {
	f.T.Helper()
	// A process has one active rollout, so this one is of another process.
	f.CLI("apply", "-f", f.other(), "--yes")
	id := strings.TrimSpace(f.CLI("restart", "shop/other", "--batch", "1", "--yes", "--no-wait"))
	f.drover(0, "rollout", "watch", id)
	return id
}

func (f *fleet) other() string {
	f.T.Helper()
	path := filepath.Join(f.Dir, "other.yaml")
	text := fmt.Sprintf("namespace: shop\nprocesses:\n  other: {run: sleep 100000, directory: %s, hosts: [%q]}\n", f.Dir,
		f.hosts[0])
	must(f.T.(*testing.T), os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestApplyOverTheDeathOfTheServer: the server is killed in the middle of batches. Each host gets each step once, a process
// that the file no longer has goes with the batch of its host, and a host that waits does not have the revision.
func TestApplyOverTheDeathOfTheServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.CLI("apply", "-f", f.file("1"), "--yes")
	f.CLI("apply", "-f", f.other(), "--yes")
	before := f.starts()
	f.CLI("apply", "-f", f.file("2"), "--prune", "--batch", "1", "--bake", "2s", "--yes", "--no-wait")
	id := f.latest()
	for batch := range 2 {
		harness.Eventually(t, "the next batch", func() bool { return f.status(id).Batch > batch })
		if batch == 0 { // the task with the revision follows the decision about the batch
			harness.Eventually(t, "a revision by which two hosts have the release", func() bool {
				var latest []struct{ Number int }
				must(t, json.Unmarshal([]byte(f.CLI("revisions", "shop", "--limit", "1", "-o", "json")), &latest))
				file := f.drover(0, "get", "shop/web", "--revision", fmt.Sprint(latest[0].Number))
				n := strings.Count(file, `RELEASE: "2"`)
				if n > f.status(id).Batch+1 {
					t.Errorf("%d hosts have the release by that revision: %s", n, file)
				}
				return n >= 2
			})
		}
		f.Server.Kill()
		f.StartServer()
	}
	f.drover(0, "rollout", "watch", id)
	f.run("over deaths", "2", "2", "2")
	for i, n := range f.starts() {
		if n != before[i]+1 {
			t.Errorf("%shost %d has started it %d times", harness.MoreThan(1, n-before[i]), i, n-before[i])
		}
	}
	harness.Eventually(t, "the removal", func() bool { return !strings.Contains(f.CLI("ps", "-o", "name"), "shop/other") })
	f.drover(0, "diff", "-f", f.file("2"), "--prune")
}

// TestApprovalOfASecondPerson: above the server's number of hosts a rollout waits for a person who did not begin it.
func TestApprovalOfASecondPerson(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, "--approval-above", "2")
	f.CLI("user", "create", "bob")
	f.CLI("user", "grant", "bob", "maintainer on shop")
	token := strings.TrimSpace(f.CLI("user", "token", "bob", "--ttl", "1h"))
	person := func(code int, args ...string) string {
		t.Helper()
		r := harness.Finish(t, "", append(harness.Environment("/nonexistent"), "DROVER_SERVER="+f.URL,
			"DROVER_USER_TOKEN="+token,
			"SSL_CERT_FILE="+filepath.Join(f.ServerDir(), "server", "pki", "ca.pem")), f.Drover, args...)
		if r.Code != code {
			t.Fatalf("bob's drover %q: exit code %d: %s%s", args, r.Code, r.Out, r.Errors)
		}
		return r.Out + r.Errors
	}
	if said := f.drover(5, "restart", "shop/web", "--yes"); !strings.Contains(said, "approval of a second person") {
		t.Errorf("a restart of all is answered with %s", said)
	}
	said := person(7, "restart", "shop/web", "--batch", "1", "--yes")
	if !strings.Contains(said, "more than 2 hosts: waits for the approval of a second person") {
		t.Errorf("the rollout says %s", said)
	}
	id := f.latest()
	f.started("before the approval", 2, 2, 1)
	person(5, "rollout", "approve", id)
	f.drover(0, "rollout", "approve", id)
	f.drover(0, "rollout", "watch", id)
	f.started("after the approval", 2, 2, 2)
	if said := f.CLI("audit", "--limit", "20", "-o", "json"); strings.Count(said, "rollouts.approve") != 2 {
		t.Errorf("the audit log has %s", said)
	}
}

// TestScheduledRollout: a rollout exists before its time, can be ended, and begins at its time.
func TestScheduledRollout(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.drover(0, "restart", "shop/web", "--batch", "1", "--at", "03:00", "--yes")
	if r := f.status(f.latest()); r.State != "scheduled" {
		t.Errorf("it is %+v", r)
	}
	f.CLI("rollout", "abort", f.latest())
	at := time.Now().Add(3 * time.Second).Format(time.RFC3339)
	f.drover(0, "restart", "shop/web", "--batch", "1", "--at", at, "--yes")
	f.Server.Kill()
	f.StartServer()
	f.drover(0, "rollout", "watch", f.latest())
	f.started("at its time", 2, 2)
}

// TestMaxUnavailable: no canary begins while another host's process is down. After the canaries, the host whose process
// is down begins first.
func TestMaxUnavailable(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.CLI("stop", "shop/web", "--hosts", f.hosts[2], "--yes")
	id := strings.TrimSpace(f.CLI("restart", "shop/web", "--hosts", strings.Join(f.hosts, ","), "--batch", "1",
		"--max-unavailable", "1", "--canary", "1", "--order", "zone", "--yes", "--no-wait"))
	harness.Eventually(t, "a reason to wait", func() bool {
		return f.status(id).Reason == "1 of 3 hosts are unavailable, and at most 1 may be: "+f.hosts[2]
	})
	f.started("beside a host that is down", 1, 1, 1)
	f.CLI("start", "shop/web", "--hosts", f.hosts[2], "--yes")
	f.drover(0, "rollout", "watch", id)
	f.started("with all hosts up", 2, 2, 3)
	var whole struct{ Plan map[string]any }
	must(t, json.Unmarshal([]byte(f.CLI("rollout", "status", id, "-o", "json")), &whole))
	if fmt.Sprint(whole.Plan["max_unavailable"]) != "1" {
		t.Errorf("the plan is %v", whole.Plan)
	}
	f.CLI("stop", "shop/web", "--hosts", f.hosts[2], "--yes")
	f.drover(0, "restart", "shop/web", "--hosts", strings.Join(f.hosts, ","), "--batch", "1", "--max-unavailable", "1", "--yes")
	f.started("beside a host that was down", 3, 3, 4)
}

// TestAHandBesideARollout: while a rollout goes on, another apply over its process is refused, and a host that somebody
// changes by hand keeps the change. So it does after the undo of the rollout.
func TestAHandBesideARollout(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.drover(0, "apply", "-f", f.file("1"), "--yes")
	f.drover(0, "apply", "-f", f.file("2"), "--batch", "1", "--bake", "5s", "--yes", "--no-wait")
	id := f.latest()
	spec := filepath.Join(f.Dir, "hand.yaml")
	must(t, os.WriteFile(spec, fmt.Appendf(nil, "run: ./app\ndirectory: %s\nenvironment: {RELEASE: hand}\n", f.dir(2)), 0o600))
	f.CLI("register", "shop/web", "--hosts", f.hosts[2], "--file", spec, "--replace")
	refused := "rollout " + id + " over shop/web is not finished: wait for it with 'drover rollout watch " + id
	harness.Eventually(t, "a refusal between two batches", func() bool {
		return strings.Contains(f.drover(1, "apply", "-f", f.file("3"), "--yes"), refused)
	})
	f.drover(7, "rollout", "watch", id)
	f.run("after the rollout", "2", "2", "1") // the spec by hand takes effect at the next start
	if said := f.drover(0, "rollout", "status", id); !strings.Contains(said, "has changed shop/web since the plan") {
		t.Errorf("the rollout does not show the host: %s", said)
	}
	if said := f.drover(3, "drift", "shop/web"); !strings.Contains(said, "has changed it since the file") {
		t.Errorf("the host is not a deviation: %s", said)
	}
	f.drover(0, "rollout", "undo", id, "--yes")
	f.CLI("restart", "shop/web", "--hosts", f.hosts[2], "--yes")
	f.run("after the undo", "1", "1", "hand")
	f.drover(0, "apply", "-f", f.file("3"), "--yes")
	f.run("after the next apply", "3", "3", "3")

	f.drover(0, "apply", "-f", f.other(), "--batch", "1", "--bake", "1s", "--yes")
	brought := f.latest()
	f.CLI("stop", "shop/other", "--yes")
	f.CLI("unregister", "shop/other", "--yes")
	f.drover(0, "rollout", "undo", brought, "--yes")
	f.drover(0, "drift", "shop/*") // the undo has taken back what somebody has removed
	f.drover(0, "apply", "-f", f.other(), "--yes")
	f.CLI("stop", "shop/other", "--yes")
	f.CLI("unregister", "shop/other", "--yes")
	f.drover(3, "drift", "shop/*")
	f.drover(0, "apply", "-f", f.file("3"), "--prune", "--yes")
	f.drover(0, "drift", "shop/*") // nor does the file have it any more
}
