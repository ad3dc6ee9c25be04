package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/processfile"
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// Busy is the problem of an app that exceeds its limits. The app may retry after so many seconds, at least one.
func Busy(reason string, after int) error {
	p := Problemf(http.StatusTooManyRequests, "%s", reason)
	p.RetryAfter = max(after, 1)
	return p
}

// Problem is a rejection, with details that only the server needs.
type Problem struct {
	v1.Problem
	// Cause is for the log; it is set if the fault is the server's.
	Cause error
	// Nothing tells that a pattern or an expression of the request matches nothing.
	Nothing bool
	// Broad tells that a request is for more hosts than one person may change at once.
	Broad bool
	// RetryAfter is in seconds; 0 means that the reply does not have it.
	RetryAfter int
}

// Error returns the text for the caller.
func (p *Problem) Error() string { return p.Detail }

// Problemf returns a problem with a status of HTTP, and a text for the caller.
func Problemf(status int, format string, args ...any) *Problem {
	return &Problem{Problem: v1.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...),
	}}
}

// Invalid is the problem of one wrong field of a request.
func Invalid(field, format string, args ...any) *Problem {
	detail := fmt.Sprintf(format, args...)
	p := Problemf(http.StatusUnprocessableEntity, "%s: %s", field, detail)
	p.Fields = []v1.FieldError{{Field: field, Detail: detail}}
	return p
}

// Together makes one problem of problems of fields, so that a caller learns of all faults at once; nil for none.
// Another error stands alone.
func Together(faults ...error) error {
	var all *Problem
	for _, fault := range faults {
		p, ok := errors.AsType[*Problem](fault)
		switch {
		case fault == nil:
		case !ok || len(p.Fields) == 0:
			return fault
		case all == nil:
			all = p
		default:
			all.Detail += "; " + p.Detail
			all.Fields = append(all.Fields, p.Fields...)
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// Failure is the problem of a failed server operation. The caller gets the cause only if the database is away or its
// disk is full, because an operator can remedy that.
func Failure(what string, cause error) *Problem {
	p := Problemf(http.StatusInternalServerError, "cannot %s: try again later", what)
	if errors.Is(cause, store.ErrAway) {
		p = Problemf(http.StatusServiceUnavailable, "cannot %s: the server's database is away; try again later", what)
	} else if full, ok := errors.AsType[*store.FullError](cause); ok {
		p = Problemf(http.StatusInsufficientStorage,
			"cannot %s: %v; free space there; until then drover accepts only stop, kill and unhost", what, full)
	}
	p.Cause = fmt.Errorf("cannot %s: %w", what, cause)
	return p
}

// ProblemOf returns the problem in an error; an error without a problem is a fault of the server.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return Failure("answer the call", err)
}

// StoreProblem turns an error of the store into a problem about the named thing.
func StoreProblem(err error, kind, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return Problemf(http.StatusNotFound, "there is no %s %q", kind, name)
	case errors.Is(err, store.ErrExists):
		return Problemf(http.StatusConflict, "%s %q exists already", kind, name)
	default:
		if p, ok := errors.AsType[*Problem](err); ok {
			return p
		}
		return Failure("reach the "+kind, err)
	}
}

// refuse writes the reply to a rejected call.
func refuse(w http.ResponseWriter, c *Call, err error) {
	p := ProblemOf(err)
	body := p.Problem
	body.RequestID = c.Audit.RequestID
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `X-Bkapi-Authorization realm="drover"`)
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
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

// InvalidPart makes a problem of an error of package process. The text of that error begins with the name of a field.
func InvalidPart(before, cut string, err error) error {
	field, detail, _ := strings.Cut(strings.TrimPrefix(err.Error(), cut), " ")
	return Invalid(before+field, "%s", detail)
}

// InvalidFile makes one problem of all faults of a file or a part of it.
func InvalidFile(at string, err error) error {
	faults, ok := errors.AsType[processfile.Faults](err)
	if !ok {
		return Invalid(at, "%v", err)
	}
	texts, list := make([]string, 0, len(faults)), make([]v1.FieldError, 0, len(faults))
	for _, f := range faults {
		e := v1.FieldError{Field: strings.Trim(at+"."+f.Path, "."), Detail: f.Text}
		texts, list = append(texts, strings.TrimPrefix(e.Field+": "+e.Detail, ": ")), append(list, e)
	}
	p := Problemf(http.StatusUnprocessableEntity, "%s", strings.Join(texts, "; "))
	p.Fields = list
	return p
}

// Faulty is InvalidFile for a list of faults; nil for an empty list.
func Faulty(faults processfile.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return InvalidFile("", faults)
}

// Forbidden is the problem of a missing right.
func Forbidden(m access.Missing) error {
	if m.More > 0 && m.Limit == 0 {
		return Problemf(http.StatusForbidden, "not allowed: %s, and %d more", m.What(), m.More)
	}
	return Problemf(http.StatusForbidden, "not allowed: %s", m.What())
}
