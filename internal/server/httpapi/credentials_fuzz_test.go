package httpapi_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover/internal/server/store"
)

// FuzzCredentials: whatever a stranger sends as credentials, he is answered with an envelope, is not let in, and is no
// fault of ours.
func FuzzCredentials(f *testing.F) {
	f.Add(`{"bk_app_code": "drover-test", "bk_app_secret": "wrong", "bk_username": "admin"}`, "", `{"task_id": "x"}`)
	f.Add("", "bk_app_code=drover-test&bk_app_secret=wrong", `{"bk_app_code": ["a"], "bk_username": null}`)
	f.Add("[]", "bk_app_code=%ff", "bk_app_code=a&bk_token=b")
	f.Add("null", "%zz", "{")
	f.Add(`{"bk_app_code": 7, "app_code": "drover-test", "bk_app_secret": {"a": "b"}}`, "access_token=1", "")
	f.Add(`{"bk_app_code": "drover-test", "bk_signature": "x"}`, "", "\x00")
	f.Fuzz(func(t *testing.T, header, query, body string) {
		w := newWorld(t)
		for code := range w.apps { // with secrets that no input will hit upon
			w.apps[code] = store.App{Code: code, Secrets: storedSecret(rand.Text()), MayNameUsers: true, Admin: true}
		}
		for path, gateway := range map[string]bool{
			esbGSE + "get_proc_operate_result_v2/":   false,
			gatewayV2 + "get_proc_operate_result_v2": true, "/procapi/v2/proc/status": false,
		} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.URL.RawQuery = query
			r.Header["X-Bkapi-Authorization"] = []string{header}
			rec := httptest.NewRecorder()
			w.handler.ServeHTTP(rec, r)
			var reply struct {
				Result *bool `json:"result"`
				Code   *int  `json:"code"`
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &reply); err != nil || reply.Result == nil || reply.Code == nil {
				t.Fatalf("%s answers %d %.300s", path, rec.Code, rec.Body)
			}
			if *reply.Result || rec.Code >= 500 || !gateway && rec.Code != http.StatusOK {
				t.Fatalf("%s answers %d %.300s", path, rec.Code, rec.Body)
			}
			if row := w.lastAudit(); row.Allowed {
				t.Fatalf("%s let a stranger in as %+v", path, row)
			}
		}
	})
}
