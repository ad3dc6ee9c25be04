package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// TestI2_FullDiskUnderACommand: a command that has begun on a full disk, and outlives its agent, is not begun again by
// the next one.
func TestI2_FullDiskUnderACommand(t *testing.T) {
	t.Parallel()
	a := &attack{rig: newRig(t), role: roleAgent, op: judge.Stop}
	disk := filepath.Join(a.dir, "agent")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.agent.kill()
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	a.begin(never)
	a.linked()
	p := a.process("p")
	stop := p.Control["stop_cmd"].(string)
	p.Control["stop_cmd"] = strings.Replace(stop, "echo stop >>run.log", "echo stop >>run.log; read x <hold", 1)
	a.does(p, judge.Start)
	fifo := filepath.Join(judge.Dir(p), "hold")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	free := fill(t, disk)
	task, err := a.submit(p, judge.Stop)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the command to run", func() bool { return judge.Ran(p, "stop") == 1 })
	a.agent.kill()
	free()
	a.again(never)
	a.linked()
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(fifo); err != nil { // a second command would not wait
		t.Fatal(err)
	}
	if got := a.await(p, task); got.Code != 0 || judge.Ran(p, "stop") != 1 || judge.Instances(t, judge.Dir(p)) != 0 {
		t.Errorf("%s%d %s, the command ran %d times, want once", harness.MoreThan(1, judge.Ran(p, "stop")), got.Code, got.Msg,
			judge.Ran(p, "stop"))
	}
}

// TestI2_EveryWriteFails has every write of the agent find its disk full, once or from then on, while an operation is
// carried out, and kills the agent after that. Nothing runs twice, and what the caller hears is what has run.
func TestI2_EveryWriteFails(t *testing.T) {
	t.Parallel()
	stride := 8
	if judge.Long() {
		stride = 1
	}
	for i, op := range []int{judge.Start, judge.Stop, judge.Restart, judge.Reload} {
		t.Run(fmt.Sprintf("op %d", op), func(t *testing.T) {
			t.Parallel()
			a := &attack{rig: newRig(t), role: roleAgent, op: op}
			var writes []string
			for _, moment := range a.rehearse() {
				write, before := strings.CutSuffix(moment, " before")
				if before && !strings.HasPrefix(write, reporting) && !strings.HasPrefix(write, "agent: Submit") {
					writes = append(writes, write, write+"…")
				}
			}
			if len(writes) < 8 {
				t.Fatalf("only the writes %q", writes)
			}
			for n, write := range writes {
				if n/2%stride == i%stride {
					a.fail(a.prepared(fmt.Sprint("p", n)), write)
				}
			}
		})
	}
}

// fail has one write of the operation fail.
func (a *attack) fail(p *harness.Process, write string) {
	a.t.Helper()
	a.dying().kill()
	a.victim, a.full = p.Name, write
	a.begin(never)
	a.linked()
	task, err := a.submit(p, a.op)
	if err != nil {
		a.t.Fatal(err)
	}
	a.overWithin(p, task, time.Second)
	a.dying().kill()
	a.full = ""
	a.begin(never)
	got, now := a.await(p, task), a.traceOf(p)
	// Of several commands some may have run before the one that could not be put on record.
	part := strings.HasPrefix(now.ran, a.before.ran) && strings.HasPrefix(a.after.ran, now.ran) &&
		now.ran != a.after.ran
	if got.Code == 0 && now != a.after || got.Code != 0 && now != a.before && !part && !a.relaunched(p) {
		a.t.Errorf("%s: %d %q, and it is %+v, want %+v or %+v", write, got.Code, got.Msg, now, a.after, a.before)
	}
}

// relaunched reports whether a process was relaunched, as is a hosted one that a failed restart has left down.
func (a *attack) relaunched(p *harness.Process) bool {
	a.t.Helper()
	status, reply, err := a.caller().Do(http.MethodGet, "/api/v1/events?kind=relaunched&name="+p.Name, nil)
	if err != nil || status != http.StatusOK {
		a.t.Fatalf("events of %s: HTTP %d %v %v", p.Name, status, reply, err)
	}
	items, _ := reply["items"].([]any)
	return len(items) > 0
}

// overWithin waits for the end of an operation, at most so long: one whose outcome cannot be stored has none.
func (a *attack) overWithin(p *harness.Process, task string, limit time.Duration) {
	over := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		data, err := a.caller().GSE("get_proc_operate_result_v2", harness.Object{"task_id": task})
		if e, ok := data[p.Key()].(harness.Object); err == nil && ok && e["error_code"] != 115.0 {
			return
		}
	}
}
