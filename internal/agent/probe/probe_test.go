package probe_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/probe"
	"drover/internal/process"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func TestTheSchedule(t *testing.T) {
	for _, c := range []struct {
		name            string
		probes          v1.Health
		health, version time.Duration
	}{
		{"by default", v1.Health{}, time.Minute, 10 * time.Minute},
		{
			"as the spec says",
			v1.Health{Every: secs(20)},
			20 * time.Second,
			10 * time.Minute,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.Script("h", operationtest.Script{Output: "fine\n", Takes: 100 * time.Millisecond})
				r.Script("v", operationtest.Script{Output: "1.2\n", Takes: 100 * time.Millisecond})
				s := r.running(spec("h", "v", c.probes))
				r.Set(nginx(), s)
				pass(time.Hour)
				for _, kind := range []struct {
					health   bool
					interval time.Duration
					text     string
				}{{true, c.health, "fine"}, {false, c.version, "1.2"}} {
					heard := r.take(kind.health)
					if len(heard) < int(time.Hour/kind.interval)*9/10 {
						t.Fatalf("%d answers in an hour", len(heard))
					}
					if first := heard[0].at; first > 10*time.Second+200*time.Millisecond {
						t.Errorf("the first one after %v", first)
					}
					for i, e := range heard {
						if e.id != nginx() || e.instance != s.Instance || !e.OK || e.Text != kind.text ||
							e.Failures != 0 || e.Bad {
							t.Fatalf("answer %d is %+v", i, e)
						}
						if i == 0 {
							continue
						}
						if gap := e.at - heard[i-1].at; gap < kind.interval*94/100 || gap > kind.interval*106/100+
							time.Second {
							t.Errorf("%v between answers %d and %d", gap, i-1, i)
						}
					}
				}
			})
		})
	}
}

// TestNobodyWakesUpForNothing: while there is nobody to ask the prober sleeps.
func TestNobodyWakesUpForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{})
		s := r.running(spec("h", "", v1.Health{}))
		r.Set(nginx(), s)
		pass(time.Minute)
		r.Drop(nginx())
		pass(time.Second)
		r.take(true)
		asked := len(r.Lines())
		pass(24 * time.Hour)
		if len(r.Lines()) != asked || len(r.take(true)) != 0 {
			t.Errorf("ran %q", r.Lines())
		}
		r.Set(nginx(), probe.Subject{Instance: s.Instance, Revision: 2, Spec: spec("", "", v1.Health{})})
		pass(24 * time.Hour)
		if len(r.Lines()) != asked {
			t.Errorf("ran %q", r.Lines())
		}
	})
}

func TestWhatAnAnswerSays(t *testing.T) {
	unknown := process.Errorf(process.Failed, "spec.identity.user: there is no user www")
	for _, c := range []struct {
		name            string
		health, version operationtest.Script
		healthy         bool
		healthText      string
		known           bool
		versionText     string
	}{
		{
			"what is well",
			operationtest.Script{Output: " all\nwell "},
			operationtest.Script{Output: "1. 24\n.0-rc1"},
			true, "all well", true, "1.24.0-rc1",
		},
		{
			"nothing",
			operationtest.Script{},
			operationtest.Script{},
			true, "ok", false,
			"the output of version_cmd is not a version",
		},
		{
			"what nobody can show",
			operationtest.Script{Output: strings.Repeat("x", 300) + "\xff"},
			operationtest.Script{Output: "nginx version: nginx/1.24"},
			true, strings.Repeat("x", 256), false,
			"the output of version_cmd is not a version: nginx version: nginx/1.24",
		},
		{
			"a failure",
			operationtest.Script{Output: "port 80 is closed", Code: 3},
			operationtest.Script{Output: "1.24", Code: 1},
			false, "exit status 3: port 80 is closed", false, "exit status 1: 1.24",
		},
		{
			"a death",
			operationtest.Script{Signal: syscall.SIGSEGV},
			operationtest.Script{Signal: syscall.SIGKILL},
			false,
			"killed by signal 11 (SIGSEGV)", false, "killed by signal 9 (SIGKILL)",
		},
		{
			"what hangs",
			operationtest.Script{Takes: time.Hour, Output: "hm"},
			operationtest.Script{Takes: time.Hour},
			false, "timed out after 5s: hm", false, "timed out after 5s",
		},
		{
			"an unknown user",
			operationtest.Script{Refuse: unknown},
			operationtest.Script{Refuse: unknown},
			false,
			unknown.Text, false, unknown.Text,
		},
		{
			"a gigabyte",
			operationtest.Script{Takes: time.Hour, Flood: true},
			operationtest.Script{Flood: true, Signal: syscall.SIGPIPE},
			false, "ended because it wrote too much", false, "ended because it wrote too much",
		},
		{
			"what nobody has seen end",
			operationtest.Script{Untold: true},
			operationtest.Script{Untold: true, Output: "1"},
			true, "ok", true, "1",
		},
		{
			"a command that is not let run",
			operationtest.Script{Stuck: syscall.EPIPE},
			operationtest.Script{Output: "1"},
			false, "cannot let the command run: broken pipe", true, "1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.Script("h", c.health)
				r.Script("v", c.version)
				r.Set(nginx(), r.running(spec("h", "v", v1.Health{})))
				pass(30 * time.Second)
				h, v := r.take(true), r.take(false)
				if len(h) != 1 || h[0].OK != c.healthy || h[0].Text != c.healthText ||
					(h[0].Failures == 0) != c.healthy {
					t.Errorf("health is %+v", h)
				}
				if len(v) != 1 || v[0].OK != c.known || v[0].Text != c.versionText || v[0].Bad {
					t.Errorf("version is %+v", v)
				}
				if left := r.Living(); len(left) != 1 {
					t.Errorf("%v are left, want the process alone", left)
				}
			})
		})
	}
}

// TestSickness: so many failures in a row, and not before the grace is over.
func TestSickness(t *testing.T) {
	for _, c := range []struct {
		name      string
		probes    v1.Health
		threshold int
	}{
		{"by default", v1.Health{Every: secs(10)}, 3},
		{"at once", v1.Health{Every: secs(10), Failures: new(1)}, 1},
		{"after its grace", v1.Health{Every: secs(10), Failures: new(2), Grace: secs(95)}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.Script("h", operationtest.Script{Code: 1})
				r.Set(nginx(), r.running(spec("h", "", c.probes)))
				pass(3 * time.Minute)
				heard := r.take(true)
				if len(heard) < 15 {
					t.Fatalf("%d answers", len(heard))
				}
				failures := 0
				for i, e := range heard {
					if e.at >= c.probes.GraceTime() {
						failures++ // none counts within the grace
					}
					bad := failures >= c.threshold
					if e.Since == 0 || e.Since != heard[0].At {
						t.Errorf("answer %d fails since %d, the first one was at %d", i, e.Since, heard[0].At)
					}
					if e.OK || e.Failures != failures || e.Bad != bad {
						t.Errorf("answer %d after %v is %+v", i+1, e.at, e.Answer)
					}
				}
				r.Script("h", operationtest.Script{})
				pass(20 * time.Second)
				heard = r.take(true)
				if len(heard) == 0 || !heard[0].OK || heard[0].Failures != 0 || heard[0].Bad {
					t.Errorf("then %+v", heard)
				}
			})
		})
	}
}

// TestARestartOfTheAgent: what was known goes on where it was.
func TestARestartOfTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{Code: 1})
		r.Script("v", operationtest.Script{Output: "2"})
		s := r.running(spec("h", "v", v1.Health{}))
		s.StartedAt = 0
		ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixMilli() }
		s.Health = &process.Answer{Text: "exit status 1", At: ago(20 * time.Second), Failures: 2}
		s.Version = &process.Answer{OK: true, Text: "1", At: ago(time.Hour)}
		r.Set(nginx(), s)
		h, v := r.LastAnswers(nginx(), s.Instance)
		if diff := cmp.Diff([]*process.Answer{s.Health, s.Version}, []*process.Answer{h, v}); diff != "" {
			t.Error(diff)
		}
		pass(39 * time.Second)
		if heard := r.take(true); len(heard) != 0 {
			t.Errorf("asked too early: %+v", heard)
		}
		pass(2 * time.Second)
		if heard := r.take(true); len(heard) != 1 || heard[0].Failures != 3 || !heard[0].Bad {
			t.Errorf("then %+v", heard)
		}
		pass(10 * time.Minute)
		if heard := r.take(false); len(heard) == 0 || heard[0].Text != "2" {
			t.Errorf("an old version was followed by %+v", heard)
		}
		if h, v := r.LastAnswers(nginx(), r.Spawn("nginx", "", "")); h != nil || v != nil {
			t.Errorf("of another instance %v, %v", h, v)
		}
	})
}

// TestManyAreSpread: they begin apart, and no more than a few are asked at a time.
func TestManyAreSpread(t *testing.T) {
	const many, atOnce = 1000, 16
	bubble(t, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		running, most := 0, 0
		count := func(n int) func(string) {
			return func(string) {
				mu.Lock()
				defer mu.Unlock()
				running += n
				most = max(most, running)
			}
		}
		r.Script("h", operationtest.Script{Takes: 100 * time.Millisecond, Begin: count(1), End: count(-1)})
		for i := range many {
			s := r.running(spec("h", "", v1.Health{}))
			s.StartedAt = 0
			s.Health = &process.Answer{OK: true, At: time.Now().Add(-time.Hour).UnixMilli()}
			r.Set(process.ID{Namespace: "ns", Name: strconv.Itoa(i)}, s)
		}
		pass(time.Minute + time.Second)
		seconds, ids := map[int]int{}, map[process.ID]bool{}
		for _, e := range r.take(true) {
			seconds[int(e.at/time.Second)]++
			ids[e.id] = true
		}
		if len(ids) != many {
			t.Errorf("%d of %d were asked within their interval", len(ids), many)
		}
		for s, n := range seconds {
			if n > 3*many/60 {
				t.Errorf("%d were asked in second %d", n, s)
			}
		}
		if most > atOnce {
			t.Errorf("%d were asked at once", most)
		}
	})
}

// TestNoneStarves: where there is too much to ask, each has its turn.
func TestNoneStarves(t *testing.T) {
	const many = 50
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{Takes: time.Hour}) // each is ended after a second
		for i := range many {
			r.Set(process.ID{Namespace: "ns", Name: strconv.Itoa(i)},
				r.running(spec("h", "", v1.Health{Every: secs(1), Timeout: secs(1)})))
		}
		pass(10 * time.Minute)
		times := map[process.ID]int{}
		for _, e := range r.take(true) {
			times[e.id]++
		}
		for i := range many {
			// 2 a second for 600 seconds
			if n := times[process.ID{Namespace: "ns", Name: strconv.Itoa(i)}]; n < 20 || n > 28 {
				t.Errorf("process %d was asked %d times", i, n)
			}
		}
	}, func(c *probe.Config) { c.AtOnce = 2 })
}

// TestNoNamespaceHasAllPlaces: commands that hang for as long as their specs let them keep those of other namespaces
// from nothing.
func TestNoNamespaceHasAllPlaces(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("hang", operationtest.Script{Takes: 100 * time.Hour})
		r.Script("h", operationtest.Script{Output: "well"})
		for i := range 100 {
			r.Set(process.ID{Namespace: "hog", Name: strconv.Itoa(i)},
				r.running(spec("hang", "", v1.Health{Every: secs(1), Timeout: secs(24 * 3600)})))
		}
		pass(time.Minute)
		other := r.running(spec("h", "", v1.Health{Every: secs(10)}))
		r.Set(nginx(), other)
		pass(10 * time.Minute)
		if n := len(r.take(true)); n < 50 {
			t.Errorf("another namespace was asked %d times", n)
		}
		if health, _ := r.Ask(t.Context(), nginx(), other); health == nil {
			t.Error("who asks about it hears nothing")
		}
	})
}

// TestNeverTwoAtOnce: not of one process, whatever comes in between.
func TestNeverTwoAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		running := 0
		count := func(n int) func(string) {
			return func(string) {
				mu.Lock()
				defer mu.Unlock()
				if running += n; running > 1 {
					t.Error("two at once")
				}
			}
		}
		slow := operationtest.Script{Takes: 3 * time.Second, Begin: count(1), End: count(-1), Output: "1"}
		r.Script("h", slow)
		r.Script("v", slow)
		s := r.running(spec("h", "v", v1.Health{Every: secs(1)}))
		r.Set(nginx(), s)
		for range 20 {
			pass(1700 * time.Millisecond)
			go r.Ask(t.Context(), nginx(), s)
		}
		pass(time.Minute)
		if h, v := len(r.take(true)), len(r.take(false)); h < 5 || v < 3 {
			t.Errorf("%d and %d answers", h, v)
		}
	})
}

// TestWhatIsOverDoesNotCount: the answer about an instance that is gone is none, and its command is ended.
func TestWhatIsOverDoesNotCount(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(r *rig, s probe.Subject)
	}{
		{"dropped", func(r *rig, _ probe.Subject) { r.Drop(nginx()) }},
		{"dropped and there again", func(r *rig, s probe.Subject) {
			r.Drop(nginx())
			s.Spec = spec("fine", "", v1.Health{})
			s.Revision++
			r.Set(nginx(), s)
		}},
		{"another instance", func(r *rig, _ probe.Subject) {
			r.Set(nginx(), r.running(spec("fine", "", v1.Health{})))
		}},
		{"another command", func(r *rig, s probe.Subject) {
			s.Spec, s.Revision = spec("fine", "", v1.Health{}), 2
			r.Set(nginx(), s)
		}},
		{"the agent stops", func(r *rig, _ probe.Subject) { r.stop() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.Script("h", operationtest.Script{Takes: time.Hour, Code: 1})
				r.Script("fine", operationtest.Script{})
				s := r.running(spec("h", "", v1.Health{Timeout: secs(1000)}))
				r.Set(nginx(), s)
				pass(11 * time.Second)
				ends := len(r.Ends())
				c.then(r, s)
				synctest.Wait()
				if len(r.Ends()) != ends+1 {
					t.Error("the question goes on")
				}
				pass(2 * time.Minute)
				for _, e := range r.take(true) {
					if !e.OK {
						t.Errorf("heard %+v", e)
					}
				}
			})
		})
	}
}

// TestWhatStaysTheSame: a new spec does not make a process forget what it said by a command that is still the same.
func TestWhatStaysTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{Code: 1})
		r.Script("v", operationtest.Script{Output: "1"})
		s := r.running(spec("h", "v", v1.Health{}))
		r.Set(nginx(), s)
		pass(time.Minute + 15*time.Second)
		before := len(r.take(true))
		s.Spec, s.Revision = spec("h", "w", v1.Health{Every: secs(30)}), 2
		r.Script("w", operationtest.Script{Output: "2"})
		r.Set(nginx(), s)
		if h, v := r.LastAnswers(nginx(), s.Instance); h == nil || h.Failures != before || v != nil {
			t.Errorf("after %d failures the answers are %+v, %+v", before, h, v)
		}
		pass(45 * time.Second)
		if heard := r.take(true); len(heard) == 0 || heard[0].Failures != before+1 {
			t.Errorf("then health is %+v", heard)
		}
		if heard := r.take(false); len(heard) != 2 || heard[1].Text != "2" {
			t.Errorf("then the version is %+v", heard)
		}
		// The same again changes nothing.
		for range 100 {
			pass(time.Second)
			r.Set(nginx(), s)
		}
		if n := len(r.take(true)); n < 3 || n > 4 {
			t.Errorf("asked %d times in 100 s", n)
		}
	})
}

// TestASpecWithoutSenseIsNotRun, as one of before the present rules may be.
func TestASpecWithoutSenseIsNotRun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		bad := spec("h", "", v1.Health{})
		bad.Directory = "not/absolute"
		s := r.running(bad)
		r.Set(nginx(), s)
		if h, v := r.Ask(t.Context(), nginx(), s); h != nil || v != nil {
			t.Errorf("it says %+v, %+v", h, v)
		}
		pass(time.Hour)
		if r.Lines() != nil {
			t.Errorf("ran %q", r.Lines())
		}
	})
}
