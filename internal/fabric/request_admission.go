package fabric

import (
	"slices"
	"strings"
	"sync"
)

// Received requests wait for a worker in memory, up to bytesWaiting. Short requests have a higher bound, because a
// flood consists of long requests.
const (
	bytesWaiting      = 24 << 20
	bytesWaitingShort = 40 << 20
	shortRequest      = 16 << 10
	// leastSize is how many bytes the shortest request counts for, so that fewer wait than the library holds: it would
	// drop one that is counted here.
	leastSize = bytesWaitingShort / pendingLimit
)

// maxPerSubject is how many requests on a subject may wait: the newest, which is short, and the one before it, which
// its client has given up.
const maxPerSubject = 2

// requestAdmission decides, before a request is read, whether a service wants it. So a dropped request costs only its
// transfer. Services may overlap: at the start of a request it is unknown which of them gets it.
type requestAdmission struct {
	mu       sync.Mutex
	subjects []string // the subjects of ServeEach
	// inflight has the open requests by their subjects. waitingBytes is the size of the requests that have no worker
	// yet.
	inflight     map[string]*openRequests
	waitingBytes int
}

// openRequests are the requests on a subject from their first byte to their answer.
type openRequests struct {
	working bool  // a worker has one
	waiting []int // the sizes of the others, the oldest first
}

// setServices replaces the services. It forgets all open requests, because a service that has ended may leave requests
// behind.
func (a *requestAdmission) setServices(services map[*service]struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subjects, a.inflight, a.waitingBytes = nil, map[string]*openRequests{}, 0
	for s := range services {
		if s.alone {
			a.subjects = append(a.subjects, s.subject)
		}
	}
}

// admit reports whether to drop a message. For an accepted message, the caller must call lost if the message never
// arrives, unless lost is nil.
func (a *requestAdmission) admit(subject string, size int) (left bool, lost func()) {
	if a == nil {
		return false, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.ContainsFunc(a.subjects, func(pattern string) bool { return covers(pattern, subject) }) {
		return false, nil
	}
	most := bytesWaiting
	if size <= shortRequest {
		most = bytesWaitingShort
	}
	r, size := a.inflight[subject], max(size, leastSize)
	if a.waitingBytes+size > most ||
		r != nil && (len(r.waiting) == maxPerSubject || size > shortRequest) {
		return true, nil
	}
	if r == nil {
		r = &openRequests{}
		a.inflight[subject] = r
	}
	r.waiting = append(r.waiting, size)
	a.waitingBytes += size
	return false, func() {
		// The sizes of two waiting requests may change places: their sum is the same.
		if a.begin(subject) {
			a.over(subject)
		}
	}
}

// begin gives the oldest waiting request on a subject to a worker. It returns false for a request that nobody handles:
// a newer one waits, so the client has given up the older one; or a worker still has the request before it.
func (a *requestAdmission) begin(subject string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.inflight[subject]
	if r == nil { // it was read before setServices
		r = &openRequests{}
		a.inflight[subject] = r
	}
	if len(r.waiting) > 0 {
		a.waitingBytes -= r.waiting[0]
		r.waiting = r.waiting[1:]
	}
	if len(r.waiting) > 0 || r.working {
		return false
	}
	r.working = true
	return true
}

// over records that the worker has answered the request on a subject.
func (a *requestAdmission) over(subject string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.inflight[subject]
	if r == nil {
		return
	}
	if r.working = false; len(r.waiting) == 0 {
		delete(a.inflight, subject)
	}
}

// covers reports whether a subject matches a subscription.
func covers(pattern, subject string) bool {
	for {
		want, moreWanted, goesOn := strings.Cut(pattern, ".")
		word, more, follows := strings.Cut(subject, ".")
		switch {
		case want == ">":
			return true
		case want != "*" && want != word || goesOn != follows:
			return false
		case !goesOn:
			return true
		}
		pattern, subject = moreWanted, more
	}
}
