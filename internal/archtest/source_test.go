package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// parse returns the syntax of some files of a package, by name.
func parse(t *testing.T, p *listed, names []string) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	set := token.NewFileSet()
	files := map[string]*ast.File{}
	for _, name := range names {
		file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return set, files
}

func (p *listed) allFiles() []string { return slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) }

// TestEveryPackageSaysWhatItIs: exactly one package comment each, in the form that godoc shows. A package that has
// tests only has it there.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range ours(t) {
		names := p.GoFiles
		if len(names) == 0 {
			names = p.allFiles()
		}
		_, files := parse(t, p, p.allFiles())
		var commented []string
		for name, file := range files {
			text := file.Doc.Text() // without directives, such as nolint
			if text == "" {
				continue
			}
			commented = append(commented, name)
			start := "Package " + file.Name.Name + " "
			if p.Name == "main" {
				start = "" // a command is called by its file name
			}
			if !strings.HasPrefix(text, start) || len(text) < 40 {
				t.Errorf("%s/%s: the package comment begins with %.30q", p.short(), name, text)
			}
			if !slices.Contains(names, name) {
				t.Errorf("%s/%s: the package comment is in a test", p.short(), name)
			}
		}
		if len(commented) != 1 {
			t.Errorf("%s: package comments in %q, want exactly one", p.short(), commented)
		}
	}
}

// TestNothingHappensByItself: no init function, and no clock in a pure package.
func TestNothingHappensByItself(t *testing.T) {
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}
	timeless := append(pure(), "internal/agent/story") // which knows the nouns of packages that do I/O
	for _, p := range ours(t) {
		set, files := parse(t, p, p.allFiles())
		for name, file := range files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s: an init function", set.Position(f.Pos()))
				}
			}
			if !slices.Contains(timeless, p.short()) || strings.HasSuffix(name, "_test.go") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clocks, s.Sel.Name) {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
						t.Errorf("%s: time.%s in a pure package: hand the time in", set.Position(s.Pos()), s.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// TestNothingIsPutOff: nothing is put off, and nothing is taken from elsewhere than the tree.
func TestNothingIsPutOff(t *testing.T) {
	// Spelt apart, so that this file is not found itself.
	putOff := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|HA` + `CK|XX` + `X)\b`)
	elsewhere := regexp.MustCompile(`\bshare` + `d/`)
	files := 0
	err := filepath.WalkDir(root(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil || !utf8.Valid(data) {
			return err
		}
		files++
		if found := putOff.Find(data); found != nil && filepath.Ext(path) != ".sum" {
			t.Errorf("%s says %s: do it, or say what is so", path, found)
		}
		if elsewhere.Match(data) {
			t.Errorf("%s refers to a directory that is not part of the product", path)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}

// TestNoKeySignsTwoKindsOfThings: what signs says what it signs, so whoever wants another thing signed has to come here
// first. A statement says its kind, a challenge has a form that no statement has.
func TestNoKeySignsTwoKindsOfThings(t *testing.T) {
	signing := []string{
		"internal/fabric/challenge.go",    // brokers' challenges
		"internal/wire/statement.go",      // statements
		"internal/pki/proxy.go",           // what a host that joins through a proxy is answered (wire.Proven)
		"internal/release/release.go",     // packages, by keys of their own that no server has
		"internal/fabric/key.go",          // a key, which others have sign
		"internal/server/keyring/hold.go", // likewise
	}
	used := map[string]bool{}
	for _, p := range ours(t) {
		if p.forTests() {
			continue
		}
		set, files := parse(t, p, p.GoFiles)
		for name, file := range files {
			path := p.short() + "/" + name
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sign" {
					used[path] = true
					if !slices.Contains(signing, path) {
						t.Errorf(
							"%s: something is signed: use fabric.SignChallenge, or add a kind of statement to package wire", set.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
	for _, path := range signing {
		if !used[path] {
			t.Errorf("%s signs nothing: take it off this list", path)
		}
	}
}
