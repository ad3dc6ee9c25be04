package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// TestRestoredDatabase: what an agent says counts for the incarnation of the database that it knows. After a
// restoration it counts from its introduction on, and the agent is away until it has told all.
func TestRestoredDatabase(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		restore := func(incarnation string) {
			r.incarnation = incarnation
			r.directory.SetIncarnation(incarnation)
		}
		seq := uint64(0)
		says := func(rep wire.Report, number int64) wire.ReportAck {
			t.Helper()
			rep.Session, rep.Number, rep.At = "s", number, time.Now().UnixMilli()
			ack := r.report("agent-0", rep)
			if ack.Error != "" || ack.Incarnation != r.incarnation {
				t.Fatalf("report %d: %+v", number, ack)
			}
			return ack
		}
		tells := func(incarnation string, number int64, revision uint64) wire.ReportAck {
			t.Helper()
			seq++
			return says(wire.Report{
				Incarnation: incarnation, Whole: true,
				Observed: []wire.Observation{{Process: proc("a"), Status: process.Status{Revision: revision}}},
				Events: lines(process.Event{
					Stream: "run", Seq: seq, At: time.Now().UnixMilli(), Kind: process.EventState,
					Shown: &process.Shown{State: process.StateRunning},
				}),
			}, number)
		}
		introduces := func(incarnation string, number, told int64, known bool) {
			t.Helper()
			has := wire.Records{proc("a"): 1}
			ack := says(wire.Report{
				Incarnation: incarnation, Told: told, Hello: &wire.Hello{IP: "10.0.0.0", Disk: &wire.Disk{Records: has}},
			}, number)
			if ack.Known != known {
				t.Errorf("after report %d all is known: %v, want %v", number, ack.Known, known)
			}
			want := map[string]uint64{}
			if seq > 0 {
				want = map[string]uint64{"run": 1}
			}
			if diff := cmp.Diff(want, ack.Heard); diff != "" && len(want)+len(ack.Heard) > 0 {
				t.Errorf("after report %d, the last events that the database has (-want +got):\n%s", number, diff)
			}
		}
		shows := func(when string, revision uint64, untold bool) {
			t.Helper()
			var got uint64
			err := r.db.GetObserved(t.Context(), proc("a"), []string{"agent-0"}, func(o store.Observed) error {
				got = o.Status.Revision
				return nil
			})
			p := r.directory.Presence("agent-0", time.Now())
			if err != nil || got != revision || p.Untold != untold || p.Away != untold {
				t.Errorf("%s: revision %d, %+v, %v; want %d, untold %v", when, got, p, err, revision, untold)
			}
		}
		restore("one")
		introduces("", 1, 0, false)
		tells("one", 2, 5)
		shows("at first", 5, false)
		introduces("one", 3, 2, true)

		restore("two")
		shows("after a restoration", 5, true)
		if ack := tells("one", 4, 6); !ack.Hello {
			t.Error("the agent is not asked for an introduction")
		}
		shows("after a report for the lost database", 5, true)
		introduces("one", 5, 2, false) // the copy knows all of it, and the lost database knew more
		introduces("two", 6, 2, false) // the answer was lost, or the agent could not go on
		shows("after introductions", 5, true)
		seq = 0 // what the copy has
		if ack := tells("two", 7, 7); ack.Hello {
			t.Error("the agent is asked for another introduction")
		}
		shows("after it has told all", 7, false)
		introduces("two", 8, 7, true)
	})
}
