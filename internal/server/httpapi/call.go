package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"drover/internal/gse"
	"drover/internal/server/edge"
)

// call is one request.
type call struct {
	*edge.Call
	match
	// params has the parameters as a JSON object, whatever form the caller sent.
	params []byte
	// releaseBody frees the memory budget of the body before the end of the call.
	releaseBody func()
	// endTurn ends the turn of a call that puts results together; see admission.Limiter.Turn. It is never nil.
	endTurn func()
	// chinese is set if the caller wants refusals in Chinese.
	chinese bool
	// started is set once a part of the reply has been sent.
	started bool
}

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{
		Call: s.Begin(w, r, "X-Bkapi-Request-Id", 0), match: s.paths.resolve(r.Method, r.URL.Path),
		chinese: wantsChinese(r), endTurn: func() {},
	}
	defer func() {
		if c.route != nil {
			r.Pattern = c.route.name // as a mux would, for the metrics
		}
		c.End()
	}()
	if c.route == nil {
		s.serveOther(w, r, c)
		return
	}
	c.Audit.Action = c.route.name
	if !c.allows(r.Method) {
		refuse(w, c, methodNotAllowed(r))
		return
	}
	ctx := r.Context()
	err := s.admit(ctx, w, r, c)
	if err == nil {
		c.Audit.Allowed = true
		if c.job != nil && gse.MeansJob(c.params) {
			c.route = c.job
		}
		if s.Parse(ctx, c.Call, c.params) != nil {
			err = refusef(tooMany, "too many large requests at the same time, try again later")
		} else {
			err = s.answer(ctx, w, c)
		}
	}
	if err != nil && !c.started {
		refuse(w, c, err)
	}
	s.record(ctx, c, err)
	if err != nil && c.started {
		panic(http.ErrAbortHandler) // a truncated reply is better than one that looks complete
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
		// The body of an unknown caller is not worth reading.
		if err := s.authenticate(ctx, w, c, creds); err != nil {
			return err
		}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") &&
		r.ContentLength != 0 {
		return refusef(badRequest, "request body is encoded as %.40q: expected one without Content-Encoding", encoding)
	}
	body, err := s.readBody(ctx, w, r, c, inHead)
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
	defer func() { c.endTurn() }() // of whichever turn it then has
	data, err := c.route.serve(ctx, c)
	if err != nil {
		return err
	}
	// The parsed values no longer need the body, and a slow caller may take long to read the reply.
	c.params = nil
	c.releaseBody()
	return reply(w, c, data)
}

// record stores the audit row of a call.
func (s *server) record(ctx context.Context, c *call, err error) {
	end := edge.Ending{Reads: c.route.reads()}
	if err != nil {
		refusal := refusalOf(err)
		c.Audit.Code, c.Audit.Message = refusal.code(c), refusal.reason
		end.Limited = refusal.kind == tooOften || refusal.kind == tooMany || refusal.kind == overloaded
		end.Denied, end.Cause = refusal.kind == forbidden, refusal.cause
	}
	s.Record(ctx, c.Call, end)
}

// serveOther answers the paths that are not in the table.
func (s *server) serveOther(w http.ResponseWriter, r *http.Request, c *call) {
	// The mux would redirect a path that is not clean, and answer an unknown path with its own text.
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

// readiness caches the last answer, because a check needs a write of the database and any caller may ask.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// readyTime is how long an answer stays valid.
const readyTime = time.Second

// check asks ready, or returns the last answer if that is younger than readyTime.
func (r *readiness) check(ready func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= readyTime {
		r.err = ready()
		r.at = time.Now()
	}
	return r.err
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.readiness.check(s.Ready); err != nil {
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
		panic(err) // not reached: a value of texts and numbers always encodes
	}
	w.Header().Set("Content-Type", contentType)
	// so that the caller has the complete reply before the rest of the body has been read
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the peer is gone; there is no one to report to
}
