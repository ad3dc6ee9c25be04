package schedule_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// seen stores what the host has told of the process of a run.
func (r *rig) seen(kind process.Kind, state string, cause process.Cause, exit *process.Exit) {
	r.t.Helper()
	run := process.Run{Started: 1, PID: 7, Exit: exit}
	if state != process.StateRunning {
		run.Ended = 2
	}
	r.must(r.PutObserved(r.t.Context(), store.ReportMark{}, []store.Observed{{
		Agent: "key of web-1", Process: process.ID{Namespace: "shop", Name: "web"},
		Status: process.Status{Known: true, State: state, Cause: cause, Runs: []process.Run{run}},
		Spec:   &process.Spec{Once: kind == process.SingleRun},
	}}, nil))
}

// TestOutcomeOfARun: the result of a run is that of the process that runs once, not that of its start.
func TestOutcomeOfARun(t *testing.T) {
	exit := func(code int) *process.Exit { return &process.Exit{Known: true, Code: code} }
	for name, c := range map[string]struct {
		kind       process.Kind
		state      string
		cause      process.CauseID
		exit       *process.Exit
		away       time.Duration
		want, text string
	}{
		"resident":  {process.Resident, process.StateRunning, "", nil, 0, "ok", ""},
		"goes on":   {process.SingleRun, process.StateRunning, "", nil, 0, "running", ""},
		"away":      {process.SingleRun, process.StateRunning, "", nil, time.Minute, "running", ""},
		"lost":      {process.SingleRun, process.StateRunning, "", nil, time.Hour, "unknown", "its host went away"},
		"succeeded": {process.SingleRun, process.StateFinished, process.CauseFinished, exit(0), time.Hour, "ok", ""},
		"failed": {
			process.SingleRun, process.StateFinished, process.CauseRunFailed, exit(3), 0, "failed",
			"1 of 1 runs failed; the first: shop/web on web-1: because of run-failed",
		},
		"unseen": {
			process.SingleRun, process.StateFinished, process.CauseUnseen, nil, 0, "unknown",
			"nobody knows how 1 of 1 runs ended; the first: shop/web on web-1: because of ended-unseen",
		},
		"stopped": {process.SingleRun, process.StateStopped, process.CauseStopped, exit(143), 0, "failed", "because of"},
	} {
		r := newRig(t)
		r.to(2, 3, 0)
		cause := process.Cause{ID: c.cause}
		if c.cause != "" {
			cause.Text = "because of " + string(c.cause)
		}
		r.seen(c.kind, c.state, cause, c.exit)
		r.finish(process.None)
		r.away = c.away
		wait := r.to(2, 3, 1)
		r.want("02 03:00 " + c.want)
		runs, err := r.ListRuns(t.Context(), "nightly", 1)
		r.must(err)
		if !strings.Contains(runs[0].Text, c.text) || c.text == "" && runs[0].Text != "" {
			t.Errorf("%s: the text is %q", name, runs[0].Text)
		}
		if alarm := len(r.told()) == 1; alarm != (c.want == "failed" || c.want == "unknown") {
			t.Errorf("%s: the events are %q", name, r.told())
		}
		if wait != 10*time.Second {
			t.Errorf("%s: the next look is after %s", name, wait)
		}
	}
}

// TestRunEndsLater: a run goes on until its process has ended; the time in between is skipped.
func TestRunEndsLater(t *testing.T) {
	r := newRig(t)
	r.to(2, 3, 0)
	r.seen(process.SingleRun, process.StateRunning, process.Cause{}, nil)
	r.finish(process.None)
	r.to(3, 3, 0)
	r.seen(process.SingleRun, process.StateFinished, process.Cause{ID: process.CauseFinished},
		&process.Exit{Known: true})
	r.to(3, 3, 1)
	r.want("02 03:00 ok", "03 03:00 skipped")
}
