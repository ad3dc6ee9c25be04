package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/frame"
	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// guard tells every agent that goes by something old to trust "new".
func (r *rig) guard() engine.IdentityHooks {
	return engine.IdentityHooks{
		Trust: func(_ context.Context, agent string, held wire.TrustHeld) []byte {
			if held.Digest == "new" {
				return nil
			}
			return []byte("new for " + agent)
		},
		Cloned: func(_ context.Context, agent string, rival fleet.Rival) {
			r.cloned = append(r.cloned, agent+" "+rival.Name)
		},
	}
}

// TestTrustIsAnswered: whatever an agent reports, it is told what to trust if it goes by something else, and one that
// cannot take that is not.
func TestTrustIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for name, c := range map[string]struct {
			held *wire.TrustHeld
			want string
		}{
			"an old build": {nil, ""}, "one that has it": {&wire.TrustHeld{Generation: 2, Digest: "new"}, ""},
			"one that has not": {&wire.TrustHeld{Generation: 1, Digest: "old"}, "new for agent-0"},
		} {
			if ack := r.report("agent-0", wire.Report{Trust: c.held}); string(ack.Trust) != c.want || ack.Error != "" {
				t.Errorf("%s got %+v", name, ack)
			}
		}
	})
}

// TestAnOldReport: nothing counts of a report that was sealed long ago, in the future, or at an unknown time. It does
// not show that its host is online, whatever it holds. A new one does.
func TestAnOldReport(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		for _, age := range []time.Duration{frame.Width + time.Second, -frame.Width - time.Second, time.Since(time.Time{})} {
			for _, report := range []string{
				``, `{"version":1}`, `{"version":1,"load":{"cpu":1,"memory":1}}`, `{"version":1,"session":"a","open":["x"]}`,
				`{"version":1,"session":"s","number":1,"hello":{"ip":"10.0.0.0"}}`,
			} {
				reply := r.HandleReport(t.Context(), "agent-0", []byte(report), time.Now().Add(-age))
				if !strings.Contains(string(reply), "sealed too long ago") || !strings.Contains(string(reply), `"at":`) ||
					!r.directory.Presence("agent-0", time.Now()).Away {
					t.Errorf("%q of %s ago got %s", report, age, reply)
				}
			}
		}
		if ack := r.report("agent-0", wire.Report{}); ack.Error != "" || r.directory.Presence("agent-0", time.Now()).Away {
			t.Errorf("a new one got %+v", ack)
		}
	})
}

// TestACopyIsRefused: nothing of what it reports is taken, it is told why, and everybody is told once.
func TestACopyIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		hello := func(place string) wire.Report {
			return wire.Report{
				Place: place, Hello: &wire.Hello{Name: "host-" + place, Policy: "observe only"},
				Observed: []wire.Observation{observation(place, 1)},
			}
		}
		if ack := r.report("agent-0", hello("a")); ack.Error != "" || ack.Stranger != nil {
			t.Fatalf("the first one got %+v", ack)
		}
		ack := r.report("agent-0", hello("b"))
		if ack.Stranger == nil || ack.Stranger.Clone || ack.Error == "" {
			t.Errorf("the second one got %+v", ack)
		}
		r.pass(5 * time.Second)
		if ack := r.report("agent-0", wire.Report{Place: "a"}); ack.Error != "" {
			t.Errorf("the first one got %+v", ack)
		}
		if ack := r.report("agent-0", wire.Report{Place: "b"}); !ack.Hello || ack.Error != "" || ack.Stranger != nil {
			t.Errorf("a heartbeat of the second one got %+v", ack)
		}
		r.pass(time.Second)
		for range 2 {
			ack = r.report("agent-0", hello("b"))
			if ack.Stranger == nil || !ack.Stranger.Clone || !strings.Contains(ack.Stranger.Reason, "--new-identity") {
				t.Errorf("the second one got %+v", ack)
			}
		}
		if d := cmp.Diff([]string{"agent-0 host-b"}, r.cloned); d != "" {
			t.Errorf("told of (-want +got):\n%s", d)
		}
		if d := cmp.Diff(map[string]int{"a": 1}, r.observed()); d != "" {
			t.Errorf("known processes (-want +got):\n%s", d)
		}
		p := r.directory.Presence("agent-0", time.Now())
		if a, _ := r.directory.ByKey("agent-0"); a.Name != "host-a" || a.Place != "a" ||
			p.Facts.Policy != "observe only" {
			t.Errorf("the register has %+v, %+v", a, p)
		}
	})
}

// TestRareHeartbeats: an agent whose link the server watches is allowed rare heartbeats after a while. Its silence in
// between does not give its key to a second host: that one has it pinged, and what the first one then reports counts.
func TestRareHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		hello := func(place string) wire.ReportAck {
			return r.report("agent-0", wire.Report{Place: place, Hello: &wire.Hello{}})
		}
		beat := func(after time.Duration, want int) {
			t.Helper()
			r.pass(after)
			if ack := r.report("agent-0", wire.Report{Place: "a"}); ack.Beat != want || ack.Error != "" {
				t.Errorf("it got %+v, want a beat of %d", ack, want)
			}
		}
		hello("a")
		beat(3*time.Minute, 0) // nobody would tell of the end of its link
		r.directory.Compare(true, time.Now(), func(store.Agent) bool { return true })
		beat(time.Second, 60)
		ack := r.report("agent-0", wire.Report{Place: "a", Trust: &wire.TrustHeld{Digest: "old"}})
		if ack.Beat != 0 || len(ack.Trust) == 0 {
			t.Errorf("an agent that has to confirm its keys got %+v", ack)
		}
		r.pass(50 * time.Second)
		if ack := hello("b"); ack.Stranger == nil || ack.Stranger.Clone || r.pinged != 1 {
			t.Errorf("the second one got %+v after %d pings", ack, r.pinged)
		}
		beat(time.Millisecond, 0) // it was pinged; its report is too near to the rival's words to tell who is there
		beat(5*time.Second, 0)
		if ack := hello("b"); ack.Stranger == nil || !ack.Stranger.Clone || r.pinged != 1 {
			t.Errorf("the second one got %+v after %d pings", ack, r.pinged)
		}
	})
}

// TestACopyThatIsQuicker: after a start of the server the one that was there last has its key kept for some seconds.
func TestACopyThatIsQuicker(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		hello := func(place string) wire.ReportAck {
			return r.report("agent-0", wire.Report{Place: place, Hello: &wire.Hello{}})
		}
		if ack := hello("a"); ack.Error != "" {
			t.Fatalf("the first one got %+v", ack)
		}
		r.stop()
		r.start()
		if ack := hello("b"); ack.Stranger == nil {
			t.Errorf("the copy got %+v", ack)
		}
		r.pass(2 * time.Second)
		if ack := hello("a"); ack.Error != "" {
			t.Errorf("the first one got %+v", ack)
		}
		r.pass(time.Second)
		if ack := hello("b"); ack.Stranger == nil || !ack.Stranger.Clone {
			t.Errorf("the copy got %+v", ack)
		}
		r.stop()
		r.start()
		r.pass(13 * time.Second)
		if ack := hello("b"); ack.Error != "" {
			t.Errorf("after the first one has not come back the other one got %+v", ack)
		}
	})
}

// TestAnOldPlaceSentAgain: what a host has sealed before it was rebooted does not keep it from being taken for itself,
// and does not have it shown as a copy. It makes no difference whether somebody sends it again or has held it back.
func TestAnOldPlaceSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		number, before := int64(0), time.Now()
		hello := func(sealed time.Time, session, place string) wire.ReportAck {
			t.Helper()
			number++
			return r.reportOf(sealed, "agent-0", wire.Report{
				Session: session, Number: number, Place: place,
				Hello: &wire.Hello{},
			})
		}
		if ack := hello(before, "s1", "boot 1"); ack.Error != "" {
			t.Fatalf("the first boot got %+v", ack)
		}
		taken := 0
		for wait := 0; taken == 0 && wait < 20; wait += 3 {
			ack := hello(time.Now(), "s2", "boot 2")
			switch {
			case ack.Error == "":
				taken = wait
			case ack.Stranger == nil || ack.Stranger.Clone:
				t.Errorf("after %d s the second boot got %+v", wait, ack)
			}
			for range 3 {
				r.pass(time.Second)
				heartbeat := r.reportOf(before, "agent-0", wire.Report{Place: "boot 1"})
				hello(before, "s1", "boot 1")
				r.reportOf(before, "agent-0", wire.Report{
					Session: "s1", Number: 1000, Place: "boot 1",
					Load: &wire.Load{},
				})
				if taken > 0 && (!heartbeat.Hello || r.directory.Elsewhere("agent-0", "boot 2", time.Now())) {
					t.Errorf("its old heartbeat got %+v", heartbeat)
				}
			}
		}
		if taken != 15 || len(r.cloned) > 0 || r.directory.Rivals(time.Now()) > 0 {
			t.Errorf("it is taken for itself after %d s, want 15; copies are %v", taken, r.cloned)
		}
		if ack := hello(before, "s1", "boot 1"); ack.Session != "s2" || ack.Stranger != nil {
			t.Errorf("an old introduction got %+v", ack)
		}
		if _, there := r.directory.Rival("agent-0", time.Now()); there {
			t.Error("the old boot is a rival")
		}
	})
}

// TestLaterVersions: an agent of the future is refused, both sides are told why, and once it is replaced all is well.
func TestLaterVersions(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		reply := string(r.HandleReport(t.Context(), "agent-0", []byte(`{"version":2,"hello":{"ip":"10.0.0.0"}}`), time.Now()))
		if !strings.Contains(reply, "upgrade the servers before the agents") {
			t.Errorf("it was answered with %s", reply)
		}
		if note := r.directory.Remarked("agent-0"); !strings.Contains(note, "later version") {
			t.Errorf("people are told %q", note)
		}
		if ack := r.report("agent-0", wire.Report{Hello: &wire.Hello{}}); ack.Error != "" ||
			r.directory.Remarked("agent-0") != "" {
			t.Errorf("the present version got %+v", ack)
		}
	})
}

// TestRecordedReports: what the first build reported is taken.
func TestRecordedReports(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, name := range []string{"introduction", "heartbeat", "report"} {
			data, err := os.ReadFile(filepath.Join("..", "..", "wire", "testdata", "v1", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if reply := string(r.HandleReport(t.Context(), "agent-0", data, time.Now())); reply != `{"version":1,"at":946684800000}` {
				t.Errorf("%s was answered with %s", name, reply)
			}
		}
		if d := cmp.Diff(map[string]int{"nginx": 4711}, r.web()); d != "" {
			t.Errorf("known processes (-want +got):\n%s", d)
		}
	})
}

// web returns the pids of the processes of the recorded namespace.
func (r *rig) web() map[string]int {
	r.t.Helper()
	rows, _, err := r.db.PageObserved(r.t.Context(), "web", 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	pids := map[string]int{}
	for _, o := range rows {
		if o.Status.State == "running" && o.Process != (process.ID{}) {
			pids[o.Process.Name] = o.Status.Instance.PID
		}
	}
	return pids
}
