package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTables(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/large.go":      "package a\n\ntype door struct{ a, b int; c string }\n\nfunc (d *door) Open() {}\nfunc (d door) Shut() {}\n",
		"a/small.go":      "package a\n",
		"a/large_test.go": "package a\n\nfunc not() {}\n",
		"b/b.go":          "package b\n\ntype Walks interface{ Walk(); Stand(); Sit() }\n\ntype of[T any] struct{}\n\nfunc (o *of[T]) Only() {}\n",
		".git/c.go":       "no Go",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	h, err := measure(".")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := h.write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"== packages by lines ==\n7  a\n7  b\n", "== packages by files ==\n2  a\n1  b\n", "7  b/b.go\n6  a/large.go\n",
		"== types by methods ==\n3  b Walks\n2  a door\n1  b of\n", "== structs by fields ==\n3  a door\n0  b of\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("without %q:\n%s", want, out.String())
		}
	}
}
