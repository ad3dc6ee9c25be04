// Package trust_test runs a real drover server and real agents on loopback, with TLS as between machines, and looks
// from outside at whom they trust: while keys are replaced, when a host is copied or emptied, when its owner narrows
// what may be done there, and when somebody else holds the fabric.
package trust_test

import (
	"os"
	"path/filepath"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent, "./test/daemons/oddd": &binaries.oddd,
	}))
}

// fleet is a server with agents, all on loopback.
type fleet struct{ *harness.Fleet }

func newFleet(t *testing.T, flags ...string) *fleet {
	t.Helper()
	return &fleet{harness.NewFleet(t, binaries.drover, binaries.agent, flags...)}
}

// daemon is a process to supervise, and its directory. Each host has one of its own, as all hosts of a test share their
// files.
func (f *fleet) daemon(name string) (*harness.Process, string) {
	f.T.Helper()
	return harness.Odd(f.T, nil, binaries.oddd, name, "plain")
}

// write replaces a file at once.
func (f *fleet) write(name, text string) string {
	f.T.Helper()
	path := filepath.Join(f.Dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		f.T.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.T.Fatal(err)
	}
	return path
}

const (
	first  = "0:127.0.0.2"
	second = "0:127.0.0.3"

	// restart is the op_type of one.
	restart = 7
)
