package servers_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// TestRandomDeaths: callers go on by whichever server answers, while servers, brokers and agents are killed at random.
// What they were told must be explainable by some order of what was really run: nothing is lost, and nothing is run
// twice.
func TestRandomDeaths(t *testing.T) {
	t.Parallel()
	for name, brokers := range map[string]int{"with brokers": 3, "with brokers of their own": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			randomDeaths(t, brokers)
		})
	}
}

func randomDeaths(t *testing.T, brokers int) {
	t.Helper()
	length, seed := judge.Choices(t, 20*time.Second)
	s := newSite(t, brokers, 3)
	var processes []*harness.Process
	for i := range 3 {
		ip := fmt.Sprintf("127.0.0.%d", i+2)
		s.agent(fmt.Sprintf("agent%d", i+1), ip, s.servers[i])
		for j := range 2 {
			processes = append(processes, judge.Restless(s.daemon(ip, fmt.Sprintf("p%d%d", i, j))))
		}
	}
	var turn atomic.Int64
	judge.Round{
		Post: func(name string, body any) (harness.Object, error) {
			return s.post(int(turn.Add(1)), name, body)
		},
		Processes: processes, Callers: 2, Random: rand.New(rand.NewPCG(seed, 0)), Length: length, Cut: true,
		Disturb: s.killOne,
	}.Run(t)
}

// killOne kills one or two programs of the site, and starts them again after a while.
func (s *site) killOne(random *rand.Rand) {
	s.t.Helper()
	victims := []*node{pick(random, slices.Concat(s.servers, s.brokers))}
	if len(s.brokers) > 0 && random.IntN(3) == 0 { // both at once
		victims = []*node{pick(random, s.servers), pick(random, s.brokers)}
	}
	for _, v := range victims {
		s.t.Logf("%s is killed", v.name)
		v.program().Kill()
	}
	<-time.After(time.Duration(random.IntN(4000)) * time.Millisecond)
	for _, v := range victims {
		v.restart()
	}
}

func pick(random *rand.Rand, from []*node) *node { return from[random.IntN(len(from))] }
