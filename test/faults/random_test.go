package faults_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"drover/test/judge"
)

const (
	randomTime  = 20 * time.Second // of a run, if nothing is said
	roundTime   = 25 * time.Second
	randomMany  = 6 // processes
	randomTwins = 2 // callers of each
)

// TestI1_to_I7_RandomRun lets callers operate on real processes through the built binary, at the same time, while the
// processes are killed and drover is killed and terminated.
func TestI1_to_I7_RandomRun(t *testing.T) {
	length, seed := judge.Choices(t, randomTime)
	r := startReal(t)
	end := time.Now().Add(length)
	for n := 0; n == 0 || time.Now().Before(end) && !t.Failed(); n++ {
		round := judge.Round{
			Post: r.caller().GSE, Callers: randomTwins, Random: rand.New(rand.NewPCG(seed, uint64(n))),
			Length: min(roundTime, max(time.Until(end), 5*time.Second)), Disturb: r.endRandomly,
		}
		for i := range randomMany {
			round.Processes = append(round.Processes,
				judge.Restless(judge.Daemon(t, r.work, fmt.Sprintf("r%d-p%d", n, i))))
		}
		round.Run(t)
	}
}

// endRandomly ends drover one way or the other and starts it again.
func (r *rig) endRandomly(random *rand.Rand) {
	r.t.Helper()
	sig := syscall.SIGKILL
	if random.IntN(3) == 0 {
		sig = syscall.SIGTERM
	}
	_ = r.server.cmd.Process.Signal(sig)
	<-r.server.ended
	r.start(false, never)
}
