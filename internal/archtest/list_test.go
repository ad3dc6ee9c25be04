// Package archtest holds the rules of the architecture as tests: who may reach whom (docs/architecture.md), through
// others too, which a linter does not see, and what every source file has to look like. It owns no code of the product.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the prefix of our own import paths, in both modules of the workspace.
const module = "drover/"

// listed is what `go list` says of a package.
type listed struct {
	ImportPath   string
	Dir          string
	Name         string
	Standard     bool
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	Deps         []string
}

func (p *listed) ours() bool { return strings.HasPrefix(p.ImportPath, module) }

// short is the path below the module.
func (p *listed) short() string { return strings.TrimPrefix(p.ImportPath, module) }

// forTests says that a package exists for tests only: it may import what the product may not.
func (p *listed) forTests() bool { return forTests(p.ImportPath) }

func forTests(path string) bool {
	return below(path, module+"test", module+"internal/test") || strings.HasSuffix(path, "test") &&
		strings.HasPrefix(path, module) ||
		path == module+"internal/agent/pidns"
}

// packages returns our packages and all that they are made of, in the order of `go list`.
func packages(t *testing.T) []*listed {
	t.Helper()
	list, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

//nolint:gochecknoglobals // asked once for all tests, as it takes a second
var load = sync.OnceValues(func() ([]*listed, error) {
	cmd := exec.Command("go", "list", "-deps",
		"-json=ImportPath,Dir,Name,Standard,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps", "work")
	cmd.Dir = root()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}
	var list []*listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
})

// root is the directory of the repository.
func root() string { return filepath.Join("..", "..") }

// ours returns our own packages.
func ours(t *testing.T) []*listed {
	t.Helper()
	var list []*listed
	for _, p := range packages(t) {
		if p.ours() {
			list = append(list, p)
		}
	}
	if len(list) < 30 {
		t.Fatalf("only %d packages were found", len(list))
	}
	return list
}

// find returns one of our packages.
func find(t *testing.T, short string) *listed {
	t.Helper()
	list := packages(t)
	i := slices.IndexFunc(list, func(p *listed) bool { return p.ImportPath == module+short })
	if i < 0 {
		t.Fatalf("there is no package %s: the rule about it has to follow it", short)
	}
	return list[i]
}

// below reports whether a path is one of the given ones or below it.
func below(path string, tops ...string) bool {
	return slices.ContainsFunc(tops, func(top string) bool { return path == top || strings.HasPrefix(path, top+"/") })
}
