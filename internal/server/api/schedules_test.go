package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/api"
	"drover/internal/server/store"
)

// nightly is a request for a schedule.
func nightly(name string, request map[string]any) map[string]any {
	return map[string]any{"name": name, "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "message": "why", "request": request}
}

func restart(processes ...string) map[string]any {
	return map[string]any{"op": "restart", "processes": processes}
}

// begin begins a run of a schedule as its runner does.
func (r *rig) begin(name string, due time.Time, who access.Principal) (state store.RunState, text string) {
	r.t.Helper()
	s, err := r.store.GetSchedule(r.t.Context(), name, "")
	r.must(err)
	state, text, err = r.handler.Operations.BeginRun(r.t.Context(), who, &s, store.ScheduleRun{
		Schedule: s.Name, Created: s.Created, Due: due, State: store.RunRunning, Count: 1, Looked: s.Looked,
	})
	r.must(err)
	return state, text
}

// ended ends the run of a schedule.
func (r *rig) ended(name string) {
	r.t.Helper()
	open, err := r.store.OpenRuns(r.t.Context())
	r.must(err)
	for _, run := range open {
		if run.Schedule == name {
			run.State, run.Ended = store.RunOK, time.Now()
			r.must(r.store.EndRun(r.t.Context(), store.RunEnd{Run: run}))
		}
	}
}

func TestSchedules(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "restart on a", "query on a")
	r.app("viewer", "query on *")
	r.observe("a/x@"+web+" running", "a/y@"+plain+" running", "b/x@"+web+" running")
	made := r.want(201, r.call("shop", "POST", "/schedules", nightly("nightly", restart("a/*"))))
	if made.body["state"] != "active" || made.body["user"] != "anna" || len(made.body["next_at"].([]any)) != 3 ||
		made.header.Get("Location") != "/api/v1/schedules/nightly" {
		t.Errorf("made %v, %v", made.body, made.header)
	}
	next, err := time.Parse(time.RFC3339, made.body["next_at"].([]any)[0].(string))
	r.must(err)
	if left := time.Until(next); left <= 0 || left > 25*time.Hour || next.UTC().Hour() != 1 && next.UTC().Hour() != 2 {
		t.Errorf("the next run is at %s", next)
	}
	r.want(409, r.call("shop", "POST", "/schedules", nightly("nightly", restart("a/*"))))
	r.want(403, r.call("viewer", "POST", "/schedules", nightly("mine", restart("a/*"))))
	r.app("narrow", "restart on a at 0:10.0.0.2", "query on a")
	r.want(403, r.call("narrow", "POST", "/schedules", nightly("mine", restart("a/*")))) // no run could begin
	for app, n := range map[string]int{"admin": 1, "shop": 1, "viewer": 0} {
		same(t, "schedules of "+app, n, len(r.want(200, r.call(app, "GET", "/schedules", nil)).items("name")))
	}
	for _, call := range []string{
		"GET /schedules/nightly", "DELETE /schedules/nightly", "POST /schedules/nightly/pause",
		"POST /schedules/nightly/resume", "POST /schedules/nightly/run",
	} {
		method, path, _ := strings.Cut(call, " ")
		r.want(404, r.call("viewer", method, path, nil))
	}
	paused := r.want(200, r.call("shop", "POST", "/schedules/nightly/pause", nil))
	if paused.body["state"] != "paused" || len(paused.body["next_at"].([]any)) != 0 {
		t.Errorf("paused is %v", paused.body)
	}
	same(t, "state", "active", r.want(200, r.call("admin", "POST", "/schedules/nightly/resume", nil)).body["state"])

	run := r.want(202, r.call("shop", "POST", "/schedules/nightly/run", nil))
	last := run.body["last"].(map[string]any)
	task := r.want(200, r.call("shop", "GET", "/tasks/"+last["operation"].(string), nil))
	if last["state"] != "running" || last["run_by"] != "anna" || task.body["reason"] != "schedule nightly" ||
		task.body["counts"].(map[string]any)["targets"] != 2.0 {
		t.Errorf("the run is %v, its task %v", last, task.body)
	}
	r.want(409, r.call("shop", "POST", "/schedules/nightly/run", nil))
	r.want(204, r.call("shop", "DELETE", "/schedules/nightly", nil))
	r.want(404, r.call("shop", "GET", "/schedules/nightly", nil))
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 100, Action: "schedules.create"})
	r.must(err)
	if first := rows[len(rows)-1]; first.Target != "nightly" || !strings.Contains(string(first.Detail), "0 3 * * *") {
		t.Errorf("the audit row is %+v", first)
	}
}

// TestBadSchedules: each fault names its field.
func TestBadSchedules(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	with := func(field string, value any) map[string]any {
		body := nightly("n", restart("a/*"))
		body[field] = value
		return body
	}
	asks := func(field string, value any) map[string]any {
		request := restart("a/*")
		request[field] = value
		return nightly("n", request)
	}
	targets := []any{map[string]any{"namespace": "a", "name": "x"}}
	for field, body := range map[string]map[string]any{
		"name":                         with("name", "a b"),
		"cron":                         with("cron", "0 3 * *"),
		"time_zone":                    with("time_zone", "Mars/Olympus"),
		"message":                      with("message", strings.Repeat("x", 1001)),
		"request.processes":            asks("targets", targets),
		"request.at":                   asks("at", "03:00"),
		"request.processes[0]":         nightly("n", restart("a")),
		"request.op":                   asks("op", "dance"),
		"request.select":               asks("select", "role="),
		"request.labels":               asks("labels", "tier="),
		"request.hosts[0]":             asks("hosts", []string{""}),
		"request.hosts[1]":             asks("hosts", []string{"web-1", "web-9", "later-*"}),
		"request.again_when_lost":      asks("again_when_lost", true),
		"request.rollout.canary":       asks("rollout", map[string]any{"batch": 1, "canary": -1}),
		"request.host_timeout_seconds": asks("host_timeout_seconds", 0),
	} {
		r.refused(r.call("admin", "POST", "/schedules", body), 422, field)
	}
	both := restart("a/*")
	both["one_of"], both["rollout"] = true, map[string]any{"batch": 1}
	r.refused(r.call("admin", "POST", "/schedules", nightly("n", both)), 422, "request.one_of")
	r.refused(r.call("admin", "POST", "/schedules", nightly("n", map[string]any{
		"op": "start", "processes": []string{"a/x", "a/y"}, "one_of": true,
	})), 422, "request.one_of")
	r.refused(r.call("admin", "POST", "/schedules", nightly("n", map[string]any{
		"op": "update", "processes": []string{"a/*"}, "one_of": true,
	})), 422, "request.spec")
	all := r.want(422, r.call("admin", "POST", "/schedules", nightly("n", map[string]any{
		"op": "dance", "processes": []string{"a"}, "at": "x", "spec": map[string]any{}, "host_timeout_seconds": 0, "select": "(",
	}))).faults()
	slices.Sort(all)
	same(t, "faults", []string{
		"request.at", "request.host_timeout_seconds", "request.op", "request.processes[0]", "request.select", "request.spec",
	}, all)
	r.refused(r.call("admin", "POST", "/tasks", map[string]any{"op": "stop", "targets": targets, "labels": "a=b"}), 422, "labels")
	r.refused(r.call("admin", "POST", "/tasks", map[string]any{"op": "stop", "targets": targets, "processes": []string{"a/x"}}),
		422, "processes")
	same(t, "schedules", 0, len(r.want(200, r.call("admin", "GET", "/schedules", nil)).items("name")))
}

// TestRunsAreResolvedWhenTheyBegin: the processes, the hosts and the rights are those of that moment.
func TestRunsAreResolvedWhenTheyBegin(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	admin := access.Principal{App: "admin", User: "anna", Admin: true}
	grant, err := access.ParseGrant("query on *")
	r.must(err)
	viewer := access.Principal{App: "viewer", User: "ben", Grants: []access.Grant{grant}}
	request := restart("a/*")
	request["select"] = "role=web"
	r.want(201, r.call("admin", "POST", "/schedules", nightly("nightly", request)))
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "a/x.2@"+plain+" running", "b/x@"+plain+" running")
	due := time.Now()
	if state, text := r.begin("nightly", due, admin); state != store.RunEmpty || text == "" {
		t.Errorf("without a host that matches it is %s, %s", state, text)
	}
	r.must(r.fleet.Label(t.Context(), []string{plain}, map[string]string{"role": "web"}, nil))
	if state, text := r.begin("nightly", due, viewer); state != store.RunMissed || !strings.Contains(text, "not allowed") {
		t.Errorf("without rights it is %s, %s", state, text)
	}
	denied, err := r.store.ListAudit(t.Context(), store.AuditFilter{Action: "schedules.run", Limit: 10})
	r.must(err)
	if len(denied) != 1 || denied[0].Allowed || denied[0].User != "ben" || denied[0].Code != 403 ||
		!strings.HasPrefix(denied[0].Message, "not allowed: restart a/x") {
		t.Errorf("the audit rows of a refused run are %+v", denied)
	}
	for _, pattern := range []string{"a/*", "*/x"} { // a creator without any right does not even see what matches
		name := "of-nobody-" + strings.Trim(pattern, "/*")
		r.want(201, r.call("admin", "POST", "/schedules", nightly(name, restart(pattern))))
		state, text := r.begin(name, due, access.Principal{App: "viewer", User: "nora"})
		same(t, pattern, "missed: not allowed: restart "+pattern, fmt.Sprintf("%s: %s", state, text))
	}
	if state, text := r.begin("nightly", due, admin); state != store.RunRunning || text != "" {
		t.Errorf("it is %s, %s", state, text)
	}
	r.engine.mu.Lock()
	task := r.engine.last
	r.engine.mu.Unlock()
	var got []string
	for _, q := range task.Requests {
		for _, target := range q.Targets {
			got = append(got, q.Process.String()+"@"+target.Agent)
		}
	}
	same(t, "targets", []string{"a/x@" + plain, "a/x.2@" + plain}, got)
	if task.Reason != "schedule nightly" || task.Selector != "role=web" || task.User != "anna" {
		t.Errorf("the task is %+v", task)
	}
	r.ended("nightly")

	request["rollout"] = map[string]any{"batch": 1}
	r.want(201, r.call("admin", "POST", "/schedules", nightly("rolled", request)))
	if state, text := r.begin("rolled", due, admin); state != store.RunRunning {
		t.Errorf("a rollout is %s, %s", state, text)
	}
	rolled := r.want(200, r.call("admin", "GET", "/schedules/rolled", nil)).body["last"].(map[string]any)
	ro := r.want(200, r.call("admin", "GET", "/rollouts/"+rolled["rollout"].(string), nil))
	same(t, "schedule of the rollout", any("rolled"), ro.body["schedule"])
	r.ended("rolled")
	if state, text := r.begin("rolled", due.Add(time.Second), admin); state != store.RunSkipped ||
		!strings.Contains(text, "is not finished") {
		t.Errorf("beside an active rollout it is %s, %s", state, text)
	}
}

// TestOneOf: the rollout has the connected hosts first, each in a batch of its own.
func TestOneOf(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@"+gone+" running", "a/x@"+plain+" running", "a/x@"+web+" running")
	r.remake(func(c *api.Config) { c.Breadth = 1 }) // only one host is reached
	request := restart("a/x")
	request["one_of"], request["again_when_lost"] = true, true
	a := r.want(202, r.call("admin", "POST", "/tasks", request))
	var order []any
	for _, h := range a.body["hosts"].([]any) {
		host := h.(map[string]any)
		order = append(order, host["host"], host["batch"])
	}
	same(t, "order", []any{"0:10.0.0.2", 0.0, "web-1", 1.0, "3:10.0.0.3", 2.0}, order)
	stored, err := r.store.GetRollout(t.Context(), a.body["id"].(string), "")
	r.must(err)
	if a.body["one_of"] != true || a.body["again_when_lost"] != true || !stored.Plan.OneOf || !stored.Plan.AgainWhenLost ||
		stored.Plan.Breadth != 0 {
		t.Errorf("the rollout is %v, %+v", a.body, stored.Plan)
	}
}

// TestOneOfOneProcess: of two processes, each could begin on another host.
func TestOneOfOneProcess(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@" + plain + " running")
	request := restart("a/*")
	request["one_of"] = true
	r.want(201, r.call("admin", "POST", "/schedules", nightly("n", request)))
	r.observe("a/y@" + web + " running")
	r.refused(r.call("admin", "POST", "/tasks", request), 422, "one_of")
	r.refused(r.call("admin", "POST", "/schedules", nightly("other", request)), 422, "request.one_of")
	if state, text := r.begin("n", time.Now(), access.Principal{Admin: true}); state != store.RunFailed ||
		!strings.Contains(text, "a/x and a/y") {
		t.Errorf("a run is %s, %s", state, text)
	}
}

// TestBroadSchedules: a schedule whose runs would need a second person is refused at once, or its run fails.
func TestBroadSchedules(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.remake(func(c *api.Config) { c.Breadth = 1 })
	r.want(201, r.call("admin", "POST", "/schedules", nightly("later", restart("a/*"))))
	r.observe("a/x@"+plain+" running", "a/x@"+web+" running")
	request := restart("a/*")
	refused := r.want(403, r.call("admin", "POST", "/schedules", nightly("n", request)))
	if text := fmt.Sprint(refused.body["detail"]); !strings.HasSuffix(text, ": use a rollout") {
		t.Errorf("it is refused: %s", text)
	}
	if state, text := r.begin("later", time.Now(), access.Principal{Admin: true}); state != store.RunFailed ||
		!strings.Contains(text, "a second person") {
		t.Errorf("a run is %s, %s", state, text)
	}
	request["rollout"] = map[string]any{"batch": 1}
	r.want(201, r.call("admin", "POST", "/schedules", nightly("n", request)))
}

func TestRepeatedSilences(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	minute := time.Now().UTC().Truncate(time.Minute).Add(-time.Minute)
	made := r.want(201, r.call("admin", "POST", "/silences", map[string]any{
		"processes": []string{"shop/*"}, "cron": minute.Format("4 15 * * *"), "time_zone": "UTC", "seconds": 600,
	}))
	if made.body["state"] != "active" || made.body["until"] != nil || made.body["seconds"] != 600.0 ||
		made.body["window_from"] != minute.Format(time.RFC3339) {
		t.Errorf("made %v, the window began at %s", made.body, minute)
	}
	r.ahead.Store(int64(time.Hour))
	later := r.want(200, r.call("admin", "GET", "/silences/"+made.body["id"].(string), nil))
	if later.body["state"] != "pending" || later.body["window_from"] != minute.AddDate(0, 0, 1).Format(time.RFC3339) {
		t.Errorf("after the window: %v", later.body)
	}
	removed := r.want(200, r.call("admin", "DELETE", "/silences/"+made.body["id"].(string), nil))
	same(t, "state", any("ended"), removed.body["state"])
	for field, body := range map[string]string{
		"cron":      `{"processes":["a/*"],"cron":"x","seconds":60}`,
		"time_zone": `{"processes":["a/*"],"cron":"0 2 * * *","time_zone":"Mars","seconds":60}`,
		"seconds":   `{"processes":["a/*"],"cron":"0 2 * * *"}`,
		"until":     `{"processes":["a/*"],"cron":"0 2 * * *","seconds":60,"until":"2020-01-01T00:00:00Z"}`,
	} {
		r.refused(r.call("admin", "POST", "/silences", body), 422, field)
	}
	r.refused(r.call("admin", "POST", "/silences", `{"processes":["a/*"],"time_zone":"UTC","seconds":60}`), 422, "cron")
}

// TestSchedulesOfAnApp: an app cannot take all schedules of the server, and a run on one host stores few candidates.
func TestSchedulesOfAnApp(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("shop", "restart on a")
	for i := range 500 {
		r.must(r.store.CreateSchedule(t.Context(), store.Schedule{
			Name: fmt.Sprint("s", i), App: "shop", Created: time.Now(), Cron: "@daily", Request: []byte("{}"),
		}))
	}
	r.refused(r.call("shop", "POST", "/schedules", nightly("n", restart("a/x"))), 409, "")
	r.want(201, r.call("admin", "POST", "/schedules", nightly("n", restart("a/x"))))
	rows := []string{}
	for i := range 30 {
		key := fmt.Sprint("K", i)
		r.must(r.fleet.Join(t.Context(), store.Agent{Key: key, IP: fmt.Sprint("10.1.0.", i), Created: time.Now()}, time.Now()))
		rows = append(rows, "a/x@"+key+" running")
	}
	r.observe(append(rows, "a/x@"+web+" running")...)
	request := restart("a/x")
	request["one_of"] = true
	a := r.want(202, r.call("admin", "POST", "/tasks", request))
	hosts := a.body["hosts"].([]any)
	if len(hosts) != 20 || hosts[0].(map[string]any)["host"] != "web-1" ||
		a.body["counts"].(map[string]any)["hosts"] != 20.0 {
		t.Errorf("there are %d candidates, counts %v, the first %v", len(hosts), a.body["counts"], hosts[0])
	}
}
