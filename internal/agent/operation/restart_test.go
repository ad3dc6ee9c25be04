package operation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

func TestRestart(t *testing.T) {
	restart := []string{"restart"}
	for _, c := range []scenario{
		{
			name: "of a hosted process", running: true, known: hosted, text: "success", took: 6 * time.Second,
			ran: restart, alive: true, hosted: true,
		},
		{
			name: "of an unknown process", running: true, text: "success", took: 6 * time.Second, ran: restart,
			alive: true, hosted: true,
		},
		{
			name: "of one that does not run", known: registered, text: "success", took: 6 * time.Second, ran: restart,
			alive: true, hosted: true,
		},
		{
			name: "nothing runs afterwards", running: true, known: hosted, hosted: true, took: 6 * time.Second,
			ran: restart,
			set: func(w *world, _ *process.Spec) {
				w.Script("restart", operationtest.Script{Takes: time.Second, End: func(string) { w.Kill(pidFile) }})
			},
			fault: process.CheckFailed,
			text:  "restart process (nginx) failed, for post-check status not alive: pid 100 in /run/nginx.pid does not run; pid 100 was ended before, and the process is down",
		},
		{
			name: "the command fails, the process was there before", running: true, known: hosted, hosted: true,
			alive: true, ran: restart,
			set: func(w *world, _ *process.Spec) {
				w.Script("restart", operationtest.Script{Code: 2, Output: "syntax"})
			},
			fault: process.Failed,
			text:  "Script exit code non-zero. Error msessage: [syntax] (restart_cmd: exit status 2); pid 100 runs on",
		},
		{
			name: "the command fails, what it has started is ended", ran: restart,
			set: func(w *world, _ *process.Spec) {
				w.Script("restart",
					operationtest.Script{Code: 2, Begin: func(run string) { w.Spawn("nginx", pidFile, run) }})
			},
			fault: process.Failed,
			text:  "Script exit code non-zero. Error msessage: [] (restart_cmd: exit status 2); drover ended the processes that it had started: pid 101 (nginx)",
		},
		{
			name: "the time limit ends the new process too", running: true, known: hosted, hosted: true,
			took: time.Minute, ran: restart,
			set: func(w *world, _ *process.Spec) {
				w.Script("restart", operationtest.Script{Takes: time.Hour, Begin: func(run string) {
					w.Kill(pidFile)
					w.Spawn("nginx", pidFile, run)
				}})
			},
			fault: process.Failed,
			text:  "restart_cmd timed out after 60 s; drover ended it with all processes that it had started. Output: []; pid 100 was ended before, and the process is down",
		},
		{
			name: "hosted under another name", running: true, known: registered, alive: true,
			set:   func(w *world, _ *process.Spec) { w.peers.hosting = other() },
			fault: process.Failed, text: "cannot host the process: it is hosted as other/nginx",
		},
	} {
		c.op = process.Restart
		c.run(t)
	}
}

func TestRestartWithoutCommand(t *testing.T) {
	for _, c := range []scenario{
		{
			name: "stop, then start", running: true, known: hosted, text: "success", took: 7 * time.Second,
			ran: []string{"stop", "start"}, alive: true, hosted: true,
		},
		{
			name: "nothing to stop", known: hosted, text: "success", took: 6 * time.Second, ran: []string{"start"},
			alive: true, hosted: true,
		},
		{
			name: "SIGTERM, then start", running: true, known: hosted, set: func(_ *world, s *process.Spec) {
				s.Stop = ""
			},
			text: "success", took: 6 * time.Second, ran: []string{"start"}, alive: true, hosted: true,
		},
		{
			name: "no start command either: nothing is touched", running: true, known: hosted, alive: true,
			hosted: true,
			set:    func(_ *world, s *process.Spec) { s.Start = "" },
			fault:  process.Failed, text: "restart_cmd is empty, and start_cmd is empty too: nothing was done",
		},
		{
			name: "the stop command fails", running: true, known: hosted, alive: true, hosted: true,
			ran:   []string{"stop"},
			set:   func(w *world, _ *process.Spec) { w.Script("stop", operationtest.Script{Code: 1}) },
			fault: process.Failed, text: "Script exit code non-zero. Error msessage: [] (stop_cmd: exit status 1)",
		},
		{
			name: "it does not stop", running: true, known: hosted, alive: true, hosted: true, ran: []string{"stop"},
			took:  5 * time.Second,
			set:   func(w *world, _ *process.Spec) { w.Script("stop", operationtest.Script{}) },
			fault: process.CheckFailed, text: "restart " + stillAlive,
		},
		{
			name: "it does not come up again", running: true, known: hosted, hosted: true,
			ran: []string{"stop", "start"}, took: 6 * time.Second,
			set:   func(w *world, _ *process.Spec) { w.Script("start", operationtest.Script{}) },
			fault: process.CheckFailed,
			text:  "restart process (nginx) failed, for post-check status not alive: pid 100 in /run/nginx.pid does not run; pid 100 was ended before, and the process is down",
		},
		{
			name: "the start command fails: what it has started is ended", running: true, known: hosted, hosted: true,
			ran: []string{"stop", "start"}, took: time.Second,
			set: func(w *world, _ *process.Spec) {
				w.Script("start",
					operationtest.Script{Code: 4, Begin: func(run string) { w.Spawn("nginx", pidFile, run) }})
			},
			fault: process.Failed,
			text:  "Script exit code non-zero. Error msessage: [] (start_cmd: exit status 4); drover ended the processes that it had started: pid 103 (nginx); pid 100 was ended before, and the process is down",
		},
	} {
		c.op = process.Restart
		set := c.set
		c.set = func(w *world, s *process.Spec) {
			s.Compat.RestartCommand = ""
			if set != nil {
				set(w, s)
			}
		}
		c.run(t)
	}
}

func TestReload(t *testing.T) {
	reload := []string{"reload"}
	for _, c := range []scenario{
		{
			name: "a hosted process goes on with the new spec", running: true, known: hosted, text: "success",
			took: 6 * time.Second, ran: reload, alive: true, hosted: true,
		},
		{
			name: "one that is not hosted stays so", running: true, known: registered, text: "success",
			took: 6 * time.Second, ran: reload, alive: true,
		},
		{
			name: "an unknown one stays so", running: true, text: "success", took: 6 * time.Second, ran: reload,
			alive: true,
		},
		{
			name: "without a command", running: true, known: hosted, alive: true, hosted: true,
			set:   func(_ *world, s *process.Spec) { s.Reload = &v1.Reload{Command: ""} },
			fault: process.Failed, text: "reload_cmd is empty",
		},
		{
			name: "the command fails", running: true, known: hosted, alive: true, hosted: true, ran: reload,
			set: func(w *world, _ *process.Spec) {
				w.Script("reload", operationtest.Script{Code: 1, Output: "bad config"})
			},
			fault: process.Failed,
			text:  "Script exit code non-zero. Error msessage: [bad config] (reload_cmd: exit status 1)",
		},
		{
			name: "it does not survive", running: true, known: hosted, hosted: true, ran: reload, took: 6 * time.Second,
			set: func(w *world, _ *process.Spec) {
				id, _ := w.Alive(pidFile)
				after(3*time.Second, func() { w.Exit(id, 7) })
			},
			fault: process.CheckFailed,
			text:  "reload process (nginx) failed, for post-check status not alive: pid 100 exit status 7",
		},
		{
			name: "nothing ran", known: hosted, hosted: true, ran: reload, took: 6 * time.Second,
			fault: process.CheckFailed, text: "reload process (nginx) failed, for post-check status not alive: " +
				missing,
		},
	} {
		c.op = process.Reload
		c.run(t)
	}
}

// TestWhatIsKnownOfTheInstance: an operation leaves behind in which run the instance was started, and by whom.
func TestWhatIsKnownOfTheInstance(t *testing.T) {
	replace := func(w *world) func(string) {
		return func(string) {
			w.Kill(pidFile)
			w.Spawn("nginx", pidFile, "")
		}
	}
	for _, c := range []struct {
		name    string
		op      process.Op
		set     func(w *world)
		run     string
		outside bool
	}{
		{"restart", process.Restart, nil, operationtest.RunID(nginx(), 1), false},
		{"reload of the same instance", process.Reload, nil, "earlier", false},
		{"reload that replaces the instance", process.Reload, func(w *world) {
			w.Script("reload", operationtest.Script{End: replace(w)})
		}, "", true},
		{"query", process.Query, nil, "earlier", false},
		{"query after a restart from outside", process.Query, func(w *world) { replace(w)("") }, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				before := w.Spawn("nginx", pidFile, "earlier")
				subject := hosted.subject()
				subject.Runtime = record.Runtime{Process: &before, PIDFile: pidFile, Run: "earlier", LastStartAt: 1}
				if c.set != nil {
					c.set(w)
				}
				r, err := w.operator.Operate(t.Context(), entry(c.op, spec()), subject)
				if err != nil {
					t.Fatal(err)
				}
				now, _ := w.Alive(pidFile)
				type known struct {
					process      instance.Identity
					file, run    string
					outside      bool
					launchedByUs bool
				}
				want := known{now, pidFile, c.run, c.outside, c.run == operationtest.RunID(nginx(), 1)}
				rt := r.Runtime
				got := known{*rt.Process, rt.PIDFile, rt.Run, rt.Outside, rt.LastStartAt != 1}
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(known{})); diff != "" {
					t.Errorf("(-want +got): %s", diff)
				}
			})
		})
	}
}
