// Package browser_test holds the tests of the console in a real browser: Debian's chromium-headless-shell, with a real server,
// real agents and real processes. Every test fails on a console error, a report of the content policy, a request to
// another origin, a reply of 500 or more, and a serious accessibility fault (tab_test.go).
package browser_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
	}, harness.Need{Test: ".*", Program: chromiumPath}))
}
