package webui

import (
	"bytes"
	"io"
	"net/http"
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
