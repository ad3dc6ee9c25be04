package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/breaker"
)

var begun = time.Unix(1_800_000_000, 0)

// TestRandomHistories: over random failures, a breaker opens exactly if a plain count of hosts says so.
func TestRandomHistories(t *testing.T) {
	causes := []process.CauseID{process.CauseExitStatus, process.CauseCore}
	opened := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not a secret
		rule := breaker.Rule{Share: r.Float64(), Least: 1 + r.IntN(6), Window: time.Minute, Hold: time.Minute}
		var list []breaker.Host
		hosts := map[string]int64{} // the releases
		for i := range 1 + r.IntN(20) {
			// A release is one spec in two revisions, or two specs in one revision, or both at once.
			h := breaker.Host{Agent: fmt.Sprint("h", i), Revision: int64(r.IntN(4)), Digest: fmt.Sprint(r.IntN(2))}
			if h.Revision > 1 {
				h.Digest = fmt.Sprint(2 + r.IntN(2))
			}
			list = append(list, h)
		}
		for _, h := range list {
			hosts[h.Agent] = release(list, h)
		}
		var failures []breaker.Failure
		for range r.IntN(60) {
			failures = append(failures, breaker.Failure{
				Agent: fmt.Sprint("h", r.IntN(25)), Cause: causes[r.IntN(2)],
				At: begun.Add(time.Duration(r.IntN(200)-120) * time.Second),
			})
		}
		var closed time.Time
		if r.IntN(2) == 0 {
			closed = begun.Add(-time.Duration(r.IntN(60)) * time.Second)
		}
		want := false
		for _, cause := range causes {
			for revision := range int64(4) {
				total, failed := 0, map[string]bool{}
				for host, has := range hosts {
					if has != revision {
						continue
					}
					total++
					for _, f := range failures {
						inTime := f.At.After(begun.Add(-time.Minute)) && !f.At.After(begun) && f.At.After(closed)
						if f.Agent == host && f.Cause == cause && inTime {
							failed[host] = true
						}
					}
				}
				want = want || len(failed) >= rule.Least && float64(len(failed)) > rule.Share*float64(total)
			}
		}
		trip, got := rule.Judge(failures, breaker.NewHosts(list), closed, begun)
		if got != want {
			t.Fatalf("seed %d: opens is %t, want %t", seed, got, want)
		}
		if !got {
			continue
		}
		opened++
		if !rule.Suspect(failures, closed, begun) {
			t.Fatalf("seed %d: it opens without suspicion", seed)
		}
		if trip.Failed < rule.Least || trip.Failed > trip.Hosts || hosts[trip.Last] != trip.Revision {
			t.Fatalf("seed %d: %+v", seed, trip)
		}
	}
	if opened < 100 || opened > 2900 {
		t.Errorf("%d of 3000 histories open: the test proves little", opened)
	}
}

// release returns the latest revision that is joined with that of a host by equal revisions and equal specs.
func release(list []breaker.Host, of breaker.Host) int64 {
	joined := map[breaker.Host]bool{of: true}
	for grown := true; grown; {
		grown = false
		for _, h := range list {
			for have := range joined {
				if !joined[h] && (h.Revision == have.Revision || h.Digest == have.Digest) {
					joined[h], grown = true, true
					break
				}
			}
		}
	}
	latest := of.Revision
	for h := range joined {
		latest = max(latest, h.Revision)
	}
	return latest
}

// TestWhatIsAFailure: what a relaunch cures by its nature does not count.
func TestWhatIsAFailure(t *testing.T) {
	for _, c := range []struct {
		kind  process.EventKind
		cause process.CauseID
		to    string
		want  bool
	}{
		{process.EventExited, process.CauseExitStatus, process.StateStarting, true},
		{process.EventExited, process.CauseExited, process.StateBackoff, true},
		{process.EventRelaunchFailed, process.CauseCommandFailed, process.StateBackoff, true},
		{process.EventUnhealthy, process.CauseUnhealthy, process.StateUnhealthy, true},
		{process.EventExited, process.CauseExited, process.StateFinished, false},
		{process.EventExited, process.CauseRebooted, process.StateStarting, false},
		{process.EventExited, process.CauseUnseen, process.StateStarting, false},
		{process.EventExited, "", process.StateStarting, false},
		{process.EventStopped, process.CauseStopped, process.StateStopped, false},
		{process.EventRelaunched, process.CauseExitStatus, process.StateRunning, false},
	} {
		f, got := breaker.Of("a", &process.Event{Kind: c.kind, To: c.to, At: 5000, Cause: process.Cause{ID: c.cause}})
		if got != c.want || got && f != (breaker.Failure{Agent: "a", Cause: c.cause, At: time.UnixMilli(5000)}) {
			t.Errorf("%+v: %t, %+v", c, got, f)
		}
	}
}
