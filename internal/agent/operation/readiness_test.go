package operation_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// becomes scripts a command that fails until some time after the world began, and then succeeds.
func (w *world) becomes(line string, at time.Duration) {
	w.Script(line, operationtest.Script{Code: 1, Output: "not yet"})
	after(at, func() { w.Script(line, operationtest.Script{}) })
}

func TestReadiness(t *testing.T) {
	const failed = "start process (nginx) failed, for post-check status "
	exec := &v1.Ready{Exec: "is-ready"}
	for _, c := range []struct {
		name string
		set  func(w *world, s *process.Spec)

		fault  process.Fault
		text   string
		latest time.Duration // how long it may take; the earliest is a quarter of a second before
		alive  bool
	}{
		{
			name: "ready soon", text: "success", latest: 2250 * time.Millisecond, alive: true,
			set: func(w *world, _ *process.Spec) { w.becomes("is-ready", 2*time.Second) },
		},
		{
			name: "never ready", latest: 6 * time.Second, alive: true, fault: process.CheckFailed,
			text: failed + "not ready after 5 s: exit status 1: not yet; pid 101 runs on",
			set:  func(w *world, _ *process.Spec) { w.becomes("is-ready", time.Hour) },
		},
		{
			name: "ready at the last moment of the longer time", text: "success", latest: 20 * time.Second, alive: true,
			set: func(w *world, s *process.Spec) {
				s.Compat.StartCheckEnd = 19
				w.becomes("is-ready", 19900*time.Millisecond)
			},
		},
		{
			name: "an attempt that hangs is not the last one", text: "success", latest: 6250 * time.Millisecond,
			alive: true,
			set: func(w *world, s *process.Spec) {
				s.Compat.StartCheckBegin = 30
				w.Script("is-ready", operationtest.Script{Takes: time.Hour})
				after(3*time.Second, func() { w.Script("is-ready", operationtest.Script{}) })
			},
		},
		{
			name: "the last attempt hangs", latest: 7250 * time.Millisecond, alive: true, fault: process.CheckFailed,
			text: failed + "not ready after 6 s: timed out after 1s; pid 101 runs on",
			set: func(w *world, s *process.Spec) {
				s.Compat.StartCheckBegin = 6
				w.Script("is-ready", operationtest.Script{Takes: time.Hour})
			},
		},
		{
			name: "ready, and not there", latest: 6 * time.Second, fault: process.CheckFailed,
			text: failed + "not alive: " + missing,
			set: func(w *world, _ *process.Spec) {
				w.becomes("is-ready", 0)
				w.Script("start", operationtest.Script{Takes: time.Second})
			},
		},
		{
			name: "it ends before it is ready", latest: 6 * time.Second, fault: process.CheckFailed,
			text: failed + "not alive: pid 101 exit status 7",
			set: func(w *world, _ *process.Spec) {
				w.becomes("is-ready", 4*time.Second)
				after(3*time.Second, func() {
					id, _ := w.World.Alive(pidFile)
					w.Exit(id, 7)
				})
			},
		},
		{
			name: "it comes late", text: "success", latest: 4250 * time.Millisecond, alive: true,
			set: func(w *world, _ *process.Spec) {
				w.becomes("is-ready", 0)
				w.Script("start", operationtest.Script{Takes: time.Second, End: func(run string) {
					after(3*time.Second, func() { w.Spawn("nginx", pidFile, run) })
				}})
			},
		},
		{
			name: "a line of its output", text: "success", latest: time.Second + 250*time.Millisecond, alive: true,
			set: func(w *world, s *process.Spec) {
				s.Ready = &v1.Ready{Log: "^listening"}
				w.Script("start", operationtest.Script{
					Takes: time.Second, Output: "hello\nlistening on 80\n",
					End: func(run string) { w.Spawn("nginx", pidFile, run) },
				})
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				sent := spec()
				sent.Ready = exec
				c.set(w, sent)
				began := time.Now()
				r, err := w.operator.Operate(t.Context(), entry(process.Start, sent), operation.Subject{})
				if err != nil {
					t.Fatal(err)
				}
				if r.Outcome.Fault != c.fault || r.Outcome.Text != c.text {
					t.Errorf("outcome %q %q,\nwant    %q %q", r.Outcome.Fault, r.Outcome.Text, c.fault, c.text)
				}
				if took := time.Since(began); took > c.latest || took < c.latest-250*time.Millisecond {
					t.Errorf("it took %v, want at most %v", took, c.latest)
				}
				if _, alive := w.Alive(pidFile); alive != c.alive {
					t.Errorf("alive is %v", alive)
				}
				if r.Outcome.Hosted != (c.fault == process.None) || (r.Change.Put != nil) != r.Outcome.Hosted {
					t.Errorf("outcome %+v, change %+v", r.Outcome, r.Change)
				}
			})
		})
	}
}

// TestARestartBelievesTheNewInstance: the one that was there before answers still, until it goes.
func TestARestartBelievesTheNewInstance(t *testing.T) {
	for _, c := range []struct {
		name   string
		change bool
		took   time.Duration
	}{
		{"another instance comes", true, 3 * time.Second},
		{"it is the same to the end", false, 6 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				sent := spec()
				sent.Ready = &v1.Ready{Exec: "is-ready"}
				w.becomes("is-ready", 0)
				old := w.Spawn("nginx", pidFile, "earlier")
				w.Script("restart", operationtest.Script{Takes: time.Second, End: func(run string) {
					if c.change {
						after(2*time.Second, func() {
							w.Exit(old, 0)
							w.Spawn("nginx", pidFile, run)
						})
					}
				}})
				began := time.Now()
				r, err := w.operator.Operate(t.Context(), entry(process.Restart, sent), operation.Subject{})
				if err != nil || r.Outcome.Fault != process.None {
					t.Fatalf("%+v, %v", r.Outcome, err)
				}
				if took := time.Since(began); took < c.took || took > c.took+250*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				if same := *r.Runtime.Process == old; same == c.change {
					t.Errorf("it runs as %v, before as %v", *r.Runtime.Process, old)
				}
			})
		})
	}
}

// TestReadyByTheLog: what was in the log before the start does not count, not even after a restart of the agent.
func TestReadyByTheLog(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		log := filepath.Join(t.TempDir(), "error.log")
		write := func(text string) {
			if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
				t.Error(err)
			}
		}
		write("ready\n")
		sent := spec()
		sent.Directory, sent.LogFile = filepath.Dir(log), filepath.Base(log)
		sent.Ready = &v1.Ready{Log: "^ready$"}
		sent.Compat.StartCheckBegin = 60

		ctx, cancel := context.WithCancel(t.Context())
		after(10*time.Second, cancel)
		if _, err := w.operator.Operate(ctx, entry(process.Start, sent), operation.Subject{}); !errors.Is(err,
			operation.ErrInterrupted) {
			t.Fatal(err)
		}
		if p, err := w.GetProgress(item); err != nil || p.Earlier.Log == nil ||
			*p.Earlier.Log != (record.LogMark{Path: log, Device: p.Earlier.Log.Device, Inode: p.Earlier.Log.Inode, Size: 6}) {
			t.Errorf("noted %+v, %v", p.Earlier, err)
		}
		began := time.Now()
		after(10*time.Second, func() { write("ready\nready\n") })
		r, err := w.operator.Operate(t.Context(), entry(process.Start, sent), operation.Subject{})
		if err != nil || r.Outcome.Fault != process.None {
			t.Fatalf("%+v, %v", r.Outcome, err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 10*time.Second+250*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if !slices.Equal(w.Lines(), []string{"start"}) {
			t.Errorf("ran %q", w.Lines())
		}
	})
}

// TestARestartKeepsTheSocket: a restart_cmd may hand the socket on that listened before.
func TestARestartKeepsTheSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	bubble(t, func(t *testing.T, w *world) {
		sent := spec()
		sent.Ready = &v1.Ready{TCP: l.Addr().String()}
		w.Spawn("nginx", pidFile, "earlier")
		w.Script("restart", operationtest.Script{Takes: time.Second})
		if r, err := w.operator.Operate(t.Context(), entry(process.Restart, sent), operation.Subject{}); err != nil ||
			r.Outcome.Text != "success" {
			t.Errorf("%+v, %v", r.Outcome, err)
		}
	})
}

// TestAStopOfTheAgentIsNoAnswer: an operation that waits for readiness goes on with the next agent.
func TestAStopOfTheAgentIsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		sent := spec()
		sent.Ready = &v1.Ready{Exec: "is-ready"}
		w.Script("is-ready", operationtest.Script{Takes: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		after(3*time.Second, cancel)
		if r, err := w.operator.Operate(ctx, entry(process.Start, sent), operation.Subject{}); !errors.Is(err,
			operation.ErrInterrupted) {
			t.Errorf("%+v, %v", r.Outcome, err)
		}
	})
}

// TestReadinessOfAnotherProgram starts a process whose port another program has already.
func TestReadinessOfAnotherProgram(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	bubble(t, func(t *testing.T, w *world) {
		s := spec()
		s.Ready = &v1.Ready{TCP: l.Addr().String()}
		s.Compat.StartCheckBegin = 5
		r, err := w.operator.Operate(t.Context(), entry(process.Start, s), operation.Subject{})
		if err != nil {
			t.Fatal(err)
		}
		want := "success: " + l.Addr().String() + " was answered by another program, which listened there before the start"
		if r.Outcome.Fault != process.None || r.Outcome.Text != want {
			t.Errorf("it says %q (%v), want %q", r.Outcome.Text, r.Outcome.Fault, want)
		}
	})
}
