// Package quickstart_test does what the documentation tells a newcomer to do, word for word, with the built binaries:
// start drover dev, paste what it prints, run the quick start, stop it, start it again.
package quickstart_test

import (
	"os"
	"testing"
	"time"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent, "./test/daemons/oddd": &binaries.oddd,
	},
		// nginx that finds itself root gives its workers another account.
		harness.Need{Test: "TestQuickstart/as_it_comes", Accounts: true},
	))
}

// stopTime is how long a stop may take (SIGTERM ends drover within 10 s).
const stopTime = 10 * time.Second
