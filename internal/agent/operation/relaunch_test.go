package operation_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// crashed is a hosted process whose instance has just ended.
func crashed(w *world) (record.Record, record.Runtime) {
	id := w.Spawn("nginx", pidFile, "earlier")
	w.Kill(pidFile)
	rec := *hosted.subject().Record
	rec.Spec = *spec()
	return rec, record.Runtime{Ended: &id, PIDFile: pidFile, Run: "earlier", LastStartAt: 1, Attempts: 1}
}

func TestRelaunch(t *testing.T) {
	appears := func(at time.Duration) func(*world, *process.Spec) {
		return func(w *world, _ *process.Spec) {
			w.Script("start", operationtest.Script{Takes: time.Second, Output: "hello", End: func(run string) {
				after(at, func() { w.Spawn("nginx", pidFile, run) })
			}})
		}
	}
	const notAlive = "start process (nginx) failed, for post-check status not alive: pid 100 in /run/nginx.pid does not run; output: [hello]"
	for _, c := range []struct {
		name  string
		set   func(w *world, s *process.Spec)
		err   string
		took  time.Duration
		ran   []string
		alive bool
	}{
		{name: "it is over as soon as the process is seen", took: time.Second, ran: []string{"start"}, alive: true},
		{
			name: "the pid file is late", set: appears(4999 * time.Millisecond), took: 6 * time.Second,
			ran: []string{"start"}, alive: true,
		},
		{
			name: "the pid file is too late", set: appears(6 * time.Second), err: notAlive, took: 6 * time.Second,
			ran: []string{"start"},
		},
		{
			name: "the pid file may take until the end of the check window", took: 10 * time.Second,
			ran: []string{"start"}, alive: true,
			set: func(w *world, s *process.Spec) {
				s.Compat.StartCheckBegin, s.Compat.StartCheckEnd = 1, 10
				appears(9*time.Second)(w, s)
			},
		},
		{
			name: "without a command", set: func(_ *world, s *process.Spec) { s.Start = "" },
			err: "start_cmd is empty",
		},
		{
			name: "the command fails: what it has started is ended", took: 2 * time.Second, ran: []string{"start"},
			set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Takes: 2 * time.Second, Code: 1, Begin: func(run string) {
					w.Spawn("nginx", pidFile, run)
				}})
			},
			err: "Script exit code non-zero. Error msessage: [] (start_cmd: exit status 1); drover ended the processes that it had started: pid 102 (nginx)",
		},
		{
			name: "the time limit", took: time.Minute, ran: []string{"start"},
			set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Takes: time.Hour, Begin: func(run string) {
					w.Spawn("nginx", pidFile, run)
				}})
			},
			err: "start_cmd timed out after 60 s; drover ended it with all processes that it had started. Output: []",
		},
		{
			name: "the command cannot be started", set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Refuse: errors.New("no memory")})
			},
			err: "no memory",
		},
		{
			name: "somebody else has started it meanwhile", alive: true,
			set: func(w *world, _ *process.Spec) { w.Spawn("nginx", pidFile, "") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				rec, rt := crashed(w)
				if c.set != nil {
					c.set(w, &rec.Spec)
				}
				began := time.Now()
				got, err := w.operator.Relaunch(t.Context(), rec, rt)
				if text := errText(err); text != c.err {
					t.Errorf("error %q,\nwant  %q", text, c.err)
				}
				if took := time.Since(began); took < c.took || took > c.took+250*time.Millisecond {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if diff := cmp.Diff(c.ran, w.Lines()); diff != "" {
					t.Errorf("commands (-want +got): %s", diff)
				}
				id, alive := w.Alive(pidFile)
				if alive != c.alive {
					t.Errorf("alive is %v, want %v", alive, c.alive)
				}
				if alive && (got.Runtime.Process == nil || *got.Runtime.Process != id ||
					got.Runtime.Outside != (len(c.ran) == 0)) {
					t.Errorf("the runtime is %+v, but %v runs", got, id)
				}
			})
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestRelaunchClearsTheWay: what the instance that ended has left behind is ended before the next one is started, and
// only once.
func TestRelaunchClearsTheWay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rec, rt := crashed(w)
		w.Spawn("worker", "", "earlier")
		w.Script("start", operationtest.Script{Begin: func(run string) {
			if living := w.Living(); len(living) > 0 {
				t.Errorf("%v are alive when the start command runs", living)
			}
			w.Spawn("nginx", pidFile, run)
		}})
		got, err := w.operator.Relaunch(t.Context(), rec, rt)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]operationtest.End{{Root: *rt.Ended, Run: "earlier"}}, w.Ends()); diff != "" {
			t.Errorf("trees (-want +got): %s", diff)
		}
		want := record.Runtime{
			Process: got.Runtime.Process, PIDFile: pidFile, Matches: 1, Run: operationtest.RunID(nginx(), 1),
			User: "www", SetupPath: "/opt/nginx", Command: "start", LastStartAt: time.Now().Unix(), Attempts: 1,
			StartDigest: rec.Spec.StartDigest(),
		}
		if diff := cmp.Diff(want, got.Runtime); diff != "" {
			t.Errorf("runtime (-want +got): %s", diff)
		}
	})
	bubble(t, func(t *testing.T, w *world) {
		rec, rt := crashed(w)
		w.OnEndTree = func(operationtest.End) ([]int, error) { return []int{4711}, nil }
		if _, err := w.operator.Relaunch(t.Context(), rec, rt); err != nil {
			t.Errorf("a worker that cannot be ended is in the way for good: %v", err)
		}
	})
}

// TestRelaunchIsNeverRepeated: an agent that dies in the middle of a relaunch leaves a note, and its successor waits
// for the command instead of running it again.
func TestRelaunchIsNeverRepeated(t *testing.T) {
	for n := 1; ; n++ {
		over := false
		bubble(t, func(t *testing.T, w *world) {
			rec, rt := crashed(w)
			over = !w.killedRelaunch(t, rec, rt, n)
			if over {
				if !w.operator.Relaunching(rec.ID) {
					t.Error("the note is gone before the outcome has been taken over")
				}
				w.operator.Relaunched(rec.ID)
				if w.operator.Relaunching(rec.ID) {
					t.Error("the note stays for good")
				}
				return
			}
			relaunch := w.operator.Relaunch
			if w.operator.Relaunching(rec.ID) {
				relaunch = w.operator.ResumeRelaunch
			}
			got, err := relaunch(t.Context(), rec, rt)
			id, alive := w.Alive(pidFile)
			if err != nil || !alive || got.Runtime.Process == nil || *got.Runtime.Process != id {
				t.Errorf("killed at %d: alive %v, %+v, %v", n, alive, got, err)
			}
			if lines := w.Lines(); !slices.Equal(lines, []string{"start"}) {
				t.Errorf("killed at %d: %v ran", n, lines)
			}
		})
		if over {
			if n < 5 {
				t.Errorf("only %d deaths were tried", n-1)
			}
			return
		}
	}
}

// TestRelaunchDespiteAnOldNote: the note of an earlier relaunch could not be dropped, as on a full disk, and must not
// be taken for this one's.
func TestRelaunchDespiteAnOldNote(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rec, rt := crashed(w)
		for n := range 2 {
			got, err := w.operator.Relaunch(t.Context(), rec, rt)
			if err != nil || got.Runtime.Process == nil {
				t.Fatalf("relaunch %d: %+v, %v", n, got, err)
			}
			w.Kill(pidFile)
		}
		if lines := w.Lines(); len(lines) != 2 {
			t.Errorf("%v ran, want two starts", lines)
		}
	})
}

func (w *world) killedRelaunch(t *testing.T, rec record.Record, rt record.Runtime, n int) (killed bool) {
	t.Helper()
	moments := 0
	w.OnPut = func(string, record.Progress, bool) {
		if moments++; moments == n {
			panic(death{})
		}
	}
	defer func() {
		w.OnPut = nil
		if recover() != nil {
			w.Crash()
			w.Revive()
			killed = true
		}
	}()
	if _, err := w.operator.Relaunch(t.Context(), rec, rt); err != nil {
		t.Error(err)
	}
	return false
}

func TestRelaunchInterrupted(t *testing.T) {
	for _, at := range []time.Duration{500 * time.Millisecond, 2 * time.Second} {
		bubble(t, func(t *testing.T, w *world) {
			rec, rt := crashed(w)
			w.Script("start", operationtest.Script{Takes: time.Second, End: func(run string) {
				after(3*time.Second, func() { w.Spawn("nginx", pidFile, run) })
			}})
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			if _, err := w.operator.Relaunch(ctx, rec, rt); !errors.Is(err, operation.ErrInterrupted) {
				t.Fatalf("got %v", err)
			}
			if !w.operator.Relaunching(rec.ID) || w.operator.Relaunching(other()) {
				t.Error("which relaunch is under way is not known")
			}
			got, err := w.operator.ResumeRelaunch(t.Context(), rec, rt)
			if err != nil || got.Runtime.Run != operationtest.RunID(nginx(), 1) || got.Runtime.Process == nil ||
				got.Runtime.Outside {
				t.Errorf("%+v, %v", got, err)
			}
			if lines := w.Lines(); len(lines) != 1 {
				t.Errorf("%v ran", lines)
			}
		})
	}
}

// TestLookKeepsWhatWasRecorded: an instance that this process is known to be is not given away to another key.
func TestLookKeepsWhatWasRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.Spawn("nginx", pidFile, "")
		w.peers.owner, w.peers.ownerFile = other(), "/run/other.pid"
		if s := w.operator.Look(nginx(), spec(), record.Runtime{}); s.Alive() ||
			s.Note != "pid 100 belongs to other/nginx" {
			t.Errorf("an instance of another key is ours: %+v", s)
		}
		if s := w.operator.Look(nginx(), spec(), record.Runtime{Process: &id, PIDFile: pidFile}); !s.Alive() {
			t.Errorf("our own instance is not: %+v", s)
		}
	})
}

// TestSighted is the whole of what a look teaches.
func TestSighted(t *testing.T) {
	a, b := instance.Identity{BootID: "b", PID: 10, StartTicks: 1}, instance.Identity{BootID: "b", PID: 11, StartTicks: 2}
	rt := func(p, ended *instance.Identity, run string, outside bool) record.Runtime {
		return record.Runtime{Process: p, Ended: ended, Run: run, Outside: outside, PIDFile: "f", LastStartAt: 1}
	}
	for _, c := range []struct {
		name   string
		before record.Runtime
		seen   *instance.Identity
		want   record.Runtime
	}{
		{"the same one", rt(&a, nil, "r", false), &a, rt(&a, nil, "r", false)},
		{"it has ended", rt(&a, nil, "r", false), nil, rt(nil, &a, "r", false)},
		{"it is still not there", rt(nil, &a, "r", false), nil, rt(nil, &a, "r", false)},
		{"another one at once", rt(&a, nil, "r", false), &b, rt(&b, nil, "", true)},
		{"another one later", rt(nil, &a, "r", false), &b, rt(&b, nil, "", true)},
		{"the first one of this boot", record.Runtime{}, &a, record.Runtime{Process: &a, PIDFile: "f"}},
		{"none in this boot", record.Runtime{}, nil, record.Runtime{}},
	} {
		got := operation.WithSighting(c.before, instance.Sighting{ID: c.seen, PIDFile: "f"})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got): %s", c.name, diff)
		}
	}
}
