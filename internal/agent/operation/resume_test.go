package operation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// death is what a life of the agent ends with when it is killed in the middle of a write.
type death struct{}

// life carries out the operation like an agent that is killed, as by kill -9, at the n-th moment before or after a
// write. It reports whether it was killed before the operation was over.
func (w *world) life(t *testing.T, e record.Entry, subject operation.Subject,
	n int,
) (r operation.Result, killed bool) {
	t.Helper()
	moments := 0
	w.OnPut = func(string, record.Progress, bool) {
		if moments++; moments == n {
			panic(death{})
		}
	}
	defer func() {
		w.OnPut = nil
		if cause := recover(); cause != nil {
			if cause != (death{}) {
				panic(cause)
			}
			w.Crash()
			w.Revive()
			killed = true
		}
	}()
	r, err := w.operator.Operate(t.Context(), e, subject)
	if err != nil {
		t.Error(err)
	}
	return r, false
}

// TestKilledAtEveryWrite kills the agent before and after every write to its journal, and again in its second life: the
// third finishes the operation, no command has run twice, and the outcome is the one of an undisturbed agent.
func TestKilledAtEveryWrite(t *testing.T) {
	for _, c := range []struct {
		name    string
		op      process.Op
		running bool
		set     func(s *process.Spec)
		ran     []string
		alive   bool
	}{
		{"start", process.Start, false, nil, []string{"start"}, true},
		{"stop", process.Stop, true, nil, []string{"stop"}, false},
		{"stop by SIGTERM", process.Stop, true, func(s *process.Spec) { s.Stop = "" }, nil, false},
		{"kill", process.Kill, true, nil, []string{"kill"}, false},
		{"kill the tree", process.Kill, true, func(s *process.Spec) { s.Compat.KillCommand = "" }, nil, false},
		{"restart", process.Restart, true, nil, []string{"restart"}, true},
		{
			"stop and start", process.Restart, true, func(s *process.Spec) { s.Compat.RestartCommand = "" },
			[]string{"stop", "start"},
			true,
		},
		{"reload", process.Reload, true, nil, []string{"reload"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tried := 0
			for first := 1; ; first++ {
				over := false
				for second := 0; !over && second < 8; second++ {
					bubble(t, func(t *testing.T, w *world) {
						s, subject := spec(), hosted.subject()
						if c.set != nil {
							c.set(s)
						}
						if c.running {
							id := w.Spawn("nginx", pidFile, "")
							subject.Runtime = record.Runtime{Process: &id, PIDFile: pidFile}
						}
						r, killed := w.life(t, entry(c.op, s), subject, first)
						if over = !killed; killed {
							if r, killed = w.life(t, entry(c.op, s), subject, second); killed {
								r, _ = w.life(t, entry(c.op, s), subject, 0)
							}
						}
						tried++
						if r.Outcome.Fault != process.None {
							t.Errorf("killed at %d and %d: %+v", first, second, r.Outcome)
						}
						if diff := cmp.Diff(c.ran, w.Lines()); diff != "" {
							t.Errorf("killed at %d and %d: commands (-want +got): %s", first, second, diff)
						}
						if _, alive := w.Alive(pidFile); alive != c.alive || r.Outcome.Hosted != c.alive {
							t.Errorf("killed at %d and %d: alive %v, hosted %v", first, second, alive, r.Outcome.Hosted)
						}
					})
				}
				if over {
					break
				}
			}
			if tried < 10 {
				t.Errorf("only %d deaths were tried", tried)
			}
		})
	}
}

// atGate is a phase that is not written any more: what is forked is noted when it is let run.
const atGate record.Phase = "gated"

// TestResume enters an operation that an earlier agent has left at a given point of its journal.
func TestResume(t *testing.T) {
	// found makes the journal hold one step whose command the earlier agent has brought to the given point.
	found := func(t *testing.T, w *world, phase record.Phase, away time.Duration) {
		t.Helper()
		child, err := w.Launch(process.ID{}, "earlier-run", "start", spec())
		if err != nil {
			t.Fatal(err)
		}
		step := record.Step{Name: "start", Phase: phase, Run: "earlier-run", Child: child.Identity()}
		switch phase {
		case atGate:
		case record.Released:
			step.Until = w.Clock() + time.Minute
			if err := child.Release(); err != nil {
				t.Fatal(err)
			}
		case record.Done:
			step.DoneAt = w.Clock()
			step.Result = &record.CommandResult{Known: true, Text: "exit status 0"}
			w.Spawn("nginx", pidFile, "earlier-run")
		}
		w.Crash()
		if err := w.PutProgress(item, record.Progress{Checked: true, Steps: []record.Step{step}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(away)
		w.Revive()
	}
	up := func(run string, w *world) { w.Spawn("nginx", pidFile, run) }
	for _, c := range []struct {
		name   string
		phase  record.Phase
		away   time.Duration
		script operationtest.Script
		fault  process.Fault
		text   string
		took   time.Duration
		ran    int
	}{
		{
			name: "at its gate, noted by an earlier version: it never ran, and runs now", phase: atGate, text: "success",
			took: 6 * time.Second, ran: 1,
		},
		{
			name: "released and running: it is waited for", phase: record.Released, away: 3 * time.Second,
			script: operationtest.Script{Takes: 10 * time.Second}, text: "success", took: 12 * time.Second, ran: 1,
		},
		{
			name: "released and running: its time limit is the old one", phase: record.Released,
			away:   50 * time.Second,
			script: operationtest.Script{Takes: time.Hour}, took: 10 * time.Second, ran: 1, fault: process.Failed,
			text: "start_cmd timed out after 60 s; drover ended it with all processes that it had started. Output: []",
		},
		{
			name: "released and running: its exit status counts", phase: record.Released, away: time.Second,
			script: operationtest.Script{Takes: 10 * time.Second, Code: 5}, took: 9 * time.Second, ran: 1,
			fault: process.Failed,
			text:  "Script exit code non-zero. Error msessage: [] (start_cmd: exit status 5); drover ended the processes that it had started: pid 101 (nginx)",
		},
		{
			name: "released and ended while nobody was there: what runs decides", phase: record.Released,
			away:   20 * time.Second,
			script: operationtest.Script{Takes: time.Second, Code: 5}, took: 5 * time.Second, ran: 1,
			text: "success: start_cmd ended while the agent was away, exit status unknown, so only the state of the process was checked",
		},
		{
			name: "released, but it ended at its gate: it runs now", phase: record.Released, away: time.Second,
			script: operationtest.Script{Unrun: true}, text: "success", took: 6 * time.Second, ran: 1,
		},
		{
			name: "done: only the check is left", phase: record.Done, away: 2 * time.Second, text: "success",
			took: 3 * time.Second,
		},
		{name: "done long ago: one look", phase: record.Done, away: time.Hour, text: "success"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s := c.script
				if !s.Unrun {
					s.End = func(run string) { up(run, w) }
					if s.Takes == 0 {
						s.Takes = time.Second
					}
				}
				w.Script("start", s)
				found(t, w, c.phase, c.away)
				w.Script("start", operationtest.Script{Takes: time.Second, End: func(run string) { up(run, w) }})
				began := time.Now()
				r, err := w.operator.Operate(t.Context(), entry(process.Start, spec()), unknown.subject())
				if err != nil {
					t.Fatal(err)
				}
				if r.Outcome.Fault != c.fault || r.Outcome.Text != c.text {
					t.Errorf("outcome %q %q,\nwant    %q %q", r.Outcome.Fault, r.Outcome.Text, c.fault, c.text)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if got := w.Discards(); slices.Contains(got, "earlier-run") != c.script.Unrun {
					t.Errorf("of the runs %v nothing is kept", got)
				}
				if got := len(w.Lines()); got != c.ran {
					t.Errorf("the command ran %d times, want %d", got, c.ran)
				}
			})
		})
	}
}

// TestResumedPreCheckIsNotRepeated: what the operation itself has brought about is no reason to refuse it.
func TestResumedPreCheckIsNotRepeated(t *testing.T) {
	for _, op := range []process.Op{process.Start, process.Stop, process.Kill} {
		bubble(t, func(t *testing.T, w *world) {
			id := w.Spawn("nginx", pidFile, "")
			progress := record.Progress{Checked: true}
			if op != process.Start {
				progress.Before = &id
				w.Kill(pidFile)
			}
			progress.Steps = []record.Step{{
				Name: string(op), Phase: record.Done, Run: "earlier", DoneAt: w.Clock(),
				Result: &record.CommandResult{Known: true},
			}}
			if err := w.PutProgress(item, progress); err != nil {
				t.Fatal(err)
			}
			if !w.operator.Begun(item) || w.operator.Begun("item-2") {
				t.Error("which operation had begun is not known")
			}
			r, err := w.operator.Operate(t.Context(), entry(op, spec()), unknown.subject())
			if err != nil || r.Outcome.Fault != process.None || len(w.Lines()) > 0 {
				t.Errorf("%s: %+v, %v, ran %v", op, r.Outcome, err, w.Lines())
			}
		})
	}
}

// forbidding is a policy that allows nothing.
type forbidding struct{}

func (forbidding) Allow(process.ID, process.Op, *process.Spec) error {
	return process.Errorf(process.Failed, "refused").Because(process.CausePolicy)
}

func (f forbidding) MayAsk(id process.ID, spec *process.Spec) error {
	return f.Allow(id, process.Query, spec)
}

func (forbidding) MayLook(process.ID, *process.Spec) error { return nil }

// TestResumedAgainstThePolicy: what has begun before the owner forbade it is carried through; what has not, is not.
func TestResumedAgainstThePolicy(t *testing.T) {
	for _, begun := range []bool{true, false} {
		bubble(t, func(t *testing.T, w *world) {
			id := w.Spawn("nginx", pidFile, "")
			w.operator.Policy = forbidding{}
			if begun {
				w.Kill(pidFile)
				err := w.PutProgress(item, record.Progress{Checked: true, Before: &id, Steps: []record.Step{{
					Name: string(process.Stop), Phase: record.Done, Run: "earlier", DoneAt: w.Clock(),
					Result: &record.CommandResult{Known: true},
				}}})
				if err != nil {
					t.Fatal(err)
				}
			}
			r, err := w.operator.Operate(t.Context(), entry(process.Stop, spec()), unknown.subject())
			if err != nil || (r.Outcome.Fault == process.None) != begun || len(w.Lines()) > 0 {
				t.Errorf("begun %v: %+v, %v, ran %v", begun, r.Outcome, err, w.Lines())
			}
		})
	}
}

// TestInterrupted: an agent that is told to stop leaves the operation as it is, at whatever moment, and the next one
// finishes it.
func TestInterrupted(t *testing.T) {
	for _, op := range []process.Op{process.Start, process.Stop, process.Restart, process.Reload} {
		for _, at := range []time.Duration{
			0, 500 * time.Millisecond, time.Second, 3 * time.Second,
			4999 * time.Millisecond,
		} {
			t.Run(fmt.Sprintf("%s at %v", op, at), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					if op != process.Start {
						id := w.Spawn("nginx", pidFile, "")
						w.Script("stop", operationtest.Script{Takes: time.Second, End: func(string) {
							after(4*time.Second, func() { w.Exit(id, 0) })
						}})
					}
					ctx, cancel := context.WithTimeout(t.Context(), at)
					defer cancel()
					began := time.Now()
					if _, err := w.operator.Operate(ctx, entry(op, spec()), unknown.subject()); !errors.Is(err,
						operation.ErrInterrupted) {
						t.Fatalf("got %v", err)
					}
					if took := time.Since(began); took != at {
						t.Errorf("it stopped after %v", took)
					}
					w.Crash()
					w.Revive()
					r, err := w.operator.Operate(t.Context(), entry(op, spec()), unknown.subject())
					if err != nil || r.Outcome.Fault != process.None {
						t.Errorf("%+v, %v", r.Outcome, err)
					}
					if got := w.Lines(); !slices.Equal(got, []string{string(op)}) {
						t.Errorf("commands %v ran", got)
					}
				})
			})
		}
	}
}

// TestJournalThatFails: what cannot be put on record does not begin; what needs no record is done.
func TestJournalThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ReadError, w.WriteError = errors.New("bad page"), errors.New("no space left")
		w.Spawn("nginx", pidFile, "")
		for _, op := range []process.Op{process.Start, process.Reload, process.Restart, process.Stop, process.Kill} {
			r, err := w.operator.Operate(t.Context(), entry(op, spec()), unknown.subject())
			if err != nil || r.Outcome.Fault == process.None || op != process.Start &&
				!strings.Contains(r.Outcome.Text, noRecord) {
				t.Errorf("%s: %+v, %v", op, r.Outcome, err)
			}
		}
		if lines := w.Lines(); len(lines) > 0 {
			t.Errorf("%v ran", lines)
		}
		s := spec()
		s.Stop = ""
		if r, err := w.operator.Operate(t.Context(), entry(process.Stop, s), unknown.subject()); err != nil ||
			r.Outcome.Fault != process.None {
			t.Errorf("stop by SIGTERM: %+v, %v", r.Outcome, err)
		}
		if r, err := w.operator.Operate(t.Context(), entry(process.Start, spec()), unknown.subject()); err != nil ||
			!strings.HasSuffix(r.Outcome.Text, noRecord) {
			t.Errorf("start: %+v, %v", r.Outcome, err)
		}
		if w.operator.Begun(item) || w.operator.Relaunching(nginx()) {
			t.Error("an unreadable journal says that something had begun")
		}
	})
}

const noRecord = "the command was not run, because the agent cannot note it on its disk: no space left"

// TestEveryWriteFails fails every write to the journal, once or from then on for ever, and kills the agent at every
// moment after that, or not at all. Its successor has room. No command runs twice, and the outcome says which have run.
func TestEveryWriteFails(t *testing.T) {
	for _, c := range []struct {
		op      process.Op
		running bool
		set     func(s *process.Spec)
		ran     []string
	}{
		{op: process.Start, ran: []string{"start"}},
		{op: process.Stop, running: true, ran: []string{"stop"}},
		{op: process.Kill, running: true, ran: []string{"kill"}},
		{op: process.Restart, running: true, ran: []string{"restart"}},
		{
			op: process.Restart, running: true, set: func(s *process.Spec) { s.Compat.RestartCommand = "" },
			ran: []string{"stop", "start"},
		},
		{op: process.Reload, running: true, ran: []string{"reload"}},
	} {
		t.Run(fmt.Sprint(c.op, c.ran), func(t *testing.T) {
			tried := 0
			for write := 1; ; write++ {
				failed := false
				for _, forever := range []bool{false, true} {
					killed := true
					for kill := 0; killed; kill++ {
						bubble(t, func(t *testing.T, w *world) {
							s, subject := spec(), unknown.subject()
							if c.set != nil {
								c.set(s)
							}
							if c.running {
								id := w.Spawn("nginx", pidFile, "")
								subject = hosted.subject()
								subject.Runtime = record.Runtime{Process: &id, PIDFile: pidFile}
							}
							var r operation.Result
							var hit bool
							r, hit, killed = w.failingLife(t, entry(c.op, s), subject, write, kill, forever)
							failed = failed || hit
							if kill == 0 {
								killed = true // there is more to try
							} else if killed {
								r, _ = w.life(t, entry(c.op, s), subject, 0)
							}
							tried++
							lines := w.Lines()
							switch ok := r.Outcome.Fault == process.None; {
							case ok && !slices.Equal(lines, c.ran):
								t.Errorf("write %d fails, killed at %d: a success after %v", write, kill, lines)
							case !ok && (len(lines) >= len(c.ran) || !slices.Equal(lines, c.ran[:len(lines)]) ||
								!strings.Contains(r.Outcome.Text, noRecord)):
								t.Errorf("write %d fails, killed at %d: %v have run, and it says %+v", write, kill,
									lines, r.Outcome)
							}
						})
						if !failed {
							break
						}
					}
				}
				if !failed {
					break
				}
			}
			if tried < 10 {
				t.Errorf("only %d ways were tried", tried)
			}
		})
	}
}

// failingLife is life with a disk that is full at a write, and thereafter where it stays so; the moments are counted
// from that write on. hit reports whether the write came.
func (w *world) failingLife(t *testing.T, e record.Entry, subject operation.Subject, write, kill int,
	forever bool,
) (r operation.Result, hit, killed bool) {
	t.Helper()
	writes, moments := 0, 0
	w.OnPut = func(_ string, _ record.Progress, stored bool) {
		if !stored {
			writes++
			w.WriteError = nil
			if writes == write || forever && writes > write {
				hit, w.WriteError = true, errors.New("no space left")
			}
		}
		if !hit {
			return
		}
		if moments++; moments == kill {
			panic(death{})
		}
	}
	defer func() {
		w.OnPut, w.WriteError = nil, nil
		if cause := recover(); cause != nil {
			if cause != (death{}) {
				panic(cause)
			}
			w.Crash()
			w.Revive()
			killed = true
		}
	}()
	r, err := w.operator.Operate(t.Context(), e, subject)
	if err != nil {
		t.Error(err)
	}
	return r, hit, false
}

// TestGateIsJournalledFirst: the identity of a command is on record before it may run.
func TestGateIsJournalledFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var phases []record.Phase
		var child instance.Identity
		w.OnPut = func(_ string, p record.Progress, stored bool) {
			if len(p.Steps) == 0 || stored {
				return
			}
			step := p.Steps[0]
			phases = append(phases, step.Phase)
			if ran := len(w.Lines()) > 0; ran != (step.Phase == record.Done) {
				t.Errorf("%s is written while it is %v that the command has run", step.Phase, ran)
			}
			if child == (instance.Identity{}) {
				child = step.Child
			}
			if step.Child != child || step.Child.PID == 0 {
				t.Errorf("%s is written with child %v, before it was %v", step.Phase, step.Child, child)
			}
		}
		if _, err := w.operator.Operate(t.Context(), entry(process.Start, spec()), unknown.subject()); err != nil {
			t.Fatal(err)
		}
		if want := []record.Phase{record.Released, record.Done}; !slices.Equal(phases, want) {
			t.Errorf("phases %v, want %v", phases, want)
		}
	})
}
