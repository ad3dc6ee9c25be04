// Package lifecycle_test holds the black-box tests of real and of odd daemons: the built binary runs them through its
// HTTP API as a caller would.
package lifecycle_test

import (
	"os"
	"os/exec"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &binaries.drover, "./test/daemons/oddd": &binaries.oddd},
		harness.Need{Test: "TestCommands/run_as_another_account", Accounts: true},
		harness.Need{Test: "TestRealDaemons/nginx", Program: "/usr/sbin/nginx"},
		harness.Need{Test: "TestUpgradeOfNginx", Program: "/usr/sbin/nginx"},
		harness.Need{Test: "TestRealDaemons/memcached", Program: "/usr/bin/memcached"},
		harness.Need{Test: "TestRealDaemons/redis-server", Accounts: true},
		harness.Need{Test: "TestRealDaemons/haproxy", Program: "/usr/sbin/haproxy"},
		harness.Need{Test: "TestRealDaemons/prefork", Program: "/usr/bin/python3"},
		harness.Need{Test: "TestRealDaemons/postgres", Accounts: true},
	))
}

// run runs a command of the test itself and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}
