// Package past_test asks for moments of the past that it has seen: on real agents whose processes start, crash, flap
// and stop, while agent and server are killed.
package past_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
	}))
}
