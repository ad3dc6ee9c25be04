package netns_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// TestI8_AreasWithTheSameAddresses: the same address in two areas is two hosts, which know nothing of each other.
func TestI8_AreasWithTheSameAddresses(t *testing.T) {
	r := newRig(t)
	northern, southern := r.daemon("north-a", "same"), r.daemon("south-a", "same")
	r.does(northern, judge.Start)
	if got := r.outcome(southern, r.submit(southern, judge.Stop)); got.Code != 829 {
		t.Errorf("a stop in the south answered %d %s while the process runs in the north only", got.Code, got.Msg)
	}
	r.does(southern, judge.Start)
	r.does(northern, judge.Stop)
	if got := r.settled(southern); got.PID <= 1 || !got.Hosted {
		t.Errorf("a stop in the north left the south with %+v", got)
	}
	for _, p := range []*harness.Process{northern, southern} {
		if n := judge.Ran(p, "start"); n != 1 {
			t.Errorf("%s%s was started %d times", harness.MoreThan(1, n), p.Key(), n)
		}
	}
	// Everybody is reached at once.
	body := r.daemon("near", "everywhere").Request(judge.Query)
	var hosts []string
	for _, name := range r.all() {
		hosts = append(hosts, r.host(name))
	}
	body["agent_id_list"] = hosts
	data, err := r.post("operate_proc_v2", body)
	if err != nil {
		t.Fatal(err)
	}
	answers := harness.Caller{URL: r.URL, Client: r.Client}.Await(t, data["task_id"].(string))
	if len(answers) != len(hosts) {
		t.Errorf("%d answers from %d hosts", len(answers), len(hosts))
	}
	for key, a := range answers {
		if code := a.(harness.Object)["error_code"]; code == 117.0 {
			t.Errorf("%s: %v", key, a)
		}
	}
}

// moment is when a link is cut.
type moment string

const (
	before = moment("before the operation")
	during = moment("while its command runs")
	after  = moment("after its command, before its answer")
)

// way is how the server reaches a host: the links of which one or all have to be cut so that it is reached no longer.
type way struct {
	host  string
	links []link
	// another says that there is another way, so that an operation ends before these are healed.
	another bool
}

// ways returns the hosts and, for each, the links that lead to it: from a host beside the server, from one behind its
// proxies, and from proxies to the server.
func ways() []way {
	return []way{
		{"near", []link{{"near", "relay"}}, false},
		{"north-a", []link{{"north-a", "north-p1"}, {"north-a", "north-p2"}}, false},
		{"north-b", []link{{"north-b", "north-p1"}}, true},
		{"south-a", []link{{"south-p1", "server"}, {"south-p2", "server"}}, false},
	}
}

// TestI1_I2_I3_CutLinks cuts the links to a host in each direction, before, during and after an operation, and heals
// them: every task that was answered ends, no command runs twice, and what drover says in the end is what is there.
func TestI1_I2_I3_CutLinks(t *testing.T) {
	r := newRig(t)
	var lanes sync.WaitGroup
	for _, w := range ways() {
		lanes.Go(func() {
			for _, d := range []direction{there, back, both} {
				for _, m := range []moment{before, during, after} {
					r.cutOnce(w, d, m)
				}
			}
		})
	}
	lanes.Wait()
}

// cutOnce has a host reload a process while its links are cut, and another one crash.
func (r *rig) cutOnce(w way, d direction, m moment) {
	r.t.Helper()
	p := r.daemon(w.host, fmt.Sprintf("%s-%s-%c", w.links[0].a, d, m[0]))
	// The command waits until it is let go, so that the moment can be chosen.
	dir := judge.Dir(p)
	p.Control["reload_cmd"] = "echo reload >>run.log; until [ -e go ]; do sleep 0.05; done; echo reloaded >>run.log"
	r.does(p, judge.Start)
	other := r.daemon(w.host, p.Name+"-other")
	r.does(other, judge.Start)
	cut := func(yes bool) {
		for _, l := range w.links {
			if yes {
				r.cut(l, d)
			} else {
				r.heal(l, d)
			}
		}
	}
	var task string
	switch m {
	case before:
		letGo(r.t, dir)
		cut(true)
		task = r.submit(p, judge.Reload)
	case during:
		task = r.submit(p, judge.Reload)
		harness.Eventually(r.t, "the command to run", func() bool { return judge.Ran(p, "reload") == 1 })
		cut(true)
		letGo(r.t, dir)
	case after:
		task = r.submit(p, judge.Reload)
		harness.Eventually(r.t, "the command to run", func() bool { return judge.Ran(p, "reload") == 1 })
		letGo(r.t, dir)
		harness.Eventually(r.t, "the command to end", func() bool { return judge.Ran(p, "reloaded") == 1 })
		cut(true)
	}
	// The supervision goes on whatever the links do.
	harness.Signal(r.t, harness.ReadPID(r.t, judge.Dir(other)+"/d.pid"), syscall.SIGKILL)
	harness.Eventually(r.t, "a relaunch without a link", func() bool {
		return judge.Ran(other, "start") == 2 &&
			judge.Instances(r.t, judge.Dir(other)) == 1
	})
	switch {
	case w.another:
		r.outcome(p, task)
	case d == both:
		r.Away(p.Host)
	}
	cut(false)
	got := r.outcome(p, task)
	ran := judge.Ran(p, "reload")
	switch {
	case got.Code == 0 && ran != 1:
		r.t.Errorf("%s%s %s: cut %s: answered 0, and the command ran %d times", harness.MoreThan(1, ran), p.Key(), d, m, ran)
	case got.Code != 0 && got.Code != 117 && got.Code != 65535:
		r.t.Errorf("%s %s: cut %s: %d %s", p.Key(), d, m, got.Code, got.Msg)
	case ran > 1:
		r.t.Errorf("%s%s %s: cut %s: the command ran %d times", harness.MoreThan(1, ran), p.Key(), d, m, ran)
	}
	if again := r.outcome(p, task); again.Code != got.Code {
		r.t.Errorf("%s %s: cut %s: the outcome changed from %d to %d", p.Key(), d, m, got.Code, again.Code)
	}
	for _, one := range []*harness.Process{p, other} {
		if seen := r.settled(one); !seen.Hosted || seen.PID <= 1 {
			r.t.Errorf("%s %s: cut %s: it is left as %+v", one.Key(), d, m, seen)
		}
		r.does(one, judge.Stop)
	}
	r.t.Logf("%s, link %v %s cut %s: %d", w.host, w.links[0], d, m, got.Code)
}
