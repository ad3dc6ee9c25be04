// Package monitoring_test holds the black-box tests of what watches drover: alarms and metrics, and the files in deploy
// that rest on them.
package monitoring_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

// alertmanager is the program of the package prometheus-alertmanager.
const alertmanager = "/usr/bin/prometheus-alertmanager"

var binaries struct{ drover, agent, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent, "./test/daemons/oddd": &binaries.oddd,
	}, harness.Need{Test: "TestAlertmanager", Program: alertmanager}))
}
