package configdrift_test

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	v1 "drover/api/v1"
	"drover/internal/agent/configdrift"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

func sum(text string) string {
	h := md5.Sum([]byte(text))
	return hex.EncodeToString(h[:])
}

// file makes a file of that content in a new directory.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nginx.conf")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// want returns a spec's entry for a file of that content.
func want(path, text string) []v1.ConfigFile {
	return []v1.ConfigFile{{Path: path, MD5: sum(text)}}
}

func TestWhatDrifts(t *testing.T) {
	good := file(t, "good")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := unix.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(good, at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", at("loop")); err != nil {
		t.Fatal(err)
	}
	write(t, at("large"), "")
	if err := os.Truncate(at("large"), 256<<20+1); err != nil { // a hole
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, md5, have, problem string }{
		{name: "the same", path: good, md5: sum("good")},
		{name: "the same in capitals", path: good, md5: strings.ToUpper(sum("good"))},
		{name: "the same behind a link", path: at("link"), md5: sum("good")},
		{name: "another one", path: good, md5: sum("bad"), have: sum("good")},
		{name: "none", path: at("none"), md5: sum("good"), problem: "no such file or directory"},
		{name: "a directory", path: dir, md5: sum("good"), problem: "is not a regular file"},
		{name: "a pipe that nobody writes to", path: at("fifo"), md5: sum("good"), problem: "is not a regular file"},
		{name: "a device", path: "/dev/zero", md5: sum("good"), problem: "is not a regular file"},
		{name: "a link to itself", path: at("loop"), md5: sum("good"), problem: "too many levels of symbolic links"},
		{name: "a file as a directory", path: good + "/x", md5: sum("good"), problem: "not a directory"},
		{name: "a relative path", path: "nginx.conf", md5: sum("good"), problem: "is not absolute"},
		{
			name: "a huge one", path: at("large"), md5: sum("good"),
			problem: "is too large: 268435457 bytes, at most 268435456 are compared",
		},
		{name: "a file of the kernel", path: "/proc/self/mem", md5: sum("good"), problem: "input/output error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, got := configdrift.Check(t.Context(), configdrift.State{}, []v1.ConfigFile{{Path: c.path, MD5: c.md5}},
				trail.Plain)
			var expected []process.Drift
			if c.have != "" || c.problem != "" {
				expected = []process.Drift{{Path: c.path, Want: c.md5, Have: c.have, Problem: c.problem}}
			}
			if diff := cmp.Diff(expected, got, cmpopts.IgnoreFields(process.Drift{}, "Since")); diff != "" {
				t.Error(diff)
			}
			if len(got) == 1 && time.Since(time.UnixMilli(got[0].Since)).Abs() > time.Minute {
				t.Errorf("it drifts since %d", got[0].Since)
			}
			// The next look says the same, of the same beginning.
			if _, again := configdrift.Check(t.Context(), state, []v1.ConfigFile{{Path: c.path, MD5: c.md5}},
				trail.Plain); cmp.Diff(got, again) != "" {
				t.Errorf("then %v", again)
			}
		})
	}
}

func TestAnEntryWithoutChecksumIsNotLookedAt(t *testing.T) {
	if state, got := configdrift.Check(t.Context(), configdrift.State{}, []v1.ConfigFile{{Path: "/no/such/file"}},
		trail.Plain); got != nil || state.Files != nil {
		t.Errorf("drifts %v, state %v", got, state)
	}
}

// TestDriftAndReturn: every change is seen, also one that keeps size and time.
func TestDriftAndReturn(t *testing.T) {
	path := file(t, "good")
	spec := want(path, "good")
	state, got := configdrift.Check(t.Context(), configdrift.State{}, spec, trail.Plain)
	if got != nil {
		t.Fatalf("at first %v", got)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "evil")
	if err := os.Chtimes(path, time.Time{}, before.ModTime()); err != nil {
		t.Fatal(err)
	}
	state, got = configdrift.Check(t.Context(), state, spec, trail.Plain)
	if len(got) != 1 || got[0].Have != sum("evil") {
		t.Fatalf("after a change %v", got)
	}
	since := got[0].Since
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	state, got = configdrift.Check(t.Context(), state, spec, trail.Plain)
	if len(got) != 1 || got[0].Have != "" || got[0].Problem == "" || got[0].Since != since {
		t.Fatalf("after its removal %v", got)
	}
	write(t, path, "good")
	if state, got = configdrift.Check(t.Context(), state, spec, trail.Plain); got != nil {
		t.Fatalf("after its return %v", got)
	}
	// Another checksum is another drift.
	if _, got = configdrift.Check(t.Context(), state, want(path, "better"), trail.Plain); len(got) != 1 ||
		got[0].Have != sum("good") {
		t.Errorf("with a new spec %v", got)
	}
}

// TestWhatHasNotChangedIsNotRead: a check that reads would not find what the state says.
func TestWhatHasNotChangedIsNotRead(t *testing.T) {
	for _, candidate := range []string{"/etc/passwd", "/etc/hostname", "/bin/sh", os.Args[0]} {
		info, err := os.Stat(candidate)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		state, _ := configdrift.Check(t.Context(), configdrift.State{}, []v1.ConfigFile{{Path: candidate, MD5: sum("x")}},
			trail.Plain)
		if state.Files[0].Mark == "" {
			continue
		}
		data, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		var kept configdrift.State
		if err := json.Unmarshal(data, &kept); err != nil {
			t.Fatal(err)
		}
		kept.Files[0].Have = sum("believed")
		_, got := configdrift.Check(t.Context(), kept, []v1.ConfigFile{{Path: candidate, MD5: sum("believed")}},
			trail.Plain)
		if got != nil {
			t.Errorf("%s was read again: %v", candidate, got)
		}
		return
	}
	t.Fatal("no file of this machine is old") // what a test makes is too young
}

// TestWhatWasJustWrittenIsReadAgain: the next change could bear the same times.
func TestWhatWasJustWrittenIsReadAgain(t *testing.T) {
	path := file(t, "good")
	state, _ := configdrift.Check(t.Context(), configdrift.State{}, want(path, "good"), trail.Plain)
	if mark := state.Files[0].Mark; mark != "" {
		t.Errorf("a file of this moment has the mark %s", mark)
	}
}

func BenchmarkUnchanged(b *testing.B) {
	files := []v1.ConfigFile{{Path: "/etc/passwd", MD5: sum("x")}}
	state, _ := configdrift.Check(b.Context(), configdrift.State{}, files, trail.Plain)
	for b.Loop() {
		state, _ = configdrift.Check(b.Context(), state, files, trail.Plain)
	}
}
