package httpapi

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"drover/internal/gse"
	"drover/internal/server/access"
	"drover/internal/server/audit"
	"drover/internal/server/store"
)

// call is one request on its way through the edge.
type call struct {
	match
	requestID string
	// address is the peer's, without its port; empty for one on this machine's socket.
	address string
	// params is the JSON object that the caller sent, in whatever form.
	params []byte
	// principal is who the call runs as; leave ends what its limits count, and is nil where nothing is counted.
	principal access.Principal
	leave     func()
	// release gives back the room that the call takes, releaseBody already that of the body.
	release, releaseBody func()
	// chinese tells that refusals are to be worded in Chinese.
	chinese bool
	// audit is filled in on the way; audited tells that it was already stored, with a task.
	audit   store.AuditRow
	audited bool
	// started tells that a part of the reply has left.
	started bool
}

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{
		match:     s.paths.resolve(r.Method, r.URL.Path),
		requestID: audit.RequestID(r.Header.Get("X-Bkapi-Request-Id")), chinese: wantsChinese(r),
	}
	c.address, _, _ = net.SplitHostPort(r.RemoteAddr)
	defer func() {
		if c.route != nil {
			r.Pattern = c.route.name // as a mux would, for whoever counts calls
		}
		if c.leave != nil {
			c.leave()
		}
		if c.release != nil {
			c.release()
		}
	}()
	w.Header().Set("X-Bkapi-Request-Id", c.requestID)
	// A recorder or a wrapped writer has no deadlines; the server's own then apply.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime))
	_ = control.SetWriteDeadline(time.Now().Add(bodyTime + replyTime))
	if c.route == nil {
		s.serveOther(w, r, c)
		return
	}
	c.audit = store.AuditRow{At: s.Now(), Remote: audit.Remote(r), RequestID: c.requestID, Action: c.route.name}
	if !c.allows(r.Method) {
		refuse(w, c, methodNotAllowed(r))
		return
	}
	ctx := r.Context()
	err := s.admit(ctx, w, r, c)
	if err == nil {
		// Left alone, the deadline would end the watch for a caller that hangs up, and with it the call.
		_ = control.SetReadDeadline(time.Time{})
		c.audit.Allowed = true
		if c.job != nil && gse.MeansJob(c.params) {
			c.route = c.job
		}
		if err = s.roomToParse(ctx, c); err == nil {
			err = s.answer(ctx, w, c)
		}
	}
	if err != nil && !c.started {
		refuse(w, c, err)
	}
	s.record(ctx, c, err)
	if err != nil && c.started {
		panic(http.ErrAbortHandler) // a cut reply is better than one that looks whole
	}
}

// admit reads the parameters and checks the credentials.
func (s *server) admit(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call) error {
	query := r.URL.Query()
	creds, inHead, err := s.headCredentials(r, c)
	if err != nil {
		return err
	}
	if inHead {
		// Before the body: that of a stranger is not worth reading.
		if err := s.authenticate(ctx, w, c, creds); err != nil {
			return err
		}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") &&
		r.ContentLength != 0 {
		return refusef(badRequest, "request body is encoded as %.40q: expected one without Content-Encoding", encoding)
	}
	body, release, err := s.readBody(ctx, w, r, inHead)
	c.release, c.releaseBody = release, release
	if err != nil {
		return err
	}
	if c.params, err = readParams(body, r.Method, query); err != nil {
		return err
	}
	if inHead {
		return nil
	}
	if creds, err = paramCredentials(c.params, query); err != nil {
		return err
	}
	return s.authenticate(ctx, w, c, creds)
}

// answer runs the endpoint and writes its reply.
func (s *server) answer(ctx context.Context, w http.ResponseWriter, c *call) error {
	data, err := c.route.serve(ctx, c)
	if err != nil {
		return err
	}
	// What was read of the body is in other places by now, and the caller may take his time with the reply.
	c.params = nil
	c.releaseBody()
	return reply(w, c, data)
}

// record stores the audit row of a call, unless its task has taken it along. The caller has its answer by then, and may
// have hung up.
func (s *server) record(ctx context.Context, c *call, err error) {
	limited := false
	if err != nil {
		refusal := refusalOf(err)
		c.audit.Code, c.audit.Message = refusal.code(c), refusal.reason
		limited = refusal.kind == tooOften || refusal.kind == tooMany || refusal.kind == overloaded
		if refusal.kind == forbidden {
			c.audit.Allowed = false
		}
		if refusal.cause != nil && ctx.Err() == nil { // a caller that hung up is no fault of ours
			s.Log.Error("call failed", "endpoint", c.route.name, "request", c.requestID, "error", refusal.cause)
		}
	}
	if c.audited {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	put := func(ctx context.Context, row store.AuditRow) error { return s.Audit.PutAudit(ctx, row) }
	switch {
	case limited || !c.audit.Allowed: // a call that is refused must cost less than one that is not
		put = func(ctx context.Context, row store.AuditRow) error {
			return s.Audit.PutDenial(ctx, c.principal.App, row)
		}
	case c.route.reads():
		put = s.Audit.NoteAudit
	}
	if err := put(ctx, c.audit); err != nil {
		s.Log.Error("lost audit row", "endpoint", c.route.name, "request", c.requestID, "app", c.audit.App,
			"error", err)
	}
}

// serveOther answers the paths that are not in the table.
func (s *server) serveOther(w http.ResponseWriter, r *http.Request, c *call) {
	// The mux would redirect a path that is not clean, and answer an unknown one in its own words.
	if path.Clean(r.URL.Path) == r.URL.Path {
		if h, pattern := s.other.Handler(r); pattern != "" {
			r.Pattern = pattern
			h.ServeHTTP(w, r)
			return
		}
	}
	refuse(w, c, pathNotFound(r))
}

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readiness remembers what was found out last: to look takes a write of the database, and whoever may connect may ask.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// readyTime is how long an answer counts.
const readyTime = time.Second

func (r *readiness) look(ready func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= readyTime {
		r.err = ready()
		r.at = time.Now()
	}
	return r.err
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.readiness.look(s.Ready); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": err.Error()})
		return
	}
	reply := map[string]any{"status": "ready"}
	if s.Notes != nil {
		if notes := s.Notes(); len(notes) > 0 {
			reply["notes"] = notes
		}
	}
	writeJSON(w, http.StatusOK, reply)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // not reached: it is made of texts and numbers
	}
	w.Header().Set("Content-Type", contentType)
	// so that it is whole before what is left of the body has been read
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the peer is gone: nothing is left to tell it
}
