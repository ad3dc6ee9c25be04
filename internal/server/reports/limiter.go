package reports

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"drover/internal/wire"
)

const (
	// reportMemory is how many bytes of memory all reports in progress may take together, as wire.Weight counts them.
	reportMemory = 64 << 20
	// maxAdmissionWait is how long a report waits for memory, or for its turn: as long as its agent waits for the
	// answer.
	maxAdmissionWait = 10 * time.Second
	// The reports of an agent may weigh shareOfReports at once, and then rateOfReports a second. Reports beyond that
	// wait for a turn, one after another with the reports of all such agents. At most waitInTurn reports and
	// bytesInTurn bytes wait.
	shareOfReports = 1 << 20
	rateOfReports  = 64 << 10
	waitInTurn     = 512
	bytesInTurn    = 32 << 20
	// mostShares is how many agents the limiter remembers; beyond that it forgets all.
	mostShares = 100_000
)

// limiter admits the reports to process. It gets at most one report at a time of each agent (fabric.Conn.ServeEach).
type limiter struct {
	memory *semaphore.Weighted
	// slots are the turns of the agents that report too much.
	slots chan struct{}

	mu     sync.Mutex
	shares map[string]*rate.Limiter
	// waiting is the number of reports that wait for a turn, and bytes their size.
	waiting, bytes int
}

func newLimiter() *limiter {
	return &limiter{
		memory: semaphore.NewWeighted(reportMemory), slots: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
		shares: map[string]*rate.Limiter{},
	}
}

// admit admits a report of an agent. It returns false if too many reports of agents that report too much wait already.
// It blocks for maxAdmissionWait at most. The caller must call over at the end. All agents that are unknown in the area
// of their report share one quota.
func (r *limiter) admit(ctx context.Context, agent string, known bool, report []byte) (over func(), ok bool) {
	weight := wire.Weight(report)
	inTurn, ok := r.reserve(agent, known, weight, len(report))
	if !ok {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, maxAdmissionWait)
	defer cancel()
	if !inTurn {
		if r.memory.Acquire(ctx, weight) != nil {
			return nil, false
		}
		return func() { r.memory.Release(weight) }, true
	}
	defer r.wait(-1, -len(report))
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, true
	case <-ctx.Done():
		return nil, false
	}
}

// reserve reports whether a report has to wait for its turn, and counts such a report. ok is false if the report may
// not even wait.
func (r *limiter) reserve(agent string, known bool, weight int64, bytes int) (inTurn, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inTurn = weight > shareOfReports || !r.share(agent, known).AllowN(time.Now(), int(weight))
	if inTurn {
		if r.waiting == waitInTurn || r.bytes+bytes > bytesInTurn {
			return false, false
		}
		r.waiting++
		r.bytes += bytes
	}
	return inTurn, true
}

// wait adds to the number and bytes of waiting reports.
func (r *limiter) wait(reports, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting += reports
	r.bytes += bytes
}

// share returns the quota of an agent; the caller holds the lock.
func (r *limiter) share(agent string, known bool) *rate.Limiter {
	if !known {
		agent = ""
	}
	l := r.shares[agent]
	if l == nil {
		if len(r.shares) >= mostShares {
			clear(r.shares)
		}
		l = rate.NewLimiter(rateOfReports, shareOfReports)
		r.shares[agent] = l
	}
	return l
}
