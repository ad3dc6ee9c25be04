package term

import (
	"io"
	"reflect"
	"strings"
	"testing"

	v1 "drover/api/v1"
)

// TestUnknownPathsAreErrors: a path that no value can have is an error with the names that there are; a field that this
// value lacks is none.
func TestUnknownPathsAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[*].host.id": "", "[0].spec.environment.ANY": "", "[*].cause": "", "[*].host.*": "", "": "",
		"[*].hosts":     `no field "hosts": expected one of `,
		"[*].host.id.x": `no field "x": the value before it has none`,
		"name":          `no "name" in a list: expected [N] or [*] before it`,
		"[*][0]":        "no element [0]: the value before it is no list",
	} {
		p, err := parsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		err = p.check(reflect.TypeFor[[]v1.Process]())
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := printPath(io.Discard, "[*].nam", []v1.Process{}); err == nil {
		t.Error("a misspelt field of an empty list is accepted")
	}
}
