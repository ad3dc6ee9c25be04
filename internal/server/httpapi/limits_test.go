package httpapi_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// request is a POST with credentials in the header; an empty secret leaves it out.
func request(path, code, secret, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"admin"}`,
		code, secret))
	return r
}

func (w *world) limit(l access.Limits) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apps["limited"] = store.App{
		Code: "limited", Secrets: storedSecret("limited-secret"), MayNameUsers: true,
		Admin: true, Limits: l,
	}
}

func TestRateLimit(t *testing.T) {
	for path, want := range map[string]struct{ status, code int }{
		esbGSE + "sync_proc_status/":               {200, 1306429},
		gatewayV2 + "sync_proc_status":             {429, 1642902},
		"/procapi/v1/proc/syncstatus":              {200, 1306429},
		esbJob + "get_proc_result/":                {200, 1306429},
		"/api/job/v2/job-execute/get_proc_result/": {200, 1306429},
	} {
		w := newWorld(t)
		w.limit(access.Limits{Rate: 0.5, Burst: 2})
		call := func() reply {
			return w.limited(path, `{"meta": {"namespace": "ns"}, "bk_biz_id": 1, "bk_gse_taskid": "x"}`)
		}
		for left := 1; left >= 0; left-- {
			got := call()
			if *got.Code == want.code || got.Header.Get("X-Bkapi-RateLimit-Limit") != "2" ||
				got.Header.Get("X-Bkapi-RateLimit-Remaining") != fmt.Sprint(left) {
				t.Errorf("%s: within the limit, answered is %v %s", path, got.Header, got.Raw)
			}
		}
		got := call()
		got.refused(t, want.status, want.code)
		if got.Header.Get("X-Bkapi-RateLimit-Remaining") != "0" || got.Header.Get("X-Bkapi-RateLimit-Reset") != "2" ||
			got.Header.Get("X-Bkapi-RateLimit-Plugin") == "" {
			t.Errorf("%s: over the limit, the headers are %v", path, got.Header)
		}
		if want.status == 429 && got.CodeName != "RATE_LIMIT_RESTRICTION" {
			t.Errorf("answer is %s", got.Raw)
		}
		if row := w.lastAudit(); row.Allowed || row.Code != want.code || row.App != "limited" || w.noted != 2 ||
			w.denials != 1 {
			t.Errorf("recorded is %+v; %d rows may wait, %d are denials", row, w.noted, w.denials)
		}
		w.now = w.now.Add(2 * time.Second)
		if got := call(); *got.Code == want.code {
			t.Errorf("%s: after the pause, answered is %s", path, got.Raw)
		}
		// Another app is not touched, and an app without limits has no such headers.
		if got := w.post(path, `{}`); got.Header.Get("X-Bkapi-RateLimit-Limit") != "" || *got.Code == want.code {
			t.Errorf("%s: another app is answered %v %s", path, got.Header, got.Raw)
		}
	}
}

// TestConcurrencyLimit holds one call in its wait while others come.
func TestConcurrencyLimit(t *testing.T) {
	for path, want := range map[string]struct{ status, code int }{
		esbGSE + "sync_proc_status/":   {200, 1306429},
		gatewayV2 + "sync_proc_status": {429, 1642904},
	} {
		w := newWorld(t)
		w.limit(access.Limits{Concurrent: 1})
		entered, release, ended := make(chan struct{}), make(chan struct{}), make(chan reply)
		w.waited = waitFor(entered, release)
		go func() { ended <- w.limited(esbGSE+"register_proc_info/", exampleOperate(0)) }()
		<-entered
		got := w.limited(path, `{"meta": {"namespace": "ns"}}`)
		got.refused(t, want.status, want.code)
		if want.status == 429 && got.CodeName != "CONCURRENCY_LIMIT_RESTRICTION" {
			t.Errorf("answer is %s", got.Raw)
		}
		close(release)
		if first := <-ended; !*first.Result {
			t.Errorf("the call that held the place is answered %s", first.Raw)
		}
		if got := w.limited(path, `{"meta": {"namespace": "ns"}}`); !*got.Result {
			t.Errorf("once it has ended, answered is %s", got.Raw)
		}
		// A call that is refused for another reason gives its place back too.
		w.limited(path, `{"meta": 7}`)
		if got := w.limited(path, `{"meta": {"namespace": "ns"}}`); !*got.Result {
			t.Errorf("after a refusal, answered is %s", got.Raw)
		}
	}
}

func TestTrustedGateway(t *testing.T) {
	const procapi, esbAPI = "/procapi/v1/proc/syncstatus", "/esb/api/v2/get_proc_result"
	body := `{"meta": {"namespace": "ns"}, "bk_biz_id": 1, "bk_gse_taskid": "x"}`
	for name, tt := range map[string]struct {
		path    string
		peer    string
		headers http.Header
		code    int // 0: let in as no-names for ann
	}{
		"on procapi":           {procapi, "10.1.2.3:555", nil, 0},
		"on esb/api":           {esbAPI, "10.1.2.3:555", nil, 0},
		"by IPv6":              {procapi, "[2001:db8::1]:555", nil, 0},
		"IPv4 written as IPv6": {procapi, "[::ffff:10.1.2.3]:555", nil, 0},
		"from elsewhere":       {procapi, "10.2.0.1:555", nil, 1306000},
		"who says it is forwarded": {procapi, "10.2.0.1:555", http.Header{
			"X-Forwarded-For": {"10.1.2.3"},
			"X-Real-Ip":       {"10.1.2.3"},
		}, 1306000},
		"from a socket":       {procapi, "@", nil, 1306000},
		"below compapi":       {esbGSE + "sync_proc_status/", "10.1.2.3:555", nil, 1306000},
		"on a gateway's path": {gatewayV2 + "sync_proc_status", "10.1.2.3:555", nil, 1640001},
		"an unknown app":      {procapi, "10.1.2.3:555", http.Header{"Bk-App-Code": {"nobody"}}, 1306000},
		"two apps": {
			procapi, "10.1.2.3:555",
			http.Header{"Bk-App-Code": {"no-names", "drover-test"}},
			1306406,
		},
		"two users":    {procapi, "10.1.2.3:555", http.Header{"Bk-Username": {"ann", "root"}}, 1306406},
		"no user":      {procapi, "10.1.2.3:555", http.Header{"Bk-Username": nil}, 1306000},
		"an empty app": {procapi, "10.1.2.3:555", http.Header{"Bk-App-Code": {""}}, 1306000},
		"over what the caller says": {
			procapi, "10.1.2.3:555",
			http.Header{
				"X-Bkapi-Authorization": {
					`{"bk_app_code": "drover-test", "bk_app_secret": "right-secret-right-secret", "bk_username": "bob"}`,
				},
			},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32"))
			method := http.MethodGet
			if tt.path == esbAPI {
				method = http.MethodPost
			}
			r := httptest.NewRequest(method, tt.path, strings.NewReader(body))
			r.RemoteAddr = tt.peer
			r.Header.Set("Bk-App-Code", "no-names")
			r.Header.Set("Bk-Username", "ann")
			maps.Copy(r.Header, tt.headers)
			got := w.send(r)
			row := w.lastAudit()
			if tt.code == 0 {
				if !row.Allowed || row.App != "no-names" || row.User != "ann" {
					t.Errorf("answer is %s, recorded is %+v", got.Raw, row)
				}
				return
			}
			if *got.Code != tt.code || row.Allowed {
				t.Errorf("answer is %s, recorded is %+v", got.Raw, row)
			}
		})
	}
	t.Run("nobody is trusted by default", func(t *testing.T) {
		w := newWorld(t)
		r := httptest.NewRequest(http.MethodGet, procapi, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:555"
		r.Header.Set("Bk-App-Code", appCode)
		r.Header.Set("Bk-Username", "admin")
		w.send(r).refused(t, 200, 1306000)
	})
}

func TestUserTokens(t *testing.T) {
	token, hash := access.NewToken()
	for name, tt := range map[string]struct {
		token    string
		sessions map[string]string
		user     string
		code     int
		text     string
	}{
		"our own":                {token, nil, "ann", 0, ""},
		"a session":              {"s", map[string]string{"s": "bob"}, "bob", 0, ""},
		"no session":             {"s", map[string]string{}, "", 1306000, "check if the bk_token is valid"},
		"the login service down": {"s", nil, "", 1306201, "login service could not be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.users["ann"] = store.User{Name: "ann"}
			w.tokens[hash] = store.Token{ID: "1", Kind: store.APIToken, User: "ann", Hash: hash}
			w.sessions = tt.sessions
			body := fmt.Sprintf(
				`{"task_id": "x", "bk_app_code": "no-names", "bk_app_secret": "third-secret", "bk_token": %q}`,
				tt.token)
			got := w.send(httptest.NewRequest(http.MethodPost, esbGSE+"get_proc_operate_result_v2/",
				strings.NewReader(body)))
			if tt.code == 0 {
				got.refused(t, 200, 1000101)
				if row := w.lastAudit(); row.User != tt.user || !row.Allowed {
					t.Errorf("recorded is %+v", row)
				}
				return
			}
			got.refused(t, 200, tt.code)
			if !strings.Contains(*got.Message, tt.text) || strings.Contains(string(got.Raw), tt.token+`"`) {
				t.Errorf("answer is %s", got.Raw)
			}
		})
	}
	t.Run("behind a gateway a login service that is down is a 502", func(t *testing.T) {
		w := newWorld(t)
		w.sessions = nil
		body := `{"task_id": "x", "bk_app_code": "no-names", "bk_app_secret": "third-secret", "bk_token": "s"}`
		w.send(httptest.NewRequest(http.MethodPost, gatewayV2+"get_proc_operate_result_v2",
			strings.NewReader(body))).refused(t, 502, 1650201)
	})
}

// waitFor is a wait that tells when it was entered and ends when it is released.
func waitFor(entered chan<- struct{}, release <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		entered <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestTooMuchUnderWay: a task that there is no room for is refused with a hint when to try again, and nothing of it is
// stored.
func TestTooMuchUnderWay(t *testing.T) {
	for path, want := range map[string]struct{ status, code int }{
		esbGSE + "operate_proc_v2/":   {200, 1306429},
		gatewayV2 + "operate_proc_v2": {429, 1642901},
		"/procapi/v2/proc/operate":    {200, 1306429},
	} {
		w := newWorld(t)
		w.storeErr = fmt.Errorf("cannot submit task: %w", &task.BusyError{
			Open: 499_000, Most: 500_000,
			Retry: 4500 * time.Millisecond,
		})
		got := w.post(path, exampleOperate(0))
		got.refused(t, want.status, want.code)
		if want.status == http.StatusTooManyRequests && got.Header.Get("Retry-After") != "5" {
			t.Errorf("%s: the headers are %v", path, got.Header)
		}
		if text := "499000 operations are under way, of at most 500000: try again in 5 s"; !strings.Contains(
			string(got.Raw), text) {
			t.Errorf("%s: answered is %s", path, got.Raw)
		}
		if row := w.lastAudit(); row.Code != want.code || w.denials != 1 {
			t.Errorf("%s: recorded is %+v; %d are denials", path, row, w.denials)
		}
	}
}
