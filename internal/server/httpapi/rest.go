package httpapi

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"time"

	"drover/internal/server/edge"
)

// drainBody answers as h does, and then reads the rest of the body. The kernel resets a connection that is closed with
// unread data, and the caller, which is still sending, would lose the answer. Both the bytes and the time of the rest
// are bounded.
func drainBody(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		body := &trackedBody{ReadCloser: r.Body}
		// otherwise the first byte of an answer would wait for the body
		if r.ContentLength != 0 && control.EnableFullDuplex() == nil {
			r.Body = body
			h.ServeHTTP(w, r)
			body.drainAfterReply(control, r.Header.Get("Expect") != "")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// trackedBody is a body that records how far it was read.
type trackedBody struct {
	io.ReadCloser
	begun, ended bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	b.begun = true
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	runtime.Gosched() // a long, fast body must not delay short calls
	return n, err
}

// drainAfterReply sends the answer and continues to read. A caller that expects a 100 Continue and got none sends no
// body.
func (b *trackedBody) drainAfterReply(control *http.ResponseController, asks bool) {
	if b.ended || asks && !b.begun || control.Flush() != nil {
		return
	}
	buffer := make([]byte, 32<<10)
	end := time.Now().Add(edge.BodyTime)
	for read := 0; read < restBody && !b.ended; {
		until := time.Now().Add(restTime)
		if until.After(end) {
			until = end
		}
		if control.SetReadDeadline(until) != nil {
			return
		}
		n, err := b.Read(buffer)
		if read += n; err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
}
