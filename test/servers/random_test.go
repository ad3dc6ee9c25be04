package servers_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"drover/test/harness"
	"drover/test/judge"
)

// TestRandomDeaths: callers go on by whichever server answers, while servers, brokers and agents are killed at random. What they were told
// must be explainable by some order of what was really run: nothing is lost, and nothing is run twice.
func TestRandomDeaths(t *testing.T) {
	t.Parallel()
	length, seed := judge.Choices(t, 20*time.Second)
	s := newSite(t, 3, 3)
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
		Processes: processes, Callers: 2, Random: rand.New(rand.NewPCG(seed, 0)), Length: length, Cut: true, Disturb: s.killOne,
	}.Run(t)
}

// killOne kills one or two programs of the site, and starts them again after a while.
func (s *site) killOne(random *rand.Rand) {
	s.t.Helper()
	kinds := [][]*node{s.servers, s.brokers}
	victims := []*node{pick(random, kinds[random.IntN(2)])}
	if random.IntN(3) == 0 { // both at once
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
