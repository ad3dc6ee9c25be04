package supervisor_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// TestEndInAReload: a process that ends in its reload has ended after a healthy run. So its first relaunch is at once,
// and the end is told with its run time, its output and what ended it.
func TestEndInAReload(t *testing.T) {
	running := func(r *rig) instance.Identity {
		_, rt, _ := r.Running(id("web"))
		if rt.Process == nil {
			return instance.Identity{}
		}
		return *rt.Process
	}
	for name, tt := range map[string]struct {
		signal  string
		command operationtest.Script
		ready   v1.Ready
		cause   process.CauseID
		text    string
	}{
		"signal": {signal: "HUP", cause: process.CauseSignal, text: "killed by signal 1 (SIGHUP)"},
		"signal, tested": {
			signal: "HUP", ready: v1.Ready{Exec: "is-ready"}, cause: process.CauseSignal,
			text: "killed by signal 1 (SIGHUP)",
		},
		"command": {cause: process.CauseSignal, text: "killed by signal 1 (SIGHUP)"},
		"command that fails": {
			command: operationtest.Script{Code: 1}, cause: process.CauseSignal, text: "killed by signal 1 (SIGHUP)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.copy("web", time.Second)
				s.Restart = new(evenly(20*time.Second, 2*time.Second))
				s.Reload = &v1.Reload{Signal: tt.signal}
				if tt.signal == "" {
					s.Reload = &v1.Reload{Command: "reload web"}
					tt.command.End = func(string) {
						r.End(running(r), liveness.Exit{Known: true, Signal: syscall.SIGHUP})
					}
					r.Script("reload web", tt.command)
				}
				if tt.ready != (v1.Ready{}) {
					r.Script("is-ready", operationtest.Script{})
					s.Ready = &tt.ready
				}
				r.do(process.Start, "web", s)
				r.pass(10 * time.Second)
				before := running(r)
				item := r.submit(process.Reload, "web", nil)
				r.pass(3 * time.Second)
				if o, _ := r.sink.outcome(item); o.Fault == process.None {
					t.Errorf("the reload: %+v", o)
				} else if tt.command.Code == 0 && (o.Cause != tt.cause || !strings.Contains(o.Text, tt.text)) {
					t.Errorf("the reload: %+v", o)
				}
				if now := running(r); now == before {
					t.Error("it was not relaunched at once")
				}
				got := r.state("web", "running", true)
				if !strings.Contains(got.Message, tt.text) || !strings.Contains(got.Message, "; its reload ended it; relaunched as pid ") {
					t.Errorf("message %q", got.Message)
				}
				r.sink.mu.Lock()
				defer r.sink.mu.Unlock()
				for _, e := range r.sink.events {
					if e.Kind != process.EventExited {
						continue
					}
					if e.Cause.ID != tt.cause || e.PID != before.PID || e.RunTime < 10_000 || e.Exit == nil ||
						e.Actor.Kind != process.ActorCaller || e.Actor.Operation != item {
						t.Errorf("event %+v", e)
					}
					return
				}
				t.Errorf("there is no event of the end: %+v", r.sink.events)
			})
		})
	}
}
