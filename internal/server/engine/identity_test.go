package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
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
		Trusts: func(_ string, held wire.TrustHeld) bool { return held.Digest == "new" },
		Cloned: func(_ context.Context, agent string, rival fleet.Rival) {
			r.cloned = append(r.cloned, agent+" "+rival.Name)
		},
	}
}

// TestTrustIsAnswered: whatever an agent reports, it is told what to trust if it goes by something else, and one that
// cannot take that is not. Who may be somebody else is to prove first that he is the agent.
func TestTrustIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for name, c := range map[string]struct {
			held *wire.TrustHeld
			want string
		}{
			"an old build": {nil, ""}, "one that has it": {&wire.TrustHeld{Generation: 2, Digest: "new"}, ""},
			"one that has not": {&wire.TrustHeld{Generation: 1, Digest: "old"}, "new for agent-0"},
		} {
			ack := r.report("agent-0", wire.Report{Trust: c.held})
			if len(ack.Trust) > 0 || ack.Prove == "" != (c.want == "") || ack.Error != "" {
				t.Errorf("a heartbeat of %s got %+v", name, ack)
			}
			if ack = r.report("agent-0", wire.Report{Trust: c.held, Proof: "trust"}); string(ack.Trust) != c.want ||
				ack.Prove != "" || ack.Error != "" {
				t.Errorf("%s got %+v", name, ack)
			}
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
		ack = r.report("agent-0", wire.Report{Place: "a"})
		if ack.Error != "" || ack.Prove == "" {
			t.Errorf("the first one got %+v", ack)
		}
		if ack := r.report("agent-0", wire.Report{Place: "a", Proof: ack.Prove}); ack.Error != "" || ack.Prove != "" {
			t.Errorf("its proof got %+v", ack)
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
		r.pass(time.Second)
		ack := hello("a")
		if ack.Error != "" || ack.Prove == "" {
			t.Errorf("the first one got %+v", ack)
		}
		r.report("agent-0", wire.Report{Place: "a", Proof: ack.Prove})
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

// TestAnOldPlaceSentAgain: neither made up heartbeats of a host as it was before it was rebooted, nor what it has
// signed then, keep it from being taken for itself, or have it shown as a copy.
func TestAnOldPlaceSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		number := int64(0)
		hello := func(session, place string) wire.ReportAck {
			t.Helper()
			number++
			return r.report("agent-0", wire.Report{
				Session: session, Number: number, Place: place,
				Hello: &wire.Hello{},
			})
		}
		if ack := hello("s1", "boot 1"); ack.Error != "" {
			t.Fatalf("the first boot got %+v", ack)
		}
		taken := 0
		for wait := 0; taken == 0 && wait < 20; wait += 3 {
			ack := hello("s2", "boot 2")
			switch {
			case ack.Error == "":
				taken = wait
			case ack.Stranger == nil || ack.Stranger.Clone:
				t.Errorf("after %d s the second boot got %+v", wait, ack)
			}
			for range 3 {
				r.pass(time.Second)
				heartbeat := r.report("agent-0", wire.Report{Place: "boot 1"})
				hello("s1", "boot 1")
				r.report("agent-0", wire.Report{
					Session: "s1", Number: 1000, Place: "boot 1",
					Proof: "of something else",
				})
				if taken > 0 && (!heartbeat.Hello || r.directory.Elsewhere("agent-0", "boot 2", time.Now())) {
					t.Errorf("its old heartbeat got %+v", heartbeat)
				}
			}
		}
		if taken != 15 || len(r.cloned) > 0 || r.directory.Rivals(time.Now()) > 0 {
			t.Errorf("it is taken for itself after %d s, want 15; copies are %v", taken, r.cloned)
		}
		if ack := hello("s1", "boot 1"); ack.Session != "s2" || ack.Stranger != nil {
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
		reply := string(r.HandleReport(t.Context(), "agent-0", []byte(`{"version":2,"hello":{"ip":"10.0.0.0"}}`), true))
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
			if reply := string(r.HandleReport(t.Context(), "agent-0", data,
				true)); reply != `{"version":1,"at":946684800000}` {
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
