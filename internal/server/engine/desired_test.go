package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/wire"
)

func proc(name string) process.ID { return process.ID{Namespace: "ns", Name: name} }

// states has agent-0 tell of a process.
func (r *rig) states(name string, revision uint64, hosted bool) {
	r.t.Helper()
	o := wire.Observation{
		Process: proc(name), Status: process.Status{
			Revision: revision, Hosted: hosted, Want: process.WantRunning,
			RegisteredAt: 77,
		},
		Spec: &process.Spec{User: fmt.Sprint(name, revision)},
	}
	if ack := r.report("agent-0", wire.Report{Observed: []wire.Observation{o}}); ack.Error != "" || ack.Desired != nil {
		r.t.Fatalf("%+v", ack)
	}
}

// removes has agent-0 tell that a process is gone.
func (r *rig) removes(name string, revision uint64) {
	r.t.Helper()
	o := wire.Observation{Process: proc(name), Gone: true, Status: process.Status{Revision: revision}}
	if ack := r.report("agent-0", wire.Report{Observed: []wire.Observation{o}}); ack.Error != "" {
		r.t.Fatal(ack.Error)
	}
}

// introduces has agent-0 come with a disk, and returns what it is told; nil for nothing.
func (r *rig) introduces(revision uint64, records ...wire.Records) *wire.Desired {
	r.t.Helper()
	all := wire.Records{}
	for _, some := range records {
		maps.Copy(all, some)
	}
	ack := r.report("agent-0",
		wire.Report{Hello: &wire.Hello{IP: "10.0.0.0", Disk: &wire.Disk{Revision: revision, Records: all}}})
	if ack.Error != "" {
		r.t.Fatal(ack.Error)
	}
	return ack.Desired
}

func has(name string, revision uint64) wire.Records { return wire.Records{proc(name): revision} }

// wants compares what an agent is told.
func (r *rig) wants(what string, got, want *wire.Desired) {
	r.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestOldDisk: an agent is told what its disk has not seen, and nothing else.
func TestOldDisk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.wants("a server that knows nothing", r.introduces(9, has("x", 9)), nil)
		r.states("kept", 1, true)
		r.states("stopped", 2, true)
		r.states("removed", 3, true)
		r.states("stopped", 4, false)
		r.removes("removed", 5)
		r.states("new", 6, true)
		r.wants("the present disk", r.introduces(6, has("kept", 1), has("stopped", 4), has("new", 6)), nil)

		restored := func(name string, revision uint64, hosted bool) wire.Desires {
			return wire.Desires{
				Process: proc(name), Revision: revision, Spec: &process.Spec{User: fmt.Sprint(name, revision)},
				Hosted: hosted,
				Want:   process.WantRunning, RegisteredAt: 77,
			}
		}
		forgotten := wire.Desires{Process: proc("removed"), Revision: 5, Gone: true}
		stopped, fresh, kept := restored("stopped", 4, false), restored("new", 6, true), restored("kept", 1, true)
		r.wants("a copy", r.introduces(3, has("kept", 1), has("stopped", 2), has("removed", 3)), &wire.Desired{
			Revision: 6, Processes: []wire.Desires{forgotten, stopped, fresh},
		})
		r.wants("an empty one", r.introduces(0),
			&wire.Desired{Revision: 6, Processes: []wire.Desires{kept, stopped, fresh}})
		if ack := r.report("agent-1",
			wire.Report{Hello: &wire.Hello{IP: "10.0.0.1", Disk: &wire.Disk{}}}); ack.Error != "" ||
			ack.Desired != nil {
			t.Errorf("another agent is told %+v", ack)
		}
		if ack := r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}}); ack.Error != "" ||
			ack.Desired != nil {
			t.Errorf("one that cannot tell what it has is told %+v", ack)
		}
	})
}

// TestRemovedWithoutAWord: what is missing on a disk that has seen it was removed there, and an old copy does not bring
// it back.
func TestRemovedWithoutAWord(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.states("a", 3, true)
		r.wants("it was removed", r.introduces(4), nil)
		gone := &wire.Desired{Revision: 4, Processes: []wire.Desires{{Process: proc("a"), Revision: 4, Gone: true}}}
		r.wants("an old disk", r.introduces(3, has("a", 3)), gone)
		r.pass(89 * 24 * time.Hour)
		r.wants("an old disk after long", r.introduces(3, has("a", 3)), gone)
		r.pass(2 * 24 * time.Hour)
		r.wants("one from another age", r.introduces(3, has("a", 3)), nil)
	})
}

// TestRemovalInAnIntroduction: of a process that came and went while the server was away it hears that it is gone.
func TestRemovalInAnIntroduction(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ack := r.report("agent-0", wire.Report{
			Hello:    &wire.Hello{IP: "10.0.0.0", Disk: &wire.Disk{Revision: 2}},
			Observed: []wire.Observation{{Process: proc("a"), Gone: true, Status: process.Status{Revision: 2}}},
		})
		if ack.Error != "" || ack.Desired != nil {
			t.Fatalf("%+v", ack)
		}
		r.wants("an old disk", r.introduces(1, has("a", 1)), &wire.Desired{
			Revision: 2, Processes: []wire.Desires{{Process: proc("a"), Revision: 2, Gone: true}},
		})
	})
}

// TestManyToRestore: they come in parts, and nothing that is still to come passes for removed.
func TestManyToRestore(t *testing.T) {
	const all, gone = 700, 2500
	bubble(t, func(t *testing.T, r *rig) {
		large := &process.Spec{User: strings.Repeat("x", 4<<10)}
		var observed []wire.Observation
		for i := range all {
			observed = append(observed, wire.Observation{
				Process: proc(fmt.Sprint(i)),
				Status:  process.Status{Revision: uint64(1 + (i*7919)%all)}, Spec: large,
			})
		}
		for part := range slices.Chunk(observed, 200) {
			r.report("agent-0", wire.Report{Observed: part})
		}
		disk := map[process.ID]uint64{}
		observed = nil
		for i := range gone {
			o := wire.Observation{
				Process: proc(fmt.Sprint("gone-", i)), Gone: true,
				Status: process.Status{Revision: all + 1},
			}
			observed = append(observed, o)
			disk[o.Process] = 1
		}
		for part := range slices.Chunk(observed, 500) {
			r.report("agent-0", wire.Report{Observed: part})
		}
		latest, rounds := uint64(0), 0
		for more := true; more; rounds++ {
			d := r.introduces(latest, disk)
			if d == nil || rounds > 20 {
				t.Fatalf("%v after %d rounds, with %d records", d, rounds, len(disk))
			}
			for _, p := range d.Processes {
				if p.Gone {
					delete(disk, p.Process)
				} else {
					disk[p.Process] = p.Revision
				}
			}
			latest, more = max(latest, d.Revision), d.More
		}
		if len(disk) != all || latest != all+1 || rounds < 4 {
			t.Errorf("%d records at %d after %d rounds", len(disk), latest, rounds)
		}
		r.wants("in the end", r.introduces(latest, disk), nil)
	})
}

// TestDiskOfAMadAgent: what it says of itself is believed as far as a number can go.
func TestDiskOfAMadAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.states("a", 3, true)
		r.states("a", math.MaxUint64, true)
		r.removes("a", math.MaxInt64+1)
		r.wants("a disk that cannot be", r.introduces(math.MaxUint64), nil)
		if d := r.introduces(0); d == nil || len(d.Processes) != 1 || d.Revision != 3 {
			t.Errorf("told %+v", d)
		}
	})
}

// forgetful is a database that can't say what was confirmed.
type forgetful struct {
	engine.Store
	err error
}

func (s forgetful) AgentConfirmed(context.Context, string) ([]store.Confirmed, error) {
	return nil, s.err
}

// TestAnswerThatCannotBeMade: an agent whose introduction can't be answered is not told that it was taken in.
func TestAnswerThatCannotBeMade(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := forgetful{r.db, errors.New("disk on fire")}
		e := engine.New(engine.Config{
			Store: s, Directory: r.directory, Link: r,
			Log: slog.New(slog.DiscardHandler),
		})
		reply := e.HandleReport(t.Context(), "agent-0",
			[]byte(`{"version":1,"hello":{"ip":"10.0.0.0","disk":{"revision":1}}}`), time.Now())
		if !strings.Contains(string(reply), "disk on fire") {
			t.Errorf("the answer is %s", reply)
		}
	})
}

// TestIntroductionKeepsStates: what an agent still has is known all the time, although it tells the states only after
// its introduction.
func TestIntroductionKeepsStates(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.states("kept", 1, true)
		r.states("removed", 2, true)
		r.introduces(3, has("kept", 1))
		rows, _, err := r.db.PageObserved(t.Context(), "ns", 0, 10)
		if err != nil || len(rows) != 1 || rows[0].Process != proc("kept") {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}
