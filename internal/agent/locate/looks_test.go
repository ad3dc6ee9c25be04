package locate_test

import (
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"drover/internal/agent/locate"
	"drover/internal/test/harness"
)

// TestLooksAreFresh: whoever looks by name finds a process that was born before, and none that has ended before,
// although many look at the same time, each for another process.
func TestLooksAreFresh(t *testing.T) {
	looks := locate.NewLooks(live())
	var homes [16]home
	for i := range homes { // before anybody forks: a child would keep the program open, and nobody could execute it
		homes[i] = newHome(t, "appd")
	}
	var all sync.WaitGroup
	for _, h := range homes {
		all.Go(func() {
			query := locate.Query{ProcName: "appd", SetupPath: h.dir, Looks: looks}
			for range 8 {
				cmd := exec.Command(h.path("appd"), "1000")
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				for info, err := live().Info(cmd.Process.Pid); err == nil && len(info.Args) == 0; { // within execve(2)
					runtime.Gosched()
					info, err = live().Info(cmd.Process.Pid)
				}
				if r := locate.Find(live(), query); r.Process == nil || r.Process.ID.PID != cmd.Process.Pid || r.Process.Matches != 1 {
					t.Errorf("of pid %d it finds %+v: %s", cmd.Process.Pid, r.Process, r.Note)
				}
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if r := locate.Find(live(), query); r.Process != nil {
					t.Errorf("after the end of pid %d it finds %+v", cmd.Process.Pid, r.Process)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkByName has many look by name at the same time, on a host with many processes.
func BenchmarkByName(b *testing.B) {
	const many = 200
	for range many {
		harness.Begin(b, exec.Command("sleep", "1000"))
	}
	query := locate.Query{ProcName: "appd", SetupPath: b.TempDir(), Looks: locate.NewLooks(live())}
	b.SetParallelism(many)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if r := locate.Find(live(), query); r.Process != nil {
				b.Errorf("it finds %+v", r.Process)
			}
		}
	})
}
