package engine_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// TestRecordsOfStates: an agent records only its own processes, and only what the server can show. Readers of events do
// not get the records.
func TestRecordsOfStates(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		seq := uint64(0)
		record := func(namespace, name string, s *process.Shown) process.Event {
			seq++
			return process.Event{
				Stream: "run", Seq: seq, At: time.Now().UnixMilli(), Kind: process.EventState, Shown: s,
				Process: process.ID{Namespace: namespace, Name: name},
				Output:  "hidden", Actor: process.Actor{Kind: process.ActorCaller, User: "somebody"},
			}
		}
		long := strings.Repeat("x", 100_000)
		ack := r.report("agent-0", wire.Report{Events: lines(
			record("", "", &process.Shown{State: process.StateRunning, Version: long}),
			record("ns", "nginx", &process.Shown{
				State: "made-up", Cause: process.CauseID(long), Text: long, PID: -4, Restarts: -1, Ran: -1,
			}),
			record("ns", "none", nil),
			record("ns", "bad\nname", &process.Shown{State: process.StateRunning}),
			record("ns", "later", &process.Shown{State: process.StateRunning, PID: 7}),
		)})
		if ack.Error != "" {
			t.Fatal(ack.Error)
		}
		if events, _, err := r.db.EventsAfter(t.Context(), 0, store.EventFilter{}, 100); err != nil || len(events) > 0 {
			t.Errorf("events are %+v, %v", events, err)
		}
		rows, _, err := r.db.StatesAt(t.Context(), store.ObservedFilter{}, time.Now(), store.ObservedKey{}, 100)
		if err != nil || len(rows) != 2 || rows[1].Process.Name != "nginx" || rows[0].Before.Shown.PID != 7 {
			t.Fatalf("recorded are %+v, %v", rows, err)
		}
		if s := rows[1].Before.Shown; rows[1].Agent != "agent-0" || s.State != process.StateUnknown || len(s.Cause) > 255 ||
			len(s.Text) > 2000 || s.PID != 0 || s.Restarts != 0 || s.Ran != 0 {
			t.Errorf("a made-up record is kept as %+v", s)
		}
		runs, err := r.db.RunsAt(t.Context(), []string{"agent-0"}, time.Now())
		if err != nil || runs["agent-0"] == nil || len(runs["agent-0"].Build) > 255 || runs["agent-0"].Gap.Cursor == 0 {
			t.Errorf("the run is %+v, %v", runs["agent-0"], err) // two records were dropped, which is a loss
		}
	})
}

// TestAbsences: the server notes how long it did not hear an agent, and until when a run that is over is known to have
// lived.
func TestAbsences(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		hello := func(session string, number int64) {
			t.Helper()
			ack := r.report("agent-0", wire.Report{
				Session: session, Number: number, Hello: &wire.Hello{IP: "10.0.0.0"}, At: time.Now().UnixMilli(),
			})
			if ack.Error != "" {
				t.Fatal(ack.Error)
			}
		}
		begun := time.Now()
		hello("s1", 1)
		r.report("agent-0", wire.Report{Session: "s1", Number: 2, Events: lines(process.Event{
			Stream: "run", Seq: 1, At: begun.UnixMilli(), Kind: process.EventState,
			Shown: &process.Shown{State: process.StateRunning, Version: "1"},
		})})
		r.pass(4 * time.Second)
		r.report("agent-0", wire.Report{Session: "s1", Number: 3})
		r.pass(5 * time.Second)
		hello("s1", 4) // only the link was lost, and not for long
		heard := time.Now()
		r.pass(20 * time.Second)
		hello("s2", 1)
		found, err := r.db.AbsencesBetween(t.Context(), begun, time.Now(), 10)
		if err != nil || len(found) != 1 || !found[0].Since.Equal(heard.UTC()) || !found[0].Until.Equal(time.Now().UTC()) {
			t.Errorf("absences are %+v, %v", found, err)
		}
		runs, err := r.db.RunsAt(t.Context(), []string{"agent-0"}, time.Now())
		if err != nil || runs["agent-0"].Last != heard.UnixMilli() {
			t.Errorf("the first run is %+v, %v; it lived until %d", runs["agent-0"], err, heard.UnixMilli())
		}
	})
}

// TestAbsenceOfOneRun: the absence of an agent that hangs is stored when the same run goes on, once, and by whatever
// shows that it goes on. Words from before the absence do not end it, and reports that have waited show no absence.
func TestAbsenceOfOneRun(t *testing.T) {
	hang := func(r *rig) {
		r.some("agent-0")
		r.submit("t", process.Restart, "agent-0")
		r.pass(10 * time.Second)
		r.shows("t", unanswered)
		r.pass(30 * time.Second)
		r.hang(false, "agent-0")
		r.answer(accept)
	}
	number := int64(1)
	beat := func(r *rig, session string, ago time.Duration) {
		r.t.Helper()
		number++
		r.reportOf(time.Now().Add(-ago), "agent-0", wire.Report{Session: session, Number: number})
	}
	for _, tt := range []struct {
		name string
		do   func(r *rig)
		want int
	}{
		{"a report", func(r *rig) { hang(r); beat(r, "s1", 0) }, 1},
		{"a receipt", func(r *rig) {
			hang(r)
			r.submit("again", process.Restart, "agent-0")
			r.taken()
		}, 1},
		{"silence", func(r *rig) { r.pass(14 * time.Second); beat(r, "s1", 0) }, 1},
		{"no silence", func(r *rig) { r.pass(12 * time.Second); beat(r, "s1", 0) }, 0},
		{"a report from before", func(r *rig) { hang(r); beat(r, "s1", 38*time.Second) }, 0},
		{"a report that does not introduce another run", func(r *rig) { hang(r); beat(r, "s2", 0) }, 0},
		{"reports that have waited", func(r *rig) {
			r.pass(20 * time.Second)
			for ago := 15 * time.Second; ago >= 0; ago -= 5 * time.Second {
				beat(r, "s1", ago)
			}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.pass(time.Hour)
				begun := time.Now()
				r.report("agent-0", wire.Report{Session: "s1", Number: 1, Hello: &wire.Hello{IP: "10.0.0.0"}})
				r.pass(time.Second)
				tt.do(r)
				for range 10 {
					r.pass(5 * time.Second)
					beat(r, "s1", 0)
				}
				found, err := r.db.AbsencesBetween(t.Context(), begun, time.Now(), 10)
				if err != nil || len(found) != tt.want {
					t.Errorf("absences are %+v, %v, want %d", found, err, tt.want)
				}
				for _, a := range found {
					if long := a.Until.Sub(a.Since); long < 14*time.Second || long > 40*time.Second {
						t.Errorf("it was absent for %v", long)
					}
				}
			})
		})
	}
}
