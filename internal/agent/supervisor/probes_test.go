package supervisor_test

import (
	"crypto/md5"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// sick and well are answers of a health command.
func sick() process.Answer {
	return process.Answer{Text: "tired", At: time.Now().UnixMilli(), Failures: 3, Bad: true}
}

func well() process.Answer {
	return process.Answer{OK: true, Text: "fine", At: time.Now().UnixMilli()}
}

// answers has an instance answer to a command of the spec that is in force.
func (r *rig) answers(name string, who instance.Identity, health bool, a process.Answer) {
	r.t.Helper()
	s, _, ok := r.Snapshot(id(name))
	if !ok {
		r.t.Fatalf("%s is not known", name)
	}
	r.Answered(id(name), who, s.Revision, health, a)
}

func TestWhoIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Health = &v1.Health{Exec: "health a"}
		r.do(process.Start, "a", s)
		asked, ok := r.parts.subject(id("a"))
		if !ok || asked.Instance != r.instance("a") || asked.Spec.HealthCommand() != "health a" {
			t.Errorf("asked as %+v, %v", asked, ok)
		}
		r.Kill(file("a"))
		r.pass(0)
		if _, ok := r.parts.subject(id("a")); ok {
			t.Error("who is being relaunched is asked")
		}
		r.pass(time.Minute)
		if asked, _ := r.parts.subject(id("a")); asked.Instance != r.instance("a") {
			t.Errorf("asked as %+v after a relaunch", asked)
		}
		r.do(process.Stop, "a", s)
		if _, ok := r.parts.subject(id("a")); ok {
			t.Error("who is stopped is asked")
		}
	})
}

// TestHealthIsToldAndKept: what changes is told once, shows, and is known to the next life of the agent; nobody is
// ended for it.
func TestHealthIsToldAndKept(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Health = &v1.Health{Exec: "health a"}
		r.do(process.Start, "a", s)
		who := r.instance("a")
		r.answers("a", who, true, well())
		for range 3 {
			r.answers("a", who, true, sick())
		}
		r.answers("a", who, false, process.Answer{OK: true, Text: "1.2"})
		r.pass(0)
		got := r.state("a", "unhealthy", true)
		if got.Cause.ID != process.CauseUnhealthy || !strings.Contains(got.Cause.Text, "3 times in a row: tired") ||
			got.Version == nil || got.Version.Text != "1.2" {
			t.Errorf("status %+v", got)
		}
		told := r.sink.history(id("a"))
		r.kill()
		r.begin()
		if d := cmp.Diff(got.Health, r.state("a", "unhealthy", true).Health); d != "" {
			t.Errorf("after a restart (-want +got):\n%s", d)
		}
		if asked, _ := r.parts.subject(id("a")); asked.Health == nil || !asked.Health.Bad || asked.Version == nil {
			t.Errorf("asked as %+v", asked)
		}
		r.answers("a", who, true, sick())
		r.answers("a", who, true, well())
		r.pass(time.Hour)
		r.state("a", "running", true)
		told = append(told, r.sink.history(id("a"))...)
		if d := cmp.Diff([]string{
			"started stopped→running", "unhealthy running→running unhealthy",
			"healthy running→running",
		}, told); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		r.ran("start a")
		// What is said of another instance is not believed.
		r.do(process.Restart, "a", s)
		r.answers("a", who, true, sick())
		r.pass(0)
		if got := r.state("a", "running", true); got.Health != nil {
			t.Errorf("health %+v of another instance", got.Health)
		}
	})
}

// TestAnswerToAnOlderSpec: what comes late, when another command asks, says nothing of the process.
func TestAnswerToAnOlderSpec(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Health, s.VersionCommand = &v1.Health{Exec: "health a"}, "version a"
		r.do(process.Start, "a", s)
		who, asked := r.instance("a"), r.state("a", "running", true).Revision
		other := *s
		other.Health, other.VersionCommand = &v1.Health{Exec: "other health a"}, "other version a"
		r.do(process.Update, "a", &other)
		r.Answered(id("a"), who, asked, true, sick())
		r.Answered(id("a"), who, asked, false, process.Answer{OK: true, Text: "1.2"})
		r.pass(0)
		if got := r.state("a", "running", true); got.Health != nil || got.Version != nil {
			t.Errorf("health %+v, version %+v", got.Health, got.Version)
		}
		r.answers("a", who, true, sick())
		r.pass(0)
		r.state("a", "unhealthy", true)
	})
}

// TestEndOfTheUnhealthyThatFails: who was to be restarted and will not go is watched on, and its next relaunch has no
// place in the host's budget from that.
func TestEndOfTheUnhealthyThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		r.burst = 1
		r.begin()
		s := r.spec("a")
		s.Health = &v1.Health{Exec: "health a", Action: "restart"}
		r.do(process.Start, "a", s)
		r.do(process.Start, "b", r.spec("b"))
		who := r.instance("a")
		r.Script(line("stop", "a"), operationtest.Script{Takes: time.Second, Code: 1})
		r.OnEndTree = func(operationtest.End) ([]int, error) { return []int{who.PID}, nil }
		r.answers("a", who, true, sick())
		r.pass(10 * time.Second)
		r.OnEndTree = nil
		r.answers("a", who, true, well())
		r.pass(0)
		got := r.state("a", "running", true)
		if got.Cause.ID != process.CauseStopFailed || !strings.HasPrefix(got.Cause.Text, "pid "+strconv.Itoa(who.PID)+
			" could not be ended") || len(got.Cause.Evidence) == 0 {
			t.Errorf("cause %+v", got.Cause)
		}
		// The budget has room for one in a tenth of a second, and that is for who comes first.
		r.Kill(file("b"))
		r.pass(0)
		r.Kill(file("a"))
		r.pass(0)
		if got := r.state("a", "backoff", true); got.Cause.ID != process.CauseHeldBack {
			t.Errorf("cause %+v", got.Cause)
		}
	})
}

// TestRestartOfTheUnhealthy: where the spec asks for it, and the host's budget has room.
func TestRestartOfTheUnhealthy(t *testing.T) {
	restarting := func(r *rig, name string) *process.Spec {
		s := r.spec(name)
		s.Health = &v1.Health{Exec: "health " + name, Action: "restart"}
		return s
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", restarting(r, "a"))
		was := r.instance("a")
		r.answers("a", was, true, sick())
		r.pass(20 * time.Second)
		r.state("a", "running", true)
		if r.instance("a") == was {
			t.Error("it was not restarted")
		}
		want := []string{
			"started stopped→running", "unhealthy running→running unhealthy", "taken-down stopping→starting unhealthy",
			"relaunched starting→running unhealthy",
		}
		if d := cmp.Diff(want, r.sink.history(id("a"))); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		// Not while an operation holds it, and not where it would stay down.
		item := r.submit(process.Reload, "a", restarting(r, "a"))
		r.answers("a", r.instance("a"), true, sick())
		r.pass(time.Minute)
		r.expect(item, process.None, process.Success)
		s := restarting(r, "b")
		s.Once = true
		r.do(process.Start, "b", s)
		r.answers("b", r.instance("b"), true, sick())
		r.pass(time.Minute)
		r.state("b", "unhealthy", true)
		if slices.Contains(r.Lines(), "stop b") {
			t.Error("a single run was ended")
		}
	})
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		r.burst = 2
		r.begin()
		names := []string{"a", "b", "c"}
		for _, n := range names {
			r.do(process.Start, n, restarting(r, n))
		}
		for _, n := range names {
			r.answers(n, r.instance(n), true, sick())
		}
		r.pass(0)
		waits := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			s, _, _ := r.Snapshot(id(n))
			return s.State == "stopping"
		})
		if len(waits) != 1 {
			t.Fatalf("%v wait for the budget, want one of them", waits)
		}
		r.pass(10 * time.Second)
		r.state(waits[0], "unhealthy", true)
		r.answers(waits[0], r.instance(waits[0]), true, sick())
		r.pass(20 * time.Second)
		for _, n := range names {
			r.state(n, "running", true)
		}
	})
}

func TestDrift(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		path := filepath.Join(t.TempDir(), "a.conf")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		sum := func(text string) string {
			s := md5.Sum([]byte(text))
			return hex.EncodeToString(s[:])
		}
		write("right")
		s := r.spec("a")
		s.ConfigFiles = []v1.ConfigFile{{Path: path, MD5: sum("right")}}
		r.do(process.Start, "a", s)
		r.pass(31 * time.Second)
		if got := r.state("a", "running", true); len(got.Config) > 0 || got.Cause.ID != "" {
			t.Errorf("status %+v", got)
		}
		write("wrong!")
		r.pass(31 * time.Second)
		got := r.state("a", "running", true)
		if len(got.Config) != 1 || got.Config[0].Have != sum("wrong!") || got.Cause.ID != process.CauseDrift ||
			!strings.Contains(got.Cause.Text, path) {
			t.Errorf("status %+v", got)
		}
		told := r.sink.history(id("a"))
		r.kill()
		r.begin()
		r.pass(31 * time.Second)
		if again := r.state("a", "running", true); len(again.Config) != 1 ||
			again.Config[0].Since != got.Config[0].Since {
			t.Errorf("after a restart: %+v", again.Config)
		}
		write("right")
		r.pass(31 * time.Second)
		if got := r.state("a", "running", true); len(got.Config) > 0 {
			t.Errorf("status %+v", got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		// A query looks at once.
		r.do(process.Query, "a", s)
		if got := r.state("a", "running", true); len(got.Config) != 1 || got.Config[0].Problem == "" {
			t.Errorf("status %+v", got)
		}
		// So does whoever asks for a comparison.
		write("right")
		if over := r.Compare(t.Context(), []process.ID{id("a"), id("unknown")}); !slices.Equal(over, []process.ID{id("a")}) {
			t.Errorf("compared %v", over)
		}
		if got, _, _ := r.Snapshot(id("a")); len(got.Config) > 0 {
			t.Errorf("status %+v", got)
		}
		told = append(told, r.sink.history(id("a"))...)
		want := []string{
			"started stopped→running", "config-drifted running→running config-drift", "config-restored running→running",
			"config-drifted running→running config-drift", "config-restored running→running",
		}
		if d := cmp.Diff(want, told); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

// TestFlapping: it begins with the fourth relaunch in ten minutes and ends when they are long past, or when somebody
// sees to it; each is told once, whatever becomes of the agent.
func TestFlapping(t *testing.T) {
	flap := func(r *rig) {
		for range 4 {
			r.Kill(file("a"))
			r.pass(65 * time.Second)
		}
	}
	count := func(events []string, kind string) (n int) {
		for _, e := range events {
			if strings.HasPrefix(e, kind+" ") {
				n++
			}
		}
		return n
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		flap(r)
		got := r.state("a", "flapping", true)
		if !got.Flapping || got.Restarts != 4 || got.Cause.ID != process.CauseFlapping {
			t.Errorf("status %+v", got)
		}
		told := r.sink.history(id("a"))
		r.kill()
		r.begin()
		r.pass(time.Minute)
		r.state("a", "flapping", true)
		r.pass(10 * time.Minute)
		r.state("a", "running", true)
		told = append(told, r.sink.history(id("a"))...)
		if count(told, "flapping") != 1 || count(told, "steady") != 1 {
			t.Errorf("events %q", told)
		}
		flap(r)
		r.state("a", "flapping", true)
		r.do(process.Restart, "a", r.spec("a"))
		r.state("a", "running", true)
		flap(r)
		r.state("a", "flapping", true)
		if got := r.sink.history(id("a")); count(got, "flapping") != 2 || count(got, "steady") != 2 {
			t.Errorf("events %q", got)
		}
	})
	// Its pauses grow beyond the window, and each start still fails. Then one lasts.
	bubble(t, func(t *testing.T, r *rig) {
		s := r.own("a", v1.Restart{Jitter: new(v1.Percent(0))})
		r.do(process.Start, "a", s)
		r.starts("a", crashing(r, "a", 2*time.Second))
		r.Kill(file("a"))
		r.pass(3 * time.Hour)
		r.state("a", "flapping", true)
		if got := r.sink.history(id("a")); count(got, "flapping") != 1 || count(got, "steady") != 0 {
			t.Errorf("events %q", got)
		}
		r.starts("a", operationtest.Script{Takes: time.Second, End: func(run string) { r.Spawn("a", file("a"), run) }})
		r.pass(15 * time.Minute)
		r.state("a", "running", true)
		if got := r.sink.history(id("a")); count(got, "flapping") != 1 || count(got, "steady") != 1 {
			t.Errorf("events %q", got)
		}
	})
	// The end of it passes unseen.
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		flap(r)
		r.kill()
		r.pass(time.Hour)
		r.begin()
		r.pass(31 * time.Second)
		r.state("a", "running", true)
		if got := r.sink.history(id("a")); count(got, "steady") != 1 {
			t.Errorf("events %q", got)
		}
	})
}

// TestEndBetweenTwoLives: who disappears while no agent is there is told of, whatever kind he is.
func TestEndBetweenTwoLives(t *testing.T) {
	for kind, want := range map[process.Kind][]string{
		process.Resident:  {"exited unknown→starting ended-unseen", "relaunched starting→running ended-unseen"},
		process.SingleRun: {"exited unknown→finished ended-unseen"},
	} {
		for _, reboot := range []bool{false, true} {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				s.SetKind(kind, "", 0)
				r.do(process.Start, "a", s)
				if reboot {
					r.reboot()
				} else {
					r.kill()
					r.Kill(file("a"))
				}
				r.begin()
				r.pass(time.Minute)
				got := r.sink.history(id("a"))
				if reboot {
					for i := range got {
						got[i] = strings.ReplaceAll(got[i], "host-rebooted", "ended-unseen")
					}
					if kind == process.Resident {
						want = want[1:] // nobody can know that it ran when the host went down
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s, reboot %v: events (-want +got):\n%s", kind, reboot, d)
				}
				if s, _, _ := r.Snapshot(id("a")); kind == process.SingleRun &&
					(len(s.Runs) != 1 || s.Runs[0].Ended == 0 || s.Runs[0].Exit != nil) {
					t.Errorf("reboot %v: runs %+v", reboot, s.Runs)
				}
			})
		}
	}
}

// TestStopUnderAnotherName: the process that is the same instance is told of it, with who did it.
func TestStopUnderAnotherName(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		who := r.instance("a")
		r.do(process.Stop, "b", s)
		got := r.state("a", "stopped", false)
		if got.Cause.ID != process.CauseStopped || !strings.Contains(got.Message, "ns/b") {
			t.Errorf("status %+v", got)
		}
		events := r.sink.all(id("a"))
		last := events[len(events)-1]
		if last.Kind != process.EventStopped || last.PID != who.PID || last.Actor.Kind != process.ActorCaller ||
			last.Actor.Operation != "item-2" {
			t.Errorf("told as %+v", last)
		}
	})
}
