package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// starters is how many calls begin operations at the same time.
const starters = 64

// TestI4_TwoHundredOfAThousand kills two hundred of a thousand hosted processes at once: all are back, the others are
// as they were. The short form has a quarter of both.
func TestI4_TwoHundredOfAThousand(t *testing.T) {
	hostedMany := 250
	if judge.Long() {
		hostedMany = 1000
	}
	killedMany := hostedMany / 5
	r := startReal(t)
	all := make([]*harness.Process, hostedMany)
	todo := make(chan *harness.Process)
	var callers sync.WaitGroup
	for range starters {
		callers.Go(func() {
			for p := range todo {
				if got := r.operate(p, judge.Start); got.Code != 0 {
					t.Errorf("%s: start: %d %s", p.Name, got.Code, got.Msg)
				}
			}
		})
	}
	for i := range all {
		p := r.process(fmt.Sprint("p", i))
		p.Control["start_cmd"] = "setsid sh -c 'echo $$ >d.pid; exec sleep 100000' >/dev/null 2>&1 &"
		p.Policy = harness.Object{"start_check_secs": 1, "start_interval": 1, "start_retries": 10}
		all[i] = p
		todo <- p
	}
	close(todo)
	callers.Wait()
	if t.Failed() {
		return
	}
	pid := func(i int) int {
		data, _ := os.ReadFile(filepath.Join(r.work, all[i].Name, "d.pid"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		return n
	}
	before := make([]int, hostedMany)
	for i := range before {
		before[i] = pid(i)
	}
	begin := time.Now()
	for i := range killedMany {
		harness.Signal(t, before[i*5], syscall.SIGKILL)
	}
	harness.Eventually(t, "all to be back", func() bool {
		for i := range killedMany {
			if now := pid(i * 5); now <= 1 || now == before[i*5] || !harness.Alive(now) {
				return false
			}
		}
		return true
	})
	t.Logf("%d were back after %v", killedMany, time.Since(begin))
	for i, was := range before {
		if i%5 != 0 && (pid(i) != was || !harness.Alive(was)) {
			t.Errorf("%s, which was not killed, is pid %d and was %d", all[i].Name, pid(i), was)
		}
	}
	r.server.kill()
	for i := range all {
		if p := pid(i); p > 1 {
			if fd, err := unix.PidfdOpen(p, 0); err == nil {
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // or it has ended
				unix.Close(fd)
			}
		}
	}
}
