package examples_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/examples"
)

const dir = "../../../api/examples"

func TestEveryExampleCanBePlayed(t *testing.T) {
	cases, err := examples.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]examples.Case{}
	for _, c := range cases {
		known[c.Name] = c
	}
	for _, c := range cases {
		if c.Response.Status == 0 || c.Response.Body == nil || c.Request.Method == "" || c.Request.Path == "" {
			t.Errorf("%s is incomplete", c.Name)
		}
		before, ok := known[c.Request.After]
		switch {
		case c.Request.After == "":
		case !ok:
			t.Errorf("%s comes after %s, which is not there", c.Name, c.Request.After)
		case before.Request.Live && !c.Request.Live:
			t.Errorf("%s is not live but comes after %s, which is", c.Name, before.Name)
		}
	}
}

func TestLoadLeavesNothingOut(t *testing.T) {
	for name, complete := range map[string]bool{
		"a.request.json a.response.json":      true,
		"a.request.json":                      false,
		"a.response.json":                     false,
		"a.request.json a.responce.json":      false,
		"a.request.json a.response.json b.md": false,
	} {
		dir := t.TempDir()
		for file := range strings.FieldsSeq(name) {
			if err := os.WriteFile(filepath.Join(dir, file), []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if cases, err := examples.Load(dir); (err == nil) != complete || complete && len(cases) != 1 {
			t.Errorf("%s: %d cases, error %v", name, len(cases), err)
		}
	}
}

func TestCompareFindsDifferences(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		same      bool
	}{
		{`{"a": "<any>", "b": [1]}`, `{"a": null, "b": [1]}`, true},
		{`{"a": {"<json>": {"b": 1}}}`, `{"a": "{\"b\": 1}"}`, true},
		{`{"a": {"<json>": {"b": 1}}}`, `{"a": {"b": 1}}`, false},
		{`{"a": {"<json>": {"b": 1}}}`, `{"a": "{\"b\": 2}"}`, false},
		{`{"a": 1}`, `{"a": 1, "b": 2}`, false},
		{`{"a": "<any>"}`, `{}`, false},
		{`{"a": {}}`, `{"a": []}`, false},
		{`[1, 2]`, `[1]`, false},
		{`[1, 2]`, `[1, 3]`, false},
		{`{"a": 1}`, `{"a": "1"}`, false},
		{`{"a": null}`, `{"a": 0}`, false},
	} {
		var want, got any
		if err := errors.Join(json.Unmarshal([]byte(tt.want), &want),
			json.Unmarshal([]byte(tt.got), &got)); err != nil {
			t.Fatal(err)
		}
		if differences := examples.Compare("body", want, got); (len(differences) == 0) != tt.same {
			t.Errorf("%s against %s: %q", tt.got, tt.want, differences)
		}
	}
}

// TestPlayerFillsAndRepeats: holes of both kinds, the order of cases, and a case that is right only at the third time.
func TestPlayerFillsAndRepeats(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/submit":
			_, _ = w.Write([]byte(`{"data": {"id": "` + r.Header.Get("Name") + `7"}}`))
		case "/poll/me7":
			asked++
			_ = json.NewEncoder(w).Encode(map[string]any{"asked": min(asked, 3), "name": "me"})
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	cases := []examples.Case{
		{
			Name: "poll",
			Request: examples.Request{
				Method: http.MethodGet, Path: "/poll/${data.id}", After: "submit",
				Eventually: true,
			},
			Response: examples.Response{
				Status: http.StatusOK,
				Body:   json.RawMessage(`{"asked": 3, "name": "${name}"}`),
			},
		},
		{
			Name: "submit",
			Request: examples.Request{
				Method: http.MethodPost, Path: "/submit",
				Headers: map[string]string{"Name": "${name}"},
			},
			Response: examples.Response{Status: http.StatusOK, Body: json.RawMessage(`{"data": {"id": "<any>"}}`)},
		},
	}
	p := examples.NewPlayer(server.Client(), server.URL, cases, map[string]string{"${name}": "me"})
	p.Play(t, "poll")
	p.Play(t, "submit")
	if asked != 3 || p.Played() != 2 {
		t.Errorf("polled %d times and played %d cases, want 3 and 2", asked, p.Played())
	}
}
