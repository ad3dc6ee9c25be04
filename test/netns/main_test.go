// Package netns_test runs drover between hosts that are network namespaces: a server, agents beside it, and two areas
// behind proxies whose hosts have the same addresses. Links between them are cut, in each direction, and parts of
// drover are killed; what holds is looked at from outside. It takes root. The long form is "make netns".
package netns_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover":       &binaries.drover,
		"./cmd/drover-agent": &binaries.agent,
	}, harness.Need{Test: ".*", Accounts: true}))
}
