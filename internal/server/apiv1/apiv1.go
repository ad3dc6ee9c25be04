// Package apiv1 is drover's own API below /api/v1, as JSON with cursor paging and with RFC 9457 problems that name the
// field. Its resources are processes, agents and how they join, operations, events, apps, users, receivers and audit
// records. It owns the external form of these resources and their visibility. The gate identifies a caller, the engine
// runs operations, and the store keeps the state.
package apiv1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// Owns reports whether a path is one of this API.
func Owns(path string) bool { return path == v1.Prefix || strings.HasPrefix(path, v1.Prefix+"/") }

// Arrivals reports new events: ListenEvents returns a channel that receives when events have arrived.
type Arrivals interface {
	ListenEvents() (woken <-chan struct{}, stop func())
}

// Directory knows the agents.
type Directory interface {
	// After returns the agents after a place, in order.
	After(p fleet.Place) iter.Seq[store.Agent]
	LookupID(id string) (store.Agent, bool)
	ByKey(key string) (store.Agent, bool)
	Presence(key string, now time.Time) fleet.Presence
	// Untold returns the agents that have not told the database all that they have.
	Untold() []string
	// Remarked returns the problem that makes an agent unusable. Rival reports whether a second host uses its key.
	Remarked(key string) string
	Rival(key string, now time.Time) (fleet.Rival, bool)
}

// Labels changes the labels of hosts that people set.
type Labels interface {
	// Label sets and removes labels of the agents with these keys, of all or of none. It returns store.ErrNotFound for
	// an unknown key, and *fleet.LabelsError for a host that would have too many labels.
	Label(ctx context.Context, keys []string, set map[string]string, remove []string) error
}

// Cancels ends operations before they begin.
type Cancels interface {
	// Cancel ends the items of a task that were never sent, and asks the agents about the others. It returns
	// store.ErrNotFound for an unknown task and for a task of another app (an empty app matches any).
	Cancel(ctx context.Context, id, app string) (store.Cancelled, error)
}

// Rollouts holds rollouts with their steps.
type Rollouts interface {
	store.Rollouts
	store.RolloutSteps
}

// History reads the record of calls.
type History interface {
	ListAudit(ctx context.Context, filter store.AuditFilter) ([]store.AuditRow, error)
}

// Logs asks the agents of hosts about logs.
type Logs interface {
	// Ask returns a piece of a log within the bounds of package wire. It blocks for some seconds at most.
	Ask(ctx context.Context, agent string, q wire.LogQuestion) (wire.LogAnswer, error)
	// Live compares running processes with their specs, as Ask.
	Live(ctx context.Context, agent string, q wire.LiveQuestion) (wire.LiveAnswer, error)
	// Usage says what a process has used, as Ask.
	Usage(ctx context.Context, agent string, q wire.UsageQuestion) (wire.UsageAnswer, error)
}

// Accounts holds the callers of the API.
type Accounts struct {
	Apps   store.Apps
	Users  store.Users
	Tokens store.Tokens
	// Secrets hashes the secrets of apps, as the gate does.
	Secrets access.Secrets
	Devices store.Devices
	// Groups are the rights of groups of the identity provider; nil if there is none.
	Groups access.GroupRights
}

// Config holds the parts and settings of the API. All fields except Now and CursorSecret are required.
type Config struct {
	edge.Config
	Arrivals  Arrivals
	Directory Directory
	Labels    Labels
	Cancels   Cancels
	Rollouts  Rollouts
	Schedules store.Schedules
	Listing   store.Listing
	Picture   Picture
	// SharedFor is how long callers with the same rights share an overview; 0 means that they do not.
	SharedFor time.Duration
	Held      store.HeldSelections
	Revisions store.Revisions
	Standing  store.Selections
	Upkeep    Upkeep
	Packages  store.Packages
	Events    store.Events
	Timeline  Timeline
	Accounts
	Receivers Receivers
	Breakers  store.Breakers
	Joining   Joining
	Keys      Keys
	// State returns the state of the server.
	State func() v1.Server
	// Console returns the URL of the console, which ends with a slash; empty if there is none.
	Console func() string
	// CursorSecret seals the cursors of pages; all servers of a fleet have the same. If it is nil, the handler creates
	// its own.
	CursorSecret []byte
	// Breadth is the number of hosts that an operation or a rollout may reach without the approval of a second person;
	// 0 means all.
	Breadth int
	History History
	// OtherReads are the actions of calls outside of this API that change nothing.
	OtherReads []string
	Logs       Logs
	Fullness   store.Fullness
}

// Handler serves the API. It starts nothing and is safe for concurrent use.
type Handler struct {
	Config
	mux       *http.ServeMux
	cursors   *cursors
	streams   streamSlots
	heavy     streamSlots
	readers   streamSlots
	overviews overviews
	recent    recentSelections
	// devices are the sign-ins of command lines that an address began, and lost those that it asked for in vain.
	devices, lost *gate.Failures
	// stopping ends the calls that only wait.
	stopping context.Context //nolint:containedctx // it is the lifetime of the handler, not of a call
	stop     context.CancelFunc
}

// New returns the handler of all paths below v1.Prefix.
func New(c Config) *Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.CursorSecret == nil {
		c.CursorSecret = someSecret()
	}
	h := &Handler{
		Config: c, mux: http.NewServeMux(), cursors: newCursors(c.CursorSecret),
		devices: gate.NewFailures(), lost: gate.NewFailures(),
	}
	h.stopping, h.stop = context.WithCancel(context.Background())
	for _, r := range h.table() {
		h.mux.Handle(r.pattern, h.serving(r))
	}
	h.mux.Handle("/", h.serving(route{name: "unknown", serve: h.noSuchPath}))
	return h
}

// Stop answers long polls at once, so that a server that shuts down need not wait for them.
func (h *Handler) Stop() { h.stop() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// operatorKey is the context key of the operator.
type operatorKey struct{}

// WithOperator marks the calls of a connection as calls of an operator of this machine, whom the kernel has
// authenticated. They bypass the gate.
func WithOperator(ctx context.Context, who access.Principal) context.Context {
	return context.WithValue(ctx, operatorKey{}, who)
}

// consoleKey is the context key of a call in the console.
type consoleKey struct{}

// WithConsole marks a call that a person makes in the console, for a reason in the person's own words.
func WithConsole(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, consoleKey{}, &edge.Console{Reason: edge.Clip(reason)})
}

// renewalKey is the context key of a renewal.
type renewalKey struct{}

// WithRenewal marks a call that repeats an earlier read for a page that renews itself. A successful read of that kind
// has no audit row.
func WithRenewal(ctx context.Context) context.Context {
	return context.WithValue(ctx, renewalKey{}, true)
}

// supported returns the operations that a caller can submit. Query is not one, because the list of processes answers
// it.
func supported() (list []string) {
	for _, row := range process.Ops() {
		if row.OwnAPI {
			list = append(list, string(row.Op))
		}
	}
	return list
}

// route is one row of the table.
type route struct {
	pattern string
	// name is the action in the audit log.
	name string
	// need is what a caller must be.
	need  need
	serve endpoint
}

// need is what a caller must be.
type need uint8

const (
	// noApp is for a call that checks its own proof.
	noApp need = iota + 1
	anyone
	admin
)

// table lists every path below v1.Prefix.
func (h *Handler) table() []route {
	return append([]route{
		{v1.RouteListProcesses, "processes.list", anyone, h.listProcesses},
		{v1.RouteCountProcesses, "processes.counts", anyone, h.countProcesses},
		{v1.RouteOverview, "processes.overview", anyone, h.overview},
		{v1.RouteGetProcess, "processes.get", anyone, h.getProcess},
		{v1.RouteReadLogs, "processes.logs", anyone, h.readLogs},
		{v1.RouteReadUsage, "processes.usage", anyone, h.readUsage},
		{v1.RouteGetNamespace, "namespaces.get", anyone, h.getNamespace},
		{v1.RoutePutNamespace, "namespaces.apply", anyone, h.putNamespace},
		{v1.RouteListRevisions, "namespaces.revisions", anyone, h.listRevisions},
		{v1.RouteCompareRevisions, "namespaces.diff", anyone, h.compareRevisions},
		{v1.RouteListChanges, "changes.list", anyone, h.listChanges},
		{v1.RouteListWhy, "why.list", anyone, h.explain},
		{v1.RouteListDrift, "drift.list", anyone, h.listDrift},
		{v1.RouteListAgents, "agents.list", anyone, h.listAgents},
		{v1.RouteCountAgents, "agents.counts", anyone, h.countAgents},
		{v1.RouteLabelAgents, "agents.label", anyone, h.labelAgents},
		{v1.RouteListTargets, "agents.prometheus", anyone, h.listTargets},
		{v1.RouteRemoveAgent, "agents.remove", admin, h.removeAgent},

		{v1.RouteListProxies, "proxies.list", admin, h.listProxies},
		{v1.RouteRemoveProxy, "proxies.remove", admin, h.removeProxy},

		{v1.RouteJoin, "join", noApp, h.join},
		{v1.RouteCreateJoinToken, "tokens.create", admin, h.createJoinToken},
		{v1.RouteListJoinTokens, "tokens.list", admin, h.listJoinTokens},
		{v1.RouteGetJoinToken, "tokens.get", admin, h.getJoinToken},
		{v1.RouteRevokeJoinToken, "tokens.revoke", admin, h.revokeJoinToken},

		{v1.RouteListKeys, "keys.list", admin, h.listKeys},
		{v1.RouteRotateKeys, "keys.rotate", admin, h.rotateKeys},
		{v1.RouteDropKey, "keys.drop", admin, h.dropKey},

		{v1.RouteListEvents, "events.list", anyone, h.listEvents},
		{v1.RouteStreamEvents, "events.stream", anyone, h.streamEvents},

		{v1.RouteCreateOperation, "operations.create", anyone, h.createOperation},
		{v1.RouteCreateSelection, "selections.create", anyone, h.createSelection},
		{v1.RouteGetSelection, "selections.get", anyone, h.getSelection},
		{v1.RouteListOperations, "operations.list", anyone, h.listOperations},
		{v1.RouteGetOperation, "operations.get", anyone, h.getOperation},
		{v1.RouteListResults, "operations.results", anyone, h.listResults},
		{v1.RouteCancelOperation, "operations.cancel", anyone, h.cancelOperation},

		{v1.RouteListRollouts, "rollouts.list", anyone, h.listRollouts},
		{v1.RouteGetRollout, "rollouts.get", anyone, h.getRollout},
		{v1.RoutePauseRollout, "rollouts.pause", anyone, h.pauseRollout},
		{v1.RouteResumeRollout, "rollouts.resume", anyone, h.resumeRollout},
		{v1.RouteAbortRollout, "rollouts.abort", anyone, h.abortRollout},
		{v1.RouteRetryRollout, "rollouts.retry", anyone, h.retryRollout},
		{v1.RoutePaceRollout, "rollouts.pace", anyone, h.paceRollout},
		{v1.RouteApproveRollout, "rollouts.approve", anyone, h.approveRollout},
		{v1.RouteUndoRollout, "rollouts.undo", anyone, h.undoRollout},

		{v1.RouteCreateApp, "apps.create", admin, h.createApp},
		{v1.RouteListApps, "apps.list", admin, h.listApps},
		{v1.RouteGetApp, "apps.get", admin, h.getApp},
		{v1.RouteChangeApp, "apps.change", admin, h.changeApp},
		{v1.RouteCreateSecret, "apps.secrets.create", admin, h.createSecret},

		{v1.RouteCreateReceiver, "receivers.create", admin, h.createReceiver},
		{v1.RouteListReceivers, "receivers.list", admin, h.listReceivers},
		{v1.RouteGetReceiver, "receivers.get", admin, h.getReceiver},
		{v1.RouteChangeReceiver, "receivers.change", admin, h.changeReceiver},
		{v1.RouteDeleteReceiver, "receivers.delete", admin, h.deleteReceiver},
		{v1.RouteRotateReceiver, "receivers.secret.create", admin, h.rotateReceiver},
		{v1.RouteTestReceiver, "receivers.test", admin, h.testReceiver},

		{v1.RouteCreateSilence, "silences.create", anyone, h.createSilence},
		{v1.RouteListSilences, "silences.list", anyone, h.listSilences},
		{v1.RouteGetSilence, "silences.get", anyone, h.getSilence},
		{v1.RouteRemoveSilence, "silences.remove", anyone, h.removeSilence},

		{v1.RouteListBreakers, "breakers.list", anyone, h.listBreakers},
		{v1.RouteResetBreaker, "breakers.reset", anyone, h.resetBreaker},

		{v1.RouteListAudit, "audit.list", anyone, h.listAudit},
		{v1.RouteGetServer, "server.get", admin, h.getServer},
	}, slices.Concat(h.userRoutes(), h.scheduleTable(), h.packageRoutes())...)
}

// userRoutes lists the paths about users.
func (h *Handler) userRoutes() []route {
	return []route{
		{v1.RouteCreateUser, "users.create", admin, h.createUser},
		{v1.RouteListUsers, "users.list", admin, h.listUsers},
		{v1.RouteGetUser, "users.get", admin, h.getUser},
		{v1.RouteChangeUser, "users.change", admin, h.changeUser},
		{v1.RouteCheckRight, "rights.check", anyone, h.checkRight},
		{v1.RouteCreateToken, "users.tokens.create", admin, h.createToken},
		{v1.RouteListTokens, "users.tokens.list", anyone, h.listTokens},
		{v1.RouteDeleteToken, "users.tokens.delete", anyone, h.deleteToken},
		{v1.RouteCreateSignIn, "sign-ins.create", anyone, h.createSignIn},
		{v1.RouteCreateDevice, "sign-ins.devices.create", noApp, h.createDevice},
		{v1.RouteDeviceState, "sign-ins.devices.state", noApp, h.deviceState},
		{v1.RouteEndSignIn, "sign-ins.end", anyone, h.endSignIn},
	}
}

// reads are the actions of calls that change nothing.
func (h *Handler) reads() []string {
	list := slices.Concat(h.OtherReads, []string{"selections.create", "sign-ins.devices.state"})
	for _, r := range h.table() {
		if strings.HasPrefix(r.pattern, http.MethodGet) {
			list = append(list, r.name)
		} else {
			list = append(list, r.name+dryRun)
		}
	}
	return list
}

// getServer shows the state of this server.
func (h *Handler) getServer(_ context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	return ok(h.State())
}

// exact rejects repeated fields in JSON for a type, and fields that differ from a field of the type only in case.
// encoding/json would merge a repeated field and accept the other case. Other readers of the call would then see a
// different request.
func exact(text []byte, t reflect.Type) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	r := exactReader{d: d}
	err := r.value(t, "")
	return together(append(r.faults, err)...)
}

// exactReader collects the fields that are not exact.
type exactReader struct {
	d      *json.Decoder
	faults []error
}

// value reads one value; a nil type is the caller's own JSON, in which everything is allowed.
func (r *exactReader) value(t reflect.Type, path string) error {
	token, err := r.d.Token()
	if err != nil {
		return decodeProblem(err)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		t = nil
	}
	switch token {
	case json.Delim('{'):
		err = r.object(t, path)
	case json.Delim('['):
		var element reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			element = t.Elem()
		}
		for n := 0; err == nil && r.d.More(); n++ {
			if n == maxItems {
				return invalid(strings.TrimPrefix(path, "."), "has more than %d entries", maxItems)
			}
			err = r.value(element, path+"["+strconv.Itoa(n)+"]")
		}
	default:
		return nil
	}
	if err == nil {
		_, err = r.d.Token() // the bracket; the text was parsed before
	}
	return err
}

func (r *exactReader) object(t reflect.Type, path string) error {
	var fields map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	}
	seen := map[string]bool{}
	for r.d.More() {
		token, err := r.d.Token()
		if err != nil {
			return decodeProblem(err)
		}
		name, _ := token.(string) // a name is always a string
		at := strings.TrimPrefix(path+"."+name, ".")
		value, known := fields[name]
		switch {
		case fields != nil && !known:
			r.fail(invalid(at, "there is no such field"))
		case t != nil && seen[name]:
			r.fail(invalid(at, "is there more than once"))
		}
		if t != nil {
			seen[name] = true
		}
		if t != nil && t.Kind() == reflect.Map {
			value = t.Elem()
		}
		if err := r.value(value, at); err != nil {
			return err
		}
	}
	return nil
}

func (r *exactReader) fail(err error) {
	if len(r.faults) < mostFaults {
		r.faults = append(r.faults, err)
	}
}

// unreadable reports each value of a body that its type cannot read, and what the checks find in the others. failed is
// the error of the first reading into v.
func unreadable(text []byte, v any, failed error, checks []func() error) error {
	var body any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&body) != nil {
		return decodeProblem(failed)
	}
	var wrong []error
	var paths []string
	body, _ = readable(body, reflect.TypeOf(v), "", func(path string, err error) {
		if wrong = append(wrong, err); len(wrong) <= mostFaults {
			paths = append(paths, path)
		}
	})
	if len(paths) == 0 || len(wrong) > mostFaults {
		return decodeProblem(failed)
	}
	reflect.ValueOf(v).Elem().SetZero()
	rest, _ := json.Marshal(body) // it was decoded from JSON
	if json.Unmarshal(rest, v) != nil {
		return together(wrong...)
	}
	for _, check := range checks {
		p, ok := errors.AsType[*problem](check())
		if !ok {
			continue
		}
		for _, f := range p.Fields {
			if !slices.Contains(paths, f.Field) { // what was wrong there is told
				wrong = append(wrong, invalid(f.Field, "%s", f.Detail))
			}
		}
	}
	return together(wrong...)
}

// readable returns a value of JSON without the parts that their types cannot read, and reports each of these.
func readable(v any, t reflect.Type, path string, fail func(path string, err error)) (rest any, whole bool) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || v == nil || t == reflect.TypeFor[json.RawMessage]() {
		return v, true
	}
	object, isObject := v.(map[string]any)
	entries, isList := v.([]any)
	ownReader := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch {
	case isList && t.Kind() == reflect.Slice:
		for i := range entries {
			if one, whole := readable(entries[i], t.Elem(), path+"["+strconv.Itoa(i)+"]", fail); whole {
				entries[i] = one
			} else {
				entries[i] = nil
			}
		}
		return entries, true
	case isObject && t.Kind() == reflect.Struct && !ownReader:
		fields := fieldsOf(t)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, whole := readable(object[name], fields[name], strings.TrimPrefix(path+"."+name, "."), fail); !whole {
				delete(object, name)
			}
		}
		return object, true
	}
	text, _ := json.Marshal(v) // it was decoded from JSON
	err := json.Unmarshal(text, reflect.New(t).Interface())
	if err == nil {
		return v, true
	}
	if path == "" {
		return v, false // the whole body is of another type
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(wrong.Value, " ")
		path = strings.TrimSuffix(path+"."+wrong.Field, ".")
		fail(path, invalid(path, "is a JSON %s: expected %s", kind, expected(wrong.Type)))
	} else {
		fail(path, invalid(path, "%v", err))
	}
	return v, false
}

// narrow rejects what reaches more hosts at once than one person may. op is an operation, or store.OpApply.
func (h *Handler) narrow(hosts int, op process.Op) error {
	if h.Breadth == 0 || hosts <= h.Breadth {
		return nil
	}
	p := problemf(http.StatusForbidden,
		"the call is for %d hosts, and above %d this server demands the approval of a second person: use a rollout",
		hosts, h.Breadth)
	if op != store.OpApply && !op.Info().RollsOut {
		p = problemf(http.StatusForbidden,
			"the call is for %d hosts, and above %d this server demands the approval of a second person: "+
				"use an apply with a rollout, because %s has none", hosts, h.Breadth, op)
	}
	p.broad = true
	return p
}

// readForce completes an operation that goes past the preflight.
func (r *operationRequest) readForce() error {
	forced := process.ForcedOp(r.Op)
	if r.Force && forced == r.Op {
		return invalid("force", "is not for the operation %s", r.Op)
	}
	if r.Force {
		r.Op = forced
	}
	return nil
}

// latest returns the last ones of a list, newest first, in the order of time.
func latest[T any](q *changesQuery, name string, list []T) []T {
	if len(list) > q.limit {
		q.incomplete(name)
		list = list[:q.limit]
	}
	slices.Reverse(list)
	return list
}
