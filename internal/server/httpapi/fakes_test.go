package httpapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/httpapi"
	"drover/internal/server/store"
)

const (
	appCode   = "drover-test"
	appSecret = "right-secret-right-secret"
)

// world is a server edge on fakes: tasks in memory, an engine that finishes an item when the test says so, a fixed
// register of agents.
type world struct {
	// reading tells that rows are being read, pageRows how many of a namespace are read at once; 0 is as many as are
	// asked for.
	reading  bool
	pageRows int
	t        *testing.T
	handler  http.Handler

	mu       sync.Mutex
	tasks    map[string]*store.Task
	outcomes map[string]process.Outcome // by result key
	apps     map[string]store.App
	users    map[string]store.User
	tokens   map[string]store.Token // by hash
	sessions map[string]string      // the login service's, users by token
	now      time.Time              // the gate's clock
	observed []store.Observed
	audit    []store.AuditRow
	noted    int // rows that could wait
	denials  int // rows that are counted where they are repeated
	agents   []store.Agent
	presence map[string]fleet.Presence // by key; who is not there is present
	groups   map[store.GroupHost][]process.Group
	notReady error
	repeats  map[string]store.Repeat

	// answer gives the outcome of an item as it is submitted; nil leaves it unfinished.
	answer func(r store.Request, target store.Target) *process.Outcome
	// storeErr fails every call to the store and the engine; appsErr the look for an app.
	storeErr error
	appsErr  error
	// readings counts how often a task was read.
	readings int
	// breakAfter fails a poll after so many items.
	breakAfter int
	// waited is called by Wait.
	waited func(ctx context.Context) error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t:        t,
		tasks:    map[string]*store.Task{},
		outcomes: map[string]process.Outcome{},
		users:    map[string]store.User{},
		tokens:   map[string]store.Token{},
		sessions: map[string]string{},
		now:      noon(),
		apps: map[string]store.App{
			appCode:    {Code: appCode, Secrets: storedSecret(appSecret), MayNameUsers: true, Admin: true},
			"other":    {Code: "other", Secrets: storedSecret("other-secret"), MayNameUsers: true, Admin: true},
			"no-names": {Code: "no-names", Secrets: storedSecret("third-secret"), Admin: true},
		},
		agents: []store.Agent{
			{Key: "UAGENT1", Cloud: 1, IP: "10.0.0.1", ID: "02000000024201"},
			{Key: "UAGENT2", Cloud: 0, IP: "10.0.0.1"},
			{Key: "UAGENT3", Cloud: 0, IP: "2001:db8::7"},
		},
		presence: map[string]fleet.Presence{},
		groups:   map[store.GroupHost][]process.Group{},
		repeats:  map[string]store.Repeat{},
		waited:   func(context.Context) error { return nil },
	}
	w.serve()
	return w
}

// serve makes the handler, which believes the given gateways.
func (w *world) serve(trusted ...netip.Prefix) {
	w.handler = httpapi.New(httpapi.Config{
		Config: edge.Config{
			Gate:   gate.New(gate.Config{Store: w, Login: w, Now: func() time.Time { return w.now }}),
			Engine: w, Tasks: w, Audit: w, Rooms: admission.New(),
			Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return w.now },
		},
		Repeats: w, Observations: w, Groups: w, Directory: w,
		TrustedGateways: trusted,
		Ready:           func() error { return w.notReady },
	})
}

// noon is what the clock of a world shows.
func noon() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("CST", 8*3600)) }

// storedSecret is a secret as it is stored.
func storedSecret(secret string) []store.Secret {
	return []store.Secret{{ID: "1", Hash: access.Secrets{}.Hash(secret)}}
}

func (w *world) Submit(_ context.Context, t *store.Task, row store.AuditRow) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.storeErr != nil {
		return w.storeErr
	}
	w.tasks[t.ID] = t
	w.audit = append(w.audit, row)
	for _, r := range t.Requests {
		for _, target := range r.Targets {
			out := target.Outcome
			if out == nil && w.answer != nil {
				out = w.answer(r, target)
			}
			if out != nil {
				w.outcomes[t.ID+target.ItemKey] = *out
			}
		}
	}
	return nil
}

func (w *world) PutRepeat(_ context.Context, r store.Repeat, _ time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.repeats[r.Of] = r
	return w.storeErr
}

func (w *world) FindRepeat(_ context.Context, of string) (store.Repeat, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.repeats[of]
	if !ok {
		return store.Repeat{}, cmp.Or(w.storeErr, store.ErrNotFound)
	}
	return r, w.storeErr
}

func (w *world) DropRepeat(_ context.Context, of string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.repeats, of)
	return w.storeErr
}

func (w *world) Wait(ctx context.Context, _ string) error { return w.waited(ctx) }

func (w *world) TaskItems(_ context.Context, id, app string, fn func(store.ItemView) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readings++
	t, ok := w.tasks[id]
	if w.storeErr != nil {
		return w.storeErr
	}
	if !ok || (app != "" && t.App != app) {
		return store.ErrNotFound
	}
	shown := 0
	for _, r := range t.Requests {
		for _, target := range r.Targets {
			v := store.ItemView{ItemKey: target.ItemKey, Spelling: target.Spelling, Op: r.Op, Process: r.Process}
			if agent, ok := w.ByKey(target.Agent); ok {
				v.Cloud, v.IP, v.AgentID = agent.Cloud, agent.IP, agent.ID
			}
			if spec := cmp.Or(r.Spec, r.ReportedSpec); spec != nil {
				v.ProcName, v.SetupPath = spec.ProcessName, spec.Directory
				v.FuncID, v.InstanceID = spec.FuncID(), spec.InstanceID()
			}
			if out, ok := w.outcomes[id+target.ItemKey]; ok {
				v.Done, v.Outcome = true, &out
			}
			if w.breakAfter > 0 && shown == w.breakAfter {
				return errors.New("disk read error")
			}
			shown++
			if err := fn(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) Lookup(cloud int, ip string) (store.Agent, bool) {
	i := slices.IndexFunc(w.agents, func(a store.Agent) bool { return a.Cloud == cloud && a.IP == ip })
	return w.at(i)
}

func (w *world) LookupID(id string) (store.Agent, bool) {
	i := slices.IndexFunc(w.agents, func(a store.Agent) bool {
		return id != "" && (a.ID == id || a.Assigned == id) || fmt.Sprintf("%d:%s", a.Cloud, a.IP) == id
	})
	return w.at(i)
}

func (w *world) ByKey(key string) (store.Agent, bool) {
	return w.at(slices.IndexFunc(w.agents, func(a store.Agent) bool { return a.Key == key }))
}

func (w *world) Presence(key string, _ time.Time) fleet.Presence { return w.presence[key] }

func (w *world) Assign(_ context.Context, key, id string, _ time.Time) error {
	for i := range w.agents {
		switch {
		case w.storeErr != nil:
			return w.storeErr
		case w.agents[i].Key == key:
			w.agents[i].Assigned = id
		case id != "" && w.agents[i].ID == id:
			return fleet.ErrTaken
		}
	}
	return nil
}

func (w *world) PutGroups(_ context.Context, hosts []store.GroupHost, groups []process.Group) error {
	for _, h := range hosts {
		w.groups[h] = groups
	}
	return w.storeErr
}

func (w *world) GetGroups(_ context.Context, namespace string, agents []string,
	fn func(string, process.Group) error,
) error {
	for _, agent := range agents {
		for _, g := range w.groups[store.GroupHost{Agent: agent, Namespace: namespace}] {
			if err := fn(agent, g); err != nil {
				return err
			}
		}
	}
	return w.storeErr
}

func (w *world) GroupUsage(_ context.Context, namespace string, agents []string) (map[string]store.GroupUsage, error) {
	usage := map[string]store.GroupUsage{}
	for _, o := range w.observed {
		if u := o.Status.Usage; u != nil && o.Process.Namespace == namespace && slices.Contains(agents, o.Agent) {
			sum := usage[o.Agent]
			usage[o.Agent] = store.GroupUsage{CPU: sum.CPU + u.CPU, Mem: sum.Mem + u.Mem, Processes: sum.Processes + 1}
		}
	}
	return usage, w.storeErr
}

func (w *world) at(i int) (store.Agent, bool) {
	if i < 0 {
		return store.Agent{}, false
	}
	return w.agents[i], true
}

func (w *world) GetApp(_ context.Context, code string) (store.App, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.appsErr != nil {
		return store.App{}, w.appsErr
	}
	app, ok := w.apps[code]
	if !ok {
		return store.App{}, store.ErrNotFound
	}
	return app, nil
}

func (w *world) GetUser(_ context.Context, name string) (store.User, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u, ok := w.users[name]
	if !ok {
		return store.User{}, store.ErrNotFound
	}
	return u, nil
}

func (w *world) FindToken(_ context.Context, hash string) (store.Token, store.User, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.tokens[hash]
	if !ok {
		return store.Token{}, store.User{}, store.ErrNotFound
	}
	return t, w.users[t.User], nil
}

// User is the login service; it is down where it has no sessions at all.
func (w *world) User(_ context.Context, token string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	user, ok := w.sessions[token]
	switch {
	case w.sessions == nil:
		return "", errors.New("connection refused")
	case !ok:
		return "", gate.ErrNoSession
	}
	return user, nil
}

// PutDenial stores at once what a server counts where it is repeated.
func (w *world) PutDenial(ctx context.Context, _ string, row store.AuditRow) error {
	w.mu.Lock()
	w.denials++
	w.mu.Unlock()
	return w.PutAudit(ctx, row)
}

// NoteAudit stores at once what a server stores a little later.
func (w *world) NoteAudit(ctx context.Context, row store.AuditRow) error {
	w.mu.Lock()
	w.noted++
	w.mu.Unlock()
	return w.PutAudit(ctx, row)
}

func (w *world) PutAudit(_ context.Context, rows ...store.AuditRow) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.audit = append(w.audit, rows...)
	return nil
}

func (w *world) ListOpenItems(context.Context, store.OpenItemFilter, int) ([]store.OpenItem, error) {
	return nil, nil
}

func (w *world) GetObserved(_ context.Context, id process.ID, agents []string, fn func(store.Observed) error) error {
	w.reading = true
	defer func() { w.reading = false }()
	if w.storeErr != nil {
		return w.storeErr
	}
	for _, agent := range agents {
		for _, o := range w.observed {
			if o.Agent == agent && o.Process == id {
				if err := fn(o); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *world) PageObserved(_ context.Context, namespace string, start, limit int) ([]store.Observed, int, error) {
	if w.storeErr != nil {
		return nil, 0, w.storeErr
	}
	var all []store.Observed
	for _, o := range w.observed {
		if o.Process.Namespace == namespace {
			all = append(all, o)
		}
	}
	if w.pageRows > 0 {
		limit = min(limit, w.pageRows)
	}
	from := min(start, len(all))
	return all[from:min(from+limit, len(all))], len(all), nil
}

// onlyTask returns the one task that was submitted.
func (w *world) onlyTask() *store.Task {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tasks) != 1 {
		w.t.Fatalf("%d tasks were submitted, want 1", len(w.tasks))
	}
	for _, t := range w.tasks {
		return t
	}
	return nil
}

// lastAudit returns the newest audit row.
func (w *world) lastAudit() store.AuditRow {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.audit) == 0 {
		w.t.Fatal("no audit row was written")
	}
	return w.audit[len(w.audit)-1]
}

// reply is an answer in the common envelope.
type reply struct {
	Status int
	Header http.Header
	Raw    []byte

	Result     *bool           `json:"result"`
	Code       *int            `json:"code"`
	Message    *string         `json:"message"`
	Data       json.RawMessage `json:"data"`
	RequestID  string          `json:"request_id"`
	Permission json.RawMessage `json:"permission"`
	CodeName   string          `json:"code_name"`
}

// send plays one request and reads the envelope of its answer; an answer without one fails the test.
func (w *world) send(r *http.Request) reply {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	out := reply{Status: rec.Code, Header: rec.Header(), Raw: rec.Body.Bytes()}
	if err := json.Unmarshal(out.Raw, &out); err != nil {
		w.t.Fatalf("%s %s answered %d with what is no envelope: %v\n%.400s", r.Method, r.URL, rec.Code, err, out.Raw)
	}
	if out.Result == nil || out.Message == nil || out.Data == nil {
		w.t.Fatalf("%s %s answered %d with an incomplete envelope: %.400s", r.Method, r.URL, rec.Code, out.Raw)
	}
	return out
}

// post sends a body with good credentials in the header.
func (w *world) post(path, body string) reply {
	w.t.Helper()
	return w.postAs(appCode, appSecret, path, body)
}

func (w *world) postAs(code, secret, path, body string) reply {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader([]byte(body)))
	r.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"admin"}`,
		code, secret))
	return w.send(r)
}

// get sends a request whose parameters and credentials are in its query.
func (w *world) get(target string) reply {
	w.t.Helper()
	return w.send(httptest.NewRequest(http.MethodGet, target, nil))
}

// ok fails the test unless the answer is a success, and decodes its data.
func (r reply) ok(t *testing.T, into any) {
	t.Helper()
	if r.Status != http.StatusOK || !*r.Result || r.Code == nil || *r.Code != 0 || r.RequestID == "" {
		t.Fatalf("answer is no success: %d %s", r.Status, r.Raw)
	}
	if err := json.Unmarshal(r.Data, into); err != nil {
		t.Fatalf("data is of another shape: %v: %s", err, r.Data)
	}
}

// refused fails the test unless the answer is a failure of the given code and status, with null data.
func (r reply) refused(t *testing.T, status, code int) {
	t.Helper()
	if r.Status != status || *r.Result || r.Code == nil || *r.Code != code || string(r.Data) != "null" ||
		*r.Message == "" {
		t.Fatalf("answer = %d %s, want status %d, code %d, result false, data null and a message", r.Status, r.Raw,
			status, code)
	}
}

// taskID submits a body and returns the id that it was answered with.
func (w *world) taskID(path, body string) string {
	w.t.Helper()
	var data struct {
		Task    string `json:"task_id"`
		JobTask string `json:"bk_gse_taskid"`
	}
	w.post(path, body).ok(w.t, &data)
	if data.Task+data.JobTask == "" {
		w.t.Fatal("no task id was answered")
	}
	return data.Task + data.JobTask
}

// entry is the value of one result key.
type entry struct {
	Code    int             `json:"error_code"`
	Msg     string          `json:"error_msg"`
	Content json.RawMessage `json:"content"`
}

// poll asks for the results of a GSE task.
func (w *world) poll(task string) map[string]entry {
	w.t.Helper()
	var data map[string]entry
	w.post(esbGSE+"get_proc_operate_result_v2/", fmt.Sprintf(`{"task_id":%q}`, task)).ok(w.t, &data)
	return data
}

// decodeText decodes a content that is JSON in a string.
func decodeText(t *testing.T, content json.RawMessage, into any) {
	t.Helper()
	var text string
	if err := json.Unmarshal(content, &text); err != nil {
		t.Fatalf("content is no string: %s", content)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("content holds no JSON: %v: %s", err, text)
	}
}

const (
	esbGSE    = "/api/c/compapi/v2/gse/"
	esbJob    = "/api/c/compapi/v2/job/"
	esbJobV3  = "/api/c/compapi/v2/jobv3/"
	gatewayV2 = "/api/v2/proc/"
)

// key of the documents' own example on this world's first agent.
const exampleKey = "1:10.0.0.1:gse:proc-test"
