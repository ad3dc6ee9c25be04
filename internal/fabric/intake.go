package fabric

import (
	"strings"
	"sync/atomic"
)

// Received requests wait for a worker in memory, up to bytesWaiting. Short requests have a higher bound, because a
// flood consists of long requests.
const (
	bytesWaiting      = 24 << 20
	bytesWaitingShort = 40 << 20
	shortRequest      = 16 << 10
)

// intake decides, before a request is read, whether a service wants it. A dropped request costs no memory.
type intake struct {
	services atomic.Pointer[[]*service] // those of ServeEach
}

// change replaces the services; the caller makes one change at a time.
func (in *intake) change(services map[*service]struct{}) {
	var each []*service
	for s := range services {
		if s.alone {
			each = append(each, s)
		}
	}
	in.services.Store(&each)
}

// begin reports whether to drop a message. For an accepted message, the caller must call lost if the message never
// arrives, unless lost is nil.
func (in *intake) begin(subject string, size int) (left bool, lost func()) {
	if in == nil {
		return false, nil
	}
	each := in.services.Load()
	if each == nil {
		return false, nil
	}
	for _, s := range *each {
		if !covers(s.subject, subject) {
			continue
		}
		if !s.begin(subject, size) {
			return true, nil
		}
		return false, func() {
			s.taken(size)
			s.over(subject)
		}
	}
	return false, nil
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

// begin accepts a request, unless another request on the same subject is in progress or too many bytes wait.
func (s *service) begin(subject string, size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := bytesWaiting
	if size <= shortRequest {
		most = bytesWaitingShort
	}
	if s.busy[subject] || s.waiting+size > most {
		return false
	}
	s.busy[subject] = true
	s.waiting += size
	return true
}

// taken notes that a request no longer waits.
func (s *service) taken(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting -= size
}

// over notes that a request is no longer in progress.
func (s *service) over(subject string) {
	if !s.alone {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, subject)
}
