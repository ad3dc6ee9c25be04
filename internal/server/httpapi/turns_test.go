package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// unread is where an answer is written to whose caller does not read it until the test is over.
type unread struct {
	http.ResponseWriter
	begun func()
	over  <-chan struct{}
}

func (u *unread) Write(p []byte) (int, error) {
	u.begun()
	<-u.over
	return u.ResponseWriter.Write(p)
}

// TestUnreadPollsKeepNoTurn: whoever does not read the answer to a poll keeps nobody else from polling.
func TestUnreadPollsKeepNoTurn(t *testing.T) {
	const many = 40 // more than there are turns
	for name, app := range map[string][2]string{"admin": {appCode, appSecret}, "others": {"limited", "limited-secret"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.grant("start on ns")
			key := "0:10.0.0.1:ns:p"
			w.tasks["t"] = &store.Task{ID: "t", App: app[0], Requests: []store.Request{{
				Op: process.Start, Process: process.ID{Namespace: "ns", Name: "p"},
				Targets: []store.Target{{ItemKey: key, Spelling: "0:10.0.0.1", Agent: "UAGENT2"}},
			}}}
			w.outcomes["t"+key] = process.Outcome{Fault: process.Failed, Text: strings.Repeat("x", 200<<10)}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			request := func() *http.Request {
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, esbGSE+"get_proc_operate_result_v2/",
					strings.NewReader(`{"task_id": "t"}`))
				r.Header.Set("X-Bkapi-Authorization",
					fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"admin"}`, app[0], app[1]))
				return r
			}
			var begun, ended sync.WaitGroup
			over := make(chan struct{})
			for range many {
				begun.Add(1)
				ended.Go(func() {
					w.handler.ServeHTTP(&unread{httptest.NewRecorder(), sync.OnceFunc(begun.Done), over}, request())
				})
			}
			begun.Wait()
			var entries map[string]entry
			if w.send(request()).ok(t, &entries); len(entries) != 1 {
				t.Errorf("%d entries", len(entries))
			}
			close(over)
			ended.Wait()
		})
	}
}
