package facts

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/launch"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
	"drover/internal/test/harness"
)

// TestMain runs the tests in a pid namespace: they start processes.
func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

// directory returns a directory with JSON files.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// program writes a script, and returns its path.
func program(t *testing.T, dir, name, script string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := harness.WriteProgram(path, []byte("#!/bin/sh\n"+script+"\n")); err != nil {
		t.Fatal(err)
	}
	return path
}

func collect(t *testing.T, dir string) (map[string]string, string) {
	t.Helper()
	k := New(Config{FS: procfs.New("/proc"), Dir: dir, Log: slog.New(slog.DiscardHandler)})
	h, faults := k.Collect(t.Context())
	if err := errors.Join(faults...); err != nil {
		return h.Facts, err.Error()
	}
	return h.Facts, ""
}

func TestFactsOfFiles(t *testing.T) {
	dir := directory(t, map[string]string{
		"a.json": `{"rack": "4", "units": 42, "ssd": true, "ratio": 1.50}`, "b.json": `{"rack": "5"}`, ".hidden": "x",
	})
	got, faults := collect(t, dir)
	want := map[string]string{"rack": "5", "units": "42", "ssd": "true", "ratio": "1.50"}
	if diff := cmp.Diff(want, got); diff != "" || faults != "" {
		t.Errorf("%s, faults %s", diff, faults)
	}
	if got, faults := collect(t, filepath.Join(dir, "none")); got != nil || faults != "" {
		t.Errorf("without a directory: %v, %s", got, faults)
	}
}

// TestBadFiles: every fault is named, and the facts without a fault are reported.
func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 "one JSON object",
		`[1]`:                              "one JSON object",
		`{} {}`:                            "one JSON object",
		`{"a": null}`:                      `fact "a" is neither`,
		`{"a": {"b": 1}, "c d": "x"}`:      `fact "a" is neither`,
		`{"c d": "x", "a": [1]}`:           `the name "c d" of a fact`,
		`{"a": "\u001b[2J"}`:               "the value of fact a",
		strings.Repeat(" ", 64<<10) + "{}": "more than 65536 bytes",
	} {
		got, faults := collect(t, directory(t, map[string]string{"bad": text, "good": `{"good": 1}`}))
		if !strings.Contains(faults, want) || !cmp.Equal(got, map[string]string{"good": "1"}) {
			t.Errorf("%.30q: %v, faults %s", text, got, faults)
		}
	}
	half := directory(t, map[string]string{"half": `{"rack": "4", "c d": "x", "a": null}`})
	if got, faults := collect(t, half); !cmp.Equal(got, map[string]string{"rack": "4"}) ||
		!strings.Contains(faults, `"c d"`) || !strings.Contains(faults, `"a"`) {
		t.Errorf("%v, faults %s", got, faults)
	}
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprintf("f%02d", i)] = fmt.Sprintf(`{"n%02da": 1, "n%02db": 2, "n%02dc": 3}`, i, i, i)
	}
	got, faults := collect(t, directory(t, many))
	if len(got) != mostFacts || !strings.Contains(faults, "33 files") || !strings.Contains(faults, "96 facts") {
		t.Errorf("%d facts, faults %s", len(got), faults)
	}
}

// TestOnlyTheOwnersFiles: whoever may not act as the agent gives it neither facts nor executables.
func TestOnlyTheOwnersFiles(t *testing.T) {
	for name, prepare := range map[string]func(dir, file string) error{
		"other users may write": func(_, file string) error { return os.Chmod(file, 0o722) },
		"is a link": func(dir, file string) error {
			return errors.Join(os.Rename(file, dir+"/.x"), os.Symlink(dir+"/.x", file))
		},
		"belongs to uid 65534":   func(_, file string) error { return os.Chown(file, 65534, 65534) },
		"is not a regular file":  func(_, file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"other users may write ": func(dir, _ string) error { return os.Chmod(dir, 0o777) }, //nolint:gosec // on purpose
	} {
		if os.Geteuid() != 0 && strings.Contains(name, "uid") {
			continue
		}
		dir := directory(t, nil)
		ran := filepath.Join(t.TempDir(), "ran")
		file := program(t, dir, "facts", "touch "+ran+"; echo '{\"a\": 1}'")
		if err := prepare(dir, file); err != nil {
			t.Fatal(err)
		}
		got, faults := collect(t, dir)
		if got != nil || !strings.Contains(faults, name) {
			t.Errorf("%s: %v, faults %s", name, got, faults)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: the executable ran", name)
		}
	}
}

func TestFactsOfExecutables(t *testing.T) {
	for script, want := range map[string]struct {
		facts map[string]string
		fault string
	}{
		`echo '{"who": "'$0'", "path": "'$PATH'", "home": "'$HOME'"}'; echo noise >&2`: {
			map[string]string{"who": "", "path": launch.DefaultPath, "home": ""}, "",
		},
		`echo 'no disk' >&2; exit 3`: {nil, `it has failed: exit status 3: "no disk"`},
		`yes`:                        {nil, "more than 65536 bytes"},
		`echo '{"a": 1'`:             {nil, "one JSON object"},
	} {
		dir := directory(t, nil)
		file := program(t, dir, "facts", script)
		got, faults := collect(t, dir)
		if _, named := want.facts["who"]; named {
			want.facts["who"] = file
		}
		if !cmp.Equal(got, want.facts) || !strings.Contains(faults, want.fault) || (want.fault == "") != (faults == "") {
			t.Errorf("%q: %v, faults %s", script, got, faults)
		}
	}
}

// TestARelativeDirectory: executables have another working directory, and are found all the same.
func TestARelativeDirectory(t *testing.T) {
	dir := directory(t, nil)
	program(t, dir, "facts", `echo '{"a": "1"}'`)
	t.Chdir(filepath.Dir(dir))
	if got, faults := collect(t, filepath.Base(dir)); faults != "" || got["a"] != "1" {
		t.Errorf("%v, faults %s", got, faults)
	}
}

// TestAnExecutableThatHangs: its whole group ends, and the other facts are there.
func TestAnExecutableThatHangs(t *testing.T) {
	dir := directory(t, map[string]string{"good": `{"good": 1}`})
	pid := filepath.Join(t.TempDir(), "pid")
	program(t, dir, "hangs", "sleep 1000 & echo $! >"+pid+"; wait")
	k := New(Config{FS: procfs.New("/proc"), Dir: dir, Log: slog.New(slog.DiscardHandler)})
	k.runTime = time.Second
	h, faults := k.Collect(t.Context())
	if !cmp.Equal(h.Facts, map[string]string{"good": "1"}) || len(faults) != 1 ||
		!strings.Contains(faults[0].Error(), "has not ended within 1s") {
		t.Errorf("%v, faults %v", h.Facts, faults)
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	// It was sent SIGKILL; the kernel ends it a moment later.
	harness.Eventually(t, "the end of its child", func() bool {
		status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat")
		return err != nil || strings.Contains(string(status), ") Z ")
	})
}

// TestRunTellsChanges: the first look and each change, and executables run less often than files are read.
func TestRunTellsChanges(t *testing.T) {
	dir := directory(t, map[string]string{"a": `{"a": 1}`})
	k := New(Config{
		FS: procfs.New("/proc"), Dir: dir, Labels: map[string]string{"role": "web"}, Log: slog.New(slog.DiscardHandler),
	})
	if h := k.Host(); !h.Gathering || h.Labels["role"] != "web" || h.CPUs < 1 || h.Memory == 0 || h.Kernel == "" {
		t.Errorf("at first the host is %+v", h)
	}
	ran := map[string]result{}
	step := func(run, want bool) {
		t.Helper()
		if got := k.set(k.collect(t.Context(), ran, run)); got != want {
			t.Errorf("changed: %v, want %v: %+v", got, want, k.Host())
		}
	}
	step(true, true)
	if h := k.Host(); h.Gathering || h.Facts["a"] != "1" || h.Labels["role"] != "web" {
		t.Errorf("after a look the host is %+v", h)
	}
	step(false, false)
	count := filepath.Join(t.TempDir(), "count")
	second := program(t, dir, "b", "echo >>"+count+`; echo '{"b": '$(wc -l <`+count+`)'}'`)
	step(false, true) // a new executable runs at once
	step(false, false)
	if h := k.Host(); h.Facts["b"] != "1" {
		t.Errorf("the facts are %v", h.Facts)
	}
	step(true, true)
	if h := k.Host(); h.Facts["b"] != "2" {
		t.Errorf("the facts are %v", h.Facts)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	step(false, true)
	if h := k.Host(); len(h.Facts) != 1 || len(ran) != 0 {
		t.Errorf("the facts are %v, and %d results are kept", h.Facts, len(ran))
	}
}

func TestOSRelease(t *testing.T) {
	for text, want := range map[string][2]string{
		"NAME=x\nID=debian\nVERSION_ID=\"12\"\nID_LIKE=y\n": {"debian", "12"},
		"ID='ubuntu'":   {"ubuntu", ""},
		"":              {"", ""},
		"# ID=x\nID":    {"", ""},
		"VERSION_ID=\"": {"", ""},
	} {
		if id, version := osRelease([]byte(text)); id != want[0] || version != want[1] {
			t.Errorf("%q: %q, %q", text, id, version)
		}
	}
}
