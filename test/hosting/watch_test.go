package hosting_test

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

func sum(text string) string {
	s := md5.Sum([]byte(text))
	return hex.EncodeToString(s[:])
}

func TestHealth(t *testing.T) {
	together(t, map[string]func(*testing.T, *harness.Server){
		"told, and nothing done": func(t *testing.T, s *harness.Server) {
			p := sickly(t, s, "told", object{"every": "1s", "failures": 2})
			p.succeed("start", p.spec())
			pid := p.pid()
			p.await("to say that it is well", func(s object) bool {
				return part(s, "health")["text"] == "fine" && part(s, "version")["text"] == "1.2.3"
			})
			p.write("sick", "tired\n")
			status := p.becomes("unhealthy")
			if h := part(status, "health"); h["bad"] != true || h["failures"].(float64) < 2 ||
				part(status, "cause")["id"] != "unhealthy" {
				t.Errorf("status %v", status)
			}
			if row := p.Row(); row["status"] != 1.0 || !strings.Contains(row["message"].(string), "tired") {
				t.Errorf("row %v", row)
			}
			e := p.AwaitEvents(1, "unhealthy")[0]
			if c := part(e, "cause"); c["id"] != "unhealthy" || !strings.Contains(fmt.Sprint(c["text"]), "tired") ||
				e["pid"] != float64(pid) {
				t.Errorf("told as %v", e)
			}
			p.remove("sick")
			p.becomes("running")
			p.AwaitEvents(1, "healthy")
			if p.pid() != pid || len(p.Events("taken-down")) > 0 {
				t.Error("it was restarted, and nobody asked for that")
			}
			if q := p.Query(); q.Item["health"] != "fine" || q.Item["version"] != "1.2.3" {
				t.Errorf("a query shows %v", q.Item)
			}
		},
		"restarted where that is asked for": func(t *testing.T, s *harness.Server) {
			p := sickly(t, s, "restarted", object{"every": "1s", "failures": 2, "action": "restart"})
			p.Control["stop_cmd"] = "rm -f sick; echo asked >>asked; kill $(cat oddd.pid)"
			p.succeed("start", p.spec())
			pid := p.pid()
			p.write("sick", "tired\n")
			e := p.AwaitEvents(1, "relaunched")[0]
			if part(e, "cause")["id"] != "unhealthy" || p.pid() == pid || p.lines("asked") != 1 {
				t.Errorf("told as %v", e)
			}
			if got := strings.Join(kinds(p.Events()), " "); got != "started unhealthy taken-down relaunched" {
				t.Errorf("events %s", got)
			}
			if e := p.Events("taken-down")[0]; part(e, "exit")["signal"] == nil && part(e, "exit")["code"] == nil ||
				part(e, "actor")["kind"] != "policy" {
				t.Errorf("its end is told as %v", e)
			}
		},
		"not judged in its grace": func(t *testing.T, s *harness.Server) {
			p := sickly(t, s, "graced", object{"every": "1s", "failures": 1, "grace": "1h", "action": "restart"})
			p.write("sick", "starting\n")
			p.succeed("start", p.spec())
			failed := map[any]bool{}
			p.await("to have failed twice", func(s object) bool {
				if h := part(s, "health"); h["ok"] == false {
					failed[h["at"]] = true
				}
				return len(failed) >= 2
			})
			if status := p.becomes("running"); part(status, "health")["bad"] == true || len(p.Events("unhealthy")) > 0 {
				t.Errorf("status %v", status)
			}
		},
	})
}

// sickly is a daemon that is not well while there is a file "sick".
func sickly(t *testing.T, s *harness.Server, name string, health object) *proc {
	t.Helper()
	p := daemon(t, s, name, "plain")
	p.Control["health_cmd"] = `if [ -e sick ]; then cat sick; exit 1; fi; echo fine`
	p.Control["version_cmd"] = "echo 1.2.3"
	p.own["health"] = health
	return p
}

// TestAnswersOutliveTheAgent: what a process said of itself is known after kill -9 of drover, before it is asked again.
func TestAnswersOutliveTheAgent(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p := sickly(t, s, "kept", object{"every": "1s", "failures": 2})
	p.succeed("start", p.spec())
	p.await("to say its version", func(s object) bool { return part(s, "version")["text"] == "1.2.3" })
	p.write("sick", "tired\n")
	p.becomes("unhealthy")
	// From now on asking takes longer than the test.
	p.Control["health_cmd"], p.Control["version_cmd"] = "sleep 1000", "sleep 1000"
	p.succeed("update", p.spec())
	p.Control["health_cmd"], p.Control["version_cmd"] = `cat sick; exit 1`, "echo 1.2.3"
	p.own["health"] = object{"every": "1h", "failures": 1}
	p.succeed("update", p.spec())
	was := p.await("to be asked by the new command", func(s object) bool {
		return part(s, "health")["bad"] == true &&
			part(s, "version")["ok"] == true
	})
	s.Kill()
	s.Run()
	now := p.await("to be known again", func(s object) bool { return cond(s) == "unhealthy" })
	for _, what := range []string{"health", "version"} {
		if part(now, what)["at"] != part(was, what)["at"] || part(now, what)["text"] != part(was, what)["text"] {
			t.Errorf("%s is %v, was %v", what, part(now, what), part(was, what))
		}
	}
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p := daemon(t, s, "configured", "plain")
	p.write("good.conf", "good")
	p.write("other.conf", "other")
	request := p.Request(0)
	request["spec"].(object)["configmap"] = []any{
		object{"path": p.dir + "/good.conf", "md5": sum("good")},
		object{"path": p.dir + "/other.conf", "md5": sum("another")},
	}
	if r := p.Await(s.Call("operate_proc_v2", request)["task_id"].(string)); r.Code != 0 {
		t.Fatalf("start: %d %s", r.Code, r.Msg)
	}
	drifts := func() []string {
		p.Query() // has it looked at now, and not at the next regular look only
		var paths []string
		list, _ := p.Status()["config"].([]any)
		for _, d := range list {
			paths = append(paths, filepath.Base(d.(object)["path"].(string)))
		}
		return paths
	}
	harness.Eventually(t, "one of the files to be shown as another one",
		func() bool { return fmt.Sprint(drifts()) == "[other.conf]" })
	if cause := part(p.Status(), "cause"); cause["id"] != "config-drift" || !strings.Contains(fmt.Sprint(cause["text"]),
		sum("other")) {
		t.Errorf("cause %v", cause)
	}
	if row := p.Row(); !strings.Contains(row["message"].(string), "other.conf") {
		t.Errorf("row %v", row)
	}
	p.write("other.conf", "another")
	harness.Eventually(t, "it to be right", func() bool { return len(drifts()) == 0 })
	p.remove("good.conf")
	harness.Eventually(t, "the missing one to be shown", func() bool { return fmt.Sprint(drifts()) == "[good.conf]" })
	p.AwaitEvents(2, "config-drifted")
	got := kinds(p.Events("config-drifted", "config-restored"))
	if strings.Join(got, " ") != "config-drifted config-restored config-drifted" {
		t.Errorf("events %v", got)
	}
	if status := p.Status(); cond(status) != "running" {
		t.Errorf("a drift makes it %v", cond(status))
	}
}

func TestReadiness(t *testing.T) {
	together(t, map[string]func(*testing.T, *harness.Server){
		"tcp": func(t *testing.T, s *harness.Server) {
			address := harness.FreeAddress(t)
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ready(t, s, "tcp", object{"tcp": address}).succeedsOnce()
			l.Close()
			ready(t, s, "tcp-closed", object{"tcp": address}).fails("refused")
		},
		"http": func(t *testing.T, s *harness.Server) {
			status := http.StatusOK
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
			}))
			defer web.Close()
			ready(t, s, "http", object{"http": web.URL + "/ready"}).succeedsOnce()
			status = http.StatusServiceUnavailable
			ready(t, s, "http-503", object{"http": web.URL + "/ready"}).fails("503")
		},
		"exec": func(t *testing.T, s *harness.Server) {
			p := ready(t, s, "exec", object{"exec": "echo asked >>asked; [ $(wc -l <asked) -ge 3 ]"})
			p.succeedsOnce()
			if n := p.lines("asked"); n != 3 {
				t.Errorf("asked %d times", n)
			}
			ready(t, s, "exec-fails", object{"exec": "echo still loading; exit 4"}).fails("still loading")
		},
		"log": func(t *testing.T, s *harness.Server) {
			p := ready(t, s, "log", object{"log": "^(started|ready) in [0-9]+ ms$"})
			p.Identity["log_path"] = p.dir + "/app.log"
			p.write("app.log", "started in 5 ms\n") // of an earlier start
			p.Control["start_cmd"] = "(sleep 0.5; echo ready in 7 ms >>app.log) & " + p.Control["start_cmd"].(string)
			p.succeedsOnce()
			q := ready(t, s, "log-silent", object{"log": "^started"})
			q.Identity["log_path"] = q.dir + "/app.log"
			q.write("app.log", "started in 5 ms\n")
			q.fails("log")
		},
	})
}

type readying struct{ *proc }

func ready(t *testing.T, s *harness.Server, name string, how object) readying {
	t.Helper()
	p := daemon(t, s, "ready-"+name, "plain")
	p.own["ready"] = with(how, "within", "20s")
	return readying{p}
}

// succeedsOnce starts it, which must not take the whole check time.
func (r readying) succeedsOnce() {
	r.t.Helper()
	r.succeed("start", r.spec())
	r.becomes("running")
	r.succeed("stop", nil)
}

func (r readying) fails(text string) {
	r.t.Helper()
	part(r.own, "ready")["within"] = "1s"
	result := r.ask("start", r.spec())
	if result["outcome"] != "check-failed" || !strings.Contains(fmt.Sprint(result["message"]), text) {
		r.t.Errorf("%s: start is answered %v, want %q", r.Name, result, text)
	}
	harness.Eventually(r.t, "what has started to be known", func() bool { return harness.Starts(r.t, r.dir) == 1 })
}
