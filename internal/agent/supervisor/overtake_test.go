package supervisor_test

import (
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// TestKillOvertakesACommand: a kill ends the command under way, with what it has started, and goes before what waits.
func TestKillOvertakesACommand(t *testing.T) {
	hang := operationtest.Script{Takes: time.Hour}
	for _, c := range []struct {
		name string
		op   process.Op
		line string
		// running says that the process runs before.
		running bool
	}{
		{"start", process.Start, "start a", false},
		{"stop", process.Stop, "stop a", true},
		{"restart", process.Restart, "restart a", true},
		{"reload", process.Reload, "reload a", true},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.spec("a")
			s.Compat.KillCommand = ""
			if c.op == process.Restart {
				s.Compat.RestartCommand = c.line
			}
			if c.running {
				r.do(process.Start, "a", s)
			}
			script := hang
			script.Begin = func(run string) { r.Spawn("helper", "", run) }
			r.Script(c.line, script)
			first := r.submit(c.op, "a", s)
			second := r.submit(process.Update, "a", s)
			r.pass(time.Second)
			kill := r.submit(process.Kill, "a", s)
			r.pass(0)
			if o, ended := r.sink.outcome(first); !ended || o.Fault != process.Failed ||
				!strings.Contains(o.Text, "ended by a kill") {
				t.Errorf("%s: %+v", c.name, o)
			}
			if o, ended := r.sink.outcome(kill); !ended || o.Fault != process.None || o.Hosted {
				t.Errorf("kill of a %s: %v, %+v", c.name, ended, o)
			}
			if _, ended := r.sink.outcome(second); !ended {
				t.Errorf("kill of a %s: what waited has not been carried out", c.name)
			}
			if left := r.Living(); len(left) != 0 {
				t.Errorf("kill of a %s: %v live", c.name, left)
			}
			r.pass(time.Hour)
			r.state("a", "stopped", false)
		})
	}
}

// TestKillOvertakesARelaunch: the start command of a relaunch that hangs is ended, and the process stays down.
func TestKillOvertakesARelaunch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		at := r.starts("a", operationtest.Script{Takes: time.Hour})
		r.Kill(file("a"))
		r.pass(2 * time.Second)
		r.state("a", "starting", true)
		kill := r.submit(process.Kill, "a", s)
		r.pass(0)
		if o, ended := r.sink.outcome(kill); !ended || o.Hosted {
			t.Errorf("%v, %+v", ended, o)
		}
		r.pass(time.Hour)
		r.state("a", "stopped", false)
		if len(*at) != 1 {
			t.Errorf("launched at %v", *at)
		}
	})
}

// TestKillGoesBeforeWhatWaits, but not before an operation that an earlier agent has begun.
func TestKillGoesBeforeWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		r.Script("reload a", operationtest.Script{Takes: time.Hour})
		begun := r.submit(process.Reload, "a", s)
		waits := r.submit(process.Start, "a", s)
		r.pass(time.Second)
		r.stop()
		r.Crash()
		kill := r.accept(process.Kill, "a", s).Item
		r.begin()
		r.pass(time.Minute)
		if o, _ := r.sink.outcome(begun); !strings.Contains(o.Text, "ended by a kill") {
			t.Errorf("the operation that had begun: %+v", o)
		}
		r.expect(kill, process.None, "success")
		r.expect(waits, process.None, "success")
		r.ran("start a", "reload a", "start a")
	})
}

// TestStopOvertakesACheck: a stop or unhost ends the check of a start, which is answered by what is seen then. It does
// not end a command.
func TestStopOvertakesACheck(t *testing.T) {
	for _, op := range []process.Op{process.Stop, process.Unhost} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.spec("a")
			s.Compat.StartCheckBegin, s.Compat.StartCheckEnd = 3600, 3600
			start := r.submit(process.Start, "a", s)
			r.pass(500 * time.Millisecond)
			stop := r.submit(op, "a", s)
			r.pass(0)
			if _, ended := r.sink.outcome(start); ended {
				t.Errorf("%s has ended a command", op)
			}
			r.pass(10 * time.Second)
			r.expect(start, process.None, "success")
			r.expect(stop, process.None, "success")
			if alive := len(r.Living()) == 1; alive != (op == process.Unhost) {
				t.Errorf("after %s: %v", op, r.Living())
			}
		})
	}
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Compat.StartCheckBegin = 3600
		r.Script("start a", operationtest.Script{Takes: time.Second})
		start := r.submit(process.Start, "a", s)
		r.pass(2 * time.Second)
		stop := r.submit(process.Stop, "a", s)
		r.pass(0)
		if o, ended := r.sink.outcome(start); !ended || o.Fault != process.CheckFailed {
			t.Errorf("a start of what does not come up: %v, %+v", ended, o)
		}
		r.expect(stop, process.NotRunning, "no need to stop the process(a) that is not running")
	})
}

// TestStopEndsThePreparation: a stop of drover's own API ends the before_start command of a start and of a relaunch, and
// the program does not run. A stop of GSE waits for the command.
func TestStopEndsThePreparation(t *testing.T) {
	const ended = "before_start ended by a stop"
	hang := operationtest.Script{Takes: 30 * time.Second}
	for _, own := range []bool{true, false} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.copy("web", 0)
			s.BeforeStart = &v1.Before{Run: "check"}
			r.Script("check", hang)
			start := r.ordered(process.Start, map[string]*process.Spec{"web": s}, "web")["web"]
			r.pass(time.Second)
			stop := ""
			if own {
				stop = r.ordered(process.Stop, nil, "web")["web"]
			} else {
				stop = r.submit(process.Stop, "web", nil)
			}
			r.pass(0)
			if o, over := r.sink.outcome(start); over != own || own && !strings.Contains(o.Text, ended) {
				t.Errorf("own %v: the start: %v, %+v", own, over, o)
			}
			r.pass(time.Minute)
			r.state("web", "stopped", false)
			if own {
				r.expect(stop, process.None, "success: the operation under way was ended")
				r.ran("check")
			} else {
				r.ran("check", "exec ./web")
			}
		})
	}
	bubble(t, func(t *testing.T, r *rig) {
		s := r.copy("web", 0)
		s.BeforeStart = &v1.Before{Run: "check"}
		r.Script("check", operationtest.Script{})
		r.ordered(process.Start, map[string]*process.Spec{"web": s}, "web")
		r.pass(time.Second)
		r.Script("check", hang)
		_, rt, _ := r.Running(id("web"))
		r.Exit(*rt.Process, 1)
		r.pass(10 * time.Second)
		r.state("web", "starting", true)
		r.ordered(process.Stop, nil, "web")
		r.pass(0)
		r.state("web", "stopped", false)
		r.pass(time.Hour)
		r.ran("check", "exec ./web", "check")
	})
}

// TestStopDecidesAboutWhatIsNotReady: on_timeout: stop counts at the end of the time. A stop or unhost that comes before
// decides about the process.
func TestStopDecidesAboutWhatIsNotReady(t *testing.T) {
	for op, told := range map[process.Op]string{process.Stop: "; the stop ends pid ", process.Unhost: " runs on"} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.copy("web", 0)
			s.Ready = &v1.Ready{Exec: "is-ready", Within: lasting(15 * time.Second), OnTimeout: "stop"}
			r.Script("is-ready", operationtest.Script{Code: 1})
			start := r.ordered(process.Start, map[string]*process.Spec{"web": s}, "web")["web"]
			r.pass(2 * time.Second)
			item := r.ordered(op, nil, "web")["web"]
			r.pass(2 * time.Second)
			if o, _ := r.sink.outcome(start); !strings.Contains(o.Text, "not ready when ") ||
				!strings.Contains(o.Text, told) {
				t.Errorf("%s: the start: %+v", op, o)
			}
			if o, _ := r.sink.outcome(item); o.Fault != process.None {
				t.Errorf("%s: %+v", op, o)
			}
			r.pass(time.Minute)
			if _, _, alive := r.Running(id("web")); alive != (op == process.Unhost) {
				t.Errorf("after %s: alive %v", op, alive)
			}
			history := r.sink.history(id("web"))
			if last := history[len(history)-1]; op == process.Stop && !strings.HasPrefix(last, "stopped running→stopped") {
				t.Errorf("the last of %q", history)
			}
		})
	}
}
