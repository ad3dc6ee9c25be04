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
	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/audit"
	"drover/internal/server/store"
)

// Limits of one call.
const (
	maxBody   = 16 << 20
	bodyTime  = 60 * time.Second
	replyTime = 120 * time.Second
	auditTime = 10 * time.Second
	maxWait   = 60 * time.Second
)

// hungUp is what the record says of a call whose caller did not wait for the answer, as many web servers do.
const hungUp = 499

// call is one request on its way through the API.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	principal access.Principal
	params    params
	// audit is filled in on the way; audited tells that it was stored already, with a task, or that no row is due where
	// all goes well.
	audit   store.AuditRow
	audited bool
	// limiter are where the body and what it is parsed into have their room, which left gives back.
	limiter  *admission.Limiter
	releases []func()
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
		c := &call{w: w, r: req, params: params{
			values: req.URL.Query(), read: map[string]bool{}, cursors: h.cursors,
			listed: r.name,
		}, limiter: h.Rooms}
		defer c.leave()
		c.audit = store.AuditRow{
			At: h.Now(), Remote: audit.Remote(req),
			RequestID: audit.RequestID(req.Header.Get("X-Request-Id")), Action: r.name,
		}
		w.Header().Set("X-Request-Id", c.audit.RequestID)
		if since := h.Fullness.FullSince(); !since.IsZero() {
			w.Header().Set("X-Drover-Notice", fmt.Sprintf(
				"the disk of the server's database is full, since %s: nothing new is stored, and what is shown is from before that", since.UTC().Format(time.RFC3339)))
		}
		// A recorder or a wrapped writer has no deadlines; the server's own then apply.
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(bodyTime))
		_ = control.SetWriteDeadline(time.Now().Add(bodyTime + maxWait + replyTime))
		answer, err := h.answer(ctx, c, r)
		if err == nil && answer.weight >= heavy {
			leave, there := h.heavy.enter(c.principal.App, mostHeavy)
			if there {
				c.releases = append(c.releases, leave)
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
		h.record(ctx, c, answer.status, err)
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
	if r.need == admin && !c.principal.Admin {
		return reply{}, problemf(http.StatusForbidden, "app %q is not an administrator", c.principal.App)
	}
	c.audit.Allowed = true
	return r.serve(ctx, c)
}

// record stores the audit row of a call, unless its task has taken it along. The caller has its answer by then, and may
// have hung up.
func (h *Handler) record(ctx context.Context, c *call, status int, err error) {
	if err != nil {
		p := problemOf(err)
		status = p.Status
		c.audit.Message = p.Detail
		if status == http.StatusForbidden {
			c.audit.Allowed = false
		}
		if p.cause != nil && ctx.Err() != nil { // a caller that hung up is no fault of ours
			status, c.audit.Message = hungUp, "the caller hung up"
		} else if p.cause != nil {
			h.Log.Error("call failed", "endpoint", c.audit.Action, "request", c.audit.RequestID, "error", p.cause)
		}
	}
	if c.audited && (err == nil || c.r.Method != http.MethodGet) {
		return
	}
	if err != nil {
		c.audit.Code = status
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	put := func(ctx context.Context, row store.AuditRow) error { return h.Audit.PutAudit(ctx, row) }
	switch {
	case !c.audit.Allowed ||
		status == http.StatusTooManyRequests: // a call that is refused must cost less than one that is not
		put = func(ctx context.Context, row store.AuditRow) error {
			return h.Audit.PutDenial(ctx, c.principal.App, row)
		}
	case c.r.Method == http.MethodGet: // a poll is not worth a sync of its own
		put = h.Audit.NoteAudit
	}
	if err := put(ctx, c.audit); err != nil {
		h.Log.Error("lost audit row", "endpoint", c.audit.Action, "request", c.audit.RequestID, "app", c.audit.App,
			"error", err)
	}
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
	c.audit.Target = clip(name)
	return name
}

// body reads the body, and waits for room for what it is parsed into.
func (c *call) body(ctx context.Context) ([]byte, error) {
	if !c.principal.Admin && len(c.principal.Grants) == 0 { // before anything is read of what it asks for
		return nil, problemf(http.StatusForbidden, "app %q has no rights: grant rights with 'drover app grant'",
			c.principal.App)
	}
	if c.r.ContentLength > maxBody {
		return nil, problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d MB", maxBody>>20)
	}
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxBody)
	text, release, err := c.limiter.Body(ctx, c.w, c.r, true)
	c.releases = append(c.releases, release)
	if err == nil {
		release, err = c.limiter.Parse(ctx, c.principal.App, text)
	}
	switch {
	case err == nil:
		c.releases = append(c.releases, release)
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

// leave gives the room of the body back.
func (c *call) leave() {
	for _, left := range c.releases {
		left()
	}
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
	if c.principal.Admin {
		return ""
	}
	return c.principal.App
}

// plain reports whether a text is of ASCII letters, digits and the given marks only.
func plain(text, marks string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune(marks, c)
	})
}

// clip cuts a text that goes into a record.
func clip(text string) string { return audit.Clip(text, 200) }
