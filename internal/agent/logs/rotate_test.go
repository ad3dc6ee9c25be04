package logs_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// TestRotationUnderAWriterLosesNothing: each of a hundred thousand lines is there once and in order, whether the text is
// compressed or not, and while the writer writes.
func TestRotationUnderAWriterLosesNothing(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
			r := newRig(t)
			r.run()
			spec := policy(64<<10, 1000)
			spec.Log.Compress = new(!plain)
			out, _, _ := r.begin(spec)
			const lines, batch = 100_000, 500
			for n := 1; n <= lines; n += batch {
				write(t, out, numbered(n, n+batch-1))
				// A writer that drover keeps up with.
				harness.Eventually(t, "the file to be rotated", func() bool { return held(r.path("stdout")) <= 96<<10 })
			}
			a := r.ask(wire.LogQuestion{})
			if a.err != "" || a.lost != 0 || len(a.lines) != lines {
				t.Fatalf("%d lines, %d bytes lost, %q", len(a.lines), a.lost, a.err)
			}
			for i, line := range a.lines {
				if line != "line "+strconv.Itoa(i+1) {
					t.Fatalf("line %d is %q", i+1, line)
				}
			}
			if r.rotated() < 10 {
				t.Errorf("there are %d rotated files", r.rotated())
			}
			if a.pieces < 4 {
				t.Errorf("it came in %d pieces", a.pieces)
			}
		})
	}
}

// TestRotatedFilesAreGzip: every program for gzip reads them.
func TestRotatedFilesAreGzip(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(1<<20, 5))
	text := numbered(1, 150_000)
	write(t, out, text)
	harness.Eventually(t, "the file to be rotated", func() bool { return r.rotated() == 1 })
	names, _ := filepath.Glob(r.path("stdout.*.gz"))
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil || !strings.HasPrefix(text, string(got)) || len(got) < 1<<20-20 || got[len(got)-1] != '\n' {
		t.Errorf("%d bytes: %v", len(got), err)
	}
}

// TestOldFilesGo: those beyond the number to keep, and those that are too old.
func TestOldFilesGo(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(64<<10, 3))
	n := 1
	for rotations := 1; rotations <= 6; rotations++ {
		write(t, out, numbered(n, n+5999))
		n += 6000
		harness.Eventually(t, "the file to be rotated", func() bool { return held(r.path("stdout")) <= 64<<10 })
	}
	harness.Eventually(t, "three rotated files", func() bool { return r.rotated() == 3 })
	a := r.ask(wire.LogQuestion{})
	if last := a.lines[len(a.lines)-1]; a.lost != 0 || last != "line "+strconv.Itoa(n-1) || a.lines[0] == "line 1" {
		t.Errorf("%q to %q, %d lost", a.lines[0], last, a.lost)
	}
	names, _ := filepath.Glob(r.path("stdout.*.gz"))
	old := time.Now().Add(-31 * 24 * time.Hour)
	for _, name := range names {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	r.Sweep([]process.ID{api()})
	if r.rotated() != 0 {
		t.Errorf("there are %d files that are too old", r.rotated())
	}
}

// TestFlood: a writer of 200 MB/s lives, its log stays within the bound, and what is missing is counted exactly.
func TestFlood(t *testing.T) {
	const size, total, speed = 4 << 20, 600 << 20, 200 << 20
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(size, 1000))
	line := strings.Repeat("x", 1023) + "\n"
	chunk := strings.Repeat(line, 64)
	var most int64
	begun := time.Now()
	for written := 0; written < total; written += len(chunk) {
		for time.Since(begun) < time.Duration(written)*time.Second/speed { // not faster than it says
			most = max(most, held(r.path("stdout")))
		}
		write(t, out, chunk)
	}
	// Between two looks the flood may write more where the processors are busy with other things.
	const slack = 64 << 20
	if t.Logf("it held at most %.1f MiB", float64(most)/(1<<20)); most > 3*size+slack {
		t.Errorf("it held %d bytes", most)
	}
	harness.Eventually(t, "the flood to be over", func() bool { return held(r.path("stdout")) <= 2*size })
	a := r.ask(wire.LogQuestion{})
	read := int64(len(a.lines)) * int64(len(line))
	if a.err != "" || a.lost == 0 || read == 0 || read+a.lost != total {
		t.Errorf("%d bytes are there, %d are lost: want %d, %q", read, a.lost, total, a.err)
	}
}

// TestAgentsDieInTheMiddle: at whatever step of a rotation an agent ends, the next one has each line once.
func TestAgentsDieInTheMiddle(t *testing.T) {
	const lines = 12_000
	want := strings.Split(strings.TrimSuffix(numbered(1, lines), "\n"), "\n")
	check := func(t *testing.T, r *rig) {
		t.Helper()
		for _, when := range []string{"at once", "after the rotation"} {
			a := r.ask(wire.LogQuestion{})
			if a.err != "" || a.lost != 0 || !slices.Equal(a.lines, want) {
				t.Errorf("%s there are %d lines, %d bytes lost, %q", when, len(a.lines), a.lost, a.err)
			}
			stop := r.run()
			harness.Eventually(t, "the file to be rotated", func() bool { return held(r.path("stdout")) <= 64<<10 })
			stop()
			r.reopen()
		}
		if exists(r.path("stdout.tmp")) {
			t.Error("the unfinished copy is still there")
		}
	}
	begun := func(t *testing.T) *rig {
		r := newRig(t)
		out, _, _ := r.begin(policy(64<<10, 1000))
		write(t, out, strings.Join(want, "\n")+"\n")
		return r
	}
	segment := func(t *testing.T, r *rig, name string, to int) {
		t.Helper()
		text, err := os.ReadFile(r.path("stdout"))
		if err == nil {
			err = os.WriteFile(r.path(name), text[:to], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := len(numbered(1, 5000))
	t.Run("before it begins", func(t *testing.T) {
		r := begun(t)
		r.reopen()
		check(t, r)
	})
	t.Run("during the copy", func(t *testing.T) {
		r := begun(t)
		segment(t, r, "stdout.tmp", 10_000)
		r.reopen()
		check(t, r)
	})
	t.Run("before the text is freed", func(t *testing.T) {
		r := begun(t)
		segment(t, r, "stdout.0-"+strconv.Itoa(whole), whole)
		r.reopen()
		check(t, r)
	})
	t.Run("while the text is freed", func(t *testing.T) {
		r := begun(t)
		segment(t, r, "stdout.0-"+strconv.Itoa(whole), whole)
		punch(t, r.path("stdout"), 8<<10)
		r.reopen()
		check(t, r)
	})
	t.Run("after the text is freed", func(t *testing.T) {
		r := begun(t)
		segment(t, r, "stdout.0-"+strconv.Itoa(whole), whole)
		punch(t, r.path("stdout"), int64(whole))
		r.reopen()
		check(t, r)
	})
	t.Run("between the note of a loss and the cut", func(t *testing.T) {
		r := begun(t)
		f, err := os.OpenFile(r.path("marks"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		write(t, f, "l 1 0 0 8192\n")
		_ = f.Close()
		r.reopen()
		check(t, r)
	})
}

// punch makes a hole at the begin of a file.
func punch(t *testing.T, path string, to int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if err := unix.Fallocate(int(f.Fd()), hole, 0, to); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutAnAgent: the file grows, and the next agent keeps as much as the log with its rotated files may have. The
// writer does not wait until that agent has rotated the text.
func TestWithoutAnAgent(t *testing.T) {
	const size, keep = 64 << 10, 3
	for _, c := range []struct {
		name         string
		lines, later int
		loses        bool
	}{
		{"within all rotated files", 20_000, 0, false},
		{"beyond them", 100_000, 0, true},
		{"with later text within them", 1, 20_000, false},
		{"with later text beyond them", 20_000, 20_000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			out, _, _ := r.begin(policy(size, keep))
			write(t, out, numbered(1, c.lines))
			r.reopen()
			if now := held(r.path("stdout")); now > (1+keep)*size+4096 {
				t.Errorf("it holds %d bytes", now)
			}
			last := c.lines + c.later
			write(t, out, numbered(c.lines+1, last))
			whole := len(numbered(1, last))
			// has returns how much text there is, how much is lost, and whether both are as they should be.
			has := func(least int) (read, lost int, right bool) {
				a := r.ask(wire.LogQuestion{})
				read, lost = len(strings.Join(a.lines, "\n"))+1, int(a.lost)
				return read, lost, read >= least && read+lost <= whole &&
					a.lines[len(a.lines)-1] == "line "+strconv.Itoa(last)
			}
			if c.later == 0 {
				if read, lost, right := has(min(whole, (1+keep)*size)); !right || (lost > 0) != c.loses ||
					lost > 0 && read+lost != whole {
					t.Errorf("at once %d bytes are there, %d are lost", read, lost)
				}
			}
			r.run()
			// What the rotated files cannot have is a gap only while text before it is still there.
			harness.Eventually(t, "the file to be rotated", func() bool {
				_, _, right := has(min(whole, keep*size))
				return right && held(r.path("stdout")) <= size+4096
			})
		})
	}
}

// TestWithoutAnAgentOnAFullDisk: a new agent that cannot rotate cuts, although the writer is quiet.
func TestWithoutAnAgentOnAFullDisk(t *testing.T) {
	r := newRigOnSmallDisk(t)
	const size = 64 << 10
	out, _, _ := r.begin(policy(size, 1000))
	var err error
	for random := rand.New(rand.NewPCG(1, 2)); err == nil; {
		_, err = fmt.Fprintf(out, "%016x\n", random.Uint64())
	}
	r.reopen()
	r.run()
	harness.Eventually(t, "the file to be cut", func() bool { return held(r.path("stdout")) <= 2*size })
	if a := r.ask(wire.LogQuestion{}); a.err != "" || a.lost == 0 || len(a.lines) == 0 {
		t.Errorf("%d lines are there, %d bytes are lost, %q", len(a.lines), a.lost, a.err)
	}
}

// TestWithoutHoles: on a file system without holes a file is rotated whole and truncated. It loses nothing while the
// writer pauses.
func TestWithoutHoles(t *testing.T) {
	r := newRig(t)
	r.ForbidHoles()
	r.run()
	out, _, _ := r.begin(policy(64<<10, 1000))
	const lines = 60_000
	for n := 1; n <= lines; n += 1000 {
		write(t, out, numbered(n, n+999))
		harness.Eventually(t, "the file to be truncated", func() bool { return held(r.path("stdout")) <= 64<<10 })
	}
	a := r.ask(wire.LogQuestion{})
	if want := strings.Fields(strings.ReplaceAll(numbered(1, lines), "line ", "")); a.err != "" || a.lost != 0 ||
		len(a.lines) != len(want) || a.lines[0] != "line 1" || a.lines[lines-1] != "line "+want[lines-1] {
		t.Errorf("%d lines are there, %d bytes are lost: %q", len(a.lines), a.lost, a.err)
	}
}

// TestWithoutHolesAtRest: the file is truncated after the rotation even if the writer is quiet since before.
func TestWithoutHolesAtRest(t *testing.T) {
	r := newRig(t)
	r.ForbidHoles()
	r.run()
	const size = 64 << 20 // the compression takes longer than the thread waits for more
	out, _, _ := r.begin(policy(size, 3))
	random, text := rand.New(rand.NewPCG(1, 2)), strings.Builder{}
	for text.Len() <= size {
		fmt.Fprintf(&text, "%016x\n", random.Uint64())
	}
	write(t, out, text.String())
	harness.Eventually(t, "the file to be truncated", func() bool { return held(r.path("stdout")) == 0 })
}

// TestProcessThatTruncatesItsLog: the text is gone, and what follows is there.
func TestProcessThatTruncatesItsLog(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(64<<10, 3))
	write(t, out, numbered(1, 1000))
	harness.Eventually(t, "the lines to be seen", func() bool { return marks(r) >= 2 })
	if err := out.Truncate(0); err != nil {
		t.Fatal(err)
	}
	write(t, out, "later\n")
	harness.Eventually(t, "the later line, and a line that says what happened", func() bool {
		a := r.ask(wire.LogQuestion{})
		return a.err == "" && len(a.lines) == 2 && slices.Contains(a.lines, "later") &&
			strings.Contains(a.lines[0]+a.lines[1], "this log was emptied")
	})
}

// marks counts the marks of the log.
func marks(r *rig) int {
	text, err := os.ReadFile(r.path("marks"))
	if err != nil {
		r.t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// TestLowerBoundOnAFullDisk: a log that filled the disk is cut to a lower bound, although its process can write nothing.
func TestLowerBoundOnAFullDisk(t *testing.T) {
	r := newRigOnSmallDisk(t)
	r.run()
	out, _, _ := r.begin(policy(64<<20, 3))
	var err error
	for n := 1; err == nil; n += 1000 {
		_, err = out.WriteString(numbered(n, n+999))
	}
	harness.Eventually(t, "the log to rest", r.Rests)
	r.Bound(api(), policy(64<<10, 3))
	harness.Eventually(t, "the file to be cut", func() bool { return held(r.path("stdout")) <= 2*64<<10 })
}

// TestFullDisk: the writer lives, and its only error is the full disk; later text is there.
func TestFullDisk(t *testing.T) {
	r := newRigOnSmallDisk(t)
	r.run()
	out, _, _ := r.begin(policy(64<<20, 3))
	failed := false
	for n := 1; n < 400_000 && !failed; n += 1000 {
		if _, err := out.WriteString(numbered(n, n+999)); err != nil {
			failed = true
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("the writer got %v", err)
			}
		}
	}
	if !failed {
		t.Fatal("the disk was never full")
	}
	r.Bound(api(), policy(64<<10, 3)) // smaller
	harness.Eventually(t, "room on the disk", func() bool { return held(r.path("stdout")) <= 192<<10 })
	harness.Eventually(t, "the later line", func() bool {
		_, err := out.WriteString("later\n")
		return err == nil
	})
	a := r.ask(wire.LogQuestion{Tail: 1})
	if a.err != "" || len(a.lines) != 1 || a.lines[0] != "later" {
		t.Errorf("%q %q", a.lines, a.err)
	}
}
