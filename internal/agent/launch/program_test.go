package launch_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"drover/internal/agent/launch"
	"drover/internal/process"
)

// elf is the text of a program for a machine, with a loader or without, of 200 bytes (elf(5)).
func elf(arch, loader string) string {
	machine, file := map[string]uint16{"amd64": 62, "arm64": 183, "s390x": 22}[arch], make([]byte, 200)
	copy(file, "\x7fELF\x02\x01\x01")
	var order binary.ByteOrder = binary.LittleEndian
	if arch == "s390x" {
		order, file[5] = binary.BigEndian, 2
	}
	order.PutUint16(file[16:], 2)
	order.PutUint16(file[18:], machine)
	order.PutUint64(file[32:], 64) // two program headers of 56 bytes each follow the header
	order.PutUint16(file[54:], 56)
	order.PutUint16(file[56:], 1)
	segment := func(at int, kind uint32, offset, length uint64) {
		order.PutUint32(file[at:], kind)
		order.PutUint64(file[at+8:], offset)
		order.PutUint64(file[at+32:], length)
	}
	segment(64, 1, 0, 200)
	if loader != "" {
		order.PutUint16(file[56:], 2)
		segment(120, 3, 176, uint64(len(loader)+1))
		copy(file[176:], loader)
	}
	return string(file)
}

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
	put("empty", "", 0o755)
	put("bytes", "\x00\x01\x02\n", 0o755)
	put("native", elf(runtime.GOARCH, "/bin/sh"), 0o755)
	put("static", elf(runtime.GOARCH, ""), 0o755)
	put("musl", elf(runtime.GOARCH, "/lib/ld-no.so.1"), 0o755)
	put("itself", elf(runtime.GOARCH, "./itself"), 0o755)
	put("sub/twice", "#!/usr/bin/env twice\n", 0o755)
	put("foreign", elf("s390x", ""), 0o755)
	put("half", elf(runtime.GOARCH, "/bin/sh")[:180], 0o755)
	put("stub", "\x7fELF\x02\x01", 0o755)
	put("busy", "#!/bin/sh\n", 0o755)
	busy, err := os.OpenFile(filepath.Join(dir, "busy"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close() //nolint:errcheck // nothing was written
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
		"./empty":                          `"./empty" is empty`,
		"./bytes":                          `"./bytes" is no program of this machine and no script`,
		"./native":                         "",
		"./static":                         "",
		"./musl":                           `"./musl" cannot be executed: its interpreter "/lib/ld-no.so.1" was not found`,
		"./itself":                         "", // the kernel does not ask for the loader of a loader
		"twice":                            "",
		"./foreign":                        `"./foreign" is a program for s390x, and this host is ` + runtime.GOARCH,
		"./half":                           `"./half" is cut off after 180 bytes`,
		"./stub":                           `"./stub" is cut off`,
		"./busy":                           `"./busy" is open for writing by a process: text file busy`,
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
