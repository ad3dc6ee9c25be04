package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

// exchange is a call of an example, and the answer of a drover server to it.
type exchange struct {
	// call is the method and the path below /api/v1, without the limit of a full page.
	call string
	// sent is the body of the call; empty if it has none.
	sent   string
	status int
	answer string
}

// Parts of several answers.
const (
	at    = `"2026-03-01T12:00:00Z"`
	host  = `{"id":"web-1","cloud":0,"ip":"10.0.0.1","online":true,"last_seen":` + at + `}`
	cause = `{"id":"exit-status","text":"it exited with status 1","since":` + at + `}`
	nginx = `"namespace":"web","name":"nginx"`

	processBody = `{` + nginx + `,"host":` + host + `,"state":"given-up","stale":false,"hosted":true,` +
		`"want":"running","cause":` + cause
	eventBody = `{"cursor":%d,"at":` + at + `,"received_at":` + at + `,"host":` + host + `,` + nginx + `,` +
		`"kind":"exited","from":"running","to":"backoff","pid":4711,"exit":{"known":true,"code":1}}`
	operationBody = `{"id":"op-1","op":"restart","subject":"web/nginx","requests":1,"app":"shop","user":"anna",` +
		`"request_id":"r-1","created_at":` + at + `,"state":"%s","counts":{"targets":2,"ok":%d,"failed":%d,` +
		`"pending":%d}}`
	appBody = `{"code":"shop","note":"%s","admin":false,"may_name_users":true,"disabled":false,` +
		`"grants":[{"operations":["restart"],"namespaces":["web"]}],"limits":{"rate":10},` +
		`"secrets":[{"id":"s-1","created_at":` + at + `}],"created_at":` + at + `,"changed_at":` + at
	userBody  = `{"name":"anna","note":"on call","disabled":%t,"admin":false,"grants":[],"created_at":` + at + `}`
	tokenBody = `{"id":"t-1","kind":"token","user":"anna","note":"laptop","created_at":` + at + `,` +
		`"expires_at":"2026-03-02T12:00:00Z"`
	joinTokenBody = `{"id":"5f0c","state":"open","role":"agent","cloud":0,"labels":{"rack":"a"},"uses":10,"used":3,` +
		`"created_at":` + at + `,"expires_at":"2026-03-02T12:00:00Z"`
	rolloutBody = `{"id":"ro-1","op":"restart","processes":["web/nginx"],"app":"shop","user":"anna","request_id":"r-1",` +
		`"created_at":` + at + `,"plan":{"batch":"10%%","canary":1},"state":"%s","reason":"%s","batch":0,` +
		`"counts":{"hosts":20,"waiting":19,"begun":0,"baking":0,"ok":0,"failed":1,"skipped":0}}`
	packageBody = `{"version":"1.4.0","arch":"amd64","format":1,"size":300000,"sha256":"5f","key":"drk1-07",` +
		`"signed_at":` + at + `,"added_by":"anna","added_at":` + at + `%s}`
	receiverBody = `{"name":"ops","kind":"webhook","url":"https://ops.example/alarms","namespaces":[%s],"local":false,` +
		`"created_at":` + at + `,"changed_at":` + at + `,"delivery":{"lag":2,"failures":1,"error":"HTTP 503"}`
	silenceBody = `{"id":"s1","state":"%s","processes":["web/*"],"from":` + at + `,"until":"2026-03-01T14:00:00Z",` +
		`"message":"kernel","user":"anna","created_at":` + at + `,"withheld":3}`
	breakerBody = `{"namespace":"web","name":"nginx","revision":16,"cause":"exit-status","failed":37,"hosts":100,` +
		`"opened_at":` + at + `,"until_at":"2026-03-01T12:05:00Z"%s}`
	scheduleBody = `{"name":"nightly","cron":"0 3 * * *","time_zone":"UTC","request":{"op":"restart",` +
		`"processes":["web/*"],"select":"role=web"},"state":"%s","app":"shop","user":"anna","created_at":` + at +
		`,"next_at":["2026-03-02T03:00:00Z"],"missed":1,` +
		`"runs":[{"due_at":"2026-03-01T03:00:00Z","state":"missed","message":"no server ran"}]}`
	webFile = `{"namespace":"web","processes":{"nginx":{"hosts":["web-1"],"start":"./nginx",` +
		`"pid_file":"/run/nginx.pid","restart":{"delay":"5s"}}}}`
	keysBody = `{"keys":[{"kind":"manifest","id":"KOLD","stage":"present","since":` + at + `}%s],"online":3,` +
		`"reached":%d}`
)

// page is a page of a list with one item, and the last page.
func page(item string) string { return `{"items":[` + item + `]}` }

// exchanges lists all calls of the examples.
func exchanges() []exchange {
	events := `{"items":[` + fmt.Sprintf(eventBody, 41) + `],"last":41}`
	stream := "id: 42\nevent: exited\ndata: " + fmt.Sprintf(eventBody, 42) + "\n\n"
	operation := fmt.Sprintf(operationBody, "running", 0, 0, 2)
	done := fmt.Sprintf(operationBody, "done", 1, 1, 0)
	app, user, hook := fmt.Sprintf(appBody, "web shop"), fmt.Sprintf(userBody, false), fmt.Sprintf(receiverBody, "")
	paused := fmt.Sprintf(rolloutBody, "paused", "1 of 20 hosts failed among the canaries")
	going, aborted := fmt.Sprintf(rolloutBody, "running", ""), fmt.Sprintf(rolloutBody, "aborted", "")
	return []exchange{
		{"GET /processes?namespace=web&state=given-up", "", 200, page(processBody + `}`)},
		{"GET /processes/web/nginx", "", 200, page(processBody + `,"spec":{"start":"./nginx",` +
			`"pid_file":"/run/nginx.pid","process_name":"nginx","directory":"/srv/nginx","user":"www"}}`)},
		{
			"GET /overview?namespace=web", "", 200,
			`{"processes":{"states":{"given-up":1,"running":7},"stale":2,"total":10},"wrong":1,"causes":[{"id":"exit-status",` +
				`"title":"Ended with an error","severity":"critical","count":1,"meaning":"m","remedy":"r","page":"p","hosts":1,` +
				`"processes":[{"namespace":"web","name":"nginx","count":1}],"trend":[0,0,0,0,0,0,0,0,0,0,0,1]}],"hosts":{"online":4,"away":1}}`,
		},
		{
			"GET /processes?cause=exit-status&count=true&limit=50&search=web%2F", "", 200, `{"items":[` + processBody + `}],"total":1}`,
		},
		{
			"GET /processes?count=true&group=process&limit=2&sort=-wrong", "", 200,
			`{"items":[{"key":"web/nginx","states":{"given-up":1},"stale":0,"total":1,"hosts":1,"hosted":1,"wrong":1},` +
				`{"key":"web/php","states":{"running":9},"stale":0,"total":9,"hosts":9,"hosted":9,"wrong":0}],` +
				`"next_cursor":"c","total":7}`,
		},
		{
			"POST /selections?namespace=web&state=given-up", `{"op":"retry","except":[{"namespace":"web","name":"php"}]}`, 201,
			selectionBody,
		},
		{"GET /selections/sel-x", "", 200, selectionBody},
		{
			"GET /processes/counts?namespace=web", "", 200,
			`{"states":{"given-up":1,"running":7},"stale":2,"total":10}`,
		},
		{
			"GET /processes?at=2026-03-01T12%3A00%3A00Z&namespace=web", "", 200, `{"items":[` +
				processBody + `},{` + nginx + `,"host":{"id":"web-2","cloud":0,"ip":"10.0.0.2","online":false},` +
				`"state":"unknown","stale":true,"hosted":false,"unknown":{"since":"2026-03-01T11:58:00Z","why":"not-heard",` +
				`"text":"no agent ran on the host, or the server has not heard it since","last":"running"}}],"past":{"at":` +
				at + `,"kept_since":"2026-02-22T12:00:00Z"}}`,
		},
		{
			"GET /changes?from=2026-03-01T12%3A00%3A00Z&process=web%2F%2A&to=2026-03-01T12%3A05%3A00Z", "", 200,
			`{"from":` + at + `,"past":{"at":"2026-03-01T12:05:00Z"},"groups":[{"from":"running","to":"given-up",` +
				`"cause":"exit-status","count":1,"hosts":1}],"changed":1,"unknown":0,"processes":[{` + nginx + `,"host":` +
				host + `,"from":"running","to":"given-up","cause":` + cause + `,"at":` + at + `,"from_pid":4711}],` +
				`"revisions":[],"operations":[],"rollouts":[],"hosts":[{"host":` + host + `,"at":` + at +
				`,"kind":"back","text":"after 20s"}],"operations_kept_since":"2026-02-22T12:10:00Z"}`,
		},
		{"GET /processes/web/nginx/logs?host=web-1&tail=2", "", 200, `{"host":"web-1","name":"nginx","time":` + at +
			`,"stream":"stderr","run":3,"text":"bind: address in use"}` + "\n" +
			`{"host":"web-1","name":"nginx","time":` + at + `,"stream":"stderr","run":3,"text":"giving up"}` + "\n"},
		{"GET /processes/web/nginx/hosts/web-1/usage?last=1h", "", 200, `{` + nginx + `,"host":` + host +
			`,"step_seconds":30,"start":"2026-03-01T11:00:00Z","end":` + at + `,"steps":[{"at":"2026-03-01T11:59:00Z","cpu_percent":0.5,` +
			`"memory_bytes":104857600,"open_files":12},{"at":` + at + `,"cpu_percent":1.25,"memory_bytes":209715200,` +
			`"restarted":true}]}`},
		{"GET /namespaces/web", "", 200, `{"namespace":"web","processes":{"nginx":{"hosts":["web-1"],"start":"./nginx",` +
			`"pid_file":"/run/nginx.pid","restart":{"delay":"5s"}}}}`},
		{"GET /namespaces/web?revision=15", "", 200, `{"namespace":"web","revision":15,"processes":{"nginx":{` +
			`"hosts":["web-1"],"start":"./nginx","pid_file":"/run/nginx.pid"}}}`},
		{"GET /namespaces/web/revisions?limit=1", "", 200, page(`{"number":16,"at":` + at + `,"app":"shop",` +
			`"user":"anna","through":"apply","message":"slower","operation":"op-1","changes":[{"process":"nginx",` +
			`"action":"change","hosts":1,"fields":[{"path":"restart.delay","class":"live"}]}]}`)},
		{"GET /namespaces/web/diff?from=15&to=16", "", 200, `{"namespace":"web","changes":[{"process":"nginx",` +
			`"action":"change","hosts":["web-1"],"fields":[{"path":"restart.delay","class":"live",` +
			`"from":null,"to":"5s"}]}]}`},
		{"PUT /namespaces/web?dry_run=true", webFile, 200, `{"namespace":"web","changes":[{"process":"nginx",` +
			`"action":"change","op":"update","hosts":["web-1"],"fields":[{"path":"restart.delay","class":"live",` +
			`"from":null,"to":"5s"}]}]}`},
		{"PUT /namespaces/web?prune=true", webFile, 202, `{"namespace":"web","changes":[{"process":"nginx",` +
			`"action":"change","op":"update","hosts":["web-1"]}],"operation":` + operation + `}`},
		{"GET /why?namespace=web", "", 200, `{"findings":[{` + nginx + `,"host":` + host + `,"state":"given-up",` +
			`"wrong":true,"severity":"critical","cause":` + cause + `,` +
			`"impact":"it is down until somebody starts or retries it"}],` +
			`"causes":[{"id":"exit-status","title":"Ended with an error","severity":"critical","count":1,` +
			`"meaning":"The process ended by itself with an exit status other than 0.",` +
			`"remedy":"Read its last output and its log, and fix the error; then run ` + "`drover retry`" + `.",` +
			`"page":"docs/why/exit-status.md"}],"wrong":1,"total":10}`},
		{"GET /drift?namespace=web", "", 200, `{"items":[{"namespace":"web","name":"nginx","host":"web-1",` +
			`"kind":"process","field":"limits.open_files","want":"512","have":"100",` +
			`"text":"the running process differs from its spec",` +
			`"mend":"drover restart web/nginx --hosts web-1"}],"total":1,"processes":1,"unasked":[]}`},
		{"GET /hosts?policy=limited&state=online", "", 200, page(host[:len(host)-1] + `,"key":"UWEB1","build":"1.2.3",` +
			`"joined_at":` + at + `}`)},
		{"GET /hosts/counts?group=os", "", 200, `{"hosts":3,"online":2,"groups":[{"value":"debian","hosts":3,"online":2}]}`},
		{
			"POST /hosts/labels", `{"hosts":["web-*"],"set":{"role":"web"},"remove":["zone"]}`, 200,
			`{"hosts":["web-1"]}`,
		},
		{
			"POST /hosts/labels?dry_run=true", `{"hosts":["web-1"],"set":{"role":"db"}}`, 200,
			`{"hosts":["web-1"],"reselected":[{"select":"role=web","processes":["shop/api"],"come":0,"cease":1}]}`,
		},
		{"DELETE /hosts/web-1", "", 204, ""},
		{
			"POST /hosts/upgrade", `{"version":"1.4.0","select":"role=web","rollout":{"batch":"10%","canary":1}}`, 202,
			strings.NewReplacer("restart", "upgrade:1.4.0", "web/nginx", "drover/agent").Replace(going),
		},
		{
			"POST /hosts/upgrade?dry_run=true", `{"version":"1.4.0","select":"role=web"}`, 200,
			`{"targets":[{"namespace":"drover","name":"agent","hosts":["web-1","web-2"]}],"rollout":` +
				strings.NewReplacer("restart", "upgrade:1.4.0", "web/nginx", "drover/agent").Replace(going) + `}`,
		},
		{"POST /packages", `{"signed":"the signed text"}`, 201, fmt.Sprintf(packageBody, `,"missing":[0,1]`)},
		{"PUT /packages/1.4.0/amd64/pieces/0", `{"data":"AAEC"}`, 204, ""},
		{"GET /packages", "", 200, page(fmt.Sprintf(packageBody, ""))},
		{"DELETE /packages/1.4.0/amd64", "", 204, ""},

		{"GET /events?limit=10&namespace=web", "", 200, events},
		{"GET /events?kind=exited&limit=1", "", 200, events},
		{"GET /events/stream?after=41&kind=exited", "", 200, stream},
		{"GET /events/stream?after=41", "", 200, stream},

		{"POST /tasks", `{"op":"restart","targets":[{"namespace":"web","name":"nginx"}]}`, 202, operation},
		{
			"POST /tasks?dry_run=true", `{"op":"restart","targets":[{"namespace":"web","name":"nginx"}]}`, 200,
			`{"targets":[{"namespace":"web","name":"nginx","hosts":["web-1","web-2"]}]}`,
		},
		{"GET /tasks/op-1?wait=30", "", 200, done},
		{"POST /tasks/op-1/cancel", "", 200, `{"cancelled":1,"asked":1,"begun":0,"operation":` + operation + `}`},
		{
			"POST /tasks", `{"op":"restart","targets":[{"namespace":"web","name":"nginx"}],` +
				`"rollout":{"batch":"10%","canary":1}}`, 202, going,
		},
		{"GET /rollouts/ro-1", "", 200, paused},
		{"GET /rollouts?state=paused", "", 200, page(paused)},
		{"POST /rollouts/ro-1/pause", "", 200, paused},
		{"POST /rollouts/ro-1/resume", "", 200, going},
		{"POST /rollouts/ro-1/abort", "", 200, aborted},
		{"POST /rollouts/ro-1/retry", `{"away":true}`, 200, going},
		{"POST /rollouts/ro-1/pace?batch=5%25", "", 200, going},
		{"POST /rollouts/ro-1/approve", "", 200, going},
		{"POST /rollouts/ro-1/undo", "", 202, going},
		{"GET /tasks?state=running", "", 200, page(operation)},
		{"GET /tasks/op-1/results?outcome=failed", "", 200, page(`{` + nginx + `,"host":"web-1",` +
			`"op":"restart","outcome":"failed","message":"it exited with status 1","hosted":true}`)},

		{
			"POST /apps", `{"code":"shop","note":"web shop","grants":[{"operations":["restart"],"namespaces":["web"]}]}`,
			201, app + `,"secret":"SECRET"}`,
		},
		{"GET /apps", "", 200, page(app + `}`)},
		{"GET /apps/shop", "", 200, app + `}`},
		{"PATCH /apps/shop", `{"note":"new shop"}`, 200, fmt.Sprintf(appBody, "new shop") + `}`},
		{"POST /apps/shop/secrets", `{"keep_seconds":3600}`, 201, app + `,"secret":"SECRET2"}`},

		{"POST /users", `{"name":"anna","note":"on call"}`, 201, user},
		{"GET /users", "", 200, page(user)},
		{"GET /users/anna", "", 200, user},
		{"PATCH /users/anna", `{"disabled":true}`, 200, fmt.Sprintf(userBody, true)},
		{
			"GET /rights/check?host=web-1&operation=restart&process=web%2Fnginx&user=anna", "", 200,
			`{"user":"anna","allowed":true,"grants":[{"operations":["operator"],"namespaces":["web"]}],"short":[]}`,
		},
		{"POST /sign-ins", `{"user":"anna"}`, 201, `{"user":"anna",` +
			`"url":"https://drover.example.com:7350/ui/login#drovertok_X","expires_at":` + at + `}`},
		{"POST /sign-ins/devices", `{"name":"anna@laptop"}`, 201, `{"code":"BCDF-GHJK","path":"/ui/device",` +
			`"token":"drovertok_X","expires_at":` + at + `,"interval_seconds":2}`},
		{"POST /sign-ins/devices/state", `{"token":"drovertok_X"}`, 200, `{"state":"signed-in","user":"anna",` +
			`"expires_at":` + at + `}`},
		{"DELETE /sign-ins/own", "", 204, ""},
		{"GET /server", "", 200, `{"version":"1.2.3","now":` + at + `,"servers":1,"hosts":3,"hosts_online":2,` +
			`"certificates":[{"name":"ca","ends_at":` + at + `}],"disk":{"free_bytes":1000,"size_bytes":4000}}`},
		{"POST /users/anna/tokens", `{"note":"laptop","ttl_seconds":86400}`, 201, tokenBody + `,"token":"TOKEN"}`},
		{"GET /users/anna/tokens", "", 200, page(tokenBody + `}`)},
		{"DELETE /users/anna/tokens/t-1", "", 204, ""},
		{"GET /audit?allowed=false&limit=10", "", 200, page(`{"at":` + at + `,"app":"shop","user":"anna",` +
			`"remote":"10.0.0.9","request_id":"r-2","action":"tasks.create","target":"web/nginx",` +
			`"targets":1,"allowed":false,"code":403,"via":"api"}`)},

		{
			"POST /tokens", `{"cloud":0,"labels":{"rack":"a"},"uses":10,"ttl_seconds":86400}`, 201,
			joinTokenBody + `,"token":"dvt1.5f0c.SECRET.FINGERPRINT"}`,
		},
		{"GET /tokens", "", 200, page(joinTokenBody + `}`)},
		{"GET /tokens/5f0c", "", 200, joinTokenBody + `}`},
		{"DELETE /tokens/5f0c", "", 204, ""},
		{"GET /proxies", "", 200, page(`{"name":"edge","area":3,"key":"UEDGE","advertise":"192.0.2.1:7351",` +
			`"online":true,"agents":12,"build":"1.2.3","joined_at":` + at + `}`)},
		{"DELETE /proxies/edge", "", 204, ""},
		{"GET /keys", "", 200, fmt.Sprintf(keysBody, "", 3)},
		{"POST /keys/manifest/rotate", `{"keep_seconds":86400}`, 200, fmt.Sprintf(keysBody,
			`,{"kind":"manifest","id":"KNEW","stage":"next","since":`+at+`}`, 0)},
		{"DELETE /keys/manifest/KNEW", "", 204, ""},

		{"POST /receivers", `{"name":"ops","url":"https://ops.example/alarms"}`, 201, hook + `,"secret":"SECRET"}`},
		{"GET /receivers", "", 200, page(hook + `}`)},
		{"GET /receivers/ops", "", 200, hook + `}`},
		{"PATCH /receivers/ops", `{"namespaces":["web"]}`, 200, fmt.Sprintf(receiverBody, `"web"`) + `}`},
		{"POST /receivers/ops/secret", `{}`, 201, hook + `,"secret":"SECRET2"}`},
		{"POST /receivers/ops/test", "", 200, `{"delivered":false,"error":"HTTP 503","seconds":0.2}`},
		{"DELETE /receivers/ops", "", 204, ""},

		{
			"POST /silences", `{"processes":["web/*"],"seconds":7200,"message":"kernel"}`, 201,
			fmt.Sprintf(silenceBody, "active"),
		},
		{"GET /silences", "", 200, page(fmt.Sprintf(silenceBody, "active"))},
		{"GET /silences/s1", "", 200, fmt.Sprintf(silenceBody, "active")},
		{"DELETE /silences/s1", "", 200, fmt.Sprintf(silenceBody, "ended")},

		{
			"POST /schedules", `{"name":"nightly","cron":"0 3 * * *","time_zone":"UTC","request":{"op":"restart",` +
				`"processes":["web/*"],"select":"role=web"}}`, 201, fmt.Sprintf(scheduleBody, "active"),
		},
		{"GET /schedules", "", 200, page(fmt.Sprintf(scheduleBody, "active"))},
		{"GET /schedules/nightly", "", 200, fmt.Sprintf(scheduleBody, "active")},
		{"POST /schedules/nightly/pause", "", 200, fmt.Sprintf(scheduleBody, "paused")},
		{"POST /schedules/nightly/resume", "", 200, fmt.Sprintf(scheduleBody, "active")},
		{"POST /schedules/nightly/run", "", 202, fmt.Sprintf(scheduleBody, "active")},
		{"DELETE /schedules/nightly", "", 204, ""},

		{"GET /breakers", "", 200, page(fmt.Sprintf(breakerBody, ""))},
		{"POST /breakers/web/nginx/reset", "", 200, fmt.Sprintf(breakerBody, `,"closed_at":`+at+`,"closed_by":"anna"`)},
	}
}

// serveExample answers a call of the table. Any other call is rejected, so that an example that sends it fails.
func serveExample(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("limit") == "1000" {
		query.Del("limit")
	}
	call := r.Method + " " + strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1")
	if len(query) > 0 {
		call += "?" + query.Encode()
	}
	sent, _ := io.ReadAll(r.Body)
	for _, e := range exchanges() {
		if e.call != call || e.sent != string(bytes.TrimSpace(sent)) {
			continue
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(e.answer, "id:") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		if strings.Contains(call, "/logs?") {
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
		w.WriteHeader(e.status)
		_, _ = io.WriteString(w, e.answer)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(v1.Problem{
		Status: http.StatusNotFound, Title: "Not Found", Detail: "no example calls " + call + " with " + string(sent),
	})
}

// connect returns a client of a server that knows the calls of the examples only.
// selectionBody is a selection of one process.
const selectionBody = `{"id":"sel-x","expires_at":"2026-03-01T12:15:00Z","targets":1,"hosts":1,"away":0,` +
	`"namespaces":{"web":1},"sample":[{"namespace":"web","name":"nginx","host":"web-1"}],"denied_count":0}`

func connect() (c *client.Client, stop func()) {
	s := httptest.NewServer(http.HandlerFunc(serveExample))
	c, err := client.New(client.Config{URL: s.URL, AppCode: "shop", AppSecret: "secret", User: "anna"})
	if err != nil {
		panic(err)
	}
	return c, s.Close
}

// Restart a process on every host that knows it, wait until the operation is done, and print the failures.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(serveExample)) // in a program: a drover server
	defer server.Close()
	c, err := client.New(client.Config{URL: server.URL, AppCode: "shop", AppSecret: "secret", User: "anna"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	o, err := c.Submit(ctx, v1.Request{
		Op: "restart", Targets: []v1.Target{{Namespace: "web", Name: "nginx"}},
	})
	for err == nil && !o.Done() {
		o, err = c.Task(ctx, o.ID, 30*time.Second)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d ok, %d failed\n", o.Counts.OK, o.Counts.Failed)
	for r, err := range c.Results(ctx, o.ID, client.ResultFilter{Outcome: "failed"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Host, r.Message)
	}
	// Output:
	// 1 ok, 1 failed
	// web-1 it exited with status 1
}
