package depot_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/depot"
	"drover/internal/release"
	"drover/internal/wire"
)

// line is a source at the end of a long line: an answer takes a second. It counts the pieces that crossed the line.
type line struct {
	t   *testing.T
	key ed25519.PrivateKey

	mu       sync.Mutex
	programs map[string][]byte // by version
	texts    map[string][]byte
	crossed  int
	err      error
	// spoil changes a piece on its way.
	spoil func(data []byte) []byte
}

func newLine(t *testing.T) *line {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &line{t: t, key: key, programs: map[string][]byte{}, texts: map[string][]byte{}}
}

// add signs a program of so many pieces, whose content is made of a word, and puts it in the place of the former one.
func (l *line) add(version, word string, pieces int) []byte {
	l.t.Helper()
	var program []byte
	for n := range pieces {
		program = append(program, bytes.Repeat(fmt.Appendf(nil, "%s-%03d|", word, n), release.PieceSize/4)[:release.PieceSize]...)
	}
	program = program[:len(program)-1]
	text, err := release.Seal(release.Describe(version, "amd64", 1, program), l.key, time.Now())
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.programs[version], l.texts[version] = program, text
	return program
}

func (l *line) Signed(_ context.Context, version, _ string) ([]byte, error) {
	time.Sleep(time.Second) // virtual
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if l.texts[version] == nil {
		return nil, wire.ErrNoPackage
	}
	return l.texts[version], nil
}

func (l *line) Piece(_ context.Context, version, _ string, n int) ([]byte, error) {
	time.Sleep(time.Second) // virtual
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	l.crossed++
	program := l.programs[version]
	data := bytes.Clone(program[n*release.PieceSize : min((n+1)*release.PieceSize, len(program))])
	if l.spoil != nil {
		data = l.spoil(data)
	}
	return data, nil
}

// set changes the line, and returns how many pieces have crossed it since the last time.
func (l *line) set(change func()) (crossed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	crossed, l.crossed = l.crossed, 0
	return crossed
}

// fetch fetches a program as a host does, and returns it.
func fetch(ctx context.Context, c *depot.Cache, version string) ([]byte, error) {
	text, err := c.Signed(ctx, version, "amd64")
	if err != nil {
		return nil, err
	}
	p, _, err := release.Open(text, nil)
	if err != nil {
		return nil, err
	}
	var program []byte
	for n := range p.Pieces {
		data, err := c.Piece(ctx, version, "amd64", n)
		if err != nil {
			return nil, err
		}
		if !p.Holds(n, data) {
			return nil, fmt.Errorf("piece %d is damaged", n)
		}
		program = append(program, data...)
	}
	return program, nil
}

// cached runs a test with a cache of a line, in virtual time.
func cached(t *testing.T, test func(t *testing.T, l *line, c *depot.Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		c := depot.NewCache(l)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		test(t, l, c)
		cancel()
		running.Wait()
	})
}

// TestOneCopyCrossesTheLine: whether hosts fetch at the same time or one after another.
func TestOneCopyCrossesTheLine(t *testing.T) {
	cached(t, func(t *testing.T, l *line, c *depot.Cache) {
		const pieces, hosts = 12, 20
		want := l.add("1.4.0", "good", pieces)
		var fetching sync.WaitGroup
		for n := range hosts {
			fetching.Go(func() {
				time.Sleep(time.Duration(n%10) * 700 * time.Millisecond) // virtual
				if got, err := fetch(t.Context(), c, "1.4.0"); err != nil || !bytes.Equal(got, want) {
					t.Errorf("a host got %d bytes: %v", len(got), err)
				}
			})
		}
		fetching.Wait()
		if crossed := l.set(func() {}); crossed != pieces {
			t.Errorf("%d pieces crossed the line, want %d", crossed, pieces)
		}
	})
}

// TestAReplacedPackage: the owner signs another program for the same version. A host gets the one or the other as a
// whole, and the other one a few seconds later.
func TestAReplacedPackage(t *testing.T) {
	cached(t, func(t *testing.T, l *line, c *depot.Cache) {
		l.add("1.4.0", "old", 3)
		if _, err := fetch(t.Context(), c, "1.4.0"); err != nil {
			t.Fatal(err)
		}
		want := l.add("1.4.0", "new", 3)
		time.Sleep(3 * time.Second) // virtual
		if got, err := fetch(t.Context(), c, "1.4.0"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %.10q: %v", got, err)
		}
		// The replacement comes between the description and the piece.
		time.Sleep(15 * time.Minute) // virtual: nothing is kept
		if _, err := c.Signed(t.Context(), "1.4.0", "amd64"); err != nil {
			t.Fatal(err)
		}
		want = l.add("1.4.0", "last", 3)
		if _, err := c.Piece(t.Context(), "1.4.0", "amd64", 0); !errors.Is(err, wire.ErrDepotBusy) {
			t.Errorf("a piece of another program than the description says: %v", err)
		}
		time.Sleep(3 * time.Second) // virtual
		if got, err := fetch(t.Context(), c, "1.4.0"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %.10q: %v", got, err)
		}
	})
}

// TestADamagedPieceIsNotKept: nor is one that the servers do not give.
func TestADamagedPieceIsNotKept(t *testing.T) {
	cached(t, func(t *testing.T, l *line, c *depot.Cache) {
		want := l.add("1.4.0", "good", 2)
		l.set(func() { l.spoil = func(data []byte) []byte { return append(data[1:], 'x') } })
		if _, err := fetch(t.Context(), c, "1.4.0"); !errors.Is(err, wire.ErrDepotBusy) {
			t.Errorf("a damaged piece: %v", err)
		}
		gone := errors.New("nobody listens")
		l.set(func() { l.spoil, l.err = nil, gone })
		if _, err := c.Piece(t.Context(), "1.4.0", "amd64", 0); !errors.Is(err, gone) {
			t.Errorf("without servers: %v", err)
		}
		l.set(func() { l.err = nil })
		if got, err := fetch(t.Context(), c, "1.4.0"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %d bytes: %v", len(got), err)
		}
		for _, number := range []int{-1, 2} {
			if _, err := c.Piece(t.Context(), "1.4.0", "amd64", number); !errors.Is(err, wire.ErrNoPackage) {
				t.Errorf("piece %d: %v", number, err)
			}
		}
		if _, err := c.Signed(t.Context(), "1.4.1", "amd64"); !errors.Is(err, wire.ErrNoPackage) {
			t.Errorf("a version that nobody has: %v", err)
		}
	})
}

// TestTheCacheIsBounded: it forgets the pieces that were asked for first, and all of them when nobody asks.
func TestTheCacheIsBounded(t *testing.T) {
	cached(t, func(t *testing.T, l *line, c *depot.Cache) {
		const more = 3
		l.add("1.4.0", "long", depot.MostKept+more)
		if _, err := fetch(t.Context(), c, "1.4.0"); err != nil {
			t.Fatal(err)
		}
		l.set(func() {})
		ask := func(n int) {
			t.Helper()
			if _, err := c.Piece(t.Context(), "1.4.0", "amd64", n); err != nil {
				t.Fatal(err)
			}
		}
		for n := more; n < depot.MostKept+more; n++ {
			ask(n)
		}
		if crossed := l.set(func() {}); crossed != 0 {
			t.Errorf("%d pieces crossed the line again", crossed)
		}
		for n := range more {
			ask(n)
		}
		if crossed := l.set(func() {}); crossed != more {
			t.Errorf("%d of the first %d pieces crossed the line again: too many are kept", crossed, more)
		}
		time.Sleep(15 * time.Minute) // virtual
		ask(depot.MostKept)
		if crossed := l.set(func() {}); crossed != 1 {
			t.Error("a piece for which nobody has asked for long is still there")
		}
	})
}
