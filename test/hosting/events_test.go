package hosting_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// TestEventsOutliveTheAgent: all that happens between two deaths of drover is told once and in order, with its cause
// and actor; and so is what happened while it was dead.
func TestEventsOutliveTheAgent(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p := breakable(t, s, "told")
	p.Policy["start_retries"] = 4
	relaunched := func(n int) {
		t.Helper()
		harness.Signal(t, p.pid(), syscall.SIGKILL)
		p.AwaitEvents(n, "relaunched")
	}
	crash := func() {
		t.Helper()
		s.Kill()
		s.Run()
	}
	p.must(0, 0)
	relaunched(1)
	crash()
	relaunched(2)
	// One ends while nobody is there.
	pid := p.pid()
	s.Kill()
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "it to end", func() bool { return !harness.Alive(pid) })
	s.Run()
	p.AwaitEvents(3, "relaunched")
	// One is told to end in the very moment.
	pid = p.pid()
	harness.Signal(t, pid, syscall.SIGKILL)
	crash()
	p.AwaitEvents(4, "relaunched")
	p.must(1, 0)
	crash()
	events := p.Events()
	want := "started exited relaunched exited relaunched exited relaunched exited relaunched flapping stopped"
	if got := strings.Join(kinds(events), " "); got != want {
		t.Fatalf("events %s,\nwant   %s", got, want)
	}
	seen := map[any]bool{}
	for i, e := range events {
		if seen[e["cursor"]] || part(e, "actor")["kind"] == nil && e["kind"] != "exited" {
			t.Errorf("event %d: %v", i, e)
		}
		seen[e["cursor"]] = true
		if e["kind"] != "exited" {
			continue
		}
		id := part(e, "cause")["id"]
		unseen := i == 5 || i == 7
		if id != "killed-by-signal" && (!unseen || id != "ended-unseen") {
			t.Errorf("event %d: an end by SIGKILL is told as %v", i, e)
		}
		if (e["run_seconds"] == nil) != (id == "ended-unseen") || e["pid"] == nil {
			t.Errorf("event %d: %v", i, e)
		}
	}
	if restarts := harness.Starts(t, p.dir); restarts != 5 {
		t.Errorf("it was started %d times, want 5", restarts)
	}
}

const many = 600

// TestBudget: of more processes than the host's budget has room for at once all are back, and each is told of once.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	work := harness.Workdir(t)
	var requests []any
	for i := range many {
		dir := filepath.Join(work, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		p := harness.Process{
			Server: s, Namespace: "many", Name: fmt.Sprint("p", i),
			Identity: object{"proc_name": "sleep", "setup_path": dir, "pid_path": dir + "/d.pid", "user": "root"},
			Control:  object{"start_cmd": "setsid sleep 100000 >/dev/null 2>&1 & echo $! >d.pid"},
			Policy:   object{"start_check_secs": 1},
		}
		requests = append(requests, p.Request(0))
	}
	submitted := s.Call("operate_proc_multi", object{"proc_operate_req": requests})
	results := s.AwaitTask(submitted["task_id"].(string))
	pids := make([]int, many)
	for i := range many {
		e := results[fmt.Sprintf("%s:many:p%d", harness.Agent, i)].(object)
		if e["error_code"] != 0.0 {
			t.Fatalf("p%d: %v", i, e)
		}
		pids[i] = readPID(work, i)
	}
	begun := time.Now()
	var killers sync.WaitGroup
	for half := range 2 {
		killers.Go(func() {
			for i := half; i < many; i += 2 {
				harness.Signal(t, pids[i], syscall.SIGKILL)
			}
		})
	}
	killers.Wait()
	back := 0
	defer func() {
		if t.Failed() {
			_, reply := s.Do(http.MethodGet, fmt.Sprintf("/api/v1/processes/many/p%d", back), nil)
			t.Logf("%d were back, and then there is %v; pid %d, file %d", back, reply, pids[back], readPID(work, back))
		}
	}()
	harness.Eventually(t, "all to be back", func() bool {
		for back < many {
			now := readPID(work, back)
			if now <= 1 || now == pids[back] || !harness.Alive(now) {
				return false
			}
			back++
		}
		return true
	})
	t.Logf("%d were back after %v", many, time.Since(begun))
	harness.Eventually(t, "all relaunches to be told", func() bool {
		told := map[string]int{}
		path := "/api/v1/events?namespace=many&kind=relaunched&limit=1000"
		_, reply := s.Do(http.MethodGet, path, nil)
		for _, e := range reply["items"].([]any) {
			told[e.(object)["name"].(string)]++
		}
		for name, n := range told {
			if n > 1 {
				t.Fatalf("%s%s is told of %d times", harness.MoreThan(1, n), name, n)
			}
		}
		return len(told) == many
	})
	s.Kill()
	for i := range many {
		harness.Signal(t, readPID(work, i), syscall.SIGKILL)
	}
}

// readPID is the pid in a process's file, 0 while there is none.
func readPID(work string, i int) int {
	data, _ := os.ReadFile(filepath.Join(work, fmt.Sprint(i), "d.pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}
