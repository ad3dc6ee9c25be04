package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// Object is a JSON object.
type Object = map[string]any

// Caller calls a drover as the tests' app does.
type Caller struct {
	URL    string
	Client interface {
		Do(r *http.Request) (*http.Response, error)
	}
}

// Do calls a path with the credentials in the header and returns status and decoded body. An error says that there was
// no whole answer.
func (c Caller) Do(method, path string, body any) (int, Object, error) {
	data, ok := body.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), CommandPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`,
		AppCode, AppSecret))
	resp, err := c.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	reply := Object{}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return resp.StatusCode, nil, fmt.Errorf("reply is no JSON object: %w", err)
	}
	return resp.StatusCode, reply, nil
}

// GSE calls a GSE endpoint and returns its data. An error says that it was refused, or that nobody knows what became of
// it.
func (c Caller) GSE(name string, body any) (Object, error) {
	status, reply, err := c.Do(http.MethodPost, "/api/c/compapi/v2/gse/"+name+"/", body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if status != http.StatusOK || reply["code"] != 0.0 {
		return nil, fmt.Errorf("%s: HTTP %d, %v", name, status, reply)
	}
	data, _ := reply["data"].(Object)
	return data, nil
}

// Await polls until no key of the task is at 115.
func (c Caller) Await(t testing.TB, task string) Object {
	t.Helper()
	var data Object
	Eventually(t, "task "+task+" to end", func() bool {
		var err error
		if data, err = c.GSE("get_proc_operate_result_v2", Object{"task_id": task}); err != nil {
			t.Fatalf("task %s, which was answered: %v", task, err)
		}
		for _, v := range data {
			if v.(Object)["error_code"] == 115.0 {
				return false
			}
		}
		return len(data) > 0
	})
	return data
}

// Get reads an address without credentials.
func Get(t testing.TB, client *http.Client, url string) (status int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), CommandPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
