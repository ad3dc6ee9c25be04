package supervisor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
)

// TestRevision: what runs keeps the revision that it was started with, over relaunches of its agent, until a start
// brings another one. A changed spec is an event, whatever operation brings it; a new number alone is none.
func TestRevision(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		brought := func(revision int64, value string) *process.Spec {
			s := *r.spec("a")
			s.Revision, s.Environment = revision, map[string]string{"A": value}
			return &s
		}
		revisions := func(what string, runs, stored int64) {
			t.Helper()
			status, spec, ok := r.Snapshot(id("a"))
			if !ok || status.Instance.Revision != runs || spec.Revision != stored {
				t.Errorf("%s it runs with revision %d, and %d is stored; want %d and %d", what, status.Instance.Revision,
					spec.Revision, runs, stored)
			}
		}
		var got []string
		hear := func() { // an agent tells its own events alone
			r.sink.mu.Lock()
			defer r.sink.mu.Unlock()
			for _, e := range r.sink.events {
				if e.Kind == process.EventUpdated || e.Kind == process.EventRestarted || e.Kind == process.EventStarted {
					got = append(got, fmt.Sprintf("%s %d after %d by %s", e.Kind, e.Revision, e.Former, e.Actor.Kind))
				}
			}
		}
		r.do(process.Start, "a", brought(3, "x"))
		revisions("after the start", 3, 3)
		r.do(process.Update, "a", brought(5, "y"))
		revisions("after the update", 3, 5)
		hear()
		r.kill()
		r.begin()
		r.pass(time.Second)
		revisions("for the next agent", 3, 5)
		r.do(process.Host, "a", brought(6, "z"))
		revisions("after the host", 3, 6)
		r.do(process.Host, "a", brought(6, "z"))
		r.killed("a")
		if e := r.lastEvent(process.EventExited); e.Revision != 3 {
			t.Errorf("what ended ran with revision %d, want 3", e.Revision)
		}
		r.pass(time.Minute)
		revisions("after the relaunch", 6, 6)
		r.do(process.Restart, "a", brought(7, "w"))
		revisions("after the restart", 7, 7)
		r.do(process.Restart, "a", nil)
		revisions("after a restart without a spec", 7, 7)
		r.do(process.Stop, "a", nil)
		if status, _, _ := r.Snapshot(id("a")); status.Instance.Revision != 0 {
			t.Errorf("a stopped process runs with revision %d", status.Instance.Revision)
		}

		hear()
		want := []string{
			"started 3 after 0 by caller", "updated 5 after 3 by caller", "updated 6 after 5 by caller",
			"updated 7 after 6 by caller", "restarted 7 after 0 by caller", "restarted 7 after 0 by caller",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

// TestRevisionOfADeath: the dossier of a process that does not run says which revision it ran with, if another one is
// stored.
func TestRevisionOfADeath(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := *r.spec("a")
		s.Revision = 3
		r.do(process.Start, "a", &s)
		s.User, s.Revision = "other", 4
		r.do(process.Update, "a", &s)
		r.do(process.Unhost, "a", nil)
		r.killed("a")
		status, _, _ := r.Snapshot(id("a"))
		if text := strings.Join(status.Cause.Evidence, "\n"); !strings.Contains(text,
			"it ran with revision 3, and revision 4 is stored") {
			t.Errorf("state %s, cause %+v", status.State, status.Cause)
		}
	})
}

// TestRevisionOfALiveChange: a change that needs no new start brings the running process to its revision, unless an
// earlier change still waits for one.
func TestRevisionOfALiveChange(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := *r.spec("a")
		step := func(what string, runs int64) {
			t.Helper()
			s.Revision++
			spec := s
			r.do(process.Update, "a", &spec)
			status, _, _ := r.Snapshot(id("a"))
			if status.Instance.Revision != runs {
				t.Errorf("%s: it runs with revision %d, want %d", what, status.Instance.Revision, runs)
			}
		}
		s.Revision = 1
		first := s
		r.do(process.Start, "a", &first)
		s.Compat.Contact = "x"
		step("live", 2)
		s.Compat.StopCheck++
		r.kill()
		r.begin()
		r.pass(time.Second)
		step("live, with the next agent", 3)
		user := s.User
		s.User = "other"
		step("restart", 3)
		s.Compat.Contact = "y"
		step("live, while another one waits", 3)
		s.User = user
		step("back", 6)
		r.kill()
		rt := r.disk.runtime(id("a"))
		if rt.StartDigest == "" {
			t.Fatalf("%+v", rt)
		}
		rt.StartDigest = "" // as an older agent leaves it
		data, err := json.Marshal(rt)
		if err != nil {
			t.Fatal(err)
		}
		r.disk.runtimes[id("a")] = data
		r.begin()
		r.pass(time.Second)
		s.Compat.Contact = "z"
		step("live, of an older agent", 7)
		s.User = "other"
		step("restart, of an older agent", 7)
	})
}
