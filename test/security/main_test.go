// Package security_test plants secrets wherever a caller may put one, and searches all that drover writes, answers and
// starts for them; and it tries what an account on a host may try.
package security_test

import (
	"os"
	"testing"

	"drover/internal/test/harness"
)

var drover string

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &drover},
		harness.Need{Test: "TestAnAccountDoesNotDecideWhomRootEnds", Accounts: true},
		harness.Need{Test: "TestWhatAFileHoldsIsNotQuoted", Accounts: true},
		harness.Need{Test: "TestPIDFilesThatOthersCanReplace", Accounts: true},
	))
}
