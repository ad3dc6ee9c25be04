package hosting_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// ran waits until a process has a condition in its so manyth run, and returns its status.
func (p *proc) ran(times int, condition string) object {
	p.t.Helper()
	return p.await(fmt.Sprintf("to be %s in run %d", condition, times), func(s object) bool {
		list := runs(s)
		return cond(s) == condition && len(list) == times && (list[0]["ended_at"] != nil) == (condition == "finished")
	})
}

func TestSingleRun(t *testing.T) {
	together(t, map[string]func(*testing.T, *harness.Server){
		"a daemon that ends later": func(t *testing.T, s *harness.Server) {
			p := daemon(t, s, "later", "crash-at-usr1,hold-stdout", "-code", "5")
			p.Policy["auto_type"] = 2
			if r := p.must(0, 0); !r.Hosted {
				t.Errorf("start is answered %+v", r)
			}
			pid := p.pid()
			p.ran(1, "running")
			harness.Signal(t, pid, syscall.SIGUSR1)
			status := p.ran(1, "finished")
			if exit := part(status, "last_exit"); exit["known"] != true || exit["code"] != 5.0 {
				t.Errorf("it ended with %v", exit)
			}
			r := runs(status)[0]
			if part(r, "exit")["code"] != 5.0 || r["pid"] != float64(pid) ||
				!strings.Contains(fmt.Sprint(r["output"]), "still here") {
				t.Errorf("the run is shown as %v", r)
			}
			e := p.AwaitEvents(1, "run-failed")[0]
			if part(e, "exit")["code"] != 5.0 || e["to"] != "finished" || part(e, "actor")["kind"] != "self" ||
				e["output"] == nil {
				t.Errorf("told as %v", e)
			}
			if row := p.Row(); row["status"] != 2.0 || row["isauto"] != true ||
				!strings.Contains(row["message"].(string), "exit status 5") {
				t.Errorf("row %v", row)
			}
			if q := p.Query(); q.PID > 0 || harness.Starts(t, p.dir) != 1 {
				t.Errorf("started %d times, pid %d", harness.Starts(t, p.dir), q.PID)
			}
			// It can be run once more, and killed from outside.
			p.must(0, 0)
			p.ran(2, "running") // it was finished before
			harness.Signal(t, p.pid(), syscall.SIGKILL)
			if list := runs(p.ran(2, "finished")); part(list[0], "exit")["signal"] != 9.0 {
				t.Errorf("runs %v", list)
			}
			if harness.Starts(t, p.dir) != 2 {
				t.Error("it was relaunched")
			}
		},
		"a daemon that ends in its check": func(t *testing.T, s *harness.Server) {
			p := daemon(t, s, "early", "crash-after", "-delay", "700ms", "-code", "5")
			p.Policy["auto_type"], p.Policy["start_check_secs"] = 2, 2
			if r := p.must(0, 836); r.Hosted || !strings.Contains(r.Msg, "exit status 5") {
				t.Errorf("start is answered %q", r.Msg)
			}
			// What callers do then.
			p.must(4, 0)
			if harness.Starts(t, p.dir) != 1 {
				t.Error("it was relaunched")
			}
		},
		"a command that is over": func(t *testing.T, s *harness.Server) {
			p := command(t, s, "over", noted+"echo all done")
			p.Policy["auto_type"] = 2
			if r := p.must(0, 836); !strings.Contains(r.Msg, "exit status 0") || !strings.Contains(r.Msg, "all done") {
				t.Errorf("start is answered %q", r.Msg)
			}
			p.Control["start_cmd"] = "echo broken; exit 6"
			if r := p.must(0, 65535); !strings.Contains(r.Msg, "exit status 6") || !strings.Contains(r.Msg, "broken") {
				t.Errorf("a failing one is answered %q", r.Msg)
			}
			if p.lines("runs") != 1 {
				t.Error("it was run again")
			}
		},
		"stopped": func(t *testing.T, s *harness.Server) {
			p := daemon(t, s, "stopped", "plain")
			p.Policy["auto_type"] = 2
			p.must(0, 0)
			p.must(1, 0)
			if list := runs(p.becomes("stopped")); len(list) != 1 || list[0]["ended_at"] == nil {
				t.Errorf("runs %v", list)
			}
		},
	})
}

// breakable is a daemon whose start fails while there is a file "broken".
func breakable(t *testing.T, s *harness.Server, name string, modes ...string) *proc {
	p := daemon(t, s, name, strings.Join(append([]string{"plain"}, modes...), ","))
	p.Control["start_cmd"] = `if [ -e broken ]; then echo "no way"; exit 3; fi; ` + p.Control["start_cmd"].(string)
	p.Policy["start_retries"], p.Policy["start_interval"] = 2, 1
	return p
}

func TestGivenUpAndFlapping(t *testing.T) {
	together(t, map[string]func(*testing.T, *harness.Server){
		"given up, and retried": func(t *testing.T, s *harness.Server) {
			p := breakable(t, s, "given-up")
			p.must(0, 0)
			p.write("broken", "")
			harness.Signal(t, p.pid(), syscall.SIGKILL)
			status := p.becomes("given-up")
			for _, text := range []string{status["message"].(string), p.Row()["message"].(string)} {
				if !strings.Contains(text, "given up after 2 starts") || !strings.Contains(text, "no way") {
					t.Errorf("message %q", text)
				}
			}
			p.AwaitEvents(1, "given-up") // a state and its event are two reports
			got := kinds(p.Events())
			if want := "started exited relaunch-failed relaunch-failed given-up"; strings.Join(got, " ") != want {
				t.Errorf("events %v, want %s", got, want)
			}
			exited := p.Events("exited")[0]
			if part(exited, "cause")["id"] != "killed-by-signal" || part(exited, "exit")["signal"] != 9.0 ||
				part(exited, "actor")["kind"] != "outside" {
				t.Errorf("the end is told as %v", exited)
			}
			if e := p.Events("relaunch-failed")[1]; e["attempt"] != 2.0 || part(e, "cause")["id"] != "command-failed" ||
				part(e, "actor")["kind"] != "policy" {
				t.Errorf("a failed relaunch is told as %v", e)
			}
			// Asked in vain, it is given up again; asked when it can be, it runs.
			p.succeed("retry", nil)
			p.AwaitEvents(2, "given-up")
			p.remove("broken")
			p.succeed("retry", nil)
			p.becomes("running")
			e := p.AwaitEvents(2, "retried")[1]
			if a := part(e, "actor"); a["kind"] != "caller" || a["app"] != harness.AppCode || a["user"] != "tester" ||
				a["operation"] == nil {
				t.Errorf("retried by %v", a)
			}
			p.must(1, 0)
			if r := p.ask("retry", nil); r["outcome"] != "failed" ||
				!strings.Contains(fmt.Sprint(r["message"]), "not hosted") {
				t.Errorf("retry of what is not hosted is answered %v", r)
			}
		},
		"flapping": func(t *testing.T, s *harness.Server) {
			p := daemon(t, s, "flapping", "plain")
			p.Policy["start_retries"], p.Policy["start_interval"] = 20, 1
			p.must(0, 0)
			for n := range 4 {
				harness.Signal(t, p.pid(), syscall.SIGKILL)
				p.AwaitEvents(n+1, "relaunched")
			}
			status := p.becomes("flapping")
			if status["flapping"] != true || status["restarts"] != 4.0 || part(status, "cause")["id"] != "killed-by-signal" {
				t.Errorf("status %v", status)
			}
			if told := p.Events("flapping"); len(told) != 1 || part(told[0], "cause")["id"] != "flapping" {
				t.Errorf("told as %v", told)
			}
			p.must(7, 0)
			p.becomes("running")
			p.AwaitEvents(1, "steady")
		},
	})
}

// TestOneInstanceUnderTwoNames: who is stopped under another name is told of it, with the one who did it.
func TestOneInstanceUnderTwoNames(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p := daemon(t, s, "one", "plain")
	p.must(0, 0)
	twin := *p.Process
	twin.Name = "twin"
	if r := twin.Operate(1); r.Code != 0 {
		t.Fatalf("stop under another name: %d %s", r.Code, r.Msg)
	}
	status := p.becomes("stopped")
	if status["hosted"] == true || !strings.Contains(fmt.Sprint(status["message"]), "hosting/twin") {
		t.Errorf("status %v", status)
	}
	e := p.AwaitEvents(1, "stopped")[0]
	if a := part(e, "actor"); a["user"] != "tester" || a["operation"] == nil || e["pid"] == nil ||
		part(e, "cause")["id"] != "stopped-by-operation" {
		t.Errorf("told as %v", e)
	}
}
