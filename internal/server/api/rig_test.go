package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/api"
	"drover/internal/server/api/accounts"
	"drover/internal/server/api/alarms"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/receiver"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/store/storetest"
	"drover/internal/wire"
)

// rig is the API over a real database, with a gate that believes everybody and an engine that does nothing by itself.
type rig struct {
	ifMatch string // of all calls, unless it is empty
	// user makes all calls, and proves it with a token; empty means anna, whom the app names.
	user string
	t    *testing.T
	// taskReads counts how often a task was read.
	taskReads atomic.Int64
	store     store.Store
	fleet     *fleet.Directory
	handler   *api.Handler
	doc       *openapi3.T
	engine    *engine
	bus       *bus.Bus
	sender    *receiver.Sender
	// numbers counts the events.
	numbers uint64
	// reports counts the reports of all agents; last is the last process that was reported.
	reports int64
	last    store.Observed
	// rows counts the processes and events that were read for lists.
	rows atomic.Int64
	// ask answers for the agents.
	ask  func(ctx context.Context, agent string, q wire.LogQuestion) (wire.LogAnswer, error)
	live func(agent string, q wire.LiveQuestion) (wire.LiveAnswer, error)
	// usage answers what processes have used.
	usage func(agent string, q wire.UsageQuestion) (wire.UsageAnswer, error)
	// ahead is how far the clock of the handler is ahead, in nanoseconds.
	ahead atomic.Int64
	// remote is the address of all calls; empty means that of net/http/httptest.
	remote string
}

// remake makes the handler anew with other settings.
func (r *rig) remake(change func(*api.Config)) {
	c := r.handler.Config
	change(&c)
	r.handler = api.New(c)
}

// The hosts of a rig: one with an id, one without, one that is away.
const (
	web   = "KEYWEB"
	plain = "KEYPLAIN"
	gone  = "KEYGONE"
)

// document is what the API is described by. To read it takes longer than most tests do.
//
//nolint:gochecknoglobals // read once for all tests
var document = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromFile("../../../api/openapi.yaml")
})

func newRig(t *testing.T) *rig {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, store: s, doc: doc, fleet: fleet.New(s, time.Now())}
	r.engine = &engine{store: s, woken: make(chan struct{})}
	for i, a := range []store.Agent{
		{Key: web, Cloud: 0, IP: "10.0.0.1", ID: "web-1"},
		{Key: plain, Cloud: 0, IP: "10.0.0.2"},
		{Key: gone, Cloud: 3, IP: "10.0.0.3"},
	} {
		a.Created = time.Unix(int64(i+1), 0).UTC()
		r.must(r.fleet.Join(t.Context(), a, time.Now()))
	}
	r.fleet.RecordMessage(web, time.Now())
	r.fleet.RecordMessage(plain, time.Now())
	r.bus = bus.New(time.Now())
	r.sender = receiver.New(receiver.Config{Store: s, Hosts: r.fleet, Now: time.Now, Log: log})
	r.bus.Share(func(topic bus.Topic) {
		if topic == bus.Receivers {
			r.sender.Changed()
		}
	})
	r.handler = api.New(api.Config{
		Config: edge.Config{
			Gate: believing{s}, Engine: r.engine, Tasks: readings{s, r}, Audit: recorder{s}, Rooms: admission.New(), Log: log,
			Now: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) },
		},
		Bus: r.bus, Directory: r.fleet, Labels: r.fleet, Listing: reading{s, r}, Revisions: s, CallerSelections: s,
		Picture:        rollup.New(rollup.Config{Store: s, Directory: r.fleet, Now: time.Now}),
		FileSelections: s, Upkeep: s,
		Breakers: s, Receivers: alarms.Receivers{Store: s, Silences: s, Sender: r.sender},
		Events:   reading{s, r},
		Timeline: s,
		Cancels:  r.engine,
		Rollouts: s, Schedules: s, Packages: s,
		Records: accounts.Records{
			Apps: s, Users: s, Tokens: s, Devices: s,
		}, Console: func() string { return "" },
		History: s, Fullness: s, Logs: asker{r},
	})
	return r
}

// asker has the rig answer for the agents.
type asker struct{ r *rig }

func (a asker) Ask(ctx context.Context, agent string, q wire.LogQuestion) (wire.LogAnswer, error) {
	return a.r.ask(ctx, agent, q)
}

func (a asker) Live(_ context.Context, agent string, q wire.LiveQuestion) (wire.LiveAnswer, error) {
	return a.r.live(agent, q)
}

func (a asker) Usage(_ context.Context, agent string, q wire.UsageQuestion) (wire.UsageAnswer, error) {
	return a.r.usage(agent, q)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// app makes an app with the rights, as people write them.
func (r *rig) app(code string, rights ...string) {
	r.t.Helper()
	a := store.App{Code: code, Admin: len(rights) == 0}
	for _, text := range rights {
		g, err := access.ParseGrant(text)
		r.must(err)
		a.Grants = append(a.Grants, g)
	}
	r.must(r.store.CreateApp(r.t.Context(), a))
}

// mark is the place of the next report of an agent.
func (r *rig) mark(agent string) store.ReportMark {
	r.reports++
	return store.ReportMark{Agent: agent, Session: "s", Number: r.reports, Hello: true}
}

// observe stores processes, given as "namespace/name@KEY state".
func (r *rig) observe(rows ...string) {
	r.t.Helper()
	for _, row := range rows {
		where, state, _ := strings.Cut(row, " ")
		at := strings.LastIndexByte(where, '@')
		id, key := where[:at], where[at+1:]
		namespace, name, _ := strings.Cut(id, "/")
		o := store.Observed{
			Agent: key, Process: process.ID{Namespace: namespace, Name: name},
			Spec: &process.Spec{
				ProcessName: name, Directory: "/", User: "root", Compat: new(v1.Compat{}.Defaulted()),
			},
			Status: process.Status{
				Known: true, State: state, Hosted: true, Want: process.WantRunning,
				Instance: process.Instance{PID: -1},
			},
		}
		if state == "running" {
			o.Status.Instance = process.Instance{PID: 42, StartedAt: 1700000000, RSS: 2, CPU: 1.5, Threads: 3}
		}
		r.must(r.store.PutObserved(r.t.Context(), r.mark(key), []store.Observed{o}, nil))
		r.last = o
	}
}

// answer is what a call was answered with.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

// call makes a call as an app, compares both directions with openapi.yaml and returns the answer.
func (r *rig) call(app, method, path string, body any) answer {
	r.t.Helper()
	return r.send(r.t.Context(), app, method, path, body)
}

func (r *rig) send(ctx context.Context, app, method, path string, body any) answer {
	r.t.Helper()
	data, raw := body.(string)
	if !raw && body != nil {
		encoded, err := json.Marshal(body)
		r.must(err)
		data = string(encoded)
	}
	req := httptest.NewRequestWithContext(ctx, method, "/api/v1"+path, strings.NewReader(data))
	if app != "" {
		req.Header.Set("X-Bkapi-Authorization",
			fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":"s","bk_username":%q}`, app, cmp.Or(r.user, "anna")))
	}
	if r.remote != "" {
		req.RemoteAddr = r.remote
	}
	if r.ifMatch != "" {
		req.Header.Set("If-Match", r.ifMatch)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	a := answer{status: w.Code, header: w.Header()}
	if w.Body.Len() > 0 {
		r.must(json.Unmarshal(w.Body.Bytes(), &a.body))
	}
	r.described(req, data, w)
	return a
}

// described fails the test where an exchange is not what openapi.yaml says.
func (r *rig) described(req *http.Request, sent string, w *httptest.ResponseRecorder) {
	r.t.Helper()
	if req.Pattern == "/" {
		return // no such path
	}
	method, template, _ := strings.Cut(req.Pattern, " ")
	item := r.doc.Paths.Value(template)
	if item == nil || item.GetOperation(method) == nil {
		r.t.Fatalf("%s is not described", req.Pattern)
	}
	op := item.GetOperation(method)
	response, media := op.Responses.Status(w.Code), "application/json"
	if response == nil || w.Code >= 400 {
		response, media = op.Responses.Default(), "application/problem+json"
	}
	if got := w.Header().Get("Content-Type"); got != media && w.Code != http.StatusNoContent {
		r.t.Errorf("%s: content type %q, want %q", req.Pattern, got, media)
	}
	if content := response.Value.Content.Get(media); content != nil {
		r.visit(req.Pattern+" reply", content, w.Body.Bytes())
	} else if w.Body.Len() > 0 {
		r.t.Errorf("%s: %d has a body", req.Pattern, w.Code)
	}
	if sent != "" && w.Code < 400 {
		r.visit(req.Pattern+" request", op.RequestBody.Value.Content.Get("application/json"), []byte(sent))
	}
}

func (r *rig) visit(what string, media *openapi3.MediaType, body []byte) {
	r.t.Helper()
	var v any
	r.must(json.NewDecoder(bytes.NewReader(body)).Decode(&v))
	if err := media.Schema.Value.VisitJSON(v, openapi3.MultiErrors()); err != nil {
		r.t.Errorf("%s: %v", what, err)
	}
}

// want fails the test unless the call was answered with the status.
func (r *rig) want(status int, a answer) answer {
	r.t.Helper()
	if a.status != status {
		r.t.Fatalf("HTTP %d, want %d: %v", a.status, status, a.body)
	}
	return a
}

// refused fails the test unless the call was refused with the status, and for the field.
func (r *rig) refused(a answer, status int, field string) {
	r.t.Helper()
	r.want(status, a)
	got, _, _ := strings.Cut(strings.Join(a.faults(), " "), " ")
	if got != field {
		r.t.Errorf("the field is %q, want %q: %v", got, field, a.body["detail"])
	}
}

// faults returns the fields of the errors of an answer, in its order.
func (a answer) faults() []string {
	var fields []string
	list, _ := a.body["errors"].([]any)
	for _, fault := range list {
		fields = append(fields, fault.(map[string]any)["field"].(string))
	}
	return fields
}

// items returns one field of each item of a page, as text.
func (a answer) items(fields ...string) []string {
	var all []string
	for _, item := range a.body["items"].([]any) {
		var parts []string
		for _, f := range fields {
			v := item
			for step := range strings.SplitSeq(f, ".") {
				if list, ok := v.([]any); ok {
					place, err := strconv.Atoi(step)
					if err != nil {
						panic(err)
					}
					v = list[place]
					continue
				}
				v = v.(map[string]any)[step]
			}
			parts = append(parts, fmt.Sprint(v))
		}
		all = append(all, strings.Join(parts, " "))
	}
	return all
}

func (a answer) cursor() string {
	c, _ := a.body["next_cursor"].(string)
	return c
}

// believing is a gate that asks for no secret; the app "busy" is over its limit.
type believing struct{ apps store.Apps }

func (b believing) Admit(ctx context.Context, c gate.Credentials) (access.Principal, error) {
	a, err := b.apps.GetApp(ctx, c.AppCode)
	if err != nil || a.Disabled {
		return access.Principal{}, &gate.Refusal{Reason: gate.UnknownApp}
	}
	return access.Principal{
		App: a.Code, User: c.User, Proven: c.User != "anna", Admin: a.Admin, Grants: a.Grants,
	}, nil
}

func (b believing) Enter(p access.Principal) (func(), gate.Usage, gate.Verdict) {
	if p.App == "busy" {
		return nil, gate.Usage{Reset: 1500 * time.Millisecond}, gate.TooOften
	}
	return func() {}, gate.Usage{}, gate.Within
}

// engine stores what it is given. Finish ends items, and wakes who waits.
type engine struct {
	store store.Store

	mu    sync.Mutex
	last  *store.Task
	full  error // refuses every task
	woken chan struct{}
}

func (e *engine) Cancel(ctx context.Context, id, app string) (store.CancelCounts, error) {
	return e.store.CancelTask(ctx, id, app, time.Now())
}

func (e *engine) Submit(ctx context.Context, t *store.Task, row store.AuditRow) error {
	e.mu.Lock()
	e.last = t
	full := e.full
	e.mu.Unlock()
	if full != nil {
		return full
	}
	return storetest.Create(ctx, e.store, t, row)
}

func (e *engine) Wait(ctx context.Context, _ string) error {
	select {
	case <-e.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish gives the open items of an agent an outcome.
func (e *engine) finish(t *testing.T, agent string, o process.Outcome) {
	t.Helper()
	items, err := e.store.LeaseItems(t.Context(), time.Now().Add(time.Hour), time.Now().Add(2*time.Hour), 1000)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]process.Outcome{}
	for _, it := range items {
		if it.Agent == agent {
			outcomes[it.ID] = o
		}
	}
	if len(outcomes) == 0 {
		t.Fatalf("agent %s has no items", agent)
	}
	if _, err := e.store.Finish(t.Context(), storetest.Reported(agent, outcomes)); err != nil {
		t.Fatal(err)
	}
}

// recorder stores every row at once.
type recorder struct{ store.Store }

func (r recorder) PutDenial(ctx context.Context, _ string, row store.AuditRow) error {
	return r.PutAudit(ctx, row)
}

func (r recorder) NoteAudit(ctx context.Context, row store.AuditRow) error {
	return r.PutAudit(ctx, row)
}

// readings counts how often a task is read.
type readings struct {
	store.Store
	r *rig
}

func (c readings) TaskItems(ctx context.Context, id, app string, fn func(store.ItemView) error) error {
	c.r.taskReads.Add(1)
	return c.Store.TaskItems(ctx, id, app, fn)
}

// notFinished refuses a rollout beside another one.
func notFinished(id any, of string) string {
	return fmt.Sprintf("rollout %s over %s is not finished: wait for it with 'drover rollout watch %s', or end it with "+
		"'drover rollout abort %s'", id, of, id, id)
}
