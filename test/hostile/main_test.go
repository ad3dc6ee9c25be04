// Package hostile_test has a real server and real agents work while others attack them: holders of hundreds of agents'
// keys, an app with next to no rights, a person without any, strangers at the ports, and an account on a host that fills the disk.
package hostile_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent, oddd, attacker string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
		"./test/daemons/oddd": &binaries.oddd, "./test/hostile/attacker": &binaries.attacker,
	}, harness.Need{Test: "TestHostile", Accounts: true}))
}
