package webui

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
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
	// renewTime is how long after a read its page may repeat the read without another audit row.
	renewTime = 5 * time.Minute
	// maxReads is the number of reads that the server remembers.
	maxReads = 20_000
)

// reads are the reads of sessions that the audit log holds already. The header of a page alone proves nothing: whoever
// reads chooses it.
type reads struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// again reports whether a session has made a read a short time ago.
func (r *reads) again(read string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.last[read]
	return known && now.Sub(last) < renewTime
}

// note remembers a read. Of too many reads it forgets all, so that the audit log gets a row too many and never one too
// few.
func (r *reads) note(read string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || len(r.last) >= maxReads {
		r.last = map[string]time.Time{}
	}
	r.last[read] = now
}
