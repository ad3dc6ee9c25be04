package operation_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/notify"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// notifying is a foreground process that says when it is ready, within ten seconds.
func notifying() *process.Spec {
	s := foreground()
	s.Ready = &v1.Ready{Notify: true, Within: lasting(10 * time.Second)}
	return s
}

// TestStartIsOverWhenTheProcessSaysSo, in time or in the time that it asked for.
func TestStartIsOverWhenTheProcessSaysSo(t *testing.T) {
	for _, c := range []struct {
		name  string
		ready time.Duration
		// extend is how much it asks for each second, until is the last time.
		extend, until time.Duration
		fault         process.Fault
		text          string
		took          time.Duration
	}{
		{name: "at once", text: "success"},
		{name: "in time", ready: 7 * time.Second, took: 7 * time.Second, text: "success"},
		{
			name: "too late", ready: 12 * time.Second, took: 10 * time.Second, fault: process.CheckFailed,
			text: `not ready after 10 s: it has not said READY=1 at NOTIFY_SOCKET; it says "loading"; pid 100 runs on`,
		},
		{
			name: "too late by a part of a second", ready: time.Hour, extend: 10138860593 * time.Nanosecond,
			until: time.Second, took: 11138860593 * time.Nanosecond, fault: process.CheckFailed, text: "not ready after 11.14s: ",
		},
		{
			name: "in the time that it asked for", ready: 100 * time.Second, extend: 3 * time.Second,
			until: 99 * time.Second, took: 100 * time.Second, text: "success",
		},
		{
			name: "it asks for ever", ready: time.Hour, extend: 3 * time.Second, until: time.Hour,
			took: 10*time.Second + 10*time.Minute, fault: process.CheckFailed, text: "not ready after",
		},
		{
			name: "it asks for all at once", ready: time.Hour, extend: 24 * time.Hour, until: time.Second,
			took: 10*time.Second + 10*time.Minute, fault: process.CheckFailed, text: "not ready after",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.Script(runLine, operationtest.Script{Takes: 3 * time.Hour, Begin: func(run string) {
					w.Say(run, func(s *notify.State) { s.Status, s.HasStatus = "loading", true })
					after(c.ready, func() { w.Say(run, func(s *notify.State) { s.Ready = true }) })
					for at := time.Second; at <= c.until; at += time.Second {
						after(at, func() {
							w.Say(run, func(s *notify.State) { s.Extended, s.ExtendedAt = w.Clock()+c.extend, w.Clock() })
						})
					}
				}})
				s := notifying()
				r, took := w.operate(t, process.Start, s, record.Runtime{})
				if r.Outcome.Fault != c.fault || !strings.Contains(r.Outcome.Text, c.text) || took != c.took {
					t.Errorf("%q %q after %v, want %q %q after %v", r.Outcome.Fault, r.Outcome.Text, took, c.fault, c.text,
						c.took)
				}
				if took > operation.Limit(process.Start, s) {
					t.Errorf("it took %v, and its limit is %v", took, operation.Limit(process.Start, s))
				}
				if unready := r.Runtime.Unready != nil; unready != (c.fault != process.None) || r.Runtime.Process == nil {
					t.Errorf("afterwards %+v", r.Runtime)
				}
			})
		})
	}
}

// TestAWordSentInTimeCountsAtTheEnd, also if it is read at the end of the check only.
func TestAWordSentInTimeCountsAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		say  func(w *world, said *notify.State)
		took time.Duration
	}{
		"ready": {say: func(_ *world, said *notify.State) { said.Ready = true }, took: 10 * time.Second},
		"more time": {took: 12 * time.Second, say: func(w *world, said *notify.State) {
			if said.Extended == 0 {
				said.Extended, said.ExtendedAt = w.Clock()+5*time.Second, w.Clock()
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.Script(runLine, operationtest.Script{Takes: time.Hour, Begin: func(run string) {
					w.OnSettle(func() { w.Say(run, func(said *notify.State) { c.say(w, said) }) })
					after(12*time.Second, func() { w.Say(run, func(said *notify.State) { said.Ready = true }) })
				}})
				r, took := w.operate(t, process.Start, notifying(), record.Runtime{})
				if r.Outcome.Fault != process.None || took != c.took {
					t.Errorf("%+v after %v", r.Outcome, took)
				}
			})
		})
	}
}

// TestAWordThatWasHeardIsKept: it is gone with the agent that heard it, but not from the record.
func TestAWordThatWasHeardIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.Script(runLine, operationtest.Script{Takes: time.Hour, Begin: func(run string) {
			after(3*time.Second, func() { w.Say(run, func(s *notify.State) { s.Ready = true }) })
		}})
		e := entry(process.Start, notifying())
		ctx, cancel := context.WithCancel(t.Context())
		after(time.Second, cancel)
		if _, err := w.operator.Operate(ctx, e, operation.Subject{}); !errors.Is(err, operation.ErrInterrupted) {
			t.Fatal(err)
		}
		if r, err := w.operator.Operate(t.Context(), e, operation.Subject{}); err != nil || r.Outcome.Fault != process.None {
			t.Fatalf("%+v, %v", r.Outcome, err)
		}
		p, err := w.GetProgress(item)
		if err != nil || !p.Ready {
			t.Fatalf("noted %+v, %v", p, err)
		}
		w.Forget() // the next agent has heard nothing
		began := time.Now()
		if r, err := w.operator.Operate(t.Context(), e, operation.Subject{}); err != nil ||
			r.Outcome.Fault != process.None || time.Since(began) > time.Second {
			t.Errorf("%+v, %v after %v", r.Outcome, err, time.Since(began))
		}
	})
}

// TestAStopWaitsForAProcessThatAsksForTime, and not for ever.
func TestAStopWaitsForAProcessThatAsksForTime(t *testing.T) {
	for name, c := range map[string]struct {
		extend, ends, took time.Duration
	}{
		"in time":     {extend: 30 * time.Second, ends: 25 * time.Second, took: 25 * time.Second},
		"for ever":    {extend: 24 * time.Hour, ends: 24 * time.Hour, took: 10*time.Second + 10*time.Minute},
		"it does not": {ends: time.Hour, took: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var run string
				w.Script(runLine, operationtest.Script{Takes: 30 * time.Hour, Begin: func(id string) {
					run = id
					w.Say(run, func(s *notify.State) {
						// What it asked for during its start does not count.
						s.Ready, s.Extended, s.ExtendedAt = true, w.Clock()+time.Hour, w.Clock()
					})
				}})
				s := notifying()
				started, _ := w.operate(t, process.Start, s, record.Runtime{})
				<-time.After(time.Second)
				who := *started.Runtime.Process
				w.OnTERM(who, func() {
					if c.extend > 0 {
						w.Say(run, func(s *notify.State) { s.Extended, s.ExtendedAt = w.Clock()+c.extend, w.Clock() })
					}
					after(c.ends, func() { w.Exit(who, 0) })
				})
				r, took := w.operate(t, process.Stop, s, started.Runtime)
				if r.Outcome.Fault != process.None || took < c.took || took > c.took+time.Second {
					t.Errorf("%+v after %v, want success after %v", r.Outcome, took, c.took)
				}
				if took > operation.Limit(process.Stop, s) {
					t.Errorf("it took %v, and its limit is %v", took, operation.Limit(process.Stop, s))
				}
			})
		})
	}
}
