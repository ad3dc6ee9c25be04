package hosting_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
)

const never = "0 0 30 2 *" // there is no such day

// yearly is a rule that is not due while a test runs.
const yearly = "0 0 1 1 *"

func TestPeriodic(t *testing.T) {
	together(t, map[string]func(*testing.T, *harness.Server){
		"start runs it now and hosts the timer": startRunsNow,
		"a first run that fails":                firstRunFails,
		"a run that outlasts its check":         longRun,
		"host waits for the timer":              hostWaits,
		"the command leaves a daemon":           runIsADaemon,
		"stop while nothing runs":               stopIdle,
		"unhost leaves the run alone":           unhostLeavesTheRun,
		"bad rules":                             badRules,
		"JOB":                                   jobCycle,
	})
}

// noted is a start command that notes each run.
const noted = "echo run >>runs; "

func startRunsNow(t *testing.T, s *harness.Server) {
	for _, spelling := range []string{"crontab_rule", "crotab_rule"} {
		p := command(t, s, spelling, noted+"echo hello")
		p.Policy["auto_type"], p.Policy[spelling] = 0, "CRON_TZ=Asia/Shanghai "+yearly
		if r := p.must(0, 0); !r.Hosted || !strings.HasPrefix(r.Msg, "success") {
			t.Errorf("start is answered %+v", r)
		}
		if n := p.lines("runs"); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
		status := p.becomes("scheduled")
		if list := runs(status); len(list) != 1 || list[0]["ended_at"] == nil || part(list[0], "exit")["code"] != 0.0 ||
			list[0]["output"] != "hello" {
			t.Errorf("runs %v", list)
		}
		next, err := time.Parse(time.RFC3339, status["next_run"].(string))
		if err != nil || next.UTC().Format("01-02 15:04:05") != "12-31 16:00:00" {
			t.Errorf("the next run is %v", status["next_run"])
		}
		if row := p.Row(); row["isauto"] != true || row["status"] != 2.0 ||
			!strings.Contains(row["message"].(string), "exit status 0") {
			t.Errorf("row %v", row)
		}
		p.AwaitEvents(1, "run-ended")
		if got := kinds(p.Events()); strings.Join(got, " ") != "started run-ended" {
			t.Errorf("events %v", got)
		}
	}
}

func firstRunFails(t *testing.T, s *harness.Server) {
	p := command(t, s, "failing", noted+"echo broken; exit 7")
	p.Policy["auto_type"], p.Policy["crontab_rule"] = 0, yearly
	r := p.must(0, 836)
	if r.Hosted || !strings.Contains(r.Msg, "exit status 7") || !strings.Contains(r.Msg, "broken") {
		t.Errorf("start is answered %+v", r)
	}
	if status := p.Status(); status["hosted"] == true || status["next_run"] != nil {
		t.Errorf("status %v", status)
	}
}

// longRun: a run may last longer than its check, and longer than a command may; stop ends it and takes the timer away.
func longRun(t *testing.T, s *harness.Server) {
	p := command(t, s, "long", noted+"echo begun; sleep 1000; echo ended")
	p.Policy["auto_type"], p.Policy["crontab_rule"], p.Policy["op_timeout"] = 0, yearly, 1
	p.must(0, 0)
	status := p.becomes("running")
	if list := runs(status); len(list) != 1 || list[0]["ended_at"] != nil ||
		list[0]["pid"] != part(status, "instance")["pid"] {
		t.Errorf("runs %v of %v", list, status)
	}
	if row := p.Row(); row["status"] != 1.0 {
		t.Errorf("row %v", row)
	}
	if r := p.must(0, 828); !strings.Contains(r.Msg, "already running") {
		t.Errorf("a second start is answered %q", r.Msg)
	}
	pid := int(part(status, "instance")["pid"].(float64))
	if r := p.must(1, 0); r.Hosted {
		t.Errorf("stop is answered %+v", r)
	}
	if harness.Alive(pid) {
		t.Error("the run was not ended")
	}
	status = p.becomes("stopped")
	if status["hosted"] == true || status["next_run"] != nil {
		t.Errorf("status %v", status)
	}
	if list := runs(status); len(list) != 1 || list[0]["ended_at"] == nil {
		t.Errorf("runs %v after the stop", list)
	}
	events := p.Events()
	if got := strings.Join(kinds(events), " "); got != "started leftovers-ended stopped" {
		t.Fatalf("events %s", got)
	}
	for _, e := range events {
		if a := part(e, "actor"); a["kind"] != "caller" || a["user"] != "tester" || a["app"] != harness.AppCode ||
			a["operation"] == nil {
			t.Errorf("%s has the actor %v", e["kind"], a)
		}
	}
	if n := p.lines("runs"); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// hostWaits: op 3 runs nothing before its time, and its runs are told of with their results.
func hostWaits(t *testing.T, s *harness.Server) {
	// The fourth run lasts, so that the history still has the first.
	p := command(t, s, "by-timer", noted+"echo out; n=$(wc -l <runs); [ $n -ne 2 ] || exit 9; [ $n -lt 4 ] || sleep 1000")
	p.Policy["auto_type"], p.Policy["cycle_time"] = 0, 1
	p.succeed("host", p.spec())
	if n := p.lines("runs"); n != 0 {
		t.Errorf("%d runs before the first one was due", n)
	}
	p.awaitLines("runs", 4)
	status := p.await("to have three results", func(s object) bool {
		return len(runs(s)) >= 4 &&
			runs(s)[len(runs(s))-3]["ended_at"] != nil
	})
	list := runs(status)
	if failed := list[len(list)-2]; part(failed, "exit")["code"] != 9.0 || failed["output"] != "out" {
		t.Errorf("the second run is shown as %v", failed)
	}
	p.must(1, 0)
	var pairs []string
	for _, e := range p.Events("run-started", "run-ended", "run-failed") {
		pairs = append(pairs, e["kind"].(string))
		if part(e, "actor")["kind"] == nil {
			t.Errorf("%v has no actor", e)
		}
	}
	if got := strings.Join(pairs, " "); !strings.HasPrefix(got,
		"run-started run-ended run-started run-failed run-started run-ended") {
		t.Errorf("events %s", got)
	}
	if e := p.Events("run-failed")[0]; part(e, "exit")["code"] != 9.0 || part(e, "cause")["id"] != "run-failed" ||
		e["output"] != "out" {
		t.Errorf("the failed run is told as %v", e)
	}
	if events := p.Events(); strings.Contains(strings.Join(kinds(events), " "), "relaunched") {
		t.Errorf("events %v", kinds(events))
	}
}

// runIsADaemon: a run lasts as long as the daemon that the command leaves, begun by hand or by the timer.
func runIsADaemon(t *testing.T, s *harness.Server) {
	p := daemon(t, s, "leaves-daemon", "crash-at-usr1", "-code", "4")
	p.Policy["auto_type"], p.Policy["cycle_time"] = 0, 1
	p.succeed("host", p.spec())
	for n := range 2 {
		harness.Eventually(t, "the daemon to begin", func() bool { return harness.Starts(t, p.dir) > n })
		status := p.becomes("running")
		if cause := part(status, "cause")["id"]; cause != nil && cause != "run-skipped" {
			t.Errorf("a run is taken for %v", cause)
		}
		p.AwaitEvents(n+1, "run-skipped")
		harness.Signal(t, p.pid(), syscall.SIGUSR1)
		p.await("to be ended", func(s object) bool {
			return len(runs(s)) > n &&
				runs(s)[len(runs(s))-1-n]["ended_at"] != nil
		})
	}
	p.must(4, 0)
	list := runs(p.Status())
	if r := list[len(list)-1]; part(r, "exit")["code"] != 4.0 {
		t.Errorf("the daemon's end is shown as %v", r)
	}
	if e := p.Events("run-failed")[0]; part(e, "exit")["code"] != 4.0 || e["run_seconds"].(float64) <= 0 {
		t.Errorf("the daemon's end is told as %v", e)
	}
	if odd := p.Events("exited", "found"); len(odd) > 0 {
		t.Errorf("besides %v", odd)
	}
}

func stopIdle(t *testing.T, s *harness.Server) {
	p := command(t, s, "idle", noted)
	p.Policy["auto_type"], p.Policy["crontab_rule"] = 0, yearly
	p.must(3, 0)
	p.becomes("scheduled")
	if r := p.must(1, 0); r.Hosted {
		t.Errorf("stop is answered %+v", r)
	}
	if status := p.becomes("stopped"); status["hosted"] == true || status["next_run"] != nil {
		t.Errorf("status %v", status)
	}
	p.must(1, 829)
	if n := p.lines("runs"); n != 0 {
		t.Errorf("%d runs", n)
	}
}

func unhostLeavesTheRun(t *testing.T, s *harness.Server) {
	p := command(t, s, "unhosted", noted+"until [ -e go ]; do sleep 0.1; done")
	p.Policy["auto_type"], p.Policy["cycle_time"] = 0, 1
	p.succeed("start", p.spec())
	if r := p.must(4, 0); r.Hosted {
		t.Errorf("unhost is answered %+v", r)
	}
	status := p.becomes("running")
	if status["hosted"] == true || status["next_run"] != nil {
		t.Errorf("status %v", status)
	}
	p.write("go", "")
	p.becomes("stopped")
	if n := p.lines("runs"); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func badRules(t *testing.T, s *harness.Server) {
	for rule, text := range map[string]string{
		"": "crontab_rule", "* * * *": "crontab_rule", "61 * * * *": "minute", "* * * * mon-": "crontab_rule",
		"@never": "crontab_rule", never: "crontab_rule",
		"CRON_TZ=Mars/Crater * * * * *": "Mars/Crater",
	} {
		p := command(t, s, "bad", noted)
		p.Policy["auto_type"], p.Policy["crontab_rule"] = 0, rule
		for _, op := range []int{0, 3, 7} {
			if r := p.must(op, 65535); !strings.Contains(r.Msg, text) || !strings.Contains(r.Msg, "crontab_rule") {
				t.Errorf("op %d with %q is answered %q", op, rule, r.Msg)
			}
		}
		if n := p.lines("runs"); n != 0 {
			t.Errorf("%q ran", rule)
		}
	}
	p := command(t, s, "useless", "setsid sleep 1000 >/dev/null 2>&1 & echo $! >none.pid")
	p.Identity["proc_name"], p.Policy["crontab_rule"] = "sleep", "61 * * * *"
	task := p.Submit(0)
	p.Await(task).Want(t, "start", 0)
	if text := fmt.Sprint(s.Outcome(task)); !strings.Contains(text, "crontab_rule is stored and not used") {
		t.Errorf("a rule of a resident process is answered %s", text)
	}
	p.must(9, 0)
}

// jobCycle: JOB's cycle_time, and its type 0 without.
func jobCycle(t *testing.T, s *harness.Server) {
	dir := harness.Workdir(t)
	var last string // the task of the last call
	manage := func(op int, more object) object {
		t.Helper()
		info := object{
			"proc_name": "of-job", "proc_owner": "root", "setup_path": dir, "pid_path": dir + "/none.pid",
			"value_key": "job", "start_cmd": noted,
			"ip_list": []any{object{"bk_cloud_id": 0, "ip": "127.0.0.1"}},
		}
		maps.Copy(info, more)
		status, reply := s.Do(http.MethodPost, "/api/c/compapi/v2/jobv3/manage_proc/", object{
			"bk_scope_type": "biz", "bk_scope_id": "7", "op_type": op, "process_infos": []any{info},
		})
		if status != http.StatusOK || reply["code"] != 0.0 {
			t.Fatalf("manage_proc: %d %v", status, reply)
		}
		task := part(reply, "data")["bk_gse_taskid"].(string)
		last = task
		var result object
		harness.Eventually(t, "the task to end", func() bool {
			_, reply := s.Do(http.MethodPost, "/api/c/compapi/v2/jobv3/get_proc_result/",
				object{"bk_scope_type": "biz", "bk_scope_id": "7", "bk_gse_taskid": task})
			for _, entry := range part(part(reply, "data"), "result") {
				result = entry.(object)
			}
			return result != nil && result["error_code"] != 115.0
		})
		return result
	}
	p := &proc{t: t, dir: dir, Process: &harness.Process{Server: s, Namespace: "7", Name: "job"}}
	if r := manage(1, object{"type": 0}); r["error_code"] != 65535.0 || !strings.Contains(fmt.Sprint(r["error_msg"]),
		"cycle_time") {
		t.Errorf("type 0 without cycle_time is answered %v", r)
	}
	if r := manage(1, object{"type": 0, "cycle_time": 1}); r["error_code"] != 0.0 {
		t.Fatalf("hosting is answered %v", r)
	}
	p.awaitLines("runs", 3)
	if r := manage(2, object{"type": 0, "cycle_time": 1}); r["error_code"] != 0.0 {
		t.Errorf("unhosting is answered %v", r)
	}
	if status := p.Status(); status["hosted"] == true || status["next_run"] != nil {
		t.Errorf("status %v after the timer was taken away", status)
	}
	if r := manage(1, nil); r["error_code"] != 0.0 || !strings.Contains(fmt.Sprint(s.Outcome(last)), "resident") {
		t.Errorf("without type and cycle_time it is answered %v, and %v", r, s.Outcome(last))
	}
	if status := p.Status(); status["next_run"] != nil {
		t.Errorf("status %v of a resident process", status)
	}
	manage(2, nil)
}

// overlapping runs a process every second whose first run lasts until it is told to end.
func overlapping(t *testing.T, s *harness.Server, overlap string) *proc {
	t.Helper()
	p := command(t, s, "overlap-"+overlap,
		noted+`[ $(wc -l <runs) -ne 1 ] || until [ -e go ]; do sleep 0.1; done; echo over >>ends`)
	p.Policy["auto_type"], p.Policy["cycle_time"] = 0, 2
	p.own["schedule"] = object{"overlap": overlap}
	p.succeed("host", p.spec())
	p.awaitLines("runs", 1)
	return p
}

func TestOverlap(t *testing.T) {
	together(t, map[string]func(*testing.T, *harness.Server){
		"skip": func(t *testing.T, s *harness.Server) {
			p := overlapping(t, s, "skip")
			e := p.AwaitEvents(2, "run-skipped")[0]
			if part(e, "cause")["id"] != "run-skipped" || part(e, "actor")["kind"] != "policy" {
				t.Errorf("told as %v", e)
			}
			if n := p.lines("runs"); n != 1 {
				t.Errorf("%d runs while the first one lasts", n)
			}
			p.write("go", "")
			p.awaitLines("ends", 2)
			p.must(1, 0)
		},
		"wait": func(t *testing.T, s *harness.Server) {
			p := overlapping(t, s, "wait")
			p.await("to be due again", func(s object) bool {
				return strings.Contains(fmt.Sprint(s["message"]), "another run")
			})
			if n := p.lines("runs"); n != 1 {
				t.Errorf("%d runs while the first one lasts", n)
			}
			p.write("go", "")
			p.awaitLines("ends", 2)
			p.must(1, 0)
			if skipped := p.Events("run-skipped"); len(skipped) > 0 {
				t.Errorf("%v", skipped)
			}
		},
		"replace": func(t *testing.T, s *harness.Server) {
			p := overlapping(t, s, "replace")
			p.awaitLines("runs", 2)
			p.awaitLines("ends", 1)
			p.must(1, 0)
			if p.lines("runs") < p.lines("ends")+1 {
				t.Error("the first run was not ended")
			}
			e := p.AwaitEvents(1, "taken-down")[0]
			if c := part(e, "cause"); part(e, "actor")["kind"] != "policy" ||
				!strings.Contains(fmt.Sprint(c["text"]), "next run") {
				t.Errorf("told as %v", e)
			}
		},
	})
}

// TestMissed: what was due while nobody was there is left out and told of, or made up for once.
func TestMissed(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	procs := map[string]*proc{}
	for _, missed := range []string{"skip", "run-once"} {
		p := command(t, s, "missed-"+missed, "echo $(date +%s%N) >>runs")
		p.Policy["auto_type"], p.Policy["cycle_time"] = 0, 2
		p.own["schedule"] = object{"missed": missed}
		p.succeed("host", p.spec())
		procs[missed] = p
	}
	for _, p := range procs {
		p.awaitLines("runs", 1)
	}
	s.Kill()
	<-time.After(7 * time.Second) // runs pass unseen
	before := procs["run-once"].lines("runs")
	s.Run()
	procs["run-once"].awaitLines("runs", before+1)
	e := procs["skip"].AwaitEvents(1, "run-missed")[0]
	if n := e["attempt"].(float64); n < 2 || n > 30 || part(e, "cause")["id"] != "run-missed" {
		t.Errorf("told as %v", e)
	}
	procs["skip"].awaitLines("runs", 3)
	for name, p := range procs {
		p.must(1, 0)
		if list := runs(p.Status()); len(list) < 2 {
			t.Errorf("%s: the runs of before are forgotten: %v", name, list)
		}
	}
	if told := procs["run-once"].Events("run-missed"); len(told) > 0 {
		t.Errorf("made up for, and told as missed: %v", told)
	}
}
