package apiv1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// Limits of one call.
const (
	maxBody = 16 << 20
	maxWait = 60 * time.Second
)

// hungUp is the status in the audit log of a call whose caller closed the connection before the answer. Many web
// servers use 499.
const hungUp = 499

// call is one request.
type call struct {
	*edge.Call
	w      http.ResponseWriter
	r      *http.Request
	params params
	edge   *edge.Config
	// token is the token of a user who calls without an app; empty for other callers.
	token string
}

// reply is the answer to a call.
type reply struct {
	status int
	body   any // nil: no body
	// location is the path of the created resource, below v1.Prefix.
	location string
	// written is set if the endpoint has written the reply itself.
	written bool
	// weight is the approximate size of a large body, in bytes.
	weight int
}

// heavy is the weight from which a reply is heavy. An app may have mostHeavy heavy replies at a time, because each
// stays in memory until the caller has read it.
const (
	heavy     = 1 << 20
	mostHeavy = 8
)

// endpoint answers one call with a reply, or with the reason to reject it.
type endpoint func(ctx context.Context, c *call) (reply, error)

func ok(body any) (reply, error) { return reply{status: http.StatusOK, body: body}, nil }

// dryRun ends the action of a call that only shows what it would do.
const dryRun = ".dry-run"

// action is what the audit log says that a call does.
func (r *route) action(query url.Values) string {
	if query.Get("dry_run") == "true" {
		return r.name + dryRun
	}
	return r.name
}

// serving returns the handler of a route.
func (h *Handler) serving(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		c := &call{
			Call: h.Begin(w, req, "X-Request-Id", maxWait), w: w, r: req, edge: &h.Config.Config,
			params: params{values: req.URL.Query(), read: map[string]bool{}, cursors: h.cursors, listed: r.name},
		}
		defer c.End()
		c.Audit.Action = r.action(c.params.values)
		c.Console, _ = ctx.Value(consoleKey{}).(*edge.Console)
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

// answer identifies the caller and runs the endpoint.
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
		return reply{}, problemf(http.StatusForbidden, "%s is not an administrator", c.Principal.Who())
	}
	c.Audit.Allowed = true
	return r.serve(ctx, c)
}

// record stores the audit row of a call.
func (h *Handler) record(ctx context.Context, c *call, err error) {
	end := edge.Ending{Reads: c.r.Method == http.MethodGet}
	if renews := ctx.Value(renewalKey{}) != nil; renews && end.Reads && err == nil {
		c.Audited = true
	}
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

// noSuchPath answers a path that is not in the table, and a path of the table with another method.
func (h *Handler) noSuchPath(_ context.Context, c *call) (reply, error) {
	var allowed []string
	for _, method := range []string{
		http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
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

// subject returns a variable part of the path, and makes it the target in the audit log.
func (c *call) subject(part string) string {
	name := c.r.PathValue(part)
	c.Audit.Target = edge.Clip(name)
	return name
}

// body reads the body, and waits until the memory for its parsed form is available.
func (c *call) body(ctx context.Context) ([]byte, error) {
	if !c.Principal.Admin && len(c.Principal.Grants) == 0 { // before it reads any input
		return nil, problemf(http.StatusForbidden, "%s has no rights", c.Principal.Who())
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

// decode reads the body of a call without parameters into v. It rejects an unknown field, which may be misspelt, and a
// repeated field, together with the faults that the checks find then. The caller checks what decode accepts.
func (c *call) decode(ctx context.Context, v any, checks ...func() error) error {
	if err := c.params.done(); err != nil {
		return err
	}
	text, err := c.body(ctx)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return together(exact(text, reflect.TypeOf(v)), unreadable(text, v, err, checks))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problemf(http.StatusBadRequest, "the body has text after its JSON object")
	}
	err = exact(text, reflect.TypeOf(v))
	for _, check := range checks {
		if err != nil {
			err = together(err, check())
		}
	}
	return err
}

// Faults returns the wrong fields of a request for a receiver, a silence, a schedule or a join token, as far as the
// request alone shows them. It is for a caller that cannot send the request, because it has found other faults.
func Faults(request any, now time.Time) []v1.FieldError {
	var err error
	switch r := request.(type) {
	case v1.ReceiverChange:
		_, err = newReceiver(&r)
	case v1.SilenceRequest:
		_, err = silenceOf(&r, now)
	case v1.JoinTokenRequest:
		err = checkJoinToken(&r)
	case v1.ScheduleRequest:
		var s scheduleRequest
		text, _ := json.Marshal(r) // it has only values that JSON has
		if err = json.Unmarshal(text, &s); err == nil {
			_, err = s.schedule(now)
		}
	}
	p, ok := errors.AsType[*problem](err)
	if !ok {
		return nil
	}
	return p.Fields
}

// app returns the app whose tasks the caller may see: its own, or every app (empty) for an administrator.
func (c *call) app() string {
	if c.Principal.Admin {
		return ""
	}
	return c.Principal.App
}

// plain reports whether a text has only ASCII letters, digits and the given marks.
func plain(text, marks string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune(marks, c)
	})
}

// credentials is the value of X-Bkapi-Authorization, the header that the compatible calls accept too.
type credentials struct {
	AppCode   string `json:"bk_app_code"`
	AppSecret string `json:"bk_app_secret"`
	User      string `json:"bk_username"`
	Token     string `json:"bk_token"`
}

// admit identifies the caller and stores it in the call. The caller of admit must call leave at the end of the call.
func (h *Handler) admit(ctx context.Context, c *call) (leave func(), err error) {
	if err := h.identify(ctx, c); err != nil {
		return nil, err
	}
	if c.Principal.App == "" { // the operator of this machine
		return func() {}, nil
	}
	leave, usage, verdict := h.Gate.Enter(c.Principal)
	switch verdict {
	case gate.TooOften:
		return nil, busy("the app calls more often than its limit", int(math.Ceil(usage.Reset.Seconds())))
	case gate.TooMany:
		return nil, busy("the app has as many calls under way as its limit", 1)
	default:
		return leave, nil
	}
}

// identify authenticates the caller by the credentials of the call, and stores the caller in the call.
func (h *Handler) identify(ctx context.Context, c *call) error {
	if operator, ok := ctx.Value(operatorKey{}).(access.Principal); ok {
		c.Principal, c.Audit.App, c.Audit.User = operator, operator.App, operator.User
		return nil
	}
	var given credentials
	if text := c.r.Header.Get("X-Bkapi-Authorization"); text == "" {
		return problemf(http.StatusUnauthorized, "no credentials: expected them in X-Bkapi-Authorization")
	} else if err := json.Unmarshal([]byte(text), &given); err != nil {
		return problemf(http.StatusUnauthorized, "X-Bkapi-Authorization is not a JSON object of strings")
	}
	err := h.Identify(ctx, c.Call, gate.Credentials{
		AppCode: given.AppCode, AppSecret: given.AppSecret, User: given.User, Token: given.Token,
	})
	if err == nil {
		if given.AppCode == "" {
			c.token = given.Token
		}
		return nil
	}
	refusal, ok := errors.AsType[*gate.Refusal](err)
	switch {
	case !ok:
		return failure("check the credentials", err)
	case refusal.Reason == gate.Guessing:
		return busy("too many wrong secrets came from this address", 5)
	case refusal.Cause != nil:
		return failure("check the user's token", refusal.Cause)
	case refusal.Reason == gate.NoAppCode && given.Token != "":
		return problemf(http.StatusUnauthorized,
			"the token of the user is not one of drover: expected one of 'drover user', or an app beside the token")
	}
	return problemf(http.StatusUnauthorized, "%s", denial(refusal.Reason))
}

// busy is the problem of an app that exceeds its limits, with the time to retry in seconds.
func busy(reason string, after int) error {
	p := problemf(http.StatusTooManyRequests, "%s", reason)
	p.retryAfter = max(after, 1)
	return p
}

// denial returns the reason for a rejected authentication. A wrong secret has the same answer as an unknown app.
func denial(r gate.Reason) string {
	switch r {
	case gate.NoAppCode:
		return "bk_app_code is missing"
	case gate.NoSecret, gate.OnlyAccessToken, gate.OnlySignature:
		return "bk_app_secret is missing"
	case gate.AppDisabled:
		return "the app is disabled"
	case gate.NoUser:
		return "no user is given: expected bk_username or bk_token"
	case gate.MayNotName:
		return "the app may not name users: expected bk_token"
	case gate.UserTooLong:
		return "bk_username is too long"
	case gate.UserUnfit:
		return "bk_username holds a control character or is not valid UTF-8"
	case gate.BadToken:
		return "bk_token is unknown, has expired, or has ended because its user was disabled meanwhile"
	case gate.UserDisabled:
		return "the user is disabled"
	default:
		return "app code or secret is wrong"
	}
}

// sight is what the caller sees of tasks and rollouts by their namespaces: an app its own, and a person also those of
// others whose processes the person may query. seer has the rest of the answer.
func (c *call) sight() store.Sight {
	s := store.Sight{App: c.app()}
	if s.App != "" && c.Principal.Proven {
		if s.Within = c.Principal.Namespaces(access.OperationOf(process.Query)); s.Within == nil {
			s.Within = []string{access.All}
		}
	}
	return s
}

// mostWalked is how many tasks, rollouts and results one list reads to find those that the caller sees.
const mostWalked = maxItems

// seer tells which tasks and rollouts of a sight a caller sees. A person whose rights are for some hosts only sees
// those on these hosts.
type seer struct {
	h       *Handler
	own     string
	limited bool
	reaches *access.Reaches
	// left is what remains of mostWalked.
	left int
}

func (h *Handler) newSeer(c *call) *seer {
	return &seer{
		h: h, own: c.app(), limited: c.Principal.Limited(access.OperationOf(process.Query)),
		reaches: access.NewReaches(c.Principal), left: mostWalked,
	}
}

// everywhere reports whether the caller may query each process of a namespace.
func (s *seer) everywhere(namespace string) bool {
	return !s.limited || s.reaches.On(access.OperationOf(process.Query), namespace).Everywhere()
}

// task reports whether the caller sees a task of its sight.
func (s *seer) task(ctx context.Context, t *store.TaskSummary) (bool, error) {
	if s.left--; t.App == s.own || !s.limited || t.Requests == 1 && s.everywhere(t.Process.Namespace) {
		return true, nil
	}
	s.left -= t.Keys
	return s.results(ctx, t.ID)
}

// results reports whether the caller may query each process of a task. Of a task without results it may not.
func (s *seer) results(ctx context.Context, id string) (sees bool, err error) {
	hidden := errors.New("a process is hidden")
	query := access.OperationOf(process.Query)
	err = s.h.Tasks.TaskItems(ctx, id, "", func(v store.ItemView) error {
		if sees = s.reaches.On(query, v.Process.Namespace).Covers(s.h.hostOf(v)); !sees {
			return hidden
		}
		return nil
	})
	if errors.Is(err, hidden) || errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return sees, err
}

// rollout reports whether the caller sees a rollout of its sight.
func (s *seer) rollout(ctx context.Context, r *store.Rollout) (bool, error) {
	if s.left--; r.App == s.own || !s.limited {
		return true, nil
	}
	s.left -= r.Total
	whole, err := s.h.Rollouts.GetRollout(ctx, r.ID, "")
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && s.h.onAll(whole, s.reads), err
}

// reads reports whether the caller may read of a step on a host.
func (s *seer) reads(step *store.RolloutStep, host access.Host) bool {
	return s.reaches.MayRead(step.Op, step.Process.Namespace, host)
}

// seen reads rows of a list after a place until the caller sees enough of them. next is the place where the list goes
// on; 0 at its end. A list with much that the caller does not see goes on although it has fewer rows than the limit.
func seen[T any](s *seer, after int64, limit int, list func(after int64) ([]T, error), place func(*T) int64,
	sees func(*T) (bool, error),
) (rows []T, next int64, err error) {
	for {
		page, err := list(after)
		if err != nil {
			return nil, 0, err
		}
		for i := range page {
			after = place(&page[i])
			yes, err := sees(&page[i])
			if err != nil {
				return nil, 0, err
			}
			if yes {
				rows = append(rows, page[i])
			}
			if (len(rows) == limit || s.left <= 0) && (i+1 < len(page) || len(page) == limit) {
				return rows, after, nil
			}
		}
		if len(page) < limit {
			return rows, 0, nil
		}
	}
}

// seenPage is the page of rows that seen has returned.
func seenPage[T, V any](c *call, rows []T, next int64, view func(T) V) (reply, error) {
	c.Audit.Targets = len(rows)
	var last any
	if next != 0 {
		last = next
	}
	return ok(pageOf(c, viewed(rows, view), last))
}

// onAll reports whether a caller may do something to each step of a rollout on each of its hosts. A host that has left
// the fleet does not count, unless all have left.
func (h *Handler) onAll(r *store.Rollout, may func(step *store.RolloutStep, host access.Host) bool) bool {
	here := false
	for i := range r.Hosts {
		x := &r.Hosts[i]
		agent, joined := h.Directory.ByKey(x.Agent)
		if !joined {
			continue
		}
		here = true
		for _, at := range x.Steps {
			if !may(&r.Steps[at], gate.Host(agent)) {
				return false
			}
		}
	}
	return here
}

// mayRollOut reports whether a caller may carry out each step of a rollout on each of its hosts.
func (h *Handler) mayRollOut(who *access.Principal, r *store.Rollout) bool {
	whole := *who
	for i := range r.Hosts {
		whole.Targets += len(r.Hosts[i].Steps)
	}
	reaches := access.NewReaches(whole)
	return h.onAll(r, func(s *store.RolloutStep, host access.Host) bool {
		covers := reaches.On(access.OperationOf(s.Op), s.Process.Namespace).Covers(host)
		if r.Op == store.OpApply && !s.Removes { // it brings a spec
			covers = covers && reaches.Sets(s.Process.Namespace).Covers(host)
		}
		return covers
	})
}

// without returns the keys of a list that another list does not have.
func without(keys, others []store.ObservedKey) (rest []store.ObservedKey) {
	has := map[store.ObservedKey]bool{}
	for _, key := range others {
		has[key] = true
	}
	for _, key := range keys {
		if !has[key] {
			rest = append(rest, key)
		}
	}
	return rest
}

// asked returns the caller, or the user that an administrator names. A person may name the person, too.
func (h *Handler) asked(ctx context.Context, c *call, name string) (who access.Principal, disabled bool, err error) {
	p := c.Principal
	if name == "" || p.Proven && p.User == name && p.App == access.PersonApp(name) {
		return p, false, nil
	}
	if !p.Admin {
		return who, false, problemf(http.StatusForbidden, "%s is not an administrator, and may only see own rights", p.Who())
	}
	u, err := h.Users.GetUser(ctx, name)
	if err != nil {
		return who, false, stored(err, "user", name)
	}
	return gate.PrincipalOf(u, h.Groups, h.Now()), u.Disabled, nil
}

// mayRead returns the hosts of whose processes in a namespace the caller may read something.
func mayRead(c *call, namespace string) (access.Reach, error) {
	query := access.OperationOf(process.Query)
	reach := c.Principal.On(query, namespace)
	if reach.Nowhere() {
		return reach, forbidden(access.Missing{Operation: query, Subject: namespace})
	}
	return reach, nil
}

// mayApply checks the rights to all steps: the right to the operation, and for a step that brings a spec the rights to
// decide what runs.
func (h *Handler) mayApply(c *call, steps []plan.Step) error {
	who, targets := c.Principal, map[store.ObservedKey]bool{}
	for _, s := range steps {
		targets[store.ObservedKey{Agent: s.Agent, Process: s.Process}] = true
	}
	who.Targets = len(targets)
	var missing access.Missing
	reaches := access.NewReaches(who)
	for _, s := range steps {
		agent, _ := h.Directory.ByKey(s.Agent)
		needed := []access.Reach{reaches.On(access.OperationOf(s.Op), s.Process.Namespace)}
		if s.Spec != nil {
			needed = append(needed, reaches.Sets(s.Process.Namespace))
		}
		for _, reach := range needed {
			missing.Check(reach, s.Process.String(), gate.Host(agent))
		}
	}
	if missing.Any() {
		return forbidden(missing)
	}
	return nil
}
