package server

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
	// reportMemory is how many bytes of memory those reports together may take that are worked on at once, as
	// wire.Weight counts them.
	reportMemory = 64 << 20
	// maxAdmissionWait is how long a report waits for room, or for its turn: as long as its agent waits for the answer.
	maxAdmissionWait = 10 * time.Second
	// The reports of an agent may weigh so much at once, and so much a second after that. Beyond it they are worked on
	// in turn with those of all others that tell so much; so many reports, and so many bytes, wait for that.
	shareOfReports = 1 << 20
	rateOfReports  = 64 << 10
	waitInTurn     = 512
	bytesInTurn    = 32 << 20
	// mostShares is how many agents are remembered; beyond that all are forgotten.
	mostShares = 100_000
)

// reportLimiter lets in those that are worked on. Of one agent there is one at a time (fabric.Conn.ServeEach).
type reportLimiter struct {
	memory *semaphore.Weighted
	// slots are the places of those who tell too much.
	slots chan struct{}

	mu     sync.Mutex
	shares map[string]*rate.Limiter
	// waiting are for a turn, and bytes are those of their reports.
	waiting, bytes int
}

func newReportLimiter() *reportLimiter {
	return &reportLimiter{
		memory: semaphore.NewWeighted(reportMemory), slots: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
		shares: map[string]*rate.Limiter{},
	}
}

// admit lets in a report of an agent, unless too many wait whose agents tell too much. It blocks for maxAdmissionWait
// at most. over has to be called then. All agents that are not known, in the area that a report comes from, share what
// one of them may tell.
func (r *reportLimiter) admit(ctx context.Context, agent string, known bool, report []byte) (over func(), ok bool) {
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

// reserve says whether a report has to wait for its turn, which is counted. It returns false where it must not even
// wait.
func (r *reportLimiter) reserve(agent string, known bool, weight int64, bytes int) (inTurn, ok bool) {
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

// wait counts reports that wait for their turn, and their bytes.
func (r *reportLimiter) wait(reports, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting += reports
	r.bytes += bytes
}

// share returns what an agent may tell; the caller holds the lock.
func (r *reportLimiter) share(agent string, known bool) *rate.Limiter {
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
