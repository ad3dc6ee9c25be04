package remote_test

import (
	"testing"

	v1 "drover/api/v1"
	"drover/internal/cli/remote"
)

// TestUsed: bytes and percent are of the same thing, the whole tree if the host has measured it.
func TestUsed(t *testing.T) {
	p := v1.Process{}
	if u := remote.Used(&p); u != (v1.Usage{}) {
		t.Errorf("what does not run uses %+v", u)
	}
	p.Instance = &v1.Instance{CPU: 1, Mem: 2, RSS: 3}
	if u := remote.Used(&p); u.CPU != 1 || u.Mem != 2 || u.RSS != 3 {
		t.Errorf("before a look at the tree: %+v", u)
	}
	p.Usage = &v1.Usage{CPU: 10, Mem: 20, RSS: 30}
	if u := remote.Used(&p); u.CPU != 10 || u.Mem != 20 || u.RSS != 30 {
		t.Errorf("the tree: %+v", u)
	}
}
