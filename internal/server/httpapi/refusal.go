package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/task"
)

// kind is the reason of a refusal. The family and the dialect decide its code and HTTP status.
type kind uint8

const (
	badRequest      kind = iota // the body cannot be read
	badHeader                   // X-Bkapi-Authorization cannot be read
	denied                      // the credentials are missing or wrong
	forbidden                   // the app lacks a right
	tooOften                    // the app calls more often than it may
	tooMany                     // the app has too many concurrent calls
	overloaded                  // the server has too many open operations
	tooLarge                    // the body exceeds the limit
	wrongMethod                 // known path, other method
	unknownPath                 // no such path
	badParameter                // a parameter is missing or invalid, so there is no key to answer for
	unknownTask                 // no such task, or another app's
	unavailable                 // the server cannot do its part now
	refusalKindsEnd             // the number of kinds
)

// refusal is an error with the text for the caller.
type refusal struct {
	kind   kind
	reason string
	// format and args produced reason; translations use them.
	format string
	args   []any
	// retry is when to retry, in seconds; 0 means that the reply does not say.
	retry int
	// cause is for the log; it is set if the fault is the server's.
	cause error
}

// Error returns the text for the caller.
func (r *refusal) Error() string { return r.reason }

func refusef(k kind, format string, args ...any) *refusal {
	return &refusal{kind: k, reason: fmt.Sprintf(format, args...), format: format, args: args}
}

// failure is the refusal of a failed server operation. The caller gets the cause only if the caller can remedy it.
func failure(what string, cause error) *refusal {
	r := refusef(unavailable, "cannot %s: try again later", what)
	if full, ok := errors.AsType[*store.FullError](cause); ok {
		r = refusef(unavailable, "cannot %s: the disk of the server's database is full, since %s", what,
			full.Since.UTC().Format(time.RFC3339))
	}
	r.cause = fmt.Errorf("cannot %s: %w", what, cause)
	return r
}

func methodNotAllowed(r *http.Request) *refusal {
	return refusef(wrongMethod, "Method not allowed [method=%.16q path=%.200q]", r.Method, r.URL.Path)
}

func pathNotFound(r *http.Request) *refusal {
	return refusef(unknownPath, "API not found [method=%.16q path=%.200q]", r.Method, r.URL.Path)
}

// accepting turns the error of a rejected task into a refusal.
func accepting(err error) *refusal {
	if busy, ok := errors.AsType[*task.BusyError](err); ok {
		r := refusef(overloaded, "%d operations are under way, of at most %d: try again in %d s", busy.Open, busy.Most,
			busy.Seconds())
		r.retry = busy.Seconds()
		return r
	}
	return failure("accept the task", err)
}

// refusalOf returns the refusal in an error.
func refusalOf(err error) *refusal {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r
	}
	return failure("answer the call", err)
}

// outward is the external form of one kind of refusal.
type outward struct {
	esb     int    // code below /compapi/, always HTTP 200
	job     int    // code of JOB itself; 0: as esb
	gateway int    // code behind a gateway
	status  int    // HTTP status there
	name    string // of a gateway's own refusal; empty for a logical failure
}

// outwards has a row for each kind. A logical failure is HTTP 200 behind a gateway too. Only a refusal that the gateway
// makes itself has another status.
func outwards() [refusalKindsEnd]outward {
	return [...]outward{
		badRequest:   {1306000, 0, 1640001, http.StatusBadRequest, "INVALID_ARGS"},
		badHeader:    {1306406, 0, 1640001, http.StatusBadRequest, "INVALID_ARGS"},
		denied:       {1306000, 0, 1640001, http.StatusBadRequest, "INVALID_ARGS"},
		forbidden:    {1306403, 0, 1640301, http.StatusForbidden, "APP_NO_PERMISSION"},
		tooOften:     {1306429, 0, 1642902, http.StatusTooManyRequests, "RATE_LIMIT_RESTRICTION"},
		tooMany:      {1306429, 0, 1642904, http.StatusTooManyRequests, "CONCURRENCY_LIMIT_RESTRICTION"},
		overloaded:   {1306429, 0, 1642901, http.StatusTooManyRequests, "RATE_LIMIT_RESTRICTION"},
		tooLarge:     {1306000, 0, 1641301, http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE"},
		wrongMethod:  {1306209, 0, 1640501, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED"},
		unknownPath:  {1306404, 0, 1640401, http.StatusNotFound, "API_NOT_FOUND"},
		badParameter: {1306406, 1241002, 1306406, http.StatusOK, ""},
		unknownTask:  {1000101, 0, 1000101, http.StatusOK, ""},
		unavailable:  {1306201, 1210001, 1650201, http.StatusBadGateway, "ERROR_REQUESTING_RESOURCE"},
	}
}

// code returns the code that the caller sees.
func (r *refusal) code(c *call) int {
	o := outwards()[r.kind]
	switch {
	case c.route != nil && c.route.dialect == jobDialect && o.job != 0 && !r.ofGateway(c):
		return o.job
	case c.family == gateway || r.ofGateway(c):
		return o.gateway
	default:
		return o.esb
	}
}

// ofGateway reports whether a gateway makes this refusal itself. On a backend's own paths, the backend makes two of
// them.
func (r *refusal) ofGateway(c *call) bool {
	switch c.family {
	case gateway:
		return outwards()[r.kind].name != ""
	case direct:
		return r.kind == unknownPath || r.kind == wrongMethod
	case esb:
		return false
	}
	return false
}

// refuse writes the reply to a refused call.
func refuse(w http.ResponseWriter, c *call, err error) {
	r := refusalOf(err)
	out := outwards()[r.kind]
	if c.family == esb && (r.kind == unknownPath || r.kind == wrongMethod) {
		// This is the only reply of the ESB that is not HTTP 200. It has neither a code nor a request id.
		writeJSON(w, http.StatusNotFound, struct {
			Result  bool   `json:"result"`
			Data    any    `json:"data"`
			Message string `json:"message"`
		}{Message: "The content does not exist"})
		return
	}
	body := refusedBody{Code: r.code(c), Message: r.in(c.chinese), RequestID: c.Audit.RequestID}
	if c.route != nil && c.route.dialect == jobDialect {
		body.Permission = json.RawMessage("null")
	}
	status := http.StatusOK
	if r.ofGateway(c) {
		status = out.status
		body.CodeName = out.name
		if status == http.StatusBadRequest {
			body.Message = refusef(r.kind, "Parameters error [reason=%q]", body.Message).in(c.chinese)
		}
		w.Header().Set("X-Bkapi-Error-Code", fmt.Sprint(body.Code))
		w.Header().Set("X-Bkapi-Error-Message", headerText(r.reason))
	}
	if r.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(r.retry))
	}
	if r.kind == wrongMethod {
		for _, m := range c.methods {
			w.Header().Add("Allow", m)
		}
	}
	writeJSON(w, status, body)
}

// refusedBody is the envelope of a refusal.
type refusedBody struct {
	Result     bool            `json:"result"`
	Code       int             `json:"code"`
	CodeName   string          `json:"code_name,omitempty"`
	Message    string          `json:"message"`
	Data       any             `json:"data"`
	RequestID  string          `json:"request_id"`
	Permission json.RawMessage `json:"permission,omitempty"`
}

// headerText replaces the bytes that a header may not contain by question marks.
func headerText(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
