package netns_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// program notes each of its starts.
const program = "#!/bin/sh\necho started >>starts\nexec sleep 100000\n"

// register registers the process shop/NAME on all hosts, in a directory of its own on each.
func (r *rig) register(name, more string) {
	r.t.Helper()
	for _, host := range r.all() {
		dir := r.at(host, name)
		err := errors.Join(
			os.MkdirAll(dir, 0o700), harness.WriteProgram(filepath.Join(dir, "program"), []byte(program)),
			os.WriteFile(dir+".yaml", fmt.Appendf(nil, "run: ./program\ndirectory: %s\n%s", dir, more), 0o600),
		)
		if err != nil {
			r.t.Fatal(err)
		}
		r.CLI("register", "shop/"+name, "--hosts", r.host(host), "--file", dir+".yaml")
	}
}

func (r *rig) at(host, name string) string { return filepath.Join(r.work, host, name) }

// noted is how many lines a file of shop/NAME has, by host.
func (r *rig) noted(name, file string) map[string]int {
	r.t.Helper()
	n := map[string]int{}
	for _, host := range r.all() {
		text, err := os.ReadFile(filepath.Join(r.at(host, name), file))
		if err != nil && !os.IsNotExist(err) {
			r.t.Fatal(err)
		}
		n[host] = strings.Count(string(text), "\n")
	}
	return n
}

// started fails the test unless shop/NAME was started so often on each host.
func (r *rig) started(what, name string, near, north, south int) {
	r.t.Helper()
	want := map[string]int{"near": near, "north-a": north, "north-b": north, "south-a": south, "south-b": south}
	if got := r.noted(name, "starts"); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s: the hosts have started it %v times, want %v", what, got, want)
	}
}

// isolate cuts an area off from the server, or heals that.
func (r *rig) isolate(area string, yes bool) {
	r.t.Helper()
	for _, proxy := range []string{area + "-p1", area + "-p2"} {
		if l := (link{proxy, "server"}); yes {
			r.cut(l, both)
		} else {
			r.heal(l, both)
		}
	}
}

// rollout is what these tests read of a rollout.
type rollout struct {
	ID, State, Reason string
	Counts            struct{ OK, Failed, Waiting, Skipped int }
}

// last returns the newest rollout.
func (r *rig) last() (seen rollout) {
	r.t.Helper()
	id, _, _ := strings.Cut(r.CLI("rollout", "list", "-o", "name"), "\n")
	if err := json.Unmarshal([]byte(r.CLI("rollout", "status", id, "-o", "json")), &seen); err != nil {
		r.t.Fatal(err)
	}
	return seen
}

// becomes waits until the newest rollout is in a state.
func (r *rig) becomes(state string) (seen rollout) {
	r.t.Helper()
	harness.Eventually(r.t, "the rollout to be "+state, func() bool {
		seen = r.last()
		return seen.State == state
	})
	return seen
}

// TestI1_I2_PartitionDuringARollout cuts an area off while a rollout goes on. The rollout counts its hosts as failed
// and is done without them; the hosts do nothing late when they are back, and a retry operates on each of them once.
func TestI1_I2_PartitionDuringARollout(t *testing.T) {
	r := newRig(t)
	r.register("web", "ready: {alive: 0s}\nreload: {signal: CONT}\n")
	r.CLI("start", "shop/web", "--yes")
	r.started("at first", "web", 1, 1, 1)
	for _, host := range r.all() {
		r.CLI("agents", "label", "zone="+map[string]string{"near": "1", north: "2", south: "3"}[lanOf(host)], r.host(host))
	}
	r.CLI("restart", "shop/web", "--batch", "1", "--pause", "2s", "--order", "zone", "--max-failures", "1", "--no-wait",
		"--yes")
	harness.Eventually(t, "the first host", func() bool { return r.noted("web", "starts")["near"] == 2 })
	r.isolate(south, true)
	seen := r.becomes("done")
	if seen.Counts.OK != 3 || seen.Counts.Failed != 2 || seen.Counts.Waiting != 0 {
		t.Errorf("without the south it is %+v", seen)
	}
	r.started("without the south", "web", 2, 2, 1)
	r.isolate(south, false)
	for _, host := range []string{"south-a", "south-b"} {
		r.Online(r.host(host))
		// An order that was held would come before this one.
		r.CLI("reload", "shop/web", "--hosts", r.host(host), "--yes")
	}
	r.started("with the south again", "web", 2, 2, 1)
	r.CLI("rollout", "retry", seen.ID, "--away")
	if seen = r.becomes("done"); seen.Counts.OK != 5 {
		t.Errorf("after the retry it is %+v", seen)
	}
	r.started("after the retry", "web", 2, 2, 2)
}

// TestI2_PartitionOfAOneOf cuts off the area of the one host that has begun a job. No other host begins it, and it goes
// on while nobody reaches its host.
func TestI2_PartitionOfAOneOf(t *testing.T) {
	r := newRig(t)
	r.register("job", "ready: {alive: 0s}\nbefore_start:\n"+
		"  run: echo begun >>begun; until [ -e go ]; do sleep 0.05; done\n")
	var hosts []string
	for _, host := range []string{"north-a", "north-b", "south-a", "south-b"} {
		hosts = append(hosts, r.host(host))
	}
	r.CLI("start", "shop/job", "--hosts", strings.Join(hosts, ","), "--one-of", "--no-wait", "--yes")
	var host string
	harness.Eventually(t, "one host to begin", func() bool {
		for name, n := range r.noted("job", "begun") {
			if n > 0 {
				host = name
			}
		}
		return host != ""
	})
	r.isolate(lanOf(host), true)
	r.Away(r.host(host))
	letGo(t, r.at(host, "job"))
	harness.Eventually(t, "the job to go on without a link", func() bool { return r.noted("job", "starts")[host] == 1 })
	r.isolate(lanOf(host), false)
	if seen := r.becomes("done"); seen.Counts.OK != 1 || seen.Counts.Failed != 0 {
		t.Errorf("it is %+v", seen)
	}
	for name, n := range r.noted("job", "begun") {
		if want := map[bool]int{true: 1}[name == host]; n != want {
			t.Errorf("%s%s has begun the job %d times, want %d", harness.MoreThan(want, n), name, n, want)
		}
	}
}
