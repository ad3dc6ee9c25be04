package contract_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// everyPath is one path of each kind for every call.
func everyPath() []string {
	var all []string
	for _, name := range []string{
		"register_proc_info", "update_proc_info", "unregister_proc_info", "operate_proc", "operate_proc_v2",
		"operate_proc_multi", "get_proc_operate_result",
		"get_proc_operate_result_v2", "get_proc_status", "get_proc_status_v2", "sync_proc_status",
		"set_process_group_info", "get_process_group_info",
		"get_agent_status", "get_agent_info",
	} {
		all = append(all, gsePath+name+"/")
	}
	for _, name := range []string{
		"operate_process", "operate_proc", "manage_proc", "get_proc_result",
		"get_agent_status",
	} {
		all = append(all, jobPath+name+"/", "/esb/api/v2/"+name)
	}
	return append(all, procPath+"operate_proc_multi", procPath+"upgrade_to_agent_id", clusterPath+"list_agent_state",
		clusterPath+"list_agent_info",
		"/procapi/v1/proc/procinfo", "/procapi/v2/proc/operate", "/procapi/v1/proc/groupinfo", "/get_agent_status")
}

// badBodies are what must never crash, hang or be answered without an envelope.
func badBodies() map[string]string {
	full := func(v string) string {
		return fmt.Sprintf(
			`{"meta": {"namespace": %[1]s, "name": %[1]s}, "hosts": [{"ip": %[1]s, "bk_cloud_id": %[1]s, "bk_agent_id": %[1]s}], "agent_id_list": %[1]s, "op_type": %[1]s,
			"task_id": %[1]s, "bk_biz_id": %[1]s, "bk_gse_taskid": %[1]s, "ip_list": %[1]s, "process_infos": [%[1]s], "page": {"start": %[1]s, "limit": %[1]s},
			"proc_operate_req": [{"meta": %[1]s}], "spec": {"identity": %[1]s, "control": %[1]s, "resource": %[1]s, "process_group": [%[1]s]}}`, v)
	}
	bodies := map[string]string{
		"empty": "", "cut": `{"meta": {"namespace": "g`, "list": `[1, 2]`, "null": "null", "text": "hello",
		"number": "7", "brace": "{", "form": "a=b&c=%zz",
		"deep":          `{"a":` + strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_001),
		"invalid UTF-8": "{\"meta\": \"\xff\xfe\"}",
		"NUL":           "{\"task_id\": \"a\x00b\"}", "two": `{} {}`, "large": `{"filler": "` +
			strings.Repeat("x", 50<<20) +
			`"}`,
	}
	for _, v := range []string{
		`null`, `[]`, `{}`, `""`, `-1`, `0`, `99999999999999999999999`, `1e308`, `-0.5`, `true`, `"\u0000"`,
		`"'; DROP TABLE items; --"`, `"../../../etc/passwd"`,
		`"\ud800"`, `[null]`, `[{}]`, `["0:127.0.0.1"]`, `"` + strings.Repeat("y", 5000) + `"`,
	} {
		bodies["all "+v[:min(len(v), 20)]] = full(v)
	}
	return bodies
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	authorization := fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`, harness.AppCode,
		harness.AppSecret)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for name, body := range badBodies() {
		for _, path := range everyPath() {
			if name == "large" && path != gsePath+"operate_proc_v2/" && path != procPath+"operate_proc_multi" {
				continue // 50 MB are the same everywhere
			}
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				began := time.Now()
				status, reply, err := raw(t.Context(), s, path, authorization, body)
				if err != nil || status >= 500 || reply["result"] == nil || reply["message"] == nil ||
					time.Since(began) > 60*time.Second {
					t.Errorf("%s to %s: HTTP %d after %v, %v, %.300v", name, path, status, time.Since(began), err,
						reply)
				}
			})
		}
	}
	wg.Wait()
	alive(t, s)
}

// raw posts bytes and decodes what comes back.
func raw(ctx context.Context, s *harness.Server, path, authorization, body string) (int, harness.Object, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-Bkapi-Authorization", authorization)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	var reply harness.Object
	return resp.StatusCode, reply, json.Unmarshal(data, &reply)
}

// alive asks for something small, which must not take long.
func alive(t *testing.T, s *harness.Server) {
	t.Helper()
	began := time.Now()
	rows(s, "alive")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a small call took %v", took)
	}
}

// TestStalledConnections: callers that begin and never go on keep nobody else waiting, and are answered or cut off in
// the end.
func TestStalledConnections(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	address := strings.TrimPrefix(s.URL, "http://")
	beginnings := []string{
		"POST " + gsePath + "operate_proc_v2/ HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n{\"a\": \"",
		"POST " + procPath + "operate_proc_v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":",
		"POST " + gsePath + "oper",
		"",
		"POST " + gsePath + "operate_proc_v2/ HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n{\"a\": \"" +
			strings.Repeat("x", 2<<20),
	}
	var conns []net.Conn
	for i := range 200 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
		beginning := beginnings[i%len(beginnings)]
		go func() { _, _ = io.WriteString(c, beginning) }() // the large ones may block, which ends with the connection
	}
	for range 5 {
		alive(t, s)
	}
	p, _ := odd(t, s, "beside-the-stalled")
	p.Operate(0).Want(t, "start", 0)
	p.Operate(1).Want(t, "stop", 0)
	// One that sent no more than the beginning of its head is cut off.
	_ = conns[2].SetReadDeadline(time.Now().Add(harness.Patience))
	if _, err := bufio.NewReader(conns[2]).ReadString('\n'); err == nil {
		return // it was answered instead, which is as good
	} else if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("a stalled head is still waited for")
	}
}

// TestManyPollsAtOnce: 1,000 polls of a task of 1,000 keys at the same time are all answered, in full.
func TestManyPollsAtOnce(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	items := make([]harness.Object, 1000)
	for i := range items {
		items[i] = queryBody("polls", fmt.Sprintf("p_%d", i), harness.Agent)
	}
	task := multi(s, items...)
	s.AwaitTask(task)
	authorization := fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`, harness.AppCode,
		harness.AppSecret)
	body, err := json.Marshal(harness.Object{"task_id": task})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0}}
	defer client.CloseIdleConnections()
	poll := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+procPath+"get_proc_operate_result_v2",
			bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("X-Bkapi-Authorization", authorization)
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if keys := bytes.Count(data, []byte(`"error_code":0`)); resp.StatusCode != http.StatusOK || keys != 1000 {
			return fmt.Errorf("HTTP %d with %d keys: %.300s", resp.StatusCode, keys, data)
		}
		return nil
	}
	var wg sync.WaitGroup
	errs := make(chan error, 1000)
	for range 1000 {
		wg.Go(func() { errs <- poll() })
	}
	wg.Wait()
	close(errs)
	failed := 0
	for err := range errs {
		if err != nil {
			failed++
			t.Log(err)
		}
	}
	if failed > 0 {
		t.Errorf("%d of 1,000 polls failed", failed)
	}
	alive(t, s)
}
