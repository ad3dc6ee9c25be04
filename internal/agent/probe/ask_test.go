package probe_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// askers ask at the same time and return how long the longest of them had to wait.
func askers(n int, ask func()) time.Duration {
	var all sync.WaitGroup
	began := time.Now()
	for range n {
		all.Go(ask)
	}
	all.Wait()
	return time.Since(began)
}

// TestOneAsksForAll: whoever asks at the same time, or soon after, shares one answer.
func TestOneAsksForAll(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{Takes: time.Second})
		r.Script("v", operationtest.Script{Takes: time.Second, Output: "1.0"})
		s := r.running(spec("h", "v", v1.Health{}))
		ask := func() {
			if h, v := r.Ask(t.Context(), nginx(), s); h == nil || h.Text != "ok" || v == nil || v.Text != "1.0" {
				t.Errorf("the answers are %+v, %+v", h, v)
			}
		}
		if took := askers(5, ask); took != 2*time.Second || len(r.Lines()) != 2 {
			t.Errorf("five at once took %v and ran %q", took, r.Lines())
		}
		pass(8 * time.Second)
		if took := askers(5, ask); took != 0 || len(r.Lines()) != 2 {
			t.Errorf("soon after it took %v and ran %q", took, r.Lines())
		}
		pass(2 * time.Second)
		if took := askers(5, ask); took != 2*time.Second || len(r.Lines()) != 4 {
			t.Errorf("a while later it took %v and ran %q", took, r.Lines())
		}
		if heard := len(r.take(true)); heard != 2 {
			t.Errorf("the sink has heard %d answers", heard)
		}
		// Nobody has set it: it is not asked by itself.
		pass(time.Hour)
		if len(r.Lines()) != 4 {
			t.Errorf("ran %q", r.Lines())
		}
		r.Drop(nginx())
		if h, v := r.LastAnswers(nginx(), s.Instance); h != nil || v != nil {
			t.Errorf("it still says %+v, %+v", h, v)
		}
	})
}

// TestOlderSpec: who asks by a spec that has been replaced meanwhile is answered by the present one, and leaves the
// schedule as it is.
func TestOlderSpec(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("v", operationtest.Script{Output: "1"})
		r.Script("w", operationtest.Script{Output: "2"})
		old := r.running(spec("", "v", v1.Health{}))
		s := old
		s.Revision, s.Spec = 2, spec("", "w", v1.Health{})
		r.Set(nginx(), s)
		if _, v := r.Ask(t.Context(), nginx(), old); v == nil || v.Text != "2" {
			t.Errorf("the answer is %+v", v)
		}
		pass(time.Hour)
		for _, e := range r.take(false) {
			if e.revision != 2 || e.Text != "2" {
				t.Errorf("told by revision %d: %q", e.revision, e.Text)
			}
		}
	})
}

func TestAnotherSpecOrInstanceIsAskedAnew(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("v", operationtest.Script{Output: "1"})
		r.Script("w", operationtest.Script{Output: "2"})
		s := r.running(spec("", "v", v1.Health{}))
		r.Set(nginx(), s)
		says := func(want string) {
			t.Helper()
			if _, v := r.Ask(t.Context(), nginx(), s); v == nil || v.Text != want {
				t.Errorf("the answer is %+v, want %s", v, want)
			}
		}
		says("1")
		s.Revision, s.Spec = 2, spec("", "w", v1.Health{})
		says("2")
		s.Revision, s.Instance = 3, r.Spawn("nginx", "", "")
		r.Script("w", operationtest.Script{Output: "3"})
		says("3")
		// It is asked on schedule as before.
		pass(30 * time.Minute)
		if n := len(r.take(false)); n < 5 || n > 7 {
			t.Errorf("%d answers in half an hour", n)
		}
	})
}

// TestNobodyWaitsForLong: what takes longer than somebody will wait goes on, and is there for the next one.
func TestNobodyWaitsForLong(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{Takes: 20 * time.Second})
		s := r.running(spec("h", "", v1.Health{Timeout: secs(30)}))
		if took := askers(3, func() {
			if h, _ := r.Ask(t.Context(), nginx(), s); h != nil {
				t.Errorf("it says %+v", h)
			}
		}); took != 6*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took := askers(1, func() { r.Ask(ctx, nginx(), s) }); took != time.Second {
			t.Errorf("who waits for one second waits for %v", took)
		}
		pass(14 * time.Second)
		if took := askers(1, func() {
			if h, _ := r.Ask(t.Context(), nginx(), s); h == nil || !h.OK {
				t.Errorf("in the end it says %+v", h)
			}
		}); took != 0 || len(r.Lines()) != 1 {
			t.Errorf("in the end it took %v and ran %q", took, r.Lines())
		}
	})
}

// TestADroppedProcessIsNotWaitedFor: whoever asks is let go.
func TestADroppedProcessIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{Takes: time.Hour})
		s := r.running(spec("h", "", v1.Health{}))
		time.AfterFunc(time.Second, func() { r.Drop(nginx()) })
		if took := askers(3, func() {
			if h, _ := r.Ask(t.Context(), nginx(), s); h != nil {
				t.Errorf("it says %+v", h)
			}
		}); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestAnotherInstanceIsNoAnswer: what it says is not told of the one that was asked about.
func TestAnotherInstanceIsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{Takes: 3 * time.Second})
		s := r.running(spec("h", "", v1.Health{}))
		time.AfterFunc(time.Second, func() { r.Set(nginx(), r.running(s.Spec)) })
		askers(3, func() {
			if h, v := r.Ask(t.Context(), nginx(), s); h != nil || v != nil {
				t.Errorf("it says %+v, %+v", h, v)
			}
		})
	})
}

// TestWhoAsksMakesNobodySick: only the schedule counts failures.
func TestWhoAsksMakesNobodySick(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("h", operationtest.Script{Code: 1})
		s := r.running(spec("h", "", v1.Health{Every: secs(600)}))
		r.Set(nginx(), s)
		for range 10 {
			pass(11 * time.Second)
			if h, _ := r.Ask(t.Context(), nginx(), s); h == nil || h.OK || h.Failures != 1 || h.Bad {
				t.Errorf("it says %+v", h)
			}
		}
		r.Script("h", operationtest.Script{})
		pass(11 * time.Second)
		if h, _ := r.Ask(t.Context(), nginx(), s); h == nil || !h.OK || h.Failures != 0 {
			t.Errorf("in the end it says %+v", h)
		}
	})
}

// TestWhoAsksGoesFirst: not behind all that is due.
func TestWhoAsksGoesFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Script("slow", operationtest.Script{Takes: time.Hour})
		r.Script("h", operationtest.Script{})
		for i := range 200 {
			r.Set(process.ID{Namespace: "ns", Name: strconv.Itoa(i)},
				r.running(spec("slow", "", v1.Health{Every: secs(1)})))
		}
		pass(time.Minute)
		s := r.running(spec("h", "", v1.Health{}))
		if took := askers(1, func() {
			if h, _ := r.Ask(t.Context(), nginx(), s); h == nil || !h.OK {
				t.Errorf("it says %+v", h)
			}
		}); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestTry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stop() // it does not need Run
		s := spec("", "", v1.Health{})
		try := func(ctx context.Context, script operationtest.Script) error {
			r.Script("ready", script)
			return r.Try(ctx, nginx(), s, "ready", 2*time.Second)
		}
		if err := try(t.Context(), operationtest.Script{Output: "x"}); err != nil {
			t.Error(err)
		}
		if err := try(t.Context(), operationtest.Script{Code: 4, Output: "not\nyet"}); err == nil ||
			err.Error() != "exit status 4: not yet" {
			t.Error(err)
		}
		if err := try(t.Context(), operationtest.Script{Takes: time.Hour}); err == nil ||
			err.Error() != "timed out after 2s" {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		if err := try(ctx, operationtest.Script{Takes: time.Hour}); !errors.Is(err, context.Canceled) ||
			time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if ends := r.Ends(); len(ends) != 4 {
			t.Errorf("ended %+v", ends)
		}
		synctest.Wait()
	})
}
