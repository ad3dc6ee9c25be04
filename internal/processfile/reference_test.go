package processfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/processfile"
)

// TestReference: the page of the fields is that of the table. -update writes it.
func TestReference(t *testing.T) {
	var page strings.Builder
	page.WriteString(`# Fields of a process file

[process-file.md](process-file.md) is the introduction. This page is made from the table in ` +
		"`internal/processfile`" + `, as are ` + "`drover explain`" + `
and the JSON Schema.

* Durations are ` + "`500ms`, `10s`, `5m`, `1h30m` or `30d`" + `. Sizes are ` + "`512KiB`, `64MiB`, `2GiB`" + ` or a number of bytes.
* ` + "`150%`" + ` of cpu is one processor and a half.
* A change of a **live** field takes effect at once. A change of a **restart** field takes effect at the next start.

| field | value | default | class | meaning |
|---|---|---|---|---|
`)
	for _, f := range processfile.Fields() {
		cell := strings.NewReplacer("|", `\|`, "*", `\*`).Replace
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", f.Path, cell(f.Value), cell(f.Default), f.Class, cell(f.Text))
	}
	path := filepath.Join("..", "..", "docs", "process-file-reference.md")
	have, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if string(have) == page.String() {
		return
	}
	if !*update {
		t.Fatal("docs/process-file-reference.md is not that of the fields: run go test ./internal/processfile -update")
	}
	if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
