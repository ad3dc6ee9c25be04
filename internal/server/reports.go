package server

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"drover/internal/wire"
)

const (
	// roomOfReports is how many bytes of memory all reports together may take while they are read and stored, as wire.Weight counts them.
	roomOfReports = 64 << 20
	// roomTime is how long a report waits for room: as long as its agent waits for the answer.
	roomTime = 10 * time.Second
)

// reports lets in those that are worked on. Of one agent there is one at a time: whoever sends another one before that is answered is no
// agent of ours, and must not have the places of others. What comes from another area in an agent's name is none of its reports.
type reports struct {
	room *semaphore.Weighted

	mu   sync.Mutex
	busy map[string]bool // by subject
}

func newReports() *reports {
	return &reports{room: semaphore.NewWeighted(roomOfReports), busy: map[string]bool{}}
}

// begin lets in a report of an agent that has come from an area, unless another one is worked on; over has to be called then.
func (r *reports) begin(area int, agent string) (over func(), ok bool) {
	subject := wire.ReportSubject(area, agent)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[subject] {
		return nil, false
	}
	r.busy[subject] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, subject)
	}, true
}

// enter waits for the room that a report takes; leave has to be called where there is some.
func (r *reports) enter(ctx context.Context, report []byte) (leave func(), err error) {
	weight := min(wire.Weight(report), roomOfReports) // what is heavier is refused without being read
	ctx, cancel := context.WithTimeout(ctx, roomTime)
	defer cancel()
	if err := r.room.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { r.room.Release(weight) }, nil
}
