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

// intake decides, before a request is read, whether anybody wants it: what is left out costs nothing but its way here.
// Services may overlap: which of them gets a request is not known when it begins.
type intake struct {
	mu       sync.Mutex
	subjects []string // those of ServeEach
	// under are the requests under way by their subjects, and waiting are the bytes of those that have no worker yet.
	under   map[string]*request
	waiting int
}

// request is one that is under way: from its first byte to its answer.
type request struct {
	size  int
	taken bool // by a worker
}

// change replaces the services. Whoever is under way is forgotten: a service that has ended may leave requests behind.
func (in *intake) change(services map[*service]struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.subjects, in.under, in.waiting = nil, map[string]*request{}, 0
	for s := range services {
		if s.alone {
			in.subjects = append(in.subjects, s.subject)
		}
	}
}

// begin reports whether to drop a message. For an accepted message, the caller must call lost if the message never
// arrives, unless lost is nil.
func (in *intake) begin(subject string, size int) (left bool, lost func()) {
	if in == nil {
		return false, nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !slices.ContainsFunc(in.subjects, func(pattern string) bool { return covers(pattern, subject) }) {
		return false, nil
	}
	most := bytesWaiting
	if size <= shortRequest {
		most = bytesWaitingShort
	}
	if in.under[subject] != nil || in.waiting+size > most {
		return true, nil
	}
	in.under[subject] = &request{size: size}
	in.waiting += size
	return false, func() { in.over(subject) }
}

// taken says that the request on a subject no longer waits.
func (in *intake) taken(subject string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.take(in.under[subject])
}

// over says that the request on a subject is no longer under way.
func (in *intake) over(subject string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.take(in.under[subject])
	delete(in.under, subject)
}

func (in *intake) take(r *request) {
	if r != nil && !r.taken {
		r.taken = true
		in.waiting -= r.size
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
