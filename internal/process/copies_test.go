package process_test

import (
	"testing"

	"drover/internal/process"
)

// TestCutCopy: only NAME@NUMBER is the name of a copy, and only a foreground process is a copy.
func TestCutCopy(t *testing.T) {
	for name, want := range map[string]struct {
		base   string
		number int
	}{
		"api@1": {"api", 1}, "api@1000": {"api", 1000}, "a@b@2": {"a@b", 2},
		"api": {"api", 0}, "api@": {"api@", 0}, "api@0": {"api@0", 0}, "api@01": {"api@01", 0}, "api@+1": {"api@+1", 0},
		"@1": {"@1", 0}, "api@x": {"api@x", 0}, "api@-1": {"api@-1", 0}, "": {"", 0},
		"api@99999999999999999999": {"api@99999999999999999999", 0},
	} {
		base, number := process.CutCopy(name)
		if base != want.base || number != want.number {
			t.Errorf("%q is %q and %d, want %q and %d", name, base, number, want.base, want.number)
		}
		if number > 0 && process.CopyName(base, number) != name {
			t.Errorf("the copy %d of %q is not %q", number, base, name)
		}
	}
	id := process.ID{Namespace: "n", Name: "api@2"}
	daemon, foreground := process.Spec{}, process.Spec{Run: "x"}
	if of, n := process.CopyOf(&daemon, id); of != id || n != 0 {
		t.Errorf("a daemon is copy %d of %s", n, of)
	}
	if of, n := process.CopyOf(&foreground, id); of.Name != "api" || of.Namespace != "n" || n != 2 {
		t.Errorf("it is copy %d of %s", n, of)
	}
}
