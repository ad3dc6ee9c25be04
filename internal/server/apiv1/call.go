package apiv1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/admission"
	"drover/internal/server/edge"
)

// Limits of one call.
const (
	maxBody = 16 << 20
	maxWait = 60 * time.Second
)

// hungUp is what the record says of a call whose caller did not wait for the answer, as many web servers do.
const hungUp = 499

// call is one request on its way through the API.
type call struct {
	*edge.Call
	w      http.ResponseWriter
	r      *http.Request
	params params
	edge   *edge.Config
}

// reply is what a call is answered with.
type reply struct {
	status int
	body   any // nil: no body
	// location is the path of what was made, below v1.Prefix.
	location string
	// written says that the endpoint has written it.
	written bool
	// weight is about how large it is, in bytes, where that may be much.
	weight int
}

// heavy is from what weight on a reply is one of those of which an app has mostHeavy at a time: it is in memory until
// it has been read.
const (
	heavy     = 1 << 20
	mostHeavy = 8
)

// endpoint answers one call: with a reply, or with why it is refused.
type endpoint func(ctx context.Context, c *call) (reply, error)

func ok(body any) (reply, error) { return reply{status: http.StatusOK, body: body}, nil }

// serving returns the handler of a route.
func (h *Handler) serving(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		c := &call{
			Call: h.Begin(w, req, "X-Request-Id", maxWait), w: w, r: req, edge: &h.Config.Config,
			params: params{values: req.URL.Query(), read: map[string]bool{}, cursors: h.cursors, listed: r.name},
		}
		defer c.End()
		c.Audit.Action = r.name
		if since := h.Fullness.FullSince(); !since.IsZero() {
			w.Header().Set("X-Drover-Notice", fmt.Sprintf(
				"the disk of the server's database is full, since %s: nothing new is stored, and what is shown is from before that", since.UTC().Format(time.RFC3339)))
		}
		answer, err := h.answer(ctx, c, r)
		if err == nil && answer.weight >= heavy {
			leave, there := h.heavy.enter(c.Principal.App, mostHeavy)
			if there {
				c.AtEnd(leave)
			} else {
				err = busy(fmt.Sprintf("the app has not read its last %d large answers yet", mostHeavy), 1)
			}
		}
		if err != nil {
			refuse(w, c, err)
		} else if !answer.written {
			if answer.location != "" {
				w.Header().Set("Location", v1.Prefix+answer.location)
			}
			if answer.body == nil {
				w.WriteHeader(answer.status)
			} else {
				write(w, answer.status, "application/json", answer.body)
			}
		}
		h.record(ctx, c, err)
	}
}

// answer finds out who calls and runs the endpoint.
func (h *Handler) answer(ctx context.Context, c *call, r route) (reply, error) {
	if r.need == noApp {
		return r.serve(ctx, c)
	}
	leave, err := h.admit(ctx, c)
	if err != nil {
		return reply{}, err
	}
	defer leave()
	if r.need == admin && !c.Principal.Admin {
		return reply{}, problemf(http.StatusForbidden, "app %q is not an administrator", c.Principal.App)
	}
	c.Audit.Allowed = true
	return r.serve(ctx, c)
}

// record stores the audit row of a call.
func (h *Handler) record(ctx context.Context, c *call, err error) {
	end := edge.Ending{Reads: c.r.Method == http.MethodGet}
	if err != nil {
		p := problemOf(err)
		c.Audit.Code, c.Audit.Message = p.Status, p.Detail
		end.Denied, end.Limited = p.Status == http.StatusForbidden, p.Status == http.StatusTooManyRequests
		end.Cause = p.cause
		if p.cause != nil && ctx.Err() != nil {
			c.Audit.Code, c.Audit.Message = hungUp, "the caller hung up"
		}
		c.Audited = c.Audited && !end.Reads
	}
	h.Record(ctx, c.Call, end)
}

// noSuchPath answers what is in no row of the table, and a path of the table with another method.
func (h *Handler) noSuchPath(_ context.Context, c *call) (reply, error) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		probe := *c.r
		probe.Method = method
		if _, pattern := h.mux.Handler(&probe); pattern != "" && pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		return reply{}, problemf(http.StatusMethodNotAllowed, "%.200s takes %s", c.r.URL.Path,
			strings.Join(allowed, ", "))
	}
	return reply{}, problemf(http.StatusNotFound, "there is no %.200s", c.r.URL.Path)
}

// subject returns what a part of the path names, and has the record name it.
func (c *call) subject(part string) string {
	name := c.r.PathValue(part)
	c.Audit.Target = edge.Clip(name)
	return name
}

// body reads the body, and waits for room for what it is parsed into.
func (c *call) body(ctx context.Context) ([]byte, error) {
	if !c.Principal.Admin && len(c.Principal.Grants) == 0 { // before anything is read of what it asks for
		return nil, problemf(http.StatusForbidden, "app %q has no rights: grant rights with 'drover app grant'",
			c.Principal.App)
	}
	if c.r.ContentLength > maxBody {
		return nil, problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d MB", maxBody>>20)
	}
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxBody)
	text, _, err := c.edge.Body(ctx, c.Call, c.w, c.r, true)
	if err == nil {
		err = c.edge.Parse(ctx, c.Call, text)
	}
	switch {
	case err == nil:
		return text, nil
	case errors.Is(err, admission.ErrFull):
		return nil, busy(err.Error(), 5)
	case errors.Is(err, admission.ErrTooLarge):
		return nil, problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d MB", maxBody>>20)
	case errors.Is(err, admission.ErrTooSlow):
		return nil, problemf(http.StatusRequestTimeout, "%v", err)
	}
	return nil, decodeProblem(err)
}

// decode reads the body of a call without parameters into v. An unknown field is refused: it may be one that was
// misspelt; and so is one that is there twice.
func (c *call) decode(ctx context.Context, v any) error {
	if err := c.params.done(); err != nil {
		return err
	}
	text, err := c.body(ctx)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return decodeProblem(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problemf(http.StatusBadRequest, "the body has text after its JSON object")
	}
	return exact(text, reflect.TypeOf(v))
}

// app is whose tasks the caller may see: its own, and every one's where it is an administrator.
func (c *call) app() string {
	if c.Principal.Admin {
		return ""
	}
	return c.Principal.App
}

// plain reports whether a text is of ASCII letters, digits and the given marks only.
func plain(text, marks string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune(marks, c)
	})
}
