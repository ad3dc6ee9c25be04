package httpapi_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

const anyResult = `"task_id": "GSETASK:S:1:1"`

func TestCredentials(t *testing.T) {
	tests := []struct {
		name   string
		header string // X-Bkapi-Authorization
		query  string
		body   string // beside the parameters
		ok     bool
		text   string // part of the message below /compapi/
		code   int    // there; 1306000 when 0
	}{
		{
			name: "in the body",
			body: `"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "admin"`,
			ok:   true,
		},
		{
			name: "in the body, old names",
			body: `"app_code": "drover-test", "app_secret": "right-secret-right-secret", "username": "admin"`,
			ok:   true,
		},
		{
			name:  "in the query",
			query: "bk_app_code=drover-test&bk_app_secret=right-secret-right-secret&bk_username=admin", ok: true,
		},
		{
			name:   "in the header",
			header: `{"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "admin"}`, ok: true,
		},
		{
			name:   "header over body",
			header: `{"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "admin"}`, body: `"bk_app_code": "x", "bk_app_secret": "y"`, ok: true,
		},
		{
			name: "header alone counts", header: `{}`,
			body: `"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "admin"`,
			text: "APP Code [bk_app_code] cannot be empty",
		},
		{
			name: "body over query", query: "bk_app_code=drover-test&bk_app_secret=wrong&bk_username=admin",
			body: `"bk_app_secret": "right-secret-right-secret"`, ok: true,
		},
		{
			name: "a token beside the user is ignored",
			body: `"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "admin", "bk_token": "xxx"`, ok: true,
		},
		{name: "header is no JSON", header: `Bearer x`, text: "X-Bkapi-Authorization", code: 1306406},
		{name: "header is a list", header: `[]`, text: "X-Bkapi-Authorization", code: 1306406},
		{name: "nothing", text: "APP Code [bk_app_code] cannot be empty"},
		{name: "no secret", body: `"bk_app_code": "drover-test"`, text: "APP Secret [bk_app_secret] cannot be empty"},
		{
			name: "secret is an object", body: `"bk_app_code": "drover-test", "bk_app_secret": {}`,
			text: "APP Secret [bk_app_secret] cannot be empty",
		},
		{
			name: "signature", query: "bk_signature=abc&bk_nonce=1&bk_timestamp=2", body: `"bk_app_code": "drover-test"`,
			text: "Signature [bk_signature] verification failed",
		},
		{
			name: "access token", body: `"bk_app_code": "drover-test", "access_token": "x"`,
			text: "verify access_token failed",
		},
		{
			name: "unknown app", body: `"bk_app_code": "nobody", "bk_app_secret": "y", "bk_username": "admin"`,
			text: "Invalid APP Code [bk_app_code=nobody]",
		},
		{name: "long app code", body: `"bk_app_code": "` + strings.Repeat("x", 5000) +
			`", "bk_app_secret": "y", "bk_username": "admin"`, text: "Invalid APP Code"},
		{
			name: "wrong secret", body: `"bk_app_code": "drover-test", "bk_app_secret": "wrong", "bk_username": "admin"`,
			text: "APP Secret verification failed",
		},
		{
			name: "another app's secret",
			body: `"bk_app_code": "drover-test", "bk_app_secret": "other-secret", "bk_username": "admin"`,
			text: "APP Secret verification failed",
		},
		{name: "endless secret", body: `"bk_app_code": "drover-test", "bk_app_secret": "` + strings.Repeat("x", 5000) +
			`", "bk_username": "admin"`, text: "APP Secret verification failed"},
		{
			name: "no user", body: `"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret"`,
			text: "please provide a valid user identity, such as bk_token, bk_username",
		},
		{
			name: "token alone",
			body: `"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_token": "xxx"`,
			text: "please check if the bk_token is valid",
		},
		{
			name: "long user",
			body: `"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "` +
				strings.Repeat("x", 200) + `"`, text: "longer than",
		},
		{
			name: "user with an escape",
			body: `"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "a\u001b[2J"`, text: "control character",
		},
		{
			name: "an app that may not name users",
			body: `"bk_app_code": "no-names", "bk_app_secret": "third-secret", "bk_username": "admin"`,
			text: "may not name a user",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for family, path := range map[string]string{
				"esb":     esbGSE + "get_proc_operate_result_v2/",
				"gateway": gatewayV2 + "get_proc_operate_result_v2",
			} {
				w := newWorld(t)
				body := "{" + anyResult + "}"
				if tt.body != "" {
					body = "{" + anyResult + ", " + tt.body + "}"
				}
				r := httptest.NewRequest(http.MethodPost, path+"?"+tt.query, strings.NewReader(body))
				if tt.header != "" {
					r.Header.Set("X-Bkapi-Authorization", tt.header)
				}
				got := w.send(r)
				row := w.lastAudit()
				if tt.ok {
					got.refused(t, 200, 1000101) // let in: the task is unknown
					if !row.Allowed || row.App != appCode || row.User != "admin" {
						t.Errorf("%s: audit row is %+v", family, row)
					}
					continue
				}
				status, code := 200, tt.code
				if code == 0 {
					code = 1306000
				}
				if family == "gateway" {
					status, code = 400, 1640001
					if got.CodeName != "INVALID_ARGS" ||
						!strings.HasPrefix(*got.Message, `Parameters error [reason="`) {
						t.Errorf("gateway answers %s", got.Raw)
					}
					if got.Header.Get("X-Bkapi-Error-Code") != "1640001" {
						t.Errorf("X-Bkapi-Error-Code is %q", got.Header.Get("X-Bkapi-Error-Code"))
					}
				} else if !strings.Contains(*got.Message, tt.text) {
					t.Errorf("message %q lacks %q", *got.Message, tt.text)
				}
				got.refused(t, status, code)
				if row.Allowed || row.Code != code || row.Action != "get_proc_operate_result_v2" ||
					row.RequestID != got.RequestID {
					t.Errorf("%s: a denial is audited as %+v", family, row)
				}
			}
		})
	}
}

func TestCredentialsInAFormAndAQuery(t *testing.T) {
	w := newWorld(t)
	task := w.taskID(esbGSE+"operate_proc_v2/", exampleOperate(0))
	form := url.Values{
		"bk_app_code": {appCode}, "bk_app_secret": {appSecret}, "bk_username": {"admin"},
		"task_id": {task},
	}
	var data map[string]entry
	w.send(httptest.NewRequest(http.MethodPost, esbGSE+"get_proc_operate_result_v2/",
		strings.NewReader(form.Encode()))).ok(t, &data)
	w.send(httptest.NewRequest(http.MethodGet, esbGSE+"get_proc_operate_result_v2/?"+form.Encode(), nil)).ok(t, &data)
	if len(data) != 1 {
		t.Errorf("data is %v", data)
	}
	t.Run("lists and objects in a query are JSON", func(t *testing.T) {
		form.Set("meta", `{"namespace": "gse", "name": "x"}`)
		form.Set("agent_id_list", `["0:10.0.0.1"]`)
		var rows struct {
			Rows []map[string]any `json:"proc_infos"`
		}
		w.send(httptest.NewRequest(http.MethodGet, esbGSE+"get_proc_status_v2/?"+form.Encode(), nil)).ok(t, &rows)
		if len(rows.Rows) != 1 {
			t.Errorf("rows are %v", rows)
		}
	})
	t.Run("a GET may have a JSON body", func(t *testing.T) {
		body := `{"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "admin", "task_id": "` + task + `"}`
		w.send(httptest.NewRequest(http.MethodGet, esbGSE+"get_proc_operate_result_v2/", strings.NewReader(body))).ok(t,
			&data)
	})
}

func TestNoSecretIsRecorded(t *testing.T) {
	w := newWorld(t)
	for _, secret := range []string{appSecret, "wrong-planted-secret"} {
		got := w.postAs(appCode, secret, esbGSE+"operate_proc_v2/", `{"bk_app_secret": "`+secret+`", `+
			exampleOperate(0)[1:])
		if bytes.Contains(got.Raw, []byte(secret)) {
			t.Errorf("the reply holds the secret: %s", got.Raw)
		}
	}
	if len(w.audit) != 2 {
		t.Fatalf("%d audit rows, want 2", len(w.audit))
	}
	for _, row := range w.audit {
		if s := row.Message + row.Target + row.User + row.App + string(row.Detail); strings.Contains(s, "secret-") {
			t.Errorf("audit row holds a secret: %+v", row)
		}
	}
}

func TestEveryCallIsAuditedOnce(t *testing.T) {
	w := newWorld(t)
	w.answer = succeed
	task := w.taskID(esbGSE+"operate_proc_multi/", `{"proc_operate_req": [`+exampleOperate(0)+","+exampleOperate(1)+
		`]}`)
	row := w.lastAudit()
	if len(w.audit) != 1 || !row.Allowed || row.Action != "operate_proc_multi" || row.Targets != 2 ||
		row.Target != "gse/proc-test and 1 more" ||
		!strings.Contains(string(row.Detail), task) || !strings.Contains(string(row.Detail), `"start":1`) ||
		row.Remote != "192.0.2.1" {
		t.Errorf("submit is audited as %+v", w.audit)
	}
	w.poll(task)
	if row := w.lastAudit(); len(w.audit) != 2 || row.Action != "get_proc_operate_result_v2" || row.Target != task ||
		row.Targets != 2 {
		t.Errorf("poll is audited as %+v", w.audit[1:])
	}
	w.post(esbGSE+"operate_proc_v2/", `{}`)
	if row := w.lastAudit(); len(w.audit) != 3 || row.Code != 1306406 || !row.Allowed {
		t.Errorf("refusal is audited as %+v", w.audit[2:])
	}
	w.post(esbGSE+"register_proc_info/", exampleOperate(0))
	if len(w.audit) != 4 {
		t.Errorf("registration is audited as %+v", w.audit[3:])
	}
	w.storeErr = errors.New("disk is full")
	w.post(esbGSE+"operate_proc_v2/", exampleOperate(0)).refused(t, 200, 1306201)
	if row := w.lastAudit(); len(w.audit) != 5 || row.Code != 1306201 || strings.Contains(row.Message, "disk") {
		t.Errorf("failure is audited as %+v", w.audit[4:])
	}
	w.appsErr = errors.New("disk is full")
	w.post(esbGSE+"operate_proc_v2/", exampleOperate(0)).refused(t, 200, 1306201)
	if row := w.lastAudit(); len(w.audit) != 6 || row.Allowed {
		t.Errorf("failure is audited as %+v", w.audit[5:])
	}
}

func TestSecretsOfAnApp(t *testing.T) {
	w := newWorld(t)
	path := esbGSE + "get_proc_operate_result_v2/"
	in := func(secret string) {
		t.Helper()
		w.postAs("hashed", secret, path, `{"task_id": "x"}`).refused(t, 200, 1000101)
	}
	out := func(secret string) {
		t.Helper()
		w.postAs("hashed", secret, path, `{"task_id": "x"}`).refused(t, 200, 1306000)
	}
	set := func(secrets ...store.Secret) {
		w.apps["hashed"] = store.App{Code: "hashed", Secrets: secrets, MayNameUsers: true, Admin: true}
	}
	secret := func(id, text string, expires time.Time) store.Secret {
		return store.Secret{ID: id, Hash: access.Secrets{}.Hash(text), Expires: expires}
	}
	set(secret("1", "old", time.Time{}))
	in("old")
	out("old ")
	out("new")
	t.Run("two count during a rotation, until the old one expires", func(t *testing.T) {
		set(secret("1", "old", w.now.Add(time.Hour)), secret("2", "new", time.Time{}))
		for range 2 {
			in("old")
			in("new")
			out("other")
		}
		w.now = w.now.Add(time.Hour)
		out("old")
		in("new")
	})
	t.Run("a changed secret counts at once", func(t *testing.T) {
		set(secret("2", "newest", time.Time{}))
		out("new")
		in("newest")
	})
	t.Run("no secret lets nobody in", func(t *testing.T) {
		set()
		out("newest")
	})
	t.Run("a removed app is out at once", func(t *testing.T) {
		delete(w.apps, "hashed")
		out("newest")
	})
	t.Run("a broken hash lets nobody in", func(t *testing.T) {
		set(store.Secret{ID: "1", Hash: "plain"})
		out("plain")
	})
	t.Run("a disabled app is told so only when it shows its secret", func(t *testing.T) {
		w.apps["hashed"] = store.App{Code: "hashed", Secrets: storedSecret("s"), MayNameUsers: true, Disabled: true}
		if got := w.postAs("hashed", "s", path, `{}`); !strings.Contains(*got.Message, "disabled") {
			t.Errorf("answer is %s", got.Raw)
		}
		if got := w.postAs("hashed", "wrong", path, `{}`); strings.Contains(*got.Message, "disabled") {
			t.Errorf("answer is %s", got.Raw)
		}
	})
}
