package operation_test

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// asking is a running process whose stored spec has these commands.
func asking(w *world, version, health string) operation.Subject {
	w.Spawn("nginx", pidFile, "earlier")
	subject := hosted.subject()
	subject.Record.Spec.VersionCommand, subject.Record.Spec.Health = version, &v1.Health{Exec: health}
	return subject
}

// look asks for the state and returns what the process says of itself, and how long that took.
func (w *world) look(t *testing.T, subject operation.Subject,
	sent *process.Spec,
) (version, health string, took time.Duration) {
	t.Helper()
	began := time.Now()
	r, err := w.operator.Operate(t.Context(), entry(process.Query, sent), subject)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome.Fault != process.None {
		t.Fatalf("outcome %+v", r.Outcome)
	}
	return r.Outcome.Status.Instance.Version, r.Outcome.Status.Instance.Health, time.Since(began)
}

func TestWhatAQueryAsks(t *testing.T) {
	for _, c := range []struct {
		name            string
		version, health operationtest.Script
		wantVersion     string
		wantHealth      string
		took            time.Duration
	}{
		{
			"both",
			operationtest.Script{Output: " 1.24.0-rc1\n", Takes: time.Second},
			operationtest.Script{Output: "all\nwell\n"},
			"1.24.0-rc1", "all well", time.Second,
		},
		{"blanks in a version", operationtest.Script{Output: "1. 2\n.3"}, operationtest.Script{}, "1.2.3", "ok", 0},
		{
			"no version at all",
			operationtest.Script{Output: "nginx version: nginx/1.24"},
			operationtest.Script{Output: "\xff"},
			"", "\uFFFD", 0,
		},
		{
			"a version too long",
			operationtest.Script{Output: strings.Repeat("1", 65)},
			operationtest.Script{Output: strings.Repeat("x", 300)},
			"", strings.Repeat("x", 256), 0,
		},
		{
			"failures",
			operationtest.Script{Output: "1.0", Code: 1},
			operationtest.Script{Output: "down", Code: 3},
			"",
			"exit status 3: down", 0,
		},
		{
			"a killed question",
			operationtest.Script{Signal: syscall.SIGSEGV},
			operationtest.Script{Untold: true},
			"",
			"ok", 0,
		},
		{
			"what cannot start",
			operationtest.Script{Refuse: process.Errorf(process.Failed, "no such user")},
			operationtest.Script{Refuse: process.Errorf(process.Failed, "no such user")},
			"", "no such user", 0,
		},
		{
			"what hangs",
			operationtest.Script{Takes: time.Hour},
			operationtest.Script{Takes: time.Hour},
			"",
			"timed out after 5s", 6 * time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.Script("v", c.version)
				w.Script("h", c.health)
				version, health, took := w.look(t, asking(w, "v", "h"), nil)
				if version != c.wantVersion || health != c.wantHealth || took != c.took {
					t.Errorf("version %q, health %q after %v, want %q, %q, %v", version, health, took, c.wantVersion,
						c.wantHealth, c.took)
				}
				if left := w.Living(); len(left) != 1 {
					t.Errorf("%v are left, want the process alone", left)
				}
			})
		})
	}
}

func TestAQuestionHasTheTimeOfACommand(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.Script("h", operationtest.Script{Takes: time.Hour})
		subject := asking(w, "", "h")
		subject.Record.Spec.Compat.OpTimeout = 2
		if _, health, took := w.look(t, subject, nil); health != "timed out after 2s" || took != 2*time.Second {
			t.Errorf("health %q after %v", health, took)
		}
	})
}

func TestAnAnswerCountsForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.Script("v", operationtest.Script{Output: "1.0", Takes: time.Second})
		subject := asking(w, "v", "")
		asked := func() int { return len(slices.Clone(w.Lines())) }

		var at sync.WaitGroup
		for range 5 {
			at.Go(func() {
				if v, _, took := w.look(t, subject, nil); v != "1.0" || took != time.Second {
					t.Errorf("version %q after %v", v, took)
				}
			})
		}
		at.Wait()
		if asked() != 1 {
			t.Errorf("five queries at once asked %d times", asked())
		}
		if v, _, took := w.look(t, subject, nil); v != "1.0" || took != 0 || asked() != 1 {
			t.Errorf("soon after, version %q after %v, asked %d times", v, took, asked())
		}
		var i process.Instance
		id, _ := w.Alive(pidFile)
		if w.operator.Describe(nginx(), id, &i); i.Version != "1.0" {
			t.Errorf("described as %+v", i)
		}
		<-time.After(11 * time.Second)
		w.look(t, subject, nil)
		if asked() != 2 {
			t.Errorf("asked %d times after a while", asked())
		}
		changed := *subject.Record
		changed.Revision++
		changed.Spec.User = "nobody"
		subject.Record = &changed
		if w.look(t, subject, nil); asked() != 3 {
			t.Errorf("asked %d times after a new spec", asked())
		}
		w.Kill(pidFile)
		id = w.Spawn("nginx", pidFile, "later")
		i = process.Instance{}
		if w.operator.Describe(nginx(), id, &i); i.Version != "" {
			t.Errorf("a new instance is described as %+v", i)
		}
		if w.look(t, subject, nil); asked() != 4 {
			t.Errorf("asked %d times after a new instance", asked())
		}
	})
}

// TestAQueryBringsNoCommands: who may look need not be one who may run commands.
func TestAQueryBringsNoCommands(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		sent := spec()
		sent.VersionCommand, sent.Health = "v", &v1.Health{Exec: "h"}
		if v, h, _ := w.look(t, asking(w, "", ""), sent); v+h != "" || w.Lines() != nil {
			t.Errorf("version %q, health %q, ran %q", v, h, w.Lines())
		}
		if v, h, _ := w.look(t, operation.Subject{}, sent); v+h != "" || w.Lines() != nil {
			t.Errorf("of an unknown process: version %q, health %q, ran %q", v, h, w.Lines())
		}
	})
}

func TestNobodyAsksWhatDoesNotRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		subject := asking(w, "v", "h")
		w.Kill(pidFile)
		if v, h, _ := w.look(t, subject, nil); v+h != "" || w.Lines() != nil {
			t.Errorf("version %q, health %q, ran %q", v, h, w.Lines())
		}
	})
}

// TestTheStoredSpec: an operation that brings no spec means the stored one.
func TestTheStoredSpec(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r, err := w.operator.Operate(t.Context(), entry(process.Start, nil), registered.subject())
		if err != nil || r.Outcome.Fault != process.None || !slices.Equal(w.Lines(), []string{"start"}) {
			t.Fatalf("start: %+v, %v, ran %q", r.Outcome, err, w.Lines())
		}
		if rec := r.Change.Put; rec == nil || rec.Spec.Compat.Contact != "stored" || !rec.Hosted {
			t.Errorf("record is %+v", rec)
		}
	})
	for _, op := range []process.Op{
		process.Start, process.Stop, process.Host, process.Restart, process.Reload,
		process.Kill, process.Register, process.Update,
	} {
		bubble(t, func(t *testing.T, w *world) {
			r, err := w.operator.Operate(t.Context(), entry(op, nil), operation.Subject{})
			if err != nil || r.Outcome.Fault != process.Failed ||
				!strings.Contains(r.Outcome.Text, "it is not registered on this host") || r.Change.Put != nil {
				t.Errorf("%s: %+v, %v", op, r.Outcome, err)
			}
		})
	}
}
