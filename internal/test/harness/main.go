package harness

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"drover/internal/agent/pidns"
)

// Need is what a test cannot do without.
type Need struct {
	// Test is its name, as -run takes it.
	Test string
	// Accounts says that it runs commands as other accounts, or needs root otherwise.
	Accounts bool
	// Groups says that nothing may escape, which takes control groups.
	Groups bool
	// Program is a pattern of paths, one of which must be there.
	Program string
}

// Main runs the tests of a package in a pid namespace of their own, after it has built programs there: the keys are
// packages of the module, the values take the paths of the binaries, which every account may run. The caller hands the
// result to os.Exit.
//
// Root has what all tests need, or can install it (make test-deps): for root a missing need is a failure. For an
// ordinary user the tests whose needs are not met are left out, and named on standard error.
func Main(m *testing.M, programs map[string]*string, needs ...Need) int {
	return pidns.Run(&built{m, programs, needs})
}

type built struct {
	*testing.M
	programs map[string]*string
	needs    []Need
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
	_ = flag.Set("test.parallel", fmt.Sprint(max(waiters, runtime.GOMAXPROCS(0)))) // a number is what it takes
	flag.Parse()                                                                   // the command line counts more
	if left := b.leftOut(); len(left) > 0 {
		if asked := flag.Lookup("test.skip").Value.String(); asked != "" {
			left = append(left, asked)
		}
		_ = flag.Set("test.skip", strings.Join(left, "|")) // names are what it takes
	}
	return b.M.Run()
}

// leftOut returns the names of the tests that an ordinary user cannot run here, and prints why.
func (b *built) leftOut() []string {
	if manyAccounts() {
		return nil
	}
	var names []string
	for _, n := range b.needs {
		why := ""
		switch found, _ := filepath.Glob(n.Program); {
		case n.Accounts:
			why = "only root can do what it does"
		case n.Groups:
			why = "a fork storm may escape where no control group can be written"
		case n.Program != "" && len(found) == 0:
			why = n.Program + " is not installed"
		default:
			continue
		}
		fmt.Fprintf(os.Stderr, "LEFT OUT %s: %s\n", n.Test, why)
		parts := strings.Split(n.Test, "/")
		names = append(names, "^"+strings.Join(parts, "$/^")+"$")
	}
	return names
}

// manyAccounts reports whether more accounts than our own exist here. In the user namespace that an ordinary user's
// tests run in there is one, which looks like root.
func manyAccounts() bool {
	mapping, err := os.ReadFile("/proc/self/uid_map")
	var inside, outside, count int
	if _, scanErr := fmt.Sscan(string(mapping), &inside, &outside, &count); err != nil || scanErr != nil {
		return os.Geteuid() == 0
	}
	return os.Geteuid() == 0 && count > 1
}
