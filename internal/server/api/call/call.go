package call

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/edge"
)

// Route is one row of the table.
type Route struct {
	Pattern string
	// Name is the action in the audit log.
	Name  string
	Need  Need
	Serve Endpoint
}

// Need is the kind of caller that a route admits.
type Need uint8

const (
	// NoApp is for a call that checks its own proof.
	NoApp Need = iota + 1
	// Anyone is for callers with credentials: the endpoint checks their rights.
	Anyone
	// Admin is for administrators.
	Admin
)

const maxWait = 60 * time.Second

// hungUp is the status in the audit log of a call whose caller closed the connection before the answer. Many web
// servers use 499.
const hungUp = 499

// Call is one request.
type Call struct {
	*edge.Call
	Response http.ResponseWriter
	Request  *http.Request
	Params   Params
	edge     *edge.Config
	// UserToken is the token of a user who calls without an app; empty for other callers.
	UserToken string
}

// Reply is the answer to a call.
type Reply struct {
	Status int
	Body   any // nil: no body
	// Location is the path of the created resource, below v1.Prefix.
	Location string
	// Written is set if the endpoint has written the reply itself.
	Written bool
	// Weight is the approximate size of a large body, in bytes.
	Weight int
}

// heavy is the weight in bytes from which a reply is heavy. An app may have mostHeavy heavy replies at a time, because
// each reply stays in memory until the caller has read it.
const (
	heavy     = 1 << 20
	mostHeavy = 8
)

// Endpoint answers one call with a reply, or with the reason to reject it.
type Endpoint func(ctx context.Context, c *Call) (Reply, error)

// OK is the reply 200 with a body.
func OK(body any) (Reply, error) { return Reply{Status: http.StatusOK, Body: body}, nil }

// DryRun ends the action of a call that only shows what it would do.
const DryRun = ".dry-run"

// action returns the action of the audit log for a call of the route, which ends in DryRun for a dry run.
func (r *Route) action(query url.Values) string {
	if query.Get("dry_run") == "true" {
		return r.Name + DryRun
	}
	return r.Name
}

// serving returns the handler of a route.
func (k *Kernel) serving(r Route) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		c := &Call{
			Call: k.Begin(w, req, "X-Request-Id", maxWait), Response: w, Request: req, edge: &k.Config,
			Params: Params{Values: req.URL.Query(), Read: map[string]bool{}, cursors: k.cursors, listed: r.Name},
		}
		defer c.End()
		c.Audit.Action = r.action(c.Params.Values)
		c.Console, _ = ctx.Value(consoleKey{}).(*edge.Console)
		if since := k.Fullness.FullSince(); !since.IsZero() {
			w.Header().Set("X-Drover-Notice", fmt.Sprintf(
				"the disk of the server's database is full, since %s: nothing new is stored, and what is shown is from before that", since.UTC().Format(time.RFC3339)))
		}
		answer, err := k.answer(ctx, c, r)
		if err == nil && answer.Weight >= heavy {
			leave, there := k.heavy.Enter(c.Principal.App, mostHeavy)
			if there {
				c.AtEnd(leave)
			} else {
				err = Busy(fmt.Sprintf("the app has not read its last %d large answers yet", mostHeavy), 1)
			}
		}
		if err != nil {
			refuse(w, c, err)
		} else if !answer.Written {
			if answer.Location != "" {
				w.Header().Set("Location", v1.Prefix+answer.Location)
			}
			if answer.Body == nil {
				w.WriteHeader(answer.Status)
			} else {
				write(w, answer.Status, "application/json", answer.Body)
			}
		}
		k.record(ctx, c, err)
	}
}

// answer identifies the caller and runs the endpoint.
func (k *Kernel) answer(ctx context.Context, c *Call, r Route) (Reply, error) {
	if r.Need == NoApp {
		return r.Serve(ctx, c)
	}
	leave, err := k.admit(ctx, c)
	if err != nil {
		return Reply{}, err
	}
	defer leave()
	if r.Need == Admin && !c.Principal.Admin {
		return Reply{}, Problemf(http.StatusForbidden, "%s is not an administrator", c.Principal.Who())
	}
	c.Audit.Allowed = true
	return r.Serve(ctx, c)
}

// record stores the audit row of a call.
func (k *Kernel) record(ctx context.Context, c *Call, err error) {
	end := edge.Ending{Reads: c.Request.Method == http.MethodGet}
	if renews := ctx.Value(renewalKey{}) != nil; renews && end.Reads && err == nil {
		c.Audited = true
	}
	if err != nil {
		p := ProblemOf(err)
		c.Audit.Code, c.Audit.Message = p.Status, p.Detail
		end.Denied, end.Limited = p.Status == http.StatusForbidden, p.Status == http.StatusTooManyRequests
		end.Cause = p.Cause
		if p.Cause != nil && ctx.Err() != nil {
			c.Audit.Code, c.Audit.Message = hungUp, "the caller hung up"
		}
		c.Audited = c.Audited && !end.Reads
	}
	k.Record(ctx, c.Call, end)
}

// noSuchPath answers a path that is not among the routes, and a path of a route with another method.
func noSuchPath(routes *http.ServeMux, c *Call) (Reply, error) {
	var allowed []string
	for _, method := range []string{
		http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
		probe := *c.Request
		probe.Method = method
		if _, pattern := routes.Handler(&probe); pattern != "" && pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		c.Response.Header().Set("Allow", strings.Join(allowed, ", "))
		return Reply{}, Problemf(http.StatusMethodNotAllowed, "%.200s takes %s", c.Request.URL.Path,
			strings.Join(allowed, ", "))
	}
	return Reply{}, Problemf(http.StatusNotFound, "there is no %.200s", c.Request.URL.Path)
}

// Subject returns a variable part of the path, and makes it the target in the audit log.
func (c *Call) Subject(part string) string {
	name := c.Request.PathValue(part)
	c.Audit.Target = edge.Clip(name)
	return name
}
