package processfile_test

import (
	"slices"
	"strings"
	"testing"

	"drover/internal/processfile"
)

// TestUnsupported: what agents do not carry out is told with its line.
func TestUnsupported(t *testing.T) {
	docs, err := processfile.Read("x.yaml", []byte(`namespace: a
processes:
  b:
    hosts: [x]
    run: x
    copies: 2
    ready: {alive: 1500ms, on_timeout: stop}
    reload: {signal: HUP}
    config_files: [{path: /x, sha256: `+strings.Repeat("0f", 32)+`}]
    health: {tcp: "a:1"}
  c:
    hosts: [x]
    run: x
    ready: {tcp: "a:1", within: 5s, on_timeout: report}
    health: {exec: x, action: restart}
    reload: kill -HUP 1
  d:
    hosts: [x]
    run: x
    ready: {within: 5s}
`))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "unsupported.txt", processfile.Unsupported(docs).Error()+"\n")
}

// TestUnsupportedAreFields: the list names fields.
func TestUnsupportedAreFields(t *testing.T) {
	var all []string
	for _, f := range processfile.Fields() {
		all = append(all, f.Path)
	}
	for _, path := range processfile.UnsupportedFields() {
		if !slices.Contains(all, path) {
			t.Errorf("there is no field %s", path)
		}
	}
}
