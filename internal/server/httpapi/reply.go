package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"drover/internal/process"
)

const contentType = "application/json; charset=utf-8"

// payload writes the JSON value of "data".
type payload func(w *jsonWriter) error

// value is the payload of a value in memory.
func value(v any) payload {
	return func(w *jsonWriter) error { return w.value(v) }
}

// replyBuffer is how many bytes of a reply are held back, so that a reply that fails early can become a refusal.
const replyBuffer = 64 << 10

// reply writes a successful reply and streams its data. After an error, c.started reports whether a part of it was
// sent.
func reply(w http.ResponseWriter, c *call, data payload) error {
	w.Header().Set("Content-Type", contentType)
	out := &startedWriter{w: w, started: &c.started}
	buffer := bufio.NewWriterSize(out, replyBuffer)
	jw := newJSONWriter(buffer)
	message, tail := process.Success, ""
	if c.route.dialect == jobDialect {
		message, tail = "", `,"permission":null`
	}
	jw.raw(fmt.Sprintf(`{"result":true,"code":0,"message":%q,"data":`, message))
	err := data(jw)
	if err == nil {
		jw.raw(`,"request_id":"` + c.Audit.RequestID + `"` + tail + "}\n") // the id needs no escaping
		err = buffer.Flush()
	}
	return err
}

// startedWriter records whether anything was written.
type startedWriter struct {
	w       io.Writer
	started *bool
}

func (s *startedWriter) Write(p []byte) (int, error) {
	*s.started = true
	return s.w.Write(p)
}

// jsonWriter writes pieces of JSON.
type jsonWriter struct {
	out     *bufio.Writer
	scratch bytes.Buffer
	enc     *json.Encoder
}

func newJSONWriter(out *bufio.Writer) *jsonWriter {
	w := &jsonWriter{out: out}
	w.enc = json.NewEncoder(&w.scratch)
	w.enc.SetEscapeHTML(false)
	return w
}

// raw writes text that is JSON already.
func (w *jsonWriter) raw(text string) {
	_, _ = w.out.WriteString(text) // the buffer keeps the error for the next value and for Flush
}

// value writes one value.
func (w *jsonWriter) value(v any) error {
	w.scratch.Reset()
	if err := w.enc.Encode(v); err != nil {
		return fmt.Errorf("cannot encode reply: %w", err)
	}
	_, err := w.out.Write(bytes.TrimSuffix(w.scratch.Bytes(), []byte("\n")))
	return err
}

// sequence writes the commas between the elements of a list or a map.
type sequence struct {
	w    *jsonWriter
	many bool
}

// element writes an element of a list.
func (s *sequence) element(v any) error {
	if s.many {
		s.w.raw(",")
	}
	s.many = true
	return s.w.value(v)
}

// member writes an element of a map.
func (s *sequence) member(key string, v any) error {
	if err := s.element(key); err != nil {
		return err
	}
	s.w.raw(":")
	return s.w.value(v)
}
