// Package edge does what both HTTP APIs do with a call in the same way: it identifies the caller, takes memory for the
// body and submits a task. It also reads the results of a task as far as the caller may, and writes the audit record.
// The APIs own their paths, their JSON and the words of a rejection. Package edge keeps no state.
package edge

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/audit"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// Limits of one call.
const (
	// BodyTime is the time to send a body, ReplyTime the time to read an answer.
	BodyTime  = 60 * time.Second
	ReplyTime = 120 * time.Second
	// AuditTime bounds the writes of a call after its answer.
	AuditTime = 10 * time.Second
)

// Gate identifies callers, and counts their calls against the limits of their apps.
type Gate interface {
	Admit(ctx context.Context, c gate.Credentials) (access.Principal, error)
	Enter(p access.Principal) (leave func(), u gate.Usage, v gate.Verdict)
}

// Engine accepts tasks. Submit returns once the task and its audit row are on disk. Wait returns when every item of the
// task has its outcome, or when ctx ends.
type Engine interface {
	Submit(ctx context.Context, t *store.Task, row store.AuditRow) error
	Wait(ctx context.Context, task string) error
}

// Tasks has the results of tasks.
type Tasks interface {
	TaskItems(ctx context.Context, id, app string, fn func(store.ItemView) error) error
}

// Audit is the audit log. PutAudit stores rows before it returns, NoteAudit a little later. PutDenial counts equal
// denials; proven is the app that the caller has proven to be.
type Audit interface {
	PutAudit(ctx context.Context, rows ...store.AuditRow) error
	PutDenial(ctx context.Context, proven string, row store.AuditRow) error
	NoteAudit(ctx context.Context, row store.AuditRow) error
}

// Config holds the parts of the server that both APIs use. All but Now is required.
type Config struct {
	Gate   Gate
	Engine Engine
	Tasks  Tasks
	Audit  Audit
	// Rooms bound the memory of bodies and results; both APIs share them.
	Rooms *admission.Limiter
	Log   *slog.Logger
	// Now is the clock; time.Now if it is nil. Its zone is the zone of local times in replies.
	Now func() time.Time
}

// Call is one request on its way through an API. Only one goroutine may use it.
type Call struct {
	// Principal is the caller, once it is identified.
	Principal access.Principal
	// Audit is the row of the audit log, which the API completes on the way. Audited is set if the row is stored
	// already, or that the call needs none.
	Audit   store.AuditRow
	Audited bool
	// Console is set if a person makes the call in the console, with the person's reason for it.
	Console *Console
	// Address is the caller's address without its port; empty for this machine.
	Address  string
	releases []func()
}

// Console is what the audit row of a call in the console has besides, as "console" in its detail.
type Console struct {
	// Reason is in the person's own words; it may be empty.
	Reason string `json:"reason,omitempty"`
}

// Row is the row of the call with all that is known of the call.
func (c *Call) Row() store.AuditRow {
	row := c.Audit
	if c.Console == nil {
		return row
	}
	detail := map[string]json.RawMessage{}
	if len(row.Detail) > 0 && json.Unmarshal(row.Detail, &detail) != nil {
		return row // it is no object
	}
	detail["console"], _ = json.Marshal(c.Console) // a text always encodes
	row.Detail, _ = json.Marshal(detail)           // it was decoded from JSON
	return row
}

// Begin returns the call of a request, and limits the time for its body and its answer. An answer may begin wait later
// than usual.
func (e *Config) Begin(w http.ResponseWriter, r *http.Request, requestID string, wait time.Duration) *Call {
	c := &Call{Audit: store.AuditRow{
		At: e.Now(), Remote: audit.Remote(r), RequestID: audit.RequestID(r.Header.Get(requestID)),
	}}
	c.Address, _, _ = net.SplitHostPort(r.RemoteAddr)
	w.Header().Set(requestID, c.Audit.RequestID)
	Limit(w, r, wait)
	return c
}

// Limit limits the time for the body of a request and for its answer, which may begin wait later than usual. A request
// without a body has no limit for the body: net/http reads on, to notice a hang-up, and would end the call at the
// limit.
func Limit(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	var body time.Time
	if r.ContentLength != 0 {
		body = time.Now().Add(BodyTime) // package admission lifts it at the end of the body
	}
	// A test recorder or a wrapped writer has no deadlines; then the server's own apply.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(body)
	_ = control.SetWriteDeadline(time.Now().Add(BodyTime + wait + ReplyTime))
}

// AtEnd has End call a function.
func (c *Call) AtEnd(release func()) { c.releases = append(c.releases, release) }

// End releases the resources of the call.
func (c *Call) End() {
	for _, release := range c.releases {
		release()
	}
	c.releases = nil
}

// Identify authenticates the caller and stores it in the call. It fails with a *gate.Refusal if the credentials are
// missing or wrong.
func (e *Config) Identify(ctx context.Context, c *Call, given gate.Credentials) error {
	c.Audit.App, c.Audit.User = audit.Clip(given.AppCode, access.MaxAppCode), audit.Clip(given.User, access.MaxUser)
	given.Address = c.Address
	p, err := e.Gate.Admit(ctx, given)
	if err == nil {
		c.Principal, c.Audit.App, c.Audit.User = p, p.App, p.User
	}
	return err
}

// Body returns the body of a request, whose memory the call holds until release, or until its end. known is set if the
// caller is authenticated. Body fails with an error of package admission if the body is too large or too slow, or if
// there is no memory.
func (e *Config) Body(ctx context.Context, c *Call, w http.ResponseWriter, r *http.Request,
	known bool,
) (body []byte, release func(), err error) {
	body, release, err = e.Rooms.Body(ctx, w, r, known)
	c.AtEnd(release)
	return body, release, err
}

// Parse waits for memory for the values of a body, which the call holds until its end.
func (e *Config) Parse(ctx context.Context, c *Call, body []byte) error {
	release, err := e.Rooms.Parse(ctx, c.Principal.App, body)
	if err == nil {
		c.AtEnd(release)
	}
	return err
}

// NewTask returns a task of the caller, without an id and without requests.
func (e *Config) NewTask(c *Call) *store.Task {
	return &store.Task{
		App: c.Principal.App, User: c.Principal.User, RequestID: c.Audit.RequestID, Created: e.Now(),
	}
}

// Submit stores a task with the audit row of the call. When it returns, both are on disk.
func (e *Config) Submit(ctx context.Context, c *Call, t *store.Task) error {
	row := c.Row()
	row.Message = process.Success
	if err := e.Engine.Submit(ctx, t, row); err != nil {
		return err
	}
	c.Audited = true
	return nil
}

// Operates stores in the audit row what a call operates on: the first subject, the number of all targets, and the
// number of each operation. task is empty if there is none.
func (c *Call) Operates(subject string, targets int, task string, ops map[process.Op]int) {
	c.Audit.Target, c.Audit.Targets = subject, targets
	// A map of operations, counts and an id always encodes.
	c.Audit.Detail, _ = json.Marshal(map[string]any{"task": task, "ops": ops})
}

// Ending is the end of a call.
type Ending struct {
	// Reads is set if the call changes nothing, so that its row may be stored a little later.
	Reads bool
	// Denied is set if a right is missing, Limited if the call exceeds a limit.
	Denied, Limited bool
	// Cause is the fault of the server, if the call failed because of one.
	Cause error
}

// Record stores the audit row of a call, unless a task has it. The caller already has its answer, and may have hung up.
func (e *Config) Record(ctx context.Context, c *Call, end Ending) {
	if end.Denied {
		c.Audit.Allowed = false
	}
	if end.Cause != nil && ctx.Err() == nil { // a hang-up of the caller is not a fault of the server
		e.Log.Error("call failed", "endpoint", c.Audit.Action, "request", c.Audit.RequestID, "error", end.Cause)
	}
	if c.Audited {
		return
	}
	row := c.Row()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AuditTime)
	defer cancel()
	var err error
	switch {
	case end.Limited || !c.Audit.Allowed: // a rejected call must cost less than an accepted one
		err = e.Audit.PutDenial(ctx, c.Principal.App, row)
	case end.Reads: // a read is not worth a sync of its own
		err = e.Audit.NoteAudit(ctx, row)
	default:
		err = e.Audit.PutAudit(ctx, row)
	}
	if err != nil {
		e.Log.Error("lost audit row", "endpoint", c.Audit.Action, "request", c.Audit.RequestID, "app", c.Audit.App,
			"error", err)
	}
}

// Clip shortens a text for the audit log.
func Clip(text string) string { return audit.Clip(text, 200) }
