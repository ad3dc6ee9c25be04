// Package selecting_test chooses hosts of a real fleet by their labels and facts, and looks at what that grants.
package selecting_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
	}, harness.Need{Test: "TestAnsible", Program: "/usr/bin/python3"}))
}
