package httpapi

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"time"

	"drover/internal/server/edge"
)

// drainBody answers as h does, and then reads what h has left of the body. A connection that is closed with something
// unread is reset, and with it goes the answer that the caller has not read yet: it is still sending. How much is read
// is bounded, and so is for how long.
func drainBody(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		body := &trackedBody{ReadCloser: r.Body}
		// else the first byte of an answer would wait for the body
		if r.ContentLength != 0 && control.EnableFullDuplex() == nil {
			r.Body = body
			h.ServeHTTP(w, r)
			body.rest(control, r.Header.Get("Expect") != "")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// trackedBody is a body that remembers how far it was read.
type trackedBody struct {
	io.ReadCloser
	begun, ended bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	b.begun = true
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	runtime.Gosched() // a long body that comes fast must not keep short calls waiting
	return n, err
}

// rest sends the answer and reads on. A caller that expects to be told to go on, and was not, sends nothing.
func (b *trackedBody) rest(control *http.ResponseController, asks bool) {
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
