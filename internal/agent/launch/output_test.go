package launch_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
	"drover/internal/test/harness"
)

const kept = 32 << 10

func TestOutputText(t *testing.T) {
	long := strings.Repeat("a", kept) + strings.Repeat("b", 1000) + strings.Repeat("c", kept)
	for name, tc := range map[string]struct{ in, want string }{
		"nothing":       {"", ""},
		"a line":        {"hello\n", "hello"},
		"several lines": {"\n a\n\nb\r\n\n", "\n a\n\nb"},
		"NULs":          {"a\x00b", "ab"},
		"no UTF-8":      {"a\xff\xfeb", "a\uFFFDb"},
		"just all":      {long[:2*kept], long[:2*kept]},
		"too much": {long, strings.Repeat("a", kept) + "\n[... 1000 bytes left out ...]\n" +
			strings.Repeat("c", kept)},
	} {
		t.Run(name, func(t *testing.T) {
			out := output(t)
			if _, err := out.File().WriteString(tc.in); err != nil {
				t.Fatal(err)
			}
			if err := out.Trim(); err != nil {
				t.Fatal(err)
			}
			if got := out.Text(); got != tc.want {
				t.Errorf("got %d bytes %.80q, want %d bytes %.80q", len(got), got, len(tc.want), tc.want)
			}
		})
	}
}

func TestOutputCutsBetweenCharacters(t *testing.T) {
	out := output(t)
	if _, err := out.File().WriteString("x" + strings.Repeat("語", 40000)); err != nil {
		t.Fatal(err)
	}
	got := out.Text()
	if !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") {
		t.Error("a character was cut in two")
	}
}

// A writer that does not know of it goes on behind what is left of the file once that is cut.
func TestOutputTrim(t *testing.T) {
	dir := t.TempDir()
	out, err := launch.CreateOutput(dir, "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.File().Close()
	writer, err := os.OpenFile(filepath.Join(dir, "out"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	var written bytes.Buffer
	for i := range 200_000 {
		line := fmt.Sprintf("line %d\n", i)
		written.WriteString(line)
		if _, err := writer.WriteString(line); err != nil {
			t.Fatal(err)
		}
		if i%100 != 0 {
			continue
		}
		if err := out.Trim(); err != nil {
			t.Fatal(err)
		}
		if info, err := writer.Stat(); err != nil || info.Size() > 1<<20 {
			t.Fatalf("%d bytes after a trim: %v", info.Size(), err)
		}
	}
	all := written.String()
	want := fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", all[:kept], len(all)-2*kept,
		strings.TrimSuffix(all[len(all)-kept:], "\n"))
	if got := out.Text(); got != want {
		t.Errorf("got %d bytes %.60q … %.120q, want %d bytes %.60q", len(got), got, got[kept-20:], len(want), want)
	}
	if all[len(all)-1] != '\n' {
		t.Fatal("the test wrote something else")
	}
}

// TestTrimKeepsTheOrder: what is written during a cut may be lost, and never comes before older text.
func TestTrimKeepsTheOrder(t *testing.T) {
	dir := t.TempDir()
	out, err := launch.CreateOutput(dir, "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	line := 0
	write := func(lines int) {
		for range lines {
			if _, err := fmt.Fprintf(out.File(), "%01000d\n", line); err != nil {
				t.Error(err)
			}
			line++
		}
	}
	for range 50 {
		write(1100) // more than an output may have
		var writer sync.WaitGroup
		writer.Go(func() { write(100) })
		err := out.Trim()
		writer.Wait()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "out"))
		if err != nil || len(text) > 200_000 {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		last := -1
		for text := range strings.Lines(string(text)) {
			if !strings.HasSuffix(text, "\n") {
				continue // the cut may lose the rest of a write that was under way at the last look
			}
			n, err := strconv.Atoi(strings.TrimSuffix(text, "\n"))
			if err != nil || n < last {
				t.Fatalf("line %d comes after line %d (%v)", n, last, err)
			}
			last = n
		}
	}
}

func TestTrimFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if err := launch.TrimFile(path); err != nil {
		t.Errorf("of no file: %v", err)
	}
	writer, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	big := strings.Repeat("0123456789abcdef", 1<<16)
	for _, step := range []struct{ write, want string }{
		{big, big}, // just not too large
		{"x", big[len(big)-kept+1:] + "x"},
		{"y", big[len(big)-kept+1:] + "xy"},
	} {
		if _, err := writer.WriteString(step.write); err != nil {
			t.Fatal(err)
		}
		if err := launch.TrimFile(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != step.want {
			t.Errorf("got %d bytes, want %d: %v", len(got), len(step.want), err)
		}
	}
}

func TestCreateOutput(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", ".", "..", "a/b", "../x"} {
		if out, err := launch.CreateOutput(dir, name); err == nil {
			t.Errorf("%q became %s", name, out.File().Name())
		}
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := launch.CreateOutput(dir, "link"); err == nil {
		t.Error("a link was followed")
	}
	for range 2 {
		out, err := launch.CreateOutput(dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		if info, err := out.File().Stat(); err != nil || info.Mode() != 0o600 || info.Size() != 0 {
			t.Errorf("made %v: %v", info, err)
		}
		if _, err := out.File().WriteString("x"); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		if got := out.Text(); got != "" {
			t.Errorf("a closed output says %q", got)
		}
	}
}

func TestProbe(t *testing.T) {
	dir := harness.SmallDisk(t, "64k")
	early, err := launch.CreateOutput(dir, "early")
	if err != nil {
		t.Fatal(err)
	}
	defer early.File().Close()
	if err := early.Probe(); err != nil {
		t.Errorf("on an empty disk: %v", err)
	}
	late, err := launch.CreateOutput(dir, "late")
	if err != nil {
		t.Fatal(err)
	}
	defer late.File().Close()
	if err := os.WriteFile(filepath.Join(dir, "all"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := late.Probe(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	if status := do(t, command(t, "true", early)); status != 0 {
		t.Errorf("a command with room set aside: wait status %#x", status)
	}
}
