// Package callers_test speaks to the binary as the programs that were written against GSE and JOB speak: their paths,
// headers, bodies, order of calls, and what they do with an answer. Each file is one of them, in words of our own.
package callers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"testing"

	"drover/internal/test/harness"
	"drover/internal/test/openapi"
)

var binaries struct{ drover, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover":        &binaries.drover,
		"./test/daemons/oddd": &binaries.oddd,
	}))
}

type object = harness.Object

// agentID is the stable id of the local agent.
const agentID = "0200000007525400f355781710390005465c"

// caller sends requests as one program does.
type caller struct {
	t       *testing.T
	server  *harness.Server
	headers map[string]string
	// inBody are keys that the program adds to every body.
	inBody object
}

func authorization() string {
	return fmt.Sprintf(`{"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "admin"}`, harness.AppCode,
		harness.AppSecret)
}

// send posts a body and returns the status and the reply's bytes.
func (c *caller) send(method, path string, body any) (int, []byte) {
	c.t.Helper()
	var data []byte
	if body != nil {
		if fields, ok := body.(object); ok {
			whole := object{}
			maps.Copy(whole, fields)
			maps.Copy(whole, c.inBody)
			body = whole
		}
		var err error
		if data, err = json.Marshal(body); err != nil {
			c.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), harness.CommandPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.server.URL+path, bytes.NewReader(data))
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range c.headers {
		r.Header.Set(k, v)
	}
	// A POST that is redirected loses its body.
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := openapi.NewClient(c.t, direct).Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, reply
}

// daemon is an odd daemon as every caller's spec describes it.
type daemon struct {
	identity object
	start    string
	dir      string
}

func newDaemon(t *testing.T, s *harness.Server, name string) daemon {
	t.Helper()
	p, dir := harness.Odd(t, s, binaries.oddd, name, "plain")
	return daemon{identity: p.Identity, start: p.Control["start_cmd"].(string), dir: dir}
}

// eventually repeats a poll until it says that it is done.
func (c *caller) eventually(what string, done func() bool) {
	c.t.Helper()
	harness.Eventually(c.t, what, done)
}
