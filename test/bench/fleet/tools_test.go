package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPIDs: a line of each tool tells a host and the pid of its daemon; what only names a host tells none.
func TestPIDs(t *testing.T) {
	out := `127.0.1.0: 4711
127.0.1.1 | CHANGED | rc=0 | (stdout) 815
127.0.1.2: Connection timed out
clush: 127.0.1.3: exited with exit code 255
127.0.2.249: 12
`
	want := map[string]int{"127.0.1.0": 4711, "127.0.1.1": 815, "127.0.2.249": 12}
	if diff := cmp.Diff(want, answer{out: out}.pids()); diff != "" {
		t.Errorf("pids (-want +got):\n%s", diff)
	}
}

// TestAddresses: hosts have addresses of their own.
func TestAddresses(t *testing.T) {
	seen := map[string]bool{}
	for i := range 1000 {
		if a := address(i); seen[a] {
			t.Fatalf("%s is the address of two hosts", a)
		} else {
			seen[a] = true
		}
	}
}
