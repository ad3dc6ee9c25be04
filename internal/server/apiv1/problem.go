package apiv1

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/server/store"
)

// problem is a rejection, with details that only the server needs.
type problem struct {
	v1.Problem
	// cause is for the log; it is set if the fault is the server's.
	cause error
	// nothing tells that a pattern or an expression has found nothing.
	nothing bool
	// retryAfter is in seconds; 0 means that the reply does not have it.
	retryAfter int
}

// Error returns the text for the caller.
func (p *problem) Error() string { return p.Detail }

func problemf(status int, format string, args ...any) *problem {
	return &problem{Problem: v1.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...),
	}}
}

// invalid is the problem of one wrong field of a request.
func invalid(field, format string, args ...any) *problem {
	detail := fmt.Sprintf(format, args...)
	p := problemf(http.StatusUnprocessableEntity, "%s: %s", field, detail)
	p.Fields = []v1.FieldError{{Field: field, Detail: detail}}
	return p
}

// failure is the problem of a failed server operation. The caller gets the cause only if the disk of the database is
// full, because an operator can remedy that.
func failure(what string, cause error) *problem {
	if full, ok := errors.AsType[*store.FullError](cause); ok {
		p := problemf(http.StatusInsufficientStorage,
			"cannot %s: %v; free space there; until then drover accepts only stop, kill and unhost", what, full)
		p.cause = fmt.Errorf("cannot %s: %w", what, cause)
		return p
	}
	p := problemf(http.StatusInternalServerError, "cannot %s: try again later", what)
	p.cause = fmt.Errorf("cannot %s: %w", what, cause)
	return p
}

// problemOf returns the problem in an error.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return failure("answer the call", err)
}

// stored turns an error of the store into a problem about the named thing.
func stored(err error, kind, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return problemf(http.StatusNotFound, "there is no %s %q", kind, name)
	case errors.Is(err, store.ErrExists):
		return problemf(http.StatusConflict, "%s %q exists already", kind, name)
	default:
		if p, ok := errors.AsType[*problem](err); ok {
			return p
		}
		return failure("reach the "+kind, err)
	}
}

// refuse writes the reply to a rejected call.
func refuse(w http.ResponseWriter, c *call, err error) {
	p := problemOf(err)
	body := p.Problem
	body.RequestID = c.Audit.RequestID
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `X-Bkapi-Authorization realm="drover"`)
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	write(w, p.Status, "application/problem+json", body)
}

// write writes a JSON reply.
func write(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the peer is gone; there is no one to report to
}

// decodeProblem turns an error of encoding/json about a body into a problem.
func decodeProblem(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return invalid(wrong.Field, "is a JSON %s: expected %s", wrong.Value, expected(wrong.Type))
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d MB", large.Limit>>20)
	}
	if field, ok := strings.CutPrefix(err.Error(), `json: unknown field "`); ok {
		return invalid(strings.TrimSuffix(field, `"`), "there is no such field")
	}
	return problemf(http.StatusBadRequest, "the body is not a JSON object: %v", err)
}

// expected describes the JSON that a field of a Go type accepts.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	default:
		return "an object"
	}
}
