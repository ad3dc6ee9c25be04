package webui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"drover/internal/server/access"
)

// reply collects the answer of a handler.
type reply struct {
	request *http.Request
	header  http.Header
	status  int
	body    bytes.Buffer
}

func newReply(r *http.Request) *reply { return &reply{request: r, header: http.Header{}} }

// Header implements http.ResponseWriter.
func (r *reply) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *reply) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(data)
}

// Flush implements http.Flusher: the answer is read as a whole.
func (r *reply) Flush() {}

// response is the answer as a client sees it.
func (r *reply) response() *http.Response {
	r.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: http.StatusText(r.status), StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, Body: io.NopCloser(&r.body), ContentLength: int64(r.body.Len()), Request: r.request,
	}
}

const (
	// renewTime is how long a page may repeat a read without another audit row.
	renewTime = 5 * time.Minute
	// maxReads is the number of reads that the server remembers.
	maxReads = 20_000
)

// reads are the reads of sessions that the audit log holds already. The header of a page alone proves nothing: whoever
// reads chooses it.
type reads struct {
	mu sync.Mutex
	// last has the times by the hashes of sessions and addresses, which callers make as long as they like.
	last map[[sha256.Size]byte]time.Time
}

// again reports whether a session has made a read a short time ago.
func (r *reads) again(read string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.last[sha256.Sum256([]byte(read))]
	return known && now.Sub(last) < renewTime
}

// remember remembers a read. Of too many reads it forgets all, so that the audit log gets a row too many and never one
// too few.
func (r *reads) remember(read string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || len(r.last) >= maxReads {
		r.last = map[[sha256.Size]byte]time.Time{}
	}
	r.last[sha256.Sum256([]byte(read))] = now
}

// renew remembers reads of a session again, if the session has made all of them a short time ago.
func (r *reads) renew(session string, uris []string, now time.Time) bool {
	if slices.ContainsFunc(uris, func(uri string) bool { return !r.again(session+" "+uri, now) }) {
		return false
	}
	for _, uri := range uris {
		r.remember(session+" "+uri, now)
	}
	return true
}

// calls are the reads of the API for one page.
type calls struct {
	mu   sync.Mutex
	uris []string
}

func (c *calls) add(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uris = append(c.uris, uri)
}

const (
	// sharedFor is how long people with the same rights share a page that renews itself.
	sharedFor = 500 * time.Millisecond
	// mostShared is the number of shared pages that the server keeps.
	mostShared = 256
)

// sharedPages are pages that have renewed themselves a moment ago, by their readers' rights: many people have the same
// page open, and look again at the same hint.
type sharedPages struct {
	mu  sync.Mutex
	all map[string]*sharedPage
}

// sharedPage is a page, and the reads of the API that it is made of.
type sharedPage struct {
	mu   sync.Mutex
	at   time.Time
	html []byte
	uris []string
}

func (s *sharedPages) of(key string) *sharedPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[key]
	if one == nil {
		if s.all == nil || len(s.all) >= mostShared {
			s.all = map[string]*sharedPage{}
		}
		one = &sharedPage{}
		s.all[key] = one
	}
	return one
}

// shared returns a page that people with the same rights share while they only look again. Nothing of it may depend on
// anything but its address, the rights and the language. A first look, which the audit log holds, is never shared.
func shared(p page) page {
	return func(v *view, ctx context.Context) error {
		if v.r.Header.Get(renews) == "" {
			return p(v, ctx)
		}
		one := v.renewed.of(v.lang.Tag() + " " + v.r.URL.RequestURI() + " " + rightsOf(&v.who))
		one.mu.Lock()
		defer one.mu.Unlock()
		now := v.Now()
		age := now.Sub(one.at)
		if fresh := age >= 0 && age < sharedFor; !fresh || !v.Handler.reads.renew(sessionOf(v.r), one.uris, now) {
			reply, mine := newReply(v.r), *v
			mine.w, mine.forMany = reply, true
			if err := p(&mine, ctx); err != nil {
				return err
			}
			if reply.status != http.StatusOK {
				v.send(reply.status, reply.body.Bytes())
				return nil
			}
			one.at, one.html, one.uris = now, reply.body.Bytes(), v.calls.uris
		}
		v.send(http.StatusOK, one.html)
		return nil
	}
}

// rightsOf is a text that is equal for people who may see the same. People without all rights see their own tasks.
func rightsOf(p *access.Principal) string {
	if p.Admin {
		return "admin"
	}
	return fmt.Sprintf("%q %v", p.User, p.Grants)
}
