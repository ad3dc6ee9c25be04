package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// large is a body of that many bytes whose credentials stand inside.
func large(size int) []byte {
	head := fmt.Sprintf(`{"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "a", "meta": {"namespace": "n"}, "filler": "`, appCode, appSecret)
	return []byte(head + strings.Repeat("x", size-len(head)-2) + `"}`)
}

func post(w *world, body io.Reader, length int64, header string) reply {
	r := httptest.NewRequest(http.MethodPost, gatewayV2+"sync_proc_status", body)
	r.ContentLength = length
	if header != "" {
		r.Header.Set("X-Bkapi-Authorization", header)
	}
	return w.send(r)
}

func TestLargeBodies(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{1 << 20, 1<<20 + 1, 3 << 20, 64 << 20} {
		for _, length := range []int64{int64(size), -1} {
			var data map[string]any
			post(w, bytes.NewReader(large(size)), length, "").ok(t, &data)
		}
	}
	post(w, unreadable{t}, 64<<20+1, "").refused(t, 413, 1641301)
	post(w, bytes.NewReader(large(64<<20+1)), -1, "").refused(t, 413, 1641301)
}

// TestStrangersShareTheRoomForLargeBodies: who has not shown who he is cannot make the server hold many large bodies, and does not keep
// known callers out.
func TestStrangersShareTheRoomForLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var strangers sync.WaitGroup
		var ends []*io.PipeWriter
		for range 2 {
			body, end := io.Pipe()
			ends = append(ends, end)
			strangers.Go(func() { post(w, body, 64<<20, "").refused(t, 400, 1640001) })
			strangers.Go(func() { _, _ = end.Write(large(2 << 20)) })
		}
		synctest.Wait()
		began := time.Now()
		post(w, bytes.NewReader(large(2<<20)), 2<<20, "").refused(t, 429, 1642904)
		if waited := time.Since(began); waited != 20*time.Second {
			t.Errorf("the third was refused after %v", waited)
		}
		var data map[string]any
		known := fmt.Sprintf(`{"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "a"}`, appCode, appSecret)
		post(w, bytes.NewReader(large(64<<20)), 64<<20, known).ok(t, &data)
		post(w, bytes.NewReader(large(1000)), 1000, "").ok(t, &data)

		// Another waits, and gets the room of one who goes away.
		strangers.Go(func() {
			var data map[string]any
			post(w, bytes.NewReader(large(2<<20)), 2<<20, "").ok(t, &data)
		})
		synctest.Wait()
		for _, end := range ends {
			_ = end.CloseWithError(io.ErrUnexpectedEOF)
		}
		strangers.Wait()
	})
}

func TestTheOperatorOfOldCalls(t *testing.T) {
	w := newWorld(t)
	body := fmt.Sprintf(`{"bk_app_code": %q, "bk_app_secret": %q, "operator": "admin", "action": "get_agent_status", "bk_biz_id": 1,
		"ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]}`, appCode, appSecret)
	var data []any
	w.send(httptest.NewRequest(http.MethodPost, "/api/v2/get_agent_status", strings.NewReader(body))).ok(t, &data)
	if row := w.lastAudit(); row.User != "admin" {
		t.Errorf("audited as %+v", row)
	}
}
