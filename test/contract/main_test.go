// Package contract_test holds the black-box tests of the HTTP contract: the built binary with a live agent, called as
// the programs that were written against GSE and JOB call it. What an operation does to a process is in package
// lifecycle_test.
package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"drover/internal/test/examples"
	"drover/internal/test/harness"
	"drover/internal/test/openapi"
)

// The paths that calls go to.
const (
	gsePath   = "/api/c/compapi/v2/gse/"
	jobPath   = "/api/c/compapi/v2/job/"
	jobV3Path = "/api/c/compapi/v2/jobv3/"
	procPath  = "/api/v2/proc/"
)

var binaries struct{ drover, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover":        &binaries.drover,
		"./test/daemons/oddd": &binaries.oddd,
	}))
}

// caller follows no redirect: a POST that is redirected has lost its body.
func caller() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// send sends a request with these headers and no others, and returns the status and the decoded answer.
func send(t *testing.T, s *harness.Server, method, path string, headers map[string]string,
	body any,
) (int, harness.Object) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if body == nil {
		data = nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.CommandPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	resp, err := openapi.NewClient(t, caller()).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var reply harness.Object
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		t.Fatalf("%s %s: answer is no JSON object: %v", method, path, err)
	}
	return resp.StatusCode, reply
}

// odd returns a process that runs the odd daemon, and its directory.
func odd(t *testing.T, s *harness.Server, name string) (*harness.Process, string) {
	t.Helper()
	p, dir := harness.Odd(t, s, binaries.oddd, name, "plain")
	p.Policy = harness.Object{"start_check_secs": 1}
	return p, dir
}

// wantJSON compares a decoded answer with JSON that may hold the holes of api/examples.
func wantJSON(t *testing.T, what string, got any, text string) {
	t.Helper()
	var expected any
	if err := json.Unmarshal([]byte(text), &expected); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, difference := range examples.Compare(what, expected, got) {
		t.Error(difference)
	}
}

// multi submits several operations in one call and returns the task's id.
func multi(s *harness.Server, requests ...harness.Object) string {
	return s.Call("operate_proc_multi", harness.Object{"proc_operate_req": requests})["task_id"].(string)
}

// poll asks for a task's results once.
func poll(s *harness.Server, task string) harness.Object {
	return s.Call("get_proc_operate_result_v2", harness.Object{"task_id": task})
}

// rows returns the rows of a namespace.
func rows(s *harness.Server, namespace string) (count int, list []harness.Object) {
	data := s.Call("sync_proc_status", harness.Object{
		"meta": harness.Object{"namespace": namespace}, "page": harness.Object{"start": 0, "limit": 1000},
	})
	for _, r := range data["proc_infos"].([]any) {
		list = append(list, r.(harness.Object))
	}
	return int(data["count"].(float64)), list
}
