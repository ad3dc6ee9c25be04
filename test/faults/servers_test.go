package faults_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"drover/internal/fabric/fabrictest"
	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/test/harness"
)

// stalling is the way to the agent of an engine that stands still between lease and send, for so long that the lease
// ends and another engine sends the same order; then it goes on as if no time had passed.
type stalling struct{ orderLink }

// stall is much longer than a lease.
const stall = 30 * time.Second

func (s stalling) Send(ctx context.Context, agent string, envelope []byte) ([]byte, error) {
	<-time.After(stall)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return s.orderLink.Send(ctx, agent, envelope)
}

// TestI2_I3_TwoServers: two engines over one database send the same orders, one long after the other, and both take
// reports. Each order is carried out once, in its turn, and has one outcome, which never changes.
func TestI2_I3_TwoServers(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, fabrictest.Faults{Delay: time.Second, Seed: seed}, 0, func(t *testing.T, b *both) {
				slow, stop := b.runEngine(stalling{orderLink{b.link}})
				b.world.Spawn("a", "/run/a.pid", "")
				var want, tasks []string
				for n := range 24 {
					id := fmt.Sprintf("t%02d", n)
					tasks, want = append(tasks, id), append(want, "reload "+id)
					b.reloadAt([]*engine.Engine{slow, b.engine}[n%2], id, 2*time.Second)
					// The first lease of a pair is over when the other engine is asked for the second, and looks for
					// what is due.
					<-time.After([]time.Duration{10 * time.Second, 2 * stall}[n%2])
				}
				outcomes := b.allEnded(tasks)
				<-time.After(2 * stall)
				for i, o := range b.allEnded(tasks) {
					if o.Fault != process.None || o.Text != outcomes[i].Text {
						t.Errorf("%s: %+v, first it was %+v", tasks[i], o, outcomes[i])
					}
				}
				if got := b.world.Lines(); !slices.Equal(got, want) {
					t.Errorf("%s%q ran, want %q", harness.MoreThan(len(want), len(got)), got, want)
				}
				if n := b.again.Load(); n == 0 {
					t.Error("no order came again: nothing was tried")
				}
				stop()
			})
		})
	}
}

// allEnded waits until all tasks have their outcome, whichever engine has written it.
func (b *both) allEnded(tasks []string) []process.Outcome {
	b.t.Helper()
	outcomes := make([]process.Outcome, len(tasks))
	for i, id := range tasks {
		done := false
		for range 600 {
			err := b.db.TaskItems(b.t.Context(), id, "", func(v store.ItemView) error {
				if done = v.Done; done {
					outcomes[i] = *v.Outcome
				}
				return nil
			})
			if err != nil {
				b.t.Fatal(err)
			}
			if done {
				break
			}
			<-time.After(time.Second)
		}
		if !done {
			b.t.Errorf("%s does not end", id)
		}
	}
	return outcomes
}
