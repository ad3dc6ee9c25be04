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
	head := fmt.Sprintf(
		`{"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "a", "meta": {"namespace": "n"}, "filler": "`, appCode,
		appSecret)
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

// known is the header of a caller that shows who it is before its body.
func known() string {
	return fmt.Sprintf(`{"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "a"}`, appCode, appSecret)
}

func TestLargeBodies(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{64 << 10, 64<<10 + 1, 1 << 20, 3 << 20, 24 << 20} {
		for _, length := range []int64{int64(size), -1} {
			var data map[string]any
			post(w, bytes.NewReader(large(size)), length, "").ok(t, &data)
		}
	}
	post(w, unreadable{t}, 24<<20+1, "").refused(t, 413, 1641301)
	post(w, bytes.NewReader(large(24<<20+1)), -1, "").refused(t, 413, 1641301)
	for _, length := range []int64{40 << 20, -1} {
		var data map[string]any
		post(w, bytes.NewReader(large(40<<20)), length, known()).ok(t, &data)
	}
	post(w, unreadable{t}, 40<<20+1, known()).refused(t, 413, 1641301)
	post(w, bytes.NewReader(large(40<<20+1)), -1, known()).refused(t, 413, 1641301)
}

// TestStrangersShareTheRoomForLargeBodies: who has not shown who he is cannot make the server hold many large bodies,
// takes nothing by a claim alone, and does not keep known callers out.
func TestStrangersShareTheRoomForLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var strangers sync.WaitGroup
		var ends []*io.PipeWriter
		for range 20 { // who only claim
			body, end := io.Pipe()
			ends = append(ends, end)
			strangers.Go(func() { post(w, body, 24<<20, "").refused(t, 400, 1640001) })
			strangers.Go(func() { _, _ = end.Write(large(1000)) })
		}
		body, end := io.Pipe() // and one who sends
		ends = append(ends, end)
		strangers.Go(func() { post(w, body, 24<<20, "").refused(t, 400, 1640001) })
		strangers.Go(func() { _, _ = end.Write(large(20 << 20)) })
		synctest.Wait()
		began := time.Now()
		post(w, bytes.NewReader(large(2<<20)), 2<<20, "").refused(t, 429, 1642904)
		if waited := time.Since(began); waited != 20*time.Second {
			t.Errorf("another one from there was refused after %v", waited)
		}
		var data map[string]any
		post(w, bytes.NewReader(large(40<<20)), 40<<20, known()).ok(t, &data)
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
	body := fmt.Sprintf(
		`{"bk_app_code": %q, "bk_app_secret": %q, "operator": "admin", "action": "get_agent_status", "bk_biz_id": 1,
		"ip_list": [{"ip": "10.0.0.1", "bk_cloud_id": 1}]}`, appCode, appSecret)
	var data []any
	w.send(httptest.NewRequest(http.MethodPost, "/api/v2/get_agent_status", strings.NewReader(body))).ok(t, &data)
	if row := w.lastAudit(); row.User != "admin" {
		t.Errorf("audited as %+v", row)
	}
}
