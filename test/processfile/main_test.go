// Package processfile_test holds the black-box tests of process files: what a file says is what the built binary does.
package processfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &binaries.drover},
		harness.Need{Test: "TestExecution", Accounts: true}, harness.Need{Test: "TestClasses", Accounts: true}))
}

// place is a drover, and a directory for the processes of one namespace.
type place struct{ *harness.Place }

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{harness.NewPlace(t, binaries.drover)}
}

// read returns a file of the directory once it has a line; all spaces at its ends are cut.
func (p *place) read(name string) string {
	p.T.Helper()
	var text []byte
	harness.Eventually(p.T, "a line in "+name, func() bool {
		text, _ = os.ReadFile(filepath.Join(p.Dir, name))
		return strings.HasSuffix(string(text), "\n")
	})
	return strings.TrimSpace(string(text))
}

// count is the number of lines of a file of the directory.
func (p *place) count(name string) int {
	text, _ := os.ReadFile(filepath.Join(p.Dir, name))
	return strings.Count(string(text), "\n")
}

// alive reports whether the process with the pid in a file lives.
func (p *place) alive(file string) bool {
	pid, err := strconv.Atoi(p.read(file))
	if err != nil {
		p.T.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// await waits until a file of the directory has a line.
func (p *place) await(name, line string) {
	p.T.Helper()
	harness.Eventually(p.T, line+" in "+name, func() bool {
		text, _ := os.ReadFile(filepath.Join(p.Dir, name))
		return slices.Contains(strings.Split(string(text), "\n"), line)
	})
}
