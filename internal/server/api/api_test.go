package api_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api"
	"drover/internal/server/api/call"
	"drover/internal/server/store"
)

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestEveryPathIsDescribed(t *testing.T) {
	r := newRig(t)
	var described []string
	for path, item := range r.doc.Paths.Map() {
		if strings.HasPrefix(path, v1.Prefix) {
			for method := range item.Operations() {
				described = append(described, method+" "+path)
			}
		}
	}
	slices.Sort(described)
	same(t, "paths", described, slices.Sorted(slices.Values(api.Routes())))
}

// TestRightsOfTheClient: the client knows none of our types, so its own must have the same names in JSON.
func TestRightsOfTheClient(t *testing.T) {
	same(t, "fields", jsonNames(reflect.TypeFor[access.Grant](), ""), jsonNames(reflect.TypeFor[v1.Grant](), ""))
	same(t, "fields", jsonNames(reflect.TypeFor[access.Limits](), ""), jsonNames(reflect.TypeFor[v1.Rates](), ""))
}

func jsonNames(t reflect.Type, at string) []string {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return []string{at + " " + t.Kind().String()}
	}
	var all []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, jsonNames(f.Type, at+"."+name)...)
	}
	return all
}

func TestProcesses(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("a/x@"+web+" running", "a/x@"+plain+" stopped", "a/y@"+gone+" running", "b/x@"+web+" backoff",
		"b/z/w@"+web+" stopped")
	list := func(query string) []string {
		return r.want(200, r.call("admin", "GET", "/processes"+query, nil)).items("namespace", "name", "host.id")
	}
	all := []string{"a x 0:10.0.0.2", "a x web-1", "a y 3:10.0.0.3", "b x web-1", "b z/w web-1"}
	same(t, "all", all, list(""))
	for query, want := range map[string][]string{
		"?namespace=a":                 all[:3],
		"?name=x&namespace=*":          {all[0], all[1], all[3]},
		"?host=web-1":                  {all[1], all[3], all[4]},
		"?host=0:10.0.0.1&name=x":      {all[1], all[3]},
		"?host=3:*&host=0:10.0.0.2":    {all[0], all[2]},
		"?host=web-9":                  nil,
		"?state=stopped":               {all[0], all[4]},
		"?state=stopped&state=backoff": {all[0], all[3], all[4]},
	} {
		same(t, query, want, list(query))
	}
	for limit := 1; limit < 4; limit++ {
		var walked []string
		query := url.Values{"limit": {string(rune('0' + limit))}}
		for {
			a := r.want(200, r.call("admin", "GET", "/processes?"+query.Encode(), nil))
			walked = append(walked, a.items("namespace", "name", "host.id")...)
			if a.cursor() == "" {
				break
			}
			query.Set("cursor", a.cursor())
		}
		same(t, "walk", all, walked)
	}
	// Who may see little gets full pages of that, and cursors that tell nothing of the rest.
	r.app("of b", "read on b")
	few := r.want(200, r.call("of b", "GET", "/processes?limit=1", nil))
	same(t, "of one who may see little", all[3:4], few.items("namespace", "name", "host.id"))
	if sealed, err := base64.RawURLEncoding.DecodeString(few.cursor()); err != nil ||
		bytes.Contains(sealed, []byte("b")) && bytes.Contains(sealed, []byte("Process")) {
		t.Errorf("the cursor tells %q (%v)", sealed, err)
	}
	few = r.want(200, r.call("of b", "GET", "/processes?limit=1&cursor="+few.cursor(), nil))
	same(t, "the next page", all[4:], few.items("namespace", "name", "host.id"))
	r.want(422, r.call("of b", "GET", "/events?limit=1&cursor="+few.cursor(), nil))
	if few = r.want(200, r.call("of b", "GET", "/processes?limit=1&state=running", nil)); few.cursor() != "" ||
		len(few.items("name")) != 0 {
		t.Errorf("of a state that only others have: %v", few.body)
	}
	one := r.want(200, r.call("admin", "GET", "/processes/b/z%2Fw", nil))
	same(t, "a name with a slash", []string{"b z/w z/w"}, one.items("namespace", "name", "spec.process_name"))
	states := r.want(200, r.call("admin", "GET", "/processes/a/x", nil))
	same(t, "states", []string{"stopped false", "running false"}, states.items("state", "stale"))
	if instance := states.body["items"].([]any)[1].(map[string]any)["instance"].(map[string]any); instance["rss_bytes"] != 2048.0 || instance["pid"] != 42.0 {
		t.Errorf("instance %v", instance)
	}
	same(t, "of a host that is away", []string{"true false"},
		r.call("admin", "GET", "/processes/a/y", nil).items("stale", "host.online"))
	r.refused(r.call("admin", "GET", "/processes/a/none", nil), 404, "")
}

func TestProcessesOfOthersAreHidden(t *testing.T) {
	r := newRig(t)
	r.app("narrow", "read on a at area:0")
	r.observe("a/x@"+web+" running", "a/x@"+gone+" running", "b/x@"+web+" running")
	same(t, "list", []string{"a web-1"}, r.want(200, r.call("narrow", "GET", "/processes", nil)).items("namespace",
		"host.id"))
	same(t, "get", []string{"web-1"}, r.want(200, r.call("narrow", "GET", "/processes/a/x", nil)).items("host.id"))
	r.refused(r.call("narrow", "GET", "/processes/b/x", nil), 403, "")
	r.refused(r.call("narrow", "GET", "/processes/none/x", nil), 403, "")
	same(t, "hosts", []string{"web-1", "0:10.0.0.2"}, r.want(200, r.call("narrow", "GET", "/hosts", nil)).items("id"))
	r.app("nothing", "start on a")
	r.refused(r.call("nothing", "GET", "/hosts", nil), 403, "")
}

func TestAgents(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	all := []string{"web-1 true", "0:10.0.0.2 true", "3:10.0.0.3 false"}
	same(t, "all", all, r.want(200, r.call("admin", "GET", "/hosts", nil)).items("id", "online"))
	same(t, "away", all[2:], r.want(200, r.call("admin", "GET", "/hosts?state=away", nil)).items("id", "online"))
	same(t, "by pattern", all[:2], r.want(200, r.call("admin", "GET", "/hosts?host=0:*", nil)).items("id", "online"))
	first := r.want(200, r.call("admin", "GET", "/hosts?limit=2", nil))
	same(t, "first page", all[:2], first.items("id", "online"))
	second := r.want(200, r.call("admin", "GET", "/hosts?limit=2&cursor="+first.cursor(), nil))
	same(t, "second page", all[2:], second.items("id", "online"))
	if second.cursor() != "" {
		t.Error("the last page leads to another")
	}
	r.must(r.fleet.Remove(t.Context(), plain, func(ctx context.Context) error {
		return r.store.RemoveAgent(ctx, plain, time.Now(), nil)
	}))
	after := r.want(200, r.call("admin", "GET", "/hosts?limit=2&cursor="+first.cursor(), nil))
	same(t, "second page, when the last of the first was removed", all[2:], after.items("id", "online"))
}

func TestWhoIsLetIn(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("plain", "* on *")
	r.app("busy", "* on *")
	r.refused(r.call("", "GET", "/processes", nil), 401, "")
	r.refused(r.call("nobody", "GET", "/processes", nil), 401, "")
	r.refused(r.call("", "GET", "/nowhere", nil), 401, "")
	a := r.call("busy", "GET", "/processes", nil)
	r.refused(a, 429, "")
	same(t, "retry", "2", a.header.Get("Retry-After"))
	for _, route := range api.Routes() {
		method, path, _ := strings.Cut(route, " ")
		path = strings.TrimPrefix(path, v1.Prefix)
		if first := strings.Split(path, "/")[1]; first == "apps" || first == "users" || first == "server" {
			r.refused(r.call("plain", method, path, nil), 403, "")
		}
	}
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 100})
	r.must(err)
	for _, row := range rows {
		if row.Allowed || row.Code < http.StatusBadRequest {
			t.Errorf("a denial is recorded as %+v", row)
		}
	}
	if len(rows) < 10 {
		t.Errorf("%d denials were recorded", len(rows))
	}

	ctx := call.WithOperator(t.Context(), access.LocalAdmin(1000))
	r.want(200, r.send(ctx, "", "GET", "/apps", nil))
	rows, err = r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 1})
	r.must(err)
	same(t, "the operator", "uid:1000 apps.list true", rows[0].User+" "+rows[0].Action+" "+
		map[bool]string{true: "true"}[rows[0].Allowed])
}

func TestBadCalls(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for query, field := range map[string]string{
		"/processes?names=x":                                "names",
		"/processes?limit=0":                                "limit",
		"/processes?limit=1001":                             "limit",
		"/processes?limit=x":                                "limit",
		"/processes?limit=1&limit=2":                        "limit",
		"/processes?cursor=x":                               "cursor",
		"/processes?host=" + strings.Repeat("x", 2049):      "host",
		"/processes?namespace=" + strings.Repeat("x", 2049): "namespace",
		"/hosts?host=x" + strings.Repeat("&host=*a*", 33):   "host",
		"/processes?spec=yes":                               "spec",
		"/hosts?state=up":                                   "state",
		"/tasks?state=up":                                   "state",
		"/tasks/x?wait=61":                                  "wait",
		"/tasks/x?wait=NaN":                                 "wait",
		"/tasks/x/results?outcome=x":                        "outcome",
		"/audit?since=yesterday":                            "since",
		"/audit?allowed=1":                                  "allowed",
		"/users?x=":                                         "x",
	} {
		r.refused(r.call("admin", "GET", query, nil), 422, field)
	}
	choices := r.call("admin", "GET", "/tasks/x/results?outcome=x", nil)
	if text := fmt.Sprint(choices.body["errors"]); !strings.Contains(text, "expected ok, failed or pending") {
		t.Errorf("a wrong choice is refused by %s", text)
	}
	r.refused(r.call("admin", "GET", "/nowhere", nil), 404, "")
	a := r.call("admin", "DELETE", "/tasks", nil)
	r.refused(a, 405, "")
	same(t, "allowed", "GET, POST", a.header.Get("Allow"))
	huge := `{"op":"start","targets":[{"namespace":"a","name":"` + strings.Repeat("x", 17<<20) + `"}]}`
	r.refused(r.call("admin", "POST", "/tasks", huge), 413, "")
}

// TestUnknownFieldsBesideOtherFaults: the faults of a body are told at once, those of unknown fields first.
func TestUnknownFieldsBesideOtherFaults(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for route, tt := range map[string]struct {
		body map[string]any
		want []string
	}{
		"/tasks": {
			map[string]any{
				"op": "dance", "host_timeout_seconds": 0, "colour": 1, "targets": []any{map[string]any{"nam": "x"}},
			},
			[]string{"colour", "host_timeout_seconds", "op", "targets[0].nam", "targets[0].namespace"},
		},
		"/schedules": {nightly("n n", map[string]any{"op": "restart", "colour": 1}), []string{
			"name", "request.colour", "request.processes",
		}},
		"/selections": {map[string]any{"op": "dance", "colour": 1, "hosts": []string{}}, []string{"colour", "hosts", "op"}},
		"/receivers":  {map[string]any{"name": "n n", "colour": 1, "url": "x"}, []string{"colour", "name", "url"}},
		"/users":      {map[string]any{"name": "n n", "colour": 1}, []string{"colour", "name"}},
		"/apps":       {map[string]any{"code": "n n", "colour": 1}, []string{"code", "colour"}},
		"/silences":   {map[string]any{"colour": 1, "select": "a="}, []string{"colour", "select"}},
	} {
		got := r.want(422, r.call("admin", "POST", route, tt.body)).faults()
		slices.Sort(got)
		for _, field := range tt.want {
			if !slices.Contains(got, field) {
				t.Errorf("%s: the faults are in %q, want %q", route, got, tt.want)
			}
		}
	}
}

// TestFieldsAreThoseThatAreSpeltSo: one in other letters is unknown, and one that is there twice is refused; labels are
// the caller's own.
func TestFieldsAreThoseThatAreSpeltSo(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	body := func(operation, target, identity string) string {
		return `{"op":"start"` + operation + `,"targets":[{"namespace":"a","name":"x","hosts":["web-1"]` + target +
			`}],"spec":{"labels":{"a":"1","A":"2"},
			"start":"x","process_name":"x","directory":"/","pid_file":"/x","user":"root"` + identity + `}}`
	}
	for field, text := range map[string]string{
		"Op": body(`,"Op":"stop"`, "", ""), "op": body(`,"op":"stop"`, "", ""),
		"Targets": body(`,"Targets":[]`, "", ""), "\u017fpec": body(`,"\u017fpec":null`, "", ""),
		"targets[0].Name": body("", `,"Name":"y"`, ""), "targets[0].hosts": body("", `,"hosts":[]`, ""),
		"spec.USER": body("", "", `,"USER":"nobody"`), "spec.user": body("", "", `,"user":"nobody"`),
	} {
		r.refused(r.call("admin", "POST", "/tasks", text), 422, field)
	}
	r.want(202, r.call("admin", "POST", "/tasks", body("", "", "")))
}

func TestHangingUpIsNoFailure(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	id := r.want(202,
		r.call("admin", "POST", "/tasks",
			`{"op":"start","targets":[{"namespace":"a","name":"x","hosts":["web-1"]}]}`)).body["id"].(string)
	ctx, cancel := context.WithCancel(call.WithOperator(context.Background(), access.LocalAdmin(0)))
	cancel()
	r.send(ctx, "", "GET", "/tasks/"+id+"?wait=60", nil)
	rows, err := r.store.ListAudit(t.Context(), store.AuditFilter{Limit: 1})
	r.must(err)
	same(t, "code", 499, rows[0].Code)
}

func TestAudit(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.call("nobody", "GET", "/processes", nil)
	r.call("admin", "GET", "/hosts", nil)
	r.call("admin", "GET", "/hosts", nil)
	a := r.want(200, r.call("admin", "GET", "/audit?limit=2", nil))
	same(t, "newest", []string{"hosts.list true", "hosts.list true"}, a.items("action", "allowed"))
	a = r.want(200, r.call("admin", "GET", "/audit?limit=2&action=processes.list&cursor="+a.cursor(), nil))
	same(t, "older", []string{"processes.list false nobody 401"}, a.items("action", "allowed", "app", "code"))
	a = r.want(200, r.call("admin", "GET", "/audit?allowed=false", nil))
	same(t, "denied", []string{"processes.list"}, a.items("action"))
	r.call("admin", "POST", "/apps", map[string]any{})
	r.want(200, r.call("admin", "POST", "/hosts/labels?dry_run=true", `{"hosts":["*"],"set":{"role":"web"}}`))
	a = r.want(200, r.call("admin", "GET", "/audit?limit=1", nil))
	same(t, "a dry run", []string{"hosts.label.dry-run true"}, a.items("action", "allowed"))
	a = r.want(200, r.call("admin", "GET", "/audit?changes=true", nil))
	same(t, "changes", []string{"apps.create"}, a.items("action"))
	r.app("plain", "read on a*")
	ctx := call.WithConsole(call.WithOperator(t.Context(), access.Principal{App: "plain", User: "anna"}), "a \x1b reason")
	r.want(200, r.send(ctx, "", "GET", "/audit?limit=1", nil))
	own := r.want(200, r.call("plain", "GET", "/audit", nil))
	same(t, "own records", []string{"audit.list plain console a ? reason"}, own.items("action", "app", "via", "reason"))
	r.refused(r.call("plain", "GET", "/audit?app=admin", nil), 403, "")
	r.app("auditor", "auditor on *")
	if rows := r.want(200, r.call("auditor", "GET", "/audit?app=admin", nil)).items("app"); len(rows) == 0 {
		t.Error("an auditor does not see the records of others")
	}
	r.refused(r.call("auditor", "GET", "/users", nil), 403, "")
	same(t, "from an address", 0, len(r.want(200, r.call("admin", "GET", "/audit?address=10.9.9.9", nil)).items("at")))
	if future := time.Now().Add(time.Hour).Format(time.RFC3339); len(r.want(200,
		r.call("admin", "GET", "/audit?since="+url.QueryEscape(future), nil)).items("at")) != 0 {
		t.Error("there are calls of the future")
	}
}

// text is a body as it went over the wire.
func (a answer) text(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(a.body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// full is a store whose disk is full.
type full struct{ since time.Time }

func (f full) FullSince() time.Time { return f.since }

// TestFullDisk: a refusal says why, and each answer that it is old.
func TestFullDisk(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("web/nginx@" + web + " running")
	since := time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
	r.remake(func(c *api.Config) { c.Fullness = full{since} })
	r.engine.full = &store.FullError{Since: since, Err: errors.New("no space left on device")}
	const reason = "the disk of the server's database is full, since 2026-11-20T10:30:00Z"
	order := map[string]any{"op": "start", "targets": []any{map[string]any{"namespace": "web", "name": "nginx"}}}
	refused := r.want(http.StatusInsufficientStorage, r.call("admin", http.MethodPost, "/tasks", order))
	if detail := fmt.Sprint(refused.body["detail"]); !strings.HasPrefix(detail, "cannot accept the operation: "+
		reason) {
		t.Errorf("start: %s", detail)
	}
	list := r.want(http.StatusOK, r.call("admin", http.MethodGet, "/processes", nil))
	if !strings.HasPrefix(list.header.Get("X-Drover-Notice"), reason) || list.items("stale")[0] != "true" {
		t.Errorf("list: %v %v", list.header, list.body)
	}
}

// TestDatabaseThatIsAway: a call that fails because the database does not answer says so, with the status of a server that
// cannot answer now; of another fault only the log tells.
func TestDatabaseThatIsAway(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.observe("web/nginx@" + web + " running")
	order := map[string]any{"op": "start", "targets": []any{map[string]any{"namespace": "web", "name": "nginx"}}}
	for status, fault := range map[int]error{
		http.StatusServiceUnavailable:  fmt.Errorf("%w: connection refused", store.ErrAway),
		http.StatusInternalServerError: errors.New("a fault"),
	} {
		r.engine.full = fault
		refused := r.want(status, r.call("admin", http.MethodPost, "/tasks", order))
		detail := fmt.Sprint(refused.body["detail"])
		if away := strings.Contains(detail, "the server's database is away; try again later"); away != errors.Is(fault, store.ErrAway) {
			t.Errorf("%v: %s", fault, detail)
		}
	}
}

// TestNumbersOutOfRange: a number that would become a default in silence, or that nobody can mean, is refused with its
// field and bound.
func TestNumbersOutOfRange(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	register := func(part string) answer {
		return r.call("admin", http.MethodPost, "/tasks",
			`{"op":"register","targets":[{"namespace":"web","name":"x","hosts":["`+"0:10.0.0.1"+`"]}],"spec":{
			"process_name":"x","user":"root","start":"x",`+part+`}}`)
	}
	for part, want := range map[string]string{
		`"timeouts":{"start":"2h"}`:                           "spec.timeouts.start: is 2h: expected at most 1h",
		`"timeouts":{"start":"0s","stop":1}`:                  `spec.timeouts.stop: "1" is not a duration: expected a value such as 500ms, 10s, 5m, 1h30m or 30d; spec.timeouts.start: is 0s: expected a duration above 0`,
		`"schedule":{"every":"40d"}`:                          "spec.schedule.every: is 40d: expected at most 30d",
		`"thresholds":{"cpu":101},"limits":{"tasks":-1}`:      "spec.limits.tasks: is -1: expected a number above 0; spec.thresholds.cpu: is 101%: expected at most 100%, which is the whole machine",
		`"limits":{"memory":"1KiB"}`:                          "spec.limits.memory: is 1024: expected 4194304 to 1125899906842624 bytes, or 0 for none",
		`"schedule":{"cron":"*/5 * * * *","jitter":"86000s"}`: "spec.schedule.jitter: is 23h53m20s: expected less than the 5m between two runs",
		`"hosts":["a"]`:                                       "spec.hosts: is not for this call: the targets name the hosts",
	} {
		a := register(part)
		if got := fmt.Sprint(a.body["detail"]); a.status != http.StatusUnprocessableEntity || got != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", part, a.status, got, want)
		}
	}
}

// TestPollsAreNoRows: who looks after his own task leaves no row for it, however often; another one does.
func TestPollsAreNoRows(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	r.app("other")
	r.observe("web/nginx@" + web + " running")
	order := map[string]any{"op": "stop", "targets": []any{map[string]any{"namespace": "web", "name": "nginx"}}}
	id := fmt.Sprint(r.want(http.StatusAccepted, r.call("admin", http.MethodPost, "/tasks", order)).body["id"])
	for range 3 {
		r.want(http.StatusOK, r.call("admin", http.MethodGet, "/tasks/"+id, nil))
	}
	r.want(http.StatusNotFound, r.call("admin", http.MethodGet, "/tasks/none", nil))
	r.want(http.StatusOK, r.call("other", http.MethodGet, "/tasks/"+id, nil))
	rows := r.want(http.StatusOK, r.call("admin", http.MethodGet, "/audit?action=tasks.get", nil)).items("app",
		"target")
	if want := []string{"other " + id, "admin none"}; !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
}

// TestAllFaultsAtOnce: a request with several faults is refused for all of them, in fields and in words.
func TestAllFaultsAtOnce(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	long := strings.Repeat("x", 2000)
	for _, refused := range []struct {
		method, path string
		body         any
		fields       string
	}{
		{"POST", "/silences", map[string]any{
			"processes": []string{"shop", "a/b", "/x"}, "select": "a b", "labels": "a=", "message": long, "seconds": -1,
			"from": "2001-01-01T00:00:00Z",
		}, "processes[0] processes[2] select labels message from seconds"},
		{"POST", "/silences", `{"processes":["a/b"],"cron":"x","time_zone":"Nowhere/Land"}`, "time_zone cron seconds"},
		{"POST", "/schedules", map[string]any{
			"name": "a b", "cron": "99 * * * *", "time_zone": "x", "message": long,
			"request": map[string]any{"op": "start", "at": "03:00", "targets": []any{}},
		}, "time_zone cron message name request.processes request.at"},
		{
			"POST", "/schedules", `{"name":"n","cron":"0 3 * * *","request":{"op":"start","processes":["x"],"labels":"="}}`,
			"request.processes[0] request.labels",
		},
		{"POST", "/tokens", map[string]any{
			"role": "king", "cloud": -1, "business": -1, "uses": 0, "ttl_seconds": 0, "note": long,
			"labels": map[string]string{"a b": "c", "x y": "z"},
		}, "note role cloud business uses ttl_seconds labels labels"},
		{
			"POST", "/apps", `{"code":"a b","grants":[{"operations":["fly"]},{"max_targets":-1}],"limits":{"rate":-1}}`,
			"code grants[0].namespaces grants[0].operations[0] grants[1].operations grants[1].namespaces grants[1].max_targets " +
				"limits.rate",
		},
		{"POST", "/users", `{"name":"","grants":[{"operations":["fly"]}]}`, "name grants[0].namespaces grants[0].operations[0]"},
		{
			"POST", "/tasks", `{"op":"start","targets":[{"namespace":"","name":"x"},{"namespace":"n","name":"x","hosts":[""]}],
			"select":"a b","signal":"HUP","host_timeout_seconds":0,"rollout":{"canary":-1,"order":"x y"}}`,
			"targets[0].namespace targets[1].hosts[0] select host_timeout_seconds signal rollout.batch rollout.canary rollout.order",
		},
		{
			"POST", "/tasks", `{"op":"fly","processes":["a/x"],"hosts":[],"labels":"","host_timeout_seconds":0}`,
			"op hosts labels host_timeout_seconds",
		},
		{"POST", "/tasks", `{"op":"start","targets":[{"namespace":"n","name":"x","hosts":[]}]}`, "targets[0].hosts"},
		{"POST", "/tasks", `{"op":"start","processes":["a/x"],"take_over":true,"beside":true}`, "beside"},
		{"POST", "/tasks", `{"op":"restart","processes":["a/x"],"take_over":true}`, "take_over"},
		{
			"POST", "/schedules", `{"name":"n","cron":"0 3 * * *","request":{"op":"start","processes":["a/x"],"beside":true}}`,
			"request.take_over",
		},
		{"POST", "/receivers", map[string]any{
			"name": "a b", "kind": "email", "url": "http://x", "mail": map[string]any{"from": "x", "to": []string{"y"}},
			"severities": []string{"loud"}, "kinds": []string{"odd"}, "select": "a b", "labels": "=",
		}, "name url mail.from mail.to[0] severities[0] kinds[0] select labels"},
		{"POST", "/receivers", `{"name":"","kind":"pigeon","url":"x"}`, "name kind"},
		{"GET", "/processes?limit=0&namespac=x&stat=y", nil, "limit namespac stat"},
	} {
		a := r.want(422, r.call("admin", refused.method, refused.path, refused.body))
		same(t, refused.method+" "+refused.path, refused.fields, strings.Join(a.faults(), " "))
		for _, field := range a.faults() {
			if !strings.Contains(a.body["detail"].(string), field+": ") {
				t.Errorf("%s: %s is not in the detail %q", refused.path, field, a.body["detail"])
			}
		}
	}
}
