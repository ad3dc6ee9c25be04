package operation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// refusing makes an operator on a host that lacks something for each start, and returns the lines that it was asked
// about.
func (w *world) refusing() *[]instance.Line {
	asked := &[]instance.Line{}
	cfg := w.Operations()
	cfg.Preflight = func(_ process.ID, _ *process.Spec, lines []instance.Line, _ bool) error {
		*asked = lines
		return process.Errorf(process.Failed, "user %q is unknown on this host", "ghost").Because(process.CauseNoUser)
	}
	w.operator = operation.New(cfg, w.peers)
	return asked
}

// TestRestartLooksFirst: a restart that could not start the process ends nothing and stores nothing, and says so.
func TestRestartLooksFirst(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*process.Spec)
		want []instance.Line
	}{
		"restart_cmd":    {func(*process.Spec) {}, []instance.Line{{Field: "restart_cmd", Line: "restart"}}},
		"stop and start": {func(s *process.Spec) { s.Compat.RestartCommand = "" }, []instance.Line{{Field: "start_cmd", Line: "start"}}},
		"before_start": {func(s *process.Spec) {
			s.Compat.RestartCommand, s.BeforeStart = "", &v1.Before{Run: "check"}
		}, []instance.Line{{Field: "before_start", Line: "check"}, {Field: "start_cmd", Line: "start", Later: true}}},
		"readiness": {func(s *process.Spec) {
			s.Compat.RestartCommand, s.Ready = "", &v1.Ready{Exec: "ask", OnTimeout: "stop"}
		}, []instance.Line{{Field: "start_cmd", Line: "start"}, {Field: "ready.exec", Line: "ask"}}},
		"periodic": {
			func(s *process.Spec) { s.Schedule = &v1.Schedule{Every: lasting(time.Minute)} },
			[]instance.Line{{Field: "start_cmd", Line: "start"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				asked := w.refusing()
				id := w.Spawn("nginx", pidFile, "earlier")
				subject := hosted.subject()
				subject.Runtime = record.Runtime{Process: &id, PIDFile: pidFile, Run: "earlier"}
				s := spec()
				c.set(s)
				r, err := w.operator.Operate(t.Context(), entry(process.Restart, s), subject)
				want := process.Outcome{
					Fault: process.Failed, Cause: process.CausePreflight, Hosted: true,
					Text: `preflight failed: user "ghost" is unknown on this host; nothing was done: pid 100 runs on`,
				}
				if err != nil || r.Outcome != want || r.Change.Put != nil || !slices.Equal(*asked, c.want) {
					t.Errorf("got %+v, %+v after %+v, %v", r.Outcome, r.Change, *asked, err)
				}
				if _, alive := w.Alive(pidFile); !alive || len(w.Lines())+len(w.Signals()) > 0 {
					t.Errorf("it has run %q and sent %v", w.Lines(), w.Signals())
				}
			})
		})
	}
}

// TestRestartOfWhatIsDown: there is nothing to lose, and the start itself says what is wrong.
func TestRestartOfWhatIsDown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.refusing()
		r, err := w.operator.Operate(t.Context(), entry(process.Restart, spec()), hosted.subject())
		if err != nil || r.Outcome.Fault != process.None || !slices.Equal(w.Lines(), []string{"restart"}) {
			t.Errorf("%+v after %q, %v", r.Outcome, w.Lines(), err)
		}
	})
}

// TestFateOfTheFormer: a restart that fails after the end of the process says that it has ended it, not that nothing
// was started.
func TestFateOfTheFormer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.Spawn("nginx", pidFile, "earlier")
		subject := hosted.subject()
		subject.Runtime = record.Runtime{Process: &id, PIDFile: pidFile, Run: "earlier"}
		s := spec()
		s.Compat.RestartCommand, s.BeforeStart = "", &v1.Before{Run: "check", Timeout: lasting(time.Minute)}
		w.Script("check", operationtest.Script{Code: 2})
		r, err := w.operator.Operate(t.Context(), entry(process.Restart, s), subject)
		text := r.Outcome.Text
		if err != nil || !strings.HasSuffix(text, "; pid 100 was ended before, and the process is down") ||
			strings.Contains(text, "nothing was started") {
			t.Errorf("%+v, %v", r.Outcome, err)
		}
	})
}

// TestAdoptionLooksFirst: drover does not take over what it could not start again.
func TestAdoptionLooksFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.refusing()
		w.SetCopies(instance.UnwatchedCopy{ID: w.Spawn("api", "", ""), SameLine: true})
		s := foreground()
		s.Beside = process.Adopt
		e := entry(process.Start, s)
		e.Ordered = true
		r, err := w.operator.Operate(t.Context(), e, operation.Subject{})
		if err != nil || r.Change.Put != nil || r.Outcome.Cause != process.CausePreflight ||
			!strings.HasSuffix(r.Outcome.Text, "; nothing was taken over: pid 100 runs on as before") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestPreflightCommand: only its success lets a restart or a reload go on; --force goes past it.
func TestPreflightCommand(t *testing.T) {
	refused := "preflight failed: exit status 1; output: [bogus]; nothing was done: pid 100 runs on"
	for name, c := range map[string]struct {
		op     process.Op
		script operationtest.Script
		text   string
		ran    []string
	}{
		"restart":       {process.Restart, operationtest.Script{}, "success", []string{"check", "restart"}},
		"reload":        {process.Reload, operationtest.Script{}, "success", []string{"check", "reload"}},
		"question":      {process.Preflight, operationtest.Script{}, "success: it could start now", []string{"check"}},
		"bad restart":   {process.Restart, operationtest.Script{Code: 1, Output: "bogus"}, refused, []string{"check"}},
		"bad reload":    {process.Reload, operationtest.Script{Code: 1, Output: "bogus"}, refused, []string{"check"}},
		"bad question":  {process.Preflight, operationtest.Script{Code: 1, Output: "bogus"}, refused, []string{"check"}},
		"forced":        {process.ForcedOp(process.Restart), operationtest.Script{Code: 1}, "success", []string{"restart"}},
		"forced reload": {process.ForcedOp(process.Reload), operationtest.Script{Code: 1}, "success", []string{"reload"}},
		"too long": {process.Restart, operationtest.Script{Takes: time.Hour}, "preflight failed: timed out after 30 s, " +
			"as preflight.timeout says; drover ended it with all processes that it had started; nothing was done: pid 100 runs on", []string{"check"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				id := w.Spawn("nginx", pidFile, "earlier")
				subject := hosted.subject()
				subject.Runtime = record.Runtime{Process: &id, PIDFile: pidFile, Run: "earlier"}
				s := spec()
				s.Preflight = &v1.Before{Run: "check"}
				w.Script("check", c.script)
				r, err := w.operator.Operate(t.Context(), entry(c.op, s), subject)
				if err != nil || r.Outcome.Text != c.text || !slices.Equal(w.Lines(), c.ran) || !r.Outcome.Hosted {
					t.Errorf("%+v after %q, %v", r.Outcome, w.Lines(), err)
				}
				if (r.Change.Put != nil) != (r.Outcome.Fault == process.None && c.op != process.Preflight) {
					t.Errorf("it has stored %+v", r.Change)
				}
			})
		})
	}
}
