package liveness_test

import (
	"os/exec"
	"sync"
	"testing"

	"drover/internal/agent/liveness"
	"drover/internal/test/harness"
)

// TestSharedLooksAreFresh: whoever asks sees a process that was born before, and none that has ended before, although
// many ask at the same time.
func TestSharedLooksAreFresh(t *testing.T) {
	looks := liveness.NewLooks(live())
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 8 {
				cmd := exec.Command("sleep", "1000")
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				id, err := live().Identify(cmd.Process.Pid)
				found, problem := liveness.Tree{Root: id}.Members(looks)
				if err != nil || problem != nil || len(found) != 1 || found[0] != id {
					t.Errorf("of %v it finds %v: %v, %v", id, found, err, problem)
				}
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if found, err := (liveness.Tree{Root: id}).Members(looks); err != nil || len(found) != 0 {
					t.Errorf("after its end it finds %v: %v", found, err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkMembers has many search their trees at the same time, on a host with many processes.
func BenchmarkMembers(b *testing.B) {
	const many = 200
	for range many {
		harness.Begin(b, exec.Command("sleep", "1000"))
	}
	looks := liveness.NewLooks(live())
	b.SetParallelism(many)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if found, err := (liveness.Tree{Marks: []string{"none"}}).Members(looks); err != nil || len(found) != 0 {
				b.Errorf("it finds %v: %v", found, err)
			}
		}
	})
}
