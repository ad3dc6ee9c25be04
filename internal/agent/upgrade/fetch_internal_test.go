package upgrade

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/release"
	"drover/internal/reserve"
	"drover/internal/wire"
)

// depot is a server with one package.
type depot struct {
	signed  []byte
	program []byte
	// spoil changes an answer; asked counts the questions by piece, -1 for the description.
	spoil func(piece int, answer []byte) []byte
	asked map[int]int
}

func (d *depot) ask(_ context.Context, question []byte) ([]byte, error) {
	var q wire.PackageQuestion
	if err := json.Unmarshal(question, &q); err != nil {
		return nil, err
	}
	answer, piece := wire.PackageData(d.signed), -1
	if q.Piece != nil {
		piece = *q.Piece
		from := piece * release.PieceSize
		answer = wire.PackageData(d.program[from:min(from+release.PieceSize, len(d.program))])
	}
	d.asked[piece]++
	if d.spoil != nil {
		answer = d.spoil(piece, answer)
	}
	if answer == nil {
		return nil, errors.New("nobody answers")
	}
	return answer, nil
}

const pieces = 4

// newDepot returns a depot, and a source of it whose files are in dir.
func newDepot(t *testing.T, dir string) (*depot, *source) {
	t.Helper()
	program := make([]byte, (pieces-1)*release.PieceSize+1000)
	_, _ = rand.Read(program)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := release.Seal(release.Describe("1.4.0", "amd64", release.Format, program), private, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d := &depot{signed: signed, program: program, asked: map[int]int{}}
	return d, &source{
		dir: dir, keys: []string{release.KeyText(public)}, arch: "amd64", ask: d.ask,
		step: func(string) error { return nil },
	}
}

func (d *depot) wants(t *testing.T, s *source) {
	t.Helper()
	p, err := s.describe(t.Context(), "1.4.0")
	if err == nil {
		err = s.fetch(t.Context(), &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(programOf(s.dir, p.SHA256))
	if err != nil || !bytes.Equal(got, d.program) {
		t.Fatalf("the program on the disk is another one: %v", err)
	}
	if info, err := os.Stat(programOf(s.dir, p.SHA256)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v: %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(versionsOf(s.dir), "*"+partSuffix)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newDepot(t, t.TempDir())
		d.spoil = func(piece int, answer []byte) []byte { // each first answer is no use
			switch {
			case d.asked[piece] > 2:
				return answer
			case d.asked[piece] == 2:
				return nil
			}
			bad := bytes.Clone(answer)
			bad[len(bad)/2] ^= 1
			return bad
		}
		d.wants(t, s)
		for piece := -1; piece < pieces; piece++ {
			if d.asked[piece] != 3 {
				t.Errorf("asked for piece %d %d times", piece, d.asked[piece])
			}
		}
		d.wants(t, s)
		if d.asked[0] != 3 {
			t.Error("fetched a program that is there")
		}
	})
}

// TestBusy: a host waits ever longer for a server that has no time, and does not give up.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newDepot(t, t.TempDir())
		begun := time.Now()
		d.spoil = func(_ int, answer []byte) []byte {
			if time.Since(begun) < 10*time.Minute {
				return wire.PackageBusy()
			}
			return answer
		}
		d.wants(t, s)
		if n := d.asked[-1]; n < 15 || n > 60 {
			t.Errorf("it asked %d times in 10 minutes", n)
		}
	})
}

// TestNoRoom: a fetch begins only if there is room for all of it, and leaves nothing when the disk is full all the same.
func TestNoRoom(t *testing.T) {
	d, s := newDepot(t, t.TempDir())
	p, err := s.describe(t.Context(), "1.4.0")
	if err != nil {
		t.Fatal(err)
	}
	huge := p
	huge.Size = 1 << 50
	if err := s.fetch(t.Context(), &huge); err == nil || !reserve.IsFull(err) || !strings.Contains(err.Error(), "MiB are needed") {
		t.Errorf("a huge program: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		s.step = func(what string) error {
			if what == "write" && d.asked[1] > 0 {
				return syscall.ENOSPC
			}
			return nil
		}
		if err := s.fetch(t.Context(), &p); !reserve.IsFull(err) {
			t.Errorf("a full disk: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(versionsOf(s.dir), "*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestRefused: whatever a server gives, only what a pinned key has signed comes to the disk.
func TestRefused(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(d *depot, s *source)
		want  string
	}{
		"another key":      {func(_ *depot, s *source) { s.keys = []string{"drk1-00"} }, "no release key that counts here"},
		"no key":           {func(_ *depot, s *source) { s.keys = []string{} }, "no release key that counts here"},
		"a changed text":   {func(d *depot, _ *source) { d.signed = bytes.Replace(d.signed, []byte("1.4.0"), []byte("1.4.1"), 1) }, "the signature does not match"},
		"another version":  {func(d *depot, s *source) { _ = s }, "it is version 1.4.0"},
		"a damaged piece":  {func(d *depot, _ *source) { d.program[release.PieceSize+5] ^= 8 }, "piece 1 is damaged"},
		"a cut piece":      {func(d *depot, _ *source) { d.program = d.program[:len(d.program)-1] }, "piece 3 is damaged"},
		"no such package":  {func(d *depot, _ *source) { d.spoil = func(int, []byte) []byte { return wire.PackageError("gone\x1b") } }, "gone?"},
		"an empty answer":  {func(d *depot, _ *source) { d.spoil = func(int, []byte) []byte { return []byte{} } }, "context deadline"},
		"a server is away": {func(d *depot, _ *source) { d.spoil = func(int, []byte) []byte { return nil } }, "nobody answers"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, s := newDepot(t, t.TempDir())
			c.spoil(d, s)
			version := "1.4.0"
			if what == "another version" {
				version = "1.5.0"
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			p, err := s.describe(ctx, version)
			if err == nil {
				err = s.fetch(ctx, &p)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want a word about %q", what, err, c.want)
			}
			if found, _ := filepath.Glob(programOf(s.dir, strings.Repeat("[0-9a-f]", 64))); len(found) > 0 {
				t.Errorf("%s: %v is there", what, found)
			}
		})
	}
}

// errDied ends a fetch like the death of the agent.
var errDied = errors.New("died")

// TestFetchDies: an agent dies before each step of a fetch, and the disk loses what was not synced, or keeps some of it.
// The next agent has the whole program in the end.
func TestFetchDies(t *testing.T) {
	for _, loss := range []string{"nothing", "all that was not synced", "a block in the middle", "the last bytes"} {
		for at, died := 0, true; died; at++ {
			synctest.Test(t, func(t *testing.T) {
				d, s := newDepot(t, t.TempDir())
				died = false
				steps := 0
				s.step = func(string) error {
					if steps++; steps > at {
						died = true
						return errDied
					}
					return nil
				}
				p, err := s.describe(t.Context(), "1.4.0")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := s.fetch(ctx, &p); (err == nil) == died {
					t.Fatalf("at step %d: %v", at, err)
				}
				lose(t, programOf(s.dir, p.SHA256)+partSuffix, loss)
				s.step = func(string) error { return nil }
				d.wants(t, s)
			})
			if at > 100 {
				t.Fatal("it always dies")
			}
		}
	}
}

// lose damages a file that was never synced, as a power failure may do.
func lose(t *testing.T, path, loss string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || loss == "nothing" || info.Size() == 0 {
		return
	}
	switch loss {
	case "all that was not synced": // the length is there, and the blocks are not
		err = errors.Join(os.Truncate(path, 0), os.Truncate(path, info.Size()))
	case "the last bytes":
		err = os.Truncate(path, info.Size()-1)
	default:
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_, err = f.WriteAt(make([]byte, 4096), info.Size()/2)
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTidy: only the programs that are needed stay.
func TestTidy(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(versionsOf(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"aa", "bb" + partSuffix, "cc", "dd" + partSuffix} {
		if err := os.WriteFile(programOf(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := save(dir, state{}); err != nil {
		t.Fatal(err)
	}
	tidy(dir, "aa", "bb")
	entries, err := os.ReadDir(versionsOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(entries); got != "[- drover-agent-aa - drover-agent-bb.part - state.json]" {
		t.Errorf("left: %s", got)
	}
}
