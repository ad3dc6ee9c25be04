package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/server/store"
)

const examplesDir = "../../../api/examples"

// example is one case of api/examples; its README describes the keys.
type example struct {
	Method     string            `json:"method"`
	Path       string            `json:"path"`
	Headers    map[string]string `json:"headers"`
	Body       json.RawMessage   `json:"body"`
	Text       string            `json:"text"`
	After      string            `json:"after"`
	Live       bool              `json:"live"`
	Eventually bool              `json:"eventually"`
}

// exampleReply is what a case is answered with.
type exampleReply struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    any               `json:"body"`
}

// player plays the cases that need no process, each once.
type player struct {
	w      *world
	played map[string]any // the answer's body
}

func TestExamples(t *testing.T) {
	w := newWorld(t)
	w.agents = []store.Agent{{Key: "UHERE", Cloud: 0, IP: "127.0.0.1"}}
	p := &player{w: w, played: map[string]any{}}
	names := exampleNames(t)
	for _, name := range names {
		var e example
		readJSON(t, name+".request.json", &e)
		if e.Live {
			continue
		}
		t.Run(name, func(t *testing.T) { p.play(t, name) })
	}
	if len(p.played) < 30 {
		t.Errorf("only %d cases were played", len(p.played))
	}
}

func TestEveryExampleCanBePlayed(t *testing.T) {
	for _, name := range exampleNames(t) {
		var (
			e     example
			reply exampleReply
		)
		readJSON(t, name+".request.json", &e)
		readJSON(t, name+".response.json", &reply)
		if reply.Status == 0 || reply.Body == nil || e.Method == "" || e.Path == "" {
			t.Errorf("%s is incomplete", name)
		}
		if e.After == "" {
			continue
		}
		var before example
		readJSON(t, e.After+".request.json", &before)
		if before.Live && !e.Live {
			t.Errorf("%s is not live but comes after %s, which is", name, e.After)
		}
	}
}

func (p *player) play(t *testing.T, name string) any {
	t.Helper()
	if body, ok := p.played[name]; ok {
		return body
	}
	var (
		e    example
		want exampleReply
		got  any
	)
	readJSON(t, name+".request.json", &e)
	readJSON(t, name+".response.json", &want)
	var before any
	if e.After != "" {
		before = p.play(t, e.After)
	}
	fill := func(text string) string {
		text = strings.NewReplacer("${app_code}", appCode, "${app_secret}", appSecret, "${user}", "root", "${dir}", "/tmp").Replace(text)
		for from := strings.Index(text, "${data."); from >= 0; from = strings.Index(text, "${data.") {
			end := from + strings.IndexByte(text[from:], '}')
			text = text[:from] + fmt.Sprint(at(t, before, text[from+2:end])) + text[end+1:]
		}
		return text
	}
	body := e.Text
	if e.Body != nil {
		body = fill(string(e.Body))
	}
	r := httptest.NewRequest(e.Method, fill(e.Path), strings.NewReader(body))
	for k, v := range e.Headers {
		r.Header.Set(k, fill(v))
	}
	rec := httptest.NewRecorder()
	p.w.handler.ServeHTTP(rec, r)
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatalf("answer is no JSON: %v: %s", err, rec.Body)
	}
	if rec.Code != want.Status {
		t.Errorf("status is %d, want %d: %s", rec.Code, want.Status, rec.Body)
	}
	for k, v := range want.Headers {
		if rec.Header().Get(k) != v {
			t.Errorf("header %s is %q, want %q", k, rec.Header().Get(k), v)
		}
	}
	for _, difference := range compare("body", want.Body, got) {
		t.Error(difference)
	}
	p.played[name] = got
	return got
}

// compare lists where an answer differs from what is expected, whose holes match anything.
func compare(where string, want, got any) (differences []string) {
	if want == "<any>" {
		return nil
	}
	if m, ok := want.(map[string]any); ok && len(m) == 1 && m["<json>"] != nil {
		var decoded any
		text, ok := got.(string)
		if !ok || json.Unmarshal([]byte(text), &decoded) != nil {
			return []string{fmt.Sprintf("%s is no text that holds JSON: %v", where, got)}
		}
		return compare(where+".<json>", m["<json>"], decoded)
	}
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, want an object", where, got)}
		}
		for k, v := range want {
			if _, ok := object[k]; !ok {
				differences = append(differences, fmt.Sprintf("%s.%s is missing", where, k))
				continue
			}
			differences = append(differences, compare(where+"."+k, v, object[k])...)
		}
		for k := range object {
			if _, ok := want[k]; !ok {
				differences = append(differences, fmt.Sprintf("%s.%s is not expected", where, k))
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return []string{fmt.Sprintf("%s is %v, want a list of %d", where, got, len(want))}
		}
		for i := range want {
			differences = append(differences, compare(fmt.Sprintf("%s[%d]", where, i), want[i], list[i])...)
		}
	default:
		if want != got {
			differences = append(differences, fmt.Sprintf("%s is %#v, want %#v", where, got, want))
		}
	}
	return differences
}

func TestCompareFindsDifferences(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		same      bool
	}{
		{`{"a": "<any>", "b": [1]}`, `{"a": null, "b": [1]}`, true},
		{`{"a": {"<json>": {"b": 1}}}`, `{"a": "{\"b\": 1}"}`, true},
		{`{"a": {"<json>": {"b": 1}}}`, `{"a": {"b": 1}}`, false},
		{`{"a": 1}`, `{"a": 1, "b": 2}`, false},
		{`{"a": "<any>"}`, `{}`, false},
		{`[1, 2]`, `[1]`, false},
		{`{"a": 1}`, `{"a": "1"}`, false},
		{`{"a": null}`, `{"a": 0}`, false},
	} {
		var want, got any
		if err := errors.Join(json.Unmarshal([]byte(tt.want), &want), json.Unmarshal([]byte(tt.got), &got)); err != nil {
			t.Fatal(err)
		}
		if differences := compare("body", want, got); (len(differences) == 0) != tt.same {
			t.Errorf("%s against %s: %q", tt.got, tt.want, differences)
		}
	}
}

// at returns what stands at a dotted path.
func at(t *testing.T, v any, dotted string) any {
	t.Helper()
	for part := range strings.SplitSeq(dotted, ".") {
		object, ok := v.(map[string]any)
		if !ok || object[part] == nil {
			t.Fatalf("%s is not in the answer before: %v", dotted, v)
		}
		v = object[part]
	}
	return v
}

// exampleNames lists the cases as <endpoint>/<case>.
func exampleNames(t *testing.T) (names []string) {
	t.Helper()
	root := filepath.FromSlash(examplesDir)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, _ fs.DirEntry, err error) error {
		if short, ok := strings.CutSuffix(name, ".request.json"); ok {
			names = append(names, short)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(path.Join(examplesDir, name)))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
