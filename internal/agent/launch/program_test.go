package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/agent/launch"
	"drover/internal/process"
)

// TestMayExecute: what the kernel would refuse is known before, and what a shell would call is not.
func TestMayExecute(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("plain", "text", 0o644)
	put("script", "#!/bin/sh\n", 0o755)
	put("spaces", "#! \t/bin/sh -e \n", 0o755)
	put("bare", "echo\n", 0o755)
	put("crlf", "#!/bin/sh\r\necho\r\n", 0o755)
	put("gone", "#!/opt/no/python3\n", 0o755)
	put("env", "#!/usr/bin/env no-such-python\n", 0o755)
	put("split", "#!/usr/bin/env -S sh -e\n", 0o755)
	put("lost", "#!/usr/bin/env -S no-such-python -u\n", 0o755)
	put("nested", "#!"+filepath.Join(dir, "gone")+"\n", 0o755)
	put("sub/tool", "#!/bin/sh\n", 0o755)
	for link, target := range map[string]string{"dangling": "no/such", "good": "script", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	account, err := launch.LookupAccount("/", launch.OwnName())
	if err != nil {
		t.Fatal(err)
	}
	path := map[string]string{"PATH": "/bin:/usr/bin:sub"}
	for line, want := range map[string]string{
		"./script":                         "",
		"exec ./script -x":                 "",
		dir + "/script":                    "",
		"./spaces":                         "",
		"./bare":                           "", // the shell runs it
		"./good":                           "",
		"./split":                          "",
		"sh -c x":                          "",
		"tool":                             "",
		"exec tool":                        "",
		"./missing || ./script":            "",
		"cd /no && ./x":                    "",
		"test -e /no":                      "",
		"MODE=x ./missing":                 "",
		"$HOME/missing":                    "",
		"./plain":                          `may not execute "./plain": permission denied`,
		"./missing":                        `"./missing" was not found`,
		"exec './missing' 1":               `"./missing" was not found`,
		"./script/x":                       `"./script/x" was not found`,
		"./dangling":                       `"./dangling" was not found`,
		"./loop":                           `cannot execute "./loop": too many levels of symbolic links`,
		"./sub":                            `"./sub" is a directory`,
		"./crlf":                           `"./crlf" cannot be executed: its interpreter "/bin/sh\r" was not found: a line ends with CR LF, expected LF`,
		"./gone":                           `"./gone" cannot be executed: its interpreter "/opt/no/python3" was not found`,
		"./env":                            `its interpreter "no-such-python" is in no directory of PATH`,
		"./lost":                           `its interpreter "no-such-python" is in no directory of PATH`,
		"./nested":                         `/gone" cannot be executed: its interpreter "/opt/no/python3" was not found`,
		"exec no-such-tool":                `"no-such-tool" is in no directory of PATH, which is /bin:/usr/bin:sub`,
		"no-such-tool --with 'quoted; it'": `"no-such-tool" is in no directory of PATH`,
	} {
		err := account.MayExecute(line, dir, path)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", line, err, want)
		case want != "" && process.CauseOf(err) == "":
			t.Errorf("%s: no cause", line)
		}
	}
}

// TestIsScript: only what an interpreter executes is a script. What is no file is never opened.
func TestIsScript(t *testing.T) {
	account, err := launch.LookupAccount("/", launch.OwnName())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"script": "#!/bin/sh\n", "text": "echo\n", "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"script": true, "text": false, "empty": false, "fifo": false, "none": false} {
		if got := account.IsScript(filepath.Join(dir, name)); got != want {
			t.Errorf("%s is a script: %t", name, got)
		}
	}
}
