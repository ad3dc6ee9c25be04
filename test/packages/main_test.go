// Package packages_test installs drover as people do, by the pages in docs/ops and the packages that tools/package.sh
// makes, on machines made of namespaces that run systemd.
package packages_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent, nats, mute string }

func TestMain(m *testing.M) {
	programs := map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
		"github.com/nats-io/nats-server/v2": &binaries.nats, "./test/daemons/drover-agent-mute": &binaries.mute,
	}
	os.Exit(harness.Main(m, programs,
		harness.Need{Test: "TestPages", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestPagesOfSeveralServers", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestPageOfProxies", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestPackages", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestUpgradesByTheServer", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestMigration", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestInstallScript", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestRPMs", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestImage", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestCompose", Accounts: true, Program: "/lib/systemd/systemd"},
		harness.Need{Test: "TestSignedRPMs", Program: "/usr/bin/rpm"},
		harness.Need{Test: "TestSignature", Program: "/usr/bin/ssh-keygen"},
		harness.Need{Test: "TestSameBytes", Program: "/usr/bin/dpkg-deb"},
		harness.Need{Test: "TestBillsOfMaterials", Program: "/usr/bin/rpm2cpio"},
		harness.Need{Test: "TestHardening", Program: "/usr/bin/systemd-analyze"},
	))
}
