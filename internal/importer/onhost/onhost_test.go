package onhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/importer/onhost"
)

// TestTemplates: an instance of a template by its path is the template with the drop-ins of both. A template alone does
// not run, so it is refused, as by systemd.
func TestTemplates(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"w@.service", "w@.service.d/all.conf", "w@1.service.d/one.conf"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("# "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := onhost.Units(t.Context(), []string{dir + "/w@1.service"})
	if err != nil || len(all) != 1 || all[0].Name != "w@1.service" {
		t.Fatalf("%+v, %v", all, err)
	}
	var files []string
	for _, f := range all[0].Files {
		files = append(files, strings.TrimPrefix(f.Path, dir+"/"))
	}
	if got := strings.Join(files, " "); got != "w@.service w@.service.d/all.conf w@1.service.d/one.conf" {
		t.Errorf("files %q", got)
	}
	for name, want := range map[string]string{
		dir + "/w@.service": dir + "/w@.service is a template, which does not run: name an instance, such as " + dir +
			"/w@1.service",
		"w@": "w@.service is a template, which does not run: name an instance, such as w@1.service",
	} {
		if _, err := onhost.Units(t.Context(), []string{name}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestNamesOfUnits: a name without the suffix of a type is that of a service, also with a dot in it.
func TestNamesOfUnits(t *testing.T) {
	for name, want := range map[string]string{
		"no-such8.2-fpm": "no-such8.2-fpm.service", "no-such": "no-such.service", "no-such8.2.timer": "no-such8.2.timer",
	} {
		_, err := onhost.Units(t.Context(), []string{name})
		if err == nil || !strings.HasPrefix(err.Error(), "unit "+want+" is in none of ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScripts: a program that names its interpreter is a script.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	script := onhost.Facts().Script
	for name, text := range map[string]string{"script": "#!/bin/sh\n", "program": "\x7fELF", "short": "#"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := script(file); got != (name == "script") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if script(filepath.Join(dir, "none")) {
		t.Error("a file that is not there is a script")
	}
}
