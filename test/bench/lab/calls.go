package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "drover/api/v1"
)

// Operations, as callers of the GSE API number them.
const (
	OpStart = 0
	OpStop  = 1
	Query   = 2
)

// Codes of keys.
const (
	CodePending = 115
	codeAway    = 117
)

// Object is a JSON object.
type Object = map[string]any

// Key is the key of a process in results.
func (d *Drover) Key(name string) string { return AgentName + ":" + Namespace + ":" + name }

// Body is the body of a call that begins an operation on processes.
func Body(op int, specs ...Spec) ([]byte, error) {
	requests := make([]Object, len(specs))
	for i, s := range specs {
		requests[i] = s.Request(op)
	}
	return json.Marshal(Object{"proc_operate_req": requests})
}

// Submit begins the operation of a body and returns its task.
func (d *Drover) Submit(body []byte) (string, error) {
	var reply struct {
		Task string `json:"task_id"`
	}
	err := d.Call("operate_proc_multi", body, &reply)
	return reply.Task, err
}

// Operate carries out an operation and returns the code of each key.
func (d *Drover) Operate(op int, specs ...Spec) (map[string]int, error) {
	body, err := Body(op, specs...)
	if err != nil {
		return nil, err
	}
	task, err := d.Submit(body)
	if err != nil {
		return nil, err
	}
	return d.Await(task)
}

// PollPause is how long a caller waits before each poll of a task.
const PollPause = 20 * time.Millisecond

// Await polls a task until no key of it is pending.
func (d *Drover) Await(task string) (map[string]int, error) {
	body := []byte(fmt.Sprintf(`{"task_id":%q}`, task))
	for until := time.Now().Add(5 * Patience); ; {
		Pause(PollPause)
		var reply map[string]struct {
			Code int `json:"error_code"`
		}
		if err := d.Call("get_proc_operate_result_v2", body, &reply); err != nil {
			return nil, err
		}
		codes, pending := make(map[string]int, len(reply)), 0
		for key, r := range reply {
			codes[key] = r.Code
			if r.Code == CodePending {
				pending++
			}
		}
		if pending == 0 {
			return codes, nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("%d keys of task %s are pending still", pending, task)
		}
	}
}

// Call calls an endpoint and decodes its data; a reply that says failure is an error.
func (d *Drover) Call(name string, body []byte, data any) error {
	text, err := d.Raw(name, body)
	if err != nil {
		return err
	}
	return Decode(name, text, data)
}

// Decode takes the data out of the reply of an endpoint; a reply that says failure is an error.
func Decode(name string, text []byte, data any) error {
	envelope := struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{Data: data}
	if err := read(name, text, &envelope); err != nil {
		return err
	}
	if envelope.Code != 0 {
		return fmt.Errorf("%s failed: %d %s", name, envelope.Code, envelope.Message)
	}
	return nil
}

// read decodes the reply to a call.
func read(call string, text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("cannot read the reply of %s: %w: %.300s", call, err, text)
	}
	return nil
}

// Raw calls an endpoint of the GSE API and returns the whole reply.
func (d *Drover) Raw(name string, body []byte) ([]byte, error) {
	_, text, err := d.call(http.MethodPost, "/api/v2/proc/"+name, body)
	return text, err
}

// call makes a call and returns the status and the whole reply.
func (d *Drover) call(method, path string, body []byte) (status int, text []byte, err error) {
	req, err := http.NewRequestWithContext(context.Background(), method, d.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"bench"}`,
		AppCode, AppSecret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// own calls an endpoint of drover's own API and decodes its reply.
func (d *Drover) own(method, path string, body, into any) error {
	reply, err := d.reply(method, path, body)
	if err != nil {
		return err
	}
	return read(path, reply, into)
}

// reply calls an endpoint of drover's own API and returns its reply as it comes.
func (d *Drover) reply(method, path string, body any) ([]byte, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("cannot make the body of %s: %w", path, err)
		}
	}
	status, reply, err := d.call(method, "/api/v1"+path, text)
	if err != nil {
		return nil, err
	}
	if status >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s %s failed: %d %.300s", method, path, status, reply)
	}
	return reply, nil
}

// Apply applies a process file with the specs, and returns the operation that starts them.
func (d *Drover) Apply(specs ...Spec) (operation string, err error) {
	file := v1.File{Namespace: Namespace, Processes: map[string]v1.Spec{}}
	for _, s := range specs {
		file.Processes[s.Name] = s.process()
	}
	var plan v1.Plan
	if err := d.own(http.MethodPut, "/namespaces/"+Namespace, file, &plan); err != nil {
		return "", err
	}
	if plan.Operation == nil {
		return "", errors.New("the process file changes nothing")
	}
	return plan.Operation.ID, nil
}

// Begin begins an operation of drover's own API, such as v1.OpStop.
func (d *Drover) Begin(op string, specs ...Spec) (operation string, err error) {
	req := v1.Request{Op: op}
	for _, s := range specs {
		req.Targets = append(req.Targets, v1.Target{Namespace: Namespace, Name: s.Name})
	}
	var begun v1.Task
	err = d.own(http.MethodPost, "/tasks", req, &begun)
	return begun.ID, err
}

// Finish waits until an operation of drover's own API is done. It is an error if a target has failed.
func (d *Drover) Finish(operation string) error {
	for until := time.Now().Add(Patience); ; {
		var o v1.Task
		if err := d.own(http.MethodGet, "/tasks/"+operation+"?wait=60", nil, &o); err != nil {
			return err
		}
		switch {
		case o.Done() && o.Counts.Failed > 0:
			return fmt.Errorf("%d of %d targets of the operation %s have failed", o.Counts.Failed, o.Counts.Targets, o.Op)
		case o.Done():
			return nil
		case time.Now().After(until):
			return fmt.Errorf("%d targets of the operation %s are pending still", o.Counts.Pending, o.Op)
		}
	}
}

// Start applies a process file with the specs, and waits until all are started.
func (d *Drover) Start(specs ...Spec) error {
	operation, err := d.Apply(specs...)
	if err != nil {
		return err
	}
	return d.Finish(operation)
}

// Do carries out an operation of drover's own API, such as v1.OpStop.
func (d *Drover) Do(op string, specs ...Spec) error {
	operation, err := d.Begin(op, specs...)
	if err != nil {
		return err
	}
	return d.Finish(operation)
}

// Running reads the status of all processes, and returns how many run. It only counts in the text, as a caller of the
// floor does.
func (d *Drover) Running() (n int, err error) {
	for cursor := ""; ; {
		text, err := d.reply(http.MethodGet,
			"/processes?limit=1000&namespace="+Namespace+"&cursor="+url.QueryEscape(cursor), nil)
		if err != nil {
			return n, err
		}
		n += bytes.Count(text, []byte(`"state":"running"`))
		_, rest, more := bytes.Cut(text, []byte(`"next_cursor":"`))
		if !more {
			return n, nil
		}
		quoted, _, _ := bytes.Cut(rest, []byte(`"`))
		cursor = string(quoted)
	}
}

// Failures returns what did not end with one of the codes, shortened.
func Failures(codes map[string]int, want ...int) error {
	var bad []string
	for key, code := range codes {
		ok := false
		for _, w := range want {
			ok = ok || code == w
		}
		if !ok {
			bad = append(bad, fmt.Sprintf("%s: %d", key, code))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d keys have failed: %s", len(bad), len(codes), strings.Join(bad[:min(len(bad), 3)], ", "))
}
