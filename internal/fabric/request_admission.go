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
)

// requestAdmission decides, before a request is read, whether a service wants it. So a dropped request costs only its
// transfer. Services may overlap: at the start of a request it is unknown which of them gets it.
type requestAdmission struct {
	mu       sync.Mutex
	subjects []string // the subjects of ServeEach
	// inflight has the open requests by their subjects. waitingBytes is the size of the requests that have no worker
	// yet.
	inflight     map[string]*request
	waitingBytes int
}

// request is an open request: from its first byte to its answer.
type request struct {
	size  int
	taken bool // a worker has it
}

// setServices replaces the services. It forgets all open requests, because a service that has ended may leave requests
// behind.
func (a *requestAdmission) setServices(services map[*service]struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subjects, a.inflight, a.waitingBytes = nil, map[string]*request{}, 0
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
	if a.inflight[subject] != nil || a.waitingBytes+size > most {
		return true, nil
	}
	a.inflight[subject] = &request{size: size}
	a.waitingBytes += size
	return false, func() { a.over(subject) }
}

// taken records that the request on a subject has a worker.
func (a *requestAdmission) taken(subject string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.take(a.inflight[subject])
}

// over records that the request on a subject is no longer open.
func (a *requestAdmission) over(subject string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.take(a.inflight[subject])
	delete(a.inflight, subject)
}

func (a *requestAdmission) take(r *request) {
	if r != nil && !r.taken {
		r.taken = true
		a.waitingBytes -= r.size
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
