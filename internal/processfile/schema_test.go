package processfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"drover/internal/processfile"
)

// schema is the JSON Schema of process files.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(processfile.Schema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fits reports whether a text in YAML fits a schema.
func fits(t *testing.T, s *jsonschema.Schema, text string) bool {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc) == nil
}

// TestSchemaOfNull: null is the default of each field that has one, in a process and in defaults.
func TestSchemaOfNull(t *testing.T) {
	s := schema(t)
	for _, f := range processfile.Fields() {
		names := strings.Split(f.Path, ".")
		text := "null"
		for i, name := range slices.Backward(names) {
			if text = "{" + name + ": " + text + "}"; i > 0 && names[i-1] == "config_files" {
				text = "[" + text + "]"
			}
		}
		if got := fits(t, s, "{namespace: a, processes: {b: "+text+"}}"); got != (f.Default != "required") {
			t.Errorf("%s: null is right: %v", f.Path, got)
		}
	}
	const file = `{namespace: a, revision: null, more: null, defaults: {after: {c: ready}, environment: {A: 1},
  labels: {L: l}}, processes: {b: {run: x, hosts: [h], after: {c: null}, environment: {A: null, B: 1},
  labels: {L: null}}}}`
	if _, err := processfile.Read("", []byte(file)); err != nil || !fits(t, s, file) {
		t.Errorf("Read says %v; the schema accepts it: %v", err, fits(t, s, file))
	}
	const none = "{namespace: a, defaults: null, processes: {b: {run: x, hosts: [h]}}}"
	if _, err := processfile.Read("", []byte(none)); err != nil || !fits(t, s, none) {
		t.Errorf("Read says %v of defaults: null", err)
	}
}

// TestSchemaAndRead: the schema accepts what Read accepts, and knows the bounds and the values of fields.
func TestSchemaAndRead(t *testing.T) {
	s := schema(t)
	for text, want := range map[string]bool{
		"nice: -20": true, "nice: 19": true, "nice: 20": false, "nice: -21": false,
		"copies: 1": true, "copies: 1000": true, "copies: 0": false, "copies: 1001": false,
		"oom_score_adjust: -1000": true, "oom_score_adjust: 1001": false,
		"ready: {notify_fd: 3}": true, "ready: {notify_fd: 2}": false, "ready: {notify_fd: 256}": false,
		"restart: {factor: 1.5}": true, "restart: {factor: 0.5}": false, "restart: {factor: 101}": false,
		"log: {keep: 1000}": true, "log: {keep: 0}": false, "expected_instances: 0": false,
		"health: {exec: x, failures: 1000}": true, "health: {exec: x, failures: 1001}": false,
		"rollout: {batch: 1, canary: 10000}": true, "rollout: {batch: 1, canary: -1}": false,
		"after: {c: ready}": true, "after: {c: up}": false, "restart: {when: never}": true, "restart: {when: no}": false,
		"drift: mend": true, "drift: x": false,
	} {
		file := "{namespace: a, processes: {b: {run: x, hosts: [h], " + text + "}}}"
		if _, err := processfile.Read("", []byte(file)); (err == nil) != want || fits(t, s, file) != want {
			t.Errorf("%s: Read says %v, the schema accepts it: %v; want %v", text, err, fits(t, s, file), want)
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "processes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "testdata/shop.written.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var list strings.Builder
		for part := range strings.SplitSeq(string(text), "---\n") {
			data, err := yaml.YAMLToJSON([]byte(part))
			if err != nil {
				t.Fatal(err)
			}
			list.WriteString("- " + string(data))
			if !fits(t, s, part) {
				t.Errorf("%s does not fit the schema:\n%s", name, part)
			}
		}
		if !fits(t, s, list.String()) {
			t.Errorf("the documents of %s as a list do not fit the schema", name)
		}
	}
}
