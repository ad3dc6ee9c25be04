package harness

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"drover/internal/agent/pidns"
)

// Main runs the tests of a package in a pid namespace of their own, after it has built programs there: the keys are
// packages of the module, the values take the paths of the binaries, which every account may run. The caller hands the
// result to os.Exit.
func Main(m *testing.M, programs map[string]*string) int {
	return pidns.Run(&built{m, programs})
}

type built struct {
	*testing.M
	programs map[string]*string
}

// waiters is how many tests run at the same time: they mostly wait for a server or for a daemon's check time.
const waiters = 8

// Run implements pidns.Main.
func (b *built) Run() int {
	dir, err := os.MkdirTemp("", "drover-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	for pkg, binary := range b.programs {
		if *binary, err = Build(dir, pkg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The command line is read later, and counts more.
	_ = flag.Set("test.parallel", fmt.Sprint(max(waiters, runtime.GOMAXPROCS(0)))) // a number is what it takes
	return b.M.Run()
}
