package processfile

import (
	"reflect"
	"slices"
	"testing"
)

// TestEachFieldIsDescribed: the table has the fields of Process, each once and in one place.
func TestEachFieldIsDescribed(t *testing.T) {
	want := fieldNames()
	var got []string
	for _, f := range Fields() {
		got = append(got, f.Path)
		if f.Value == "" || f.Default == "" || f.Text == "" || f.Class != Live && f.Class != AtRestart {
			t.Errorf("%s is not described: %+v", f.Path, f)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !reflect.DeepEqual(got, want) {
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s is a field of Process without a description", name)
			}
		}
		for i, name := range got {
			if !slices.Contains(want, name) || i > 0 && got[i-1] == name {
				t.Errorf("%s is described, but is not a field, or is described twice", name)
			}
		}
	}
}
