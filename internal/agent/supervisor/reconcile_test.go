package supervisor_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// copied is what a copy of the disk holds.
func (r *rig) copied() (back func()) {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	records, revision, entries := maps.Clone(r.disk.records), r.disk.revision, slices.Clone(r.disk.entries)
	return func() {
		r.disk.mu.Lock()
		defer r.disk.mu.Unlock()
		r.disk.records, r.disk.revision, r.disk.entries = records, revision, entries
	}
}

// asks begins an agent that waits for the server's word.
func (r *rig) asks() {
	r.confirmed = make(chan struct{})
	r.begin()
}

// told gives that word.
func (r *rig) told(reached uint64, all ...specstore.Desired) {
	r.t.Helper()
	if _, err := r.Reconcile(all, reached); err != nil {
		r.t.Error(err)
	}
	close(r.confirmed)
	r.pass(0)
}

// truth is the record of a process as the server knows it.
func (r *rig) truth(name string) specstore.Desired {
	r.t.Helper()
	rec, ok := r.disk.record(id(name))
	if !ok {
		r.t.Fatalf("%s has no record", name)
	}
	return specstore.Desired{Record: rec}
}

func gone(name string, revision uint64) specstore.Desired {
	return specstore.Desired{Record: record.Record{ID: id(name), Revision: revision}, Gone: true}
}

// TestRelaunchWaitsForTheServer: at its start an agent begins nothing before it knows, and then at once.
func TestRelaunchWaitsForTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.do(process.Start, "b", r.spec("b"))
		r.kill()
		r.Kill(file("a"))
		at := r.starts("a", operationtest.Script{Takes: time.Second, End: func(run string) {
			r.Spawn("a", file("a"), run)
		}})
		r.asks()
		item := r.submit(process.Reload, "b", r.spec("b"))
		r.pass(4 * time.Second)
		r.state("b", "running", true)
		if _, over := r.sink.outcome(item); len(*at) > 0 || over {
			t.Errorf("begun at %v, the operation is over: %v", *at, over)
		}
		// One that ends meanwhile waits with the others.
		r.Kill(file("b"))
		r.pass(0)
		r.ran("start a", "start b")
		r.told(0)
		if want := []float64{4}; !slices.Equal(*at, want) {
			t.Errorf("launched at %v, want %v", *at, want)
		}
		r.pass(10 * time.Second)
		r.state("a", "running", true)
		r.state("b", "running", true)
		r.Kill(file("b"))
		r.pass(0)
		r.state("b", "starting", true)
		r.pass(10 * time.Second)
		r.state("b", "running", true)
	})
}

// TestOldRecordOfAStoppedProcess: the server's word comes before its relaunch, and the other way round it is left
// running.
func TestOldRecordOfAStoppedProcess(t *testing.T) {
	for _, op := range []process.Op{process.Stop, process.Unhost, process.Unregister} {
		for _, alone := range []bool{false, true} {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				r.do(process.Start, "a", s)
				back := r.copied()
				r.do(op, "a", s)
				revision, _ := r.handle.Revision()
				truth := gone("a", revision)
				if op != process.Unregister {
					truth = r.truth("a")
				}
				r.kill()
				r.Kill(file("a"))
				back()
				before := r.Lines()
				r.asks()
				r.pass(time.Second)
				if alone {
					close(r.confirmed) // nobody is waited for any longer
					r.pass(10 * time.Second)
					r.state("a", "running", true)
					who := r.instance("a")
					if _, err := r.Reconcile([]specstore.Desired{truth}, revision); err != nil {
						t.Error(err)
					}
					r.pass(time.Second)
					if now := r.instance("a"); now != who {
						t.Errorf("%v became %v", who, now)
					}
					r.Kill(file("a"))
					before = append(before, "start a")
				} else {
					r.told(revision, truth)
				}
				r.pass(time.Hour)
				r.ran(before...)
				if op == process.Unregister {
					if _, _, known := r.Snapshot(id("a")); known || len(r.ProcessIDs()) > 0 ||
						r.sink.gone[id("a")] != revision {
						t.Errorf("%s: known %v, told gone with %d", op, known, r.sink.gone[id("a")])
					}
					return
				}
				got := r.state("a", "stopped", false)
				if got.Revision != truth.Record.Revision || got.Want != truth.Record.Want {
					t.Errorf("%s: %+v", op, got)
				}
			})
		}
	}
}

// forgets starts a process, stops it, and begins an agent whose disk knows of the start alone. It returns what was
// true.
func (r *rig) forgets() specstore.Desired {
	s := r.spec("a")
	r.do(process.Start, "a", s)
	back := r.copied()
	r.do(process.Stop, "a", s)
	truth := r.truth("a")
	r.kill()
	back()
	r.asks()
	return truth
}

// TestReconcileStaysTrue: what was taken over stands in the next life too, and what comes next is newer.
func TestReconcileStaysTrue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		truth := r.forgets()
		r.told(truth.Record.Revision, truth)
		r.kill()
		r.confirmed = nil
		r.begin()
		r.pass(time.Hour)
		r.state("a", "stopped", false)
		r.do(process.Start, "a", r.spec("a"))
		if got := r.state("a", "running", true); got.Revision <= truth.Record.Revision {
			t.Errorf("revision %d after %d", got.Revision, truth.Record.Revision)
		}
	})
}

// TestRemovalIsTold with a revision above that of the record, and below that of the next one.
func TestRemovalIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Register, "a", s)
		r.do(process.Unregister, "a", s)
		if got := r.sink.gone[id("a")]; got != 2 {
			t.Errorf("gone with revision %d", got)
		}
		r.do(process.Register, "a", s)
		if got := r.state("a", "stopped", false); got.Revision != 3 {
			t.Errorf("back with revision %d", got.Revision)
		}
	})
}

// TestNewDisk: an agent that has lost everything gets it back: what was hosted is started, what runs is watched.
func TestNewDisk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		empty := r.copied()
		for _, name := range []string{"up", "down", "stopped"} {
			r.do(process.Start, name, r.spec(name))
		}
		r.do(process.Stop, "stopped", r.spec("stopped"))
		all := []specstore.Desired{r.truth("up"), r.truth("down"), r.truth("stopped")}
		r.kill()
		empty()
		clear(r.disk.runtimes)
		r.Kill(file("down"))
		who := r.instance("up")
		r.asks()
		r.pass(time.Second)
		r.told(4, all...)
		r.pass(10 * time.Second)
		r.state("up", "running", true)
		r.state("down", "running", true)
		r.state("stopped", "stopped", false)
		if now := r.instance("up"); now != who || r.Watched(who) != 1 {
			t.Errorf("%v became %v", who, now)
		}
		if n := len(r.Lines()); n != 5 {
			t.Errorf("%q have run", r.Lines())
		}
		for name, want := range map[string]string{"up": "hosted", "down": "hosted", "stopped": "registered"} {
			if got := r.sink.history(id(name)); len(got) == 0 || !strings.HasPrefix(got[0], want) {
				t.Errorf("%s: told was %q, want %s first", name, got, want)
			}
		}
	})
}

// TestNewerSpecOfAHostedProcess: it is relaunched with the spec that counts.
func TestNewerSpecOfAHostedProcess(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		back := r.copied()
		changed := *s
		changed.Start = line("restart", "a")
		r.do(process.Update, "a", &changed)
		truth := r.truth("a")
		r.kill()
		r.Kill(file("a"))
		back()
		r.asks()
		r.told(truth.Record.Revision, truth)
		r.pass(10 * time.Second)
		r.ran("start a", "restart a")
		r.state("a", "running", true)
	})
}

// TestOvertakenOperation: an operation that the copy of the disk has open had ended before the server's record was
// made.
func TestOvertakenOperation(t *testing.T) {
	for _, left := range []bool{true, false} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.spec("a")
			r.do(process.Start, "a", s)
			r.do(process.Stop, "a", s)
			item := r.submit(process.Start, "a", s)
			back := r.copied()
			r.pass(10 * time.Second)
			var truth specstore.Desired
			if left {
				r.do(process.Stop, "a", s)
				truth = r.truth("a")
			} else {
				r.do(process.Unregister, "a", s)
				revision, _ := r.handle.Revision()
				truth = gone("a", revision)
				r.Kill(file("a"))
			}
			r.kill()
			back()
			before := r.Lines()
			r.asks()
			query := r.submit(process.Query, "a", s)
			r.told(truth.Record.Revision, truth)
			r.pass(time.Hour)
			r.expect(item, process.Failed, "overtaken: the agent's disk was an old copy, and the operation had ended")
			if o, ok := r.sink.outcome(query); !ok || o.Status.Running() {
				t.Errorf("the question is answered with %+v", o)
			}
			r.ran(before...)
			if left {
				r.state("a", "stopped", false)
			}
		})
	}
}

// TestReconcileDuringAnOperation: what an operation has changed is newer than what the server knew when it spoke.
func TestReconcileDuringAnOperation(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		old := r.truth("a")
		old.Record.Hosted, old.Record.Revision = false, 5
		item := r.submit(process.Restart, "a", s)
		r.pass(500 * time.Millisecond)
		if _, err := r.Reconcile([]specstore.Desired{old}, 5); err != nil {
			t.Fatal(err)
		}
		r.pass(20 * time.Second)
		r.expect(item, process.None, "success")
		if got := r.state("a", "running", true); got.Revision != 6 {
			t.Errorf("revision %d", got.Revision)
		}
		// One that changes nothing does not stand in its way.
		r.Script("reload a", operationtest.Script{Takes: time.Second, Code: 1})
		r.submit(process.Reload, "a", s)
		r.pass(500 * time.Millisecond)
		old.Record.Revision = 9
		if _, err := r.Reconcile([]specstore.Desired{old}, 9); err != nil {
			t.Fatal(err)
		}
		if s, _, _ := r.Snapshot(id("a")); s.State != "operating" || s.Revision != 6 {
			t.Errorf("it is %q with revision %d", s.State, s.Revision)
		}
		r.pass(20 * time.Second)
		if got := r.state("a", "running", false); got.Revision != 9 {
			t.Errorf("revision %d", got.Revision)
		}
	})
}

// TestOldRecordInTheMiddleOfARelaunch: one that an earlier agent was in the middle of is not gone on with if the
// process is not hosted, and is if it is.
func TestOldRecordInTheMiddleOfARelaunch(t *testing.T) {
	for _, hosted := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.spec("a")
			r.do(process.Start, "a", s)
			truth := r.truth("a")
			truth.Record.Hosted, truth.Record.Revision = hosted, 7
			r.Kill(file("a"))
			r.pass(500 * time.Millisecond)
			r.kill()
			r.asks()
			r.pass(100 * time.Millisecond)
			r.told(7, truth)
			r.pass(time.Hour)
			r.ran("start a", "start a")
			// The command of the relaunch goes on in any case.
			if got := r.state("a", "running", hosted); got.Revision != 7 {
				t.Errorf("revision %d", got.Revision)
			}
		})
	}
}

// TestReconcileOnAFullDisk: the server's word holds, though it can't be written down.
func TestReconcileOnAFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		truth := r.forgets()
		r.disk.fill(errors.New("no space left on device"))
		if n, err := r.Reconcile([]specstore.Desired{truth}, truth.Record.Revision); err == nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		close(r.confirmed)
		r.pass(time.Hour)
		r.ran("start a", "stop a")
		if s, _, _ := r.Snapshot(id("a")); s.State != "stopped" || s.Hosted {
			t.Errorf("it is %q, hosted %v", s.State, s.Hosted)
		}
	})
}
