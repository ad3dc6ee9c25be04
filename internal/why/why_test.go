package why_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/why"
	"drover/internal/words"
)

func now() time.Time { return time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC) }

func here() why.Agent { return why.Agent{Joined: true, Seen: now()} }

func away(d time.Duration) why.Agent {
	return why.Agent{Joined: true, Away: true, Since: now().Add(-d), Seen: now().Add(-d)}
}

func running() *process.Status {
	return &process.Status{
		Known: true, Hosted: true, Want: process.WantRunning, State: "running",
		Instance: process.Instance{PID: 7}, ReportedAt: now().Unix() - 60,
	}
}

// down is a process that should run and does not.
func down(state string, id process.CauseID) *process.Status {
	return &process.Status{
		Known: true, Hosted: true, Want: process.WantRunning, State: state, Instance: process.Instance{PID: -1},
		Cause: process.Cause{ID: id, Text: "so it is"}, LastStartAt: 1, ReportedAt: now().Unix() - 60,
	}
}

func with(s *process.Status, change func(*process.Status)) *process.Status {
	change(s)
	return s
}

// nobodys is one that nobody expects to run.
func nobodys(s *process.Status) *process.Status {
	return with(s, func(s *process.Status) { s.Hosted, s.Want = false, process.WantNothing })
}

func waiting(d time.Duration) why.Operation {
	return why.Operation{Op: process.Restart, Task: "op-1", App: "shop", User: "anna", Asked: now().Add(-d)}
}

func begun(d time.Duration) why.Operation {
	o := waiting(d)
	o.Accepted, o.Begun = true, true
	return o
}

// told is a finding in short: severity or "-", the id, the sentence.
func told(v why.Finding) string {
	mark := "-"
	if v.Wrong {
		mark = string(v.Severity)
	}
	return fmt.Sprintf("%s [%s] %s", mark, v.Cause.ID, v.Cause.Text)
}

func TestJudge(t *testing.T) {
	none := "- [] "
	for name, tt := range map[string]struct {
		agent      why.Agent
		status     *process.Status
		operations []why.Operation
		want       string
	}{
		"it runs": {here(), running(), nil, none},
		"the agent's word": {
			here(), down("backoff", process.CauseExitStatus), nil, "critical [exit-status] so it is",
		},
		"runs, and keeps ending": {
			here(), with(running(), func(s *process.Status) {
				s.State, s.Cause = process.StateFlapping, process.Cause{ID: process.CauseRelaunched, Text: "so it is"}
			}), nil, "- [relaunched] so it is",
		},
		"flapping": {
			here(), with(running(), func(s *process.Status) {
				s.State, s.Cause = process.StateFlapping, process.Cause{ID: process.CauseFlapping, Text: "so it is"}
			}), nil, "critical [flapping] so it is",
		},
		"unhealthy": {
			here(), with(running(), func(s *process.Status) {
				s.State, s.Cause = process.StateUnhealthy, process.Cause{ID: process.CauseUnhealthy, Text: "so it is"}
			}), nil, "warning [unhealthy] so it is",
		},
		"between two runs": {
			here(), down("scheduled", process.CauseRunFailed), nil, "warning [run-failed] so it is",
		},
		"its relaunch is withheld": {
			here(), down("backoff", process.CauseBreakerOpen), nil, "critical [breaker-open] so it is",
		},
		"given up": {
			here(), down("given-up", process.CauseExitStatus), nil, "critical [exit-status] so it is",
		},
		"cannot start": {
			here(), down("stopped", process.CauseNoUser), nil, "critical [no-such-user] so it is",
		},
		"runs all the same": {
			here(), with(running(), func(s *process.Status) { s.Cause.ID = process.CauseStopFailed }), nil,
			"warning [stop-failed] ",
		},
		"unknown cause of a newer agent": {here(), down("backoff", "meteor"), nil, "critical [meteor] so it is"},
		"as it was asked for": {
			here(), down("stopped", process.CauseStopped), nil,
			"- [stopped-by-operation] so it is",
		},
		"ended, and nobody minds": {
			here(), nobodys(down("stopped", process.CauseExitStatus)), nil,
			"- [exit-status] so it is",
		},
		"an operation on it has failed": {
			here(), nobodys(down("stopped", process.CauseNoUser)), nil,
			"critical [no-such-user] so it is",
		},
		"finished well": {
			here(), with(down("finished", process.CauseFinished), func(s *process.Status) {
				s.LastExit = &process.Exit{Known: true}
			}), nil, "- [finished] so it is",
		},
		"finished badly": {
			here(), with(down("finished", process.CauseFinished), func(s *process.Status) {
				s.LastExit = &process.Exit{Known: true, Code: 2}
				s.Cause.ID = ""
			}), nil,
			"warning [finished] The process has done its work; drover does not start it again.",
		},
		"finished with another status that is a success": {
			here(), with(down("finished", process.CauseFinished), func(s *process.Status) {
				s.LastExit = &process.Exit{Known: true, Code: 2}
			}), nil, "- [finished] so it is",
		},
		"unknown to the host": {
			here(), nil, nil,
			"critical [process-unknown] the agent on h1 does not know process web/nginx",
		},
		"forgotten by the host": {
			here(), &process.Status{}, nil,
			"critical [process-unknown] the agent on h1 does not know process web/nginx",
		},
		"no agent": {why.Agent{}, nil, nil, "critical [agent-unknown] no agent has ever joined as h1"},
		"an agent of the past": {
			why.Agent{},
			running(), nil,
			"critical [agent-unknown] the agent that reported it is no longer known as h1",
		},
		"away": {
			away(4*time.Minute + 2*time.Second), running(), nil,
			"critical [agent-away] the agent of the host has been away for 4m2s; as of 2026-11-20T10:29:00Z the process was running",
		},
		"away since the server began": {
			why.Agent{Joined: true, Away: true, Since: now()},
			with(running(), func(s *process.Status) { s.ReportedAt = 0 }), nil,
			"critical [agent-away] the agent of the host has sent nothing since the server started; in its last report the process was running",
		},
		"away, and nobody minds": {
			away(time.Minute), nobodys(down("stopped", process.CauseStopped)), nil,
			"- [agent-away] the agent of the host has been away for 1m; as of 2026-11-20T10:29:00Z the process was stopped",
		},
		"away, and somebody waits": {
			away(time.Minute), nobodys(down("stopped", process.CauseStopped)),
			[]why.Operation{waiting(time.Second)},
			"critical [agent-away] the agent of the host has been away for 1m; as of 2026-11-20T10:29:00Z the process was stopped",
		},
		"waits for a moment": {
			here(), running(),
			[]why.Operation{waiting(3 * time.Second)},
			"- [operation-queued] restart by anna (op-1) has been waiting for 3s",
		},
		"waits from now on": {
			here(), running(),
			[]why.Operation{waiting(0)},
			"- [operation-queued] restart by anna (op-1) has just been requested",
		},
		"waits too long": {
			here(), running(),
			[]why.Operation{waiting(95 * time.Second)},
			"warning [operation-queued] restart by anna (op-1) has been waiting for 1m35s",
		},
		"is down, and help is near": {
			here(), down("given-up", process.CauseExitStatus),
			[]why.Operation{waiting(time.Second)},
			"critical [exit-status] so it is",
		},
		"is down, and help does not come": {
			here(), down("backoff", process.CauseExitStatus),
			[]why.Operation{waiting(time.Minute)},
			"critical [operation-queued] restart by anna (op-1) has been waiting for 1m",
		},
		"is worked on": {
			here(), down("operating", process.CauseOperating),
			[]why.Operation{begun(time.Hour)},
			"- [operation-under-way] restart by anna (op-1) under way since 2026-11-20T09:30:00Z",
		},
		"is worked on for the first time": {
			here(), nil,
			[]why.Operation{begun(time.Second)},
			"- [operation-under-way] restart by anna (op-1) under way since 2026-11-20T10:29:59Z",
		},
		"is wanted for the first time": {
			here(), nil,
			[]why.Operation{waiting(time.Second)},
			"- [operation-queued] restart by anna (op-1) has been waiting for 1s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := why.Open().Judge(why.Facts{
				Process: process.ID{Namespace: "web", Name: "nginx"}, Host: "h1", Now: now(), Agent: tt.agent,
				Status: tt.status, Operations: tt.operations,
			})
			if d := cmp.Diff(tt.want, told(got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if got.Impact == "" {
				t.Error("it does not say what that means")
			}
			if !got.Wrong && got.Severity != why.Notice {
				t.Errorf("severity %s of what is right", got.Severity)
			}
		})
	}
}

// TestEvidence: what comes first leaves nothing else unsaid.
func TestEvidence(t *testing.T) {
	sick := down("given-up", process.CauseExitStatus)
	sick.Cause.Evidence = []string{"exit status 3"}
	facts := why.Facts{
		Host: "h1", Now: now(), Agent: away(time.Minute), Status: sick,
		Operations: []why.Operation{waiting(time.Second)},
	}
	v := why.Open().Judge(facts)
	want := []string{
		"last heard at 2026-11-20T10:29:00Z", "last reported cause: so it is [exit-status]",
		"restart by anna (op-1) waits for the agent",
	}
	if d := cmp.Diff(want, v.Cause.Evidence); d != "" {
		t.Errorf("away (-want +got):\n%s", d)
	}
	if v.Then == nil || v.Then.ID != process.CauseExitStatus || v.Cause.Since != now().Add(-time.Minute).UnixMilli() {
		t.Errorf("then %v, since %d", v.Then, v.Cause.Since)
	}
	facts.Agent = here()
	v = why.Open().Judge(facts)
	if d := cmp.Diff([]string{"exit status 3", "restart by anna (op-1) is about to begin"}, v.Cause.Evidence); d != "" {
		t.Errorf("help is near (-want +got):\n%s", d)
	}
	if len(sick.Cause.Evidence) != 1 {
		t.Error("the facts were changed")
	}
	facts.Operations = []why.Operation{waiting(time.Hour), waiting(time.Minute)}
	facts.Operations[0].Accepted = true
	v = why.Open().Judge(facts)
	want = []string{
		"the agent has accepted the operation and has not begun it", "until then: so it is [exit-status]",
		"restart by anna (op-1) is queued behind it",
	}
	if d := cmp.Diff(want, v.Cause.Evidence); d != "" {
		t.Errorf("waits (-want +got):\n%s", d)
	}
}

// TestAgentOfAnEarlierVersion: it sends states and no causes.
func TestAgentOfAnEarlierVersion(t *testing.T) {
	exit := func(e process.Exit) *process.Exit { e.Known = true; return &e }
	for _, tt := range []struct {
		status process.Status
		want   process.CauseID
	}{
		{process.Status{State: "running", Instance: process.Instance{PID: 7}}, ""},
		{process.Status{State: "unknown"}, ""},
		{process.Status{State: "given-up"}, process.CauseUnseen},
		{process.Status{State: "given-up", LastExit: exit(process.Exit{})}, process.CauseExited},
		{process.Status{State: "given-up", LastExit: exit(process.Exit{Code: 1})}, process.CauseExitStatus},
		{process.Status{State: "given-up", LastExit: exit(process.Exit{Signal: 15})}, process.CauseSignal},
		{process.Status{State: "given-up", LastExit: exit(process.Exit{Signal: 11, Core: true})}, process.CauseCore},
		{process.Status{State: "given-up", LastExit: exit(process.Exit{Signal: 9, OOM: true})}, process.CauseOOM},
		{process.Status{State: "starting"}, ""}, // it may be a run that is due
		{process.Status{State: "operating"}, process.CauseOperating},
		{process.Status{State: "stopping"}, process.CauseOperating},
		{process.Status{State: "scheduled"}, process.CauseWaitsForSchedule},
		{process.Status{State: "finished"}, process.CauseFinished},
		{process.Status{State: "flapping"}, process.CauseFlapping},
		{process.Status{State: "unhealthy"}, process.CauseUnhealthy},
		{process.Status{State: "stopped", Want: process.WantStopped}, process.CauseNeverStarted},
		{process.Status{State: "stopped", Want: process.WantStopped, LastStartAt: 1}, process.CauseStopped},
		{process.Status{State: "stopped", LastStartAt: 1}, process.CauseUnhosted},
		{process.Status{State: "stopped", LastStartAt: 1, Hosted: true}, process.CauseUnseen},
	} {
		tt.status.Known = true
		c := why.Open().Judge(why.Facts{Agent: here(), Now: now(), Status: &tt.status}).Cause
		if c.ID != tt.want {
			t.Errorf("%+v: %q, want %q", tt.status, c.ID, tt.want)
		}
		if c.ID != "" && c.Text == "" {
			t.Errorf("%s has no words", c.ID)
		}
	}
}

func TestImpact(t *testing.T) {
	seen := map[string]string{}
	for _, state := range []string{
		"given-up", "backoff", "starting", "stopping", "operating", "scheduled", "finished",
		"stopped",
	} {
		v := why.Open().Judge(why.Facts{Agent: here(), Now: now(), Status: down(state, process.CauseExitStatus)})
		if other, twice := seen[v.Impact]; twice {
			t.Errorf("%s and %s are %q alike", state, other, v.Impact)
		}
		seen[v.Impact] = state
	}
}

// TestRebootedRun: what the catalogue says of a reboot holds for a run that does not begin again, too.
func TestRebootedRun(t *testing.T) {
	s := down("finished", process.CauseRebooted)
	s.Cause.Text = ""
	v := why.Open().Judge(why.Facts{Agent: here(), Now: now(), Status: s})
	e, _ := why.Open().Lookup(process.CauseRebooted)
	if v.Impact != "it has ended, and drover does not start it again" ||
		e.Meaning.In(words.English) != "The host rebooted or shuts down, which has ended the process." ||
		!strings.Contains(e.Remedy.In(words.English), "A run does not begin again") {
		t.Errorf("%q, %q, %q", e.Meaning.In(words.English), v.Impact, e.Remedy.In(words.English))
	}
}

// TestImpactOfAnOutage: the time in which the process has run does not count as down.
func TestImpactOfAnOutage(t *testing.T) {
	began := now().Add(-45 * time.Second).UnixMilli()
	for _, tt := range []struct {
		state string
		last  int64
		want  string
	}{
		{"backoff", began - 1, "it is down, and drover will relaunch it"},
		{"backoff", began + 30_000, "it keeps ending, and drover relaunches it"},
		{"flapping", began + 30_000, "it keeps ending, and drover relaunches it"},
		{"starting", began + 30_000, "it keeps ending, and drover relaunches it"},
		{"given-up", began, "it is down until somebody starts or retries it"},
		{"given-up", began + 30_000, "it kept ending, and is down until somebody starts or retries it"},
	} {
		s := down(tt.state, process.CauseExitStatus)
		s.Cause.Since, s.LastExit = began, &process.Exit{At: tt.last, Known: true, Code: 7}
		if v := why.Open().Judge(why.Facts{Agent: here(), Now: now(), Status: s}); v.Impact != tt.want {
			t.Errorf("%s %s after the outage began: %q, want %q", tt.state,
				time.Duration(tt.last-began)*time.Millisecond, v.Impact, tt.want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 999 * time.Millisecond: "0s", 59 * time.Second: "59s", time.Minute: "1m",
		61 * time.Second: "1m1s",
		time.Hour:        "1h", time.Hour + time.Second: "1h", 25*time.Hour + 59*time.Minute: "1d1h",
		50 * time.Hour:       "2d2h",
		400 * 24 * time.Hour: "400d",
	} {
		if got := why.Age(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}

func TestSeverities(t *testing.T) {
	if why.Critical.Compare(why.Warning) >= 0 || why.Warning.Compare(why.Notice) >= 0 ||
		why.Notice.Compare(why.Notice) != 0 {
		t.Error("the worst does not come first")
	}
	for _, e := range why.Entries() {
		if strings.TrimSpace(string(e.Severity)) == "" {
			t.Errorf("%s has no severity", e.ID)
		}
	}
}
