// Package proxy_test runs a real server, real proxies that have joined it and real agents behind them, all on loopback
// with TLS, and looks at them from outside.
package proxy_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent, "./test/daemons/oddd": &binaries.oddd,
	}))
}
