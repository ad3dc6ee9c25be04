package depot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"drover/internal/release"
	"drover/internal/wire"
)

const (
	// MostKept is how many pieces a cache keeps: 32 MiB, which is room for the programs of both architectures.
	MostKept = 128
	// fresh is how long a signed text counts. The owner may sign another program for the same version.
	fresh = 3 * time.Second
	// unused is how long a cache keeps pieces for which nobody asks.
	unused = 10 * time.Minute
)

// Cache is a source that keeps the pieces of another source in memory, so that many hosts take one copy over a long
// line. It keeps only pieces whose sums are those of the signed text. It is safe for concurrent use. A context ends the
// questions of all who ask the same.
type Cache struct {
	from   Source
	texts  flights[name, *text]
	pieces flights[string, []byte]

	mu sync.Mutex
	// known are the signed texts of the last moments.
	known map[name]*text
	// kept are the pieces by their sums.
	kept map[string]*piece
}

// name is that of a package.
type name struct{ version, arch string }

// text is a signed text, and when it came.
type text struct {
	signed []byte
	release.Package
	at time.Time
}

// piece is a piece, and when somebody asked for it last.
type piece struct {
	data  []byte
	asked time.Time
}

// NewCache returns an empty cache of a source.
func NewCache(from Source) *Cache {
	return &Cache{from: from, known: map[name]*text{}, kept: map[string]*piece{}}
}

// Run gives the memory of unused pieces back until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	tick := time.NewTicker(unused / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.forget(time.Now())
		case <-ctx.Done():
			return nil
		}
	}
}

// forget drops what is too old.
func (c *Cache) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, t := range c.known {
		if now.Sub(t.at) >= fresh {
			delete(c.known, of)
		}
	}
	for sum, p := range c.kept {
		if now.Sub(p.asked) >= unused {
			delete(c.kept, sum)
		}
	}
}

// Signed implements Source. The text is a few seconds old at most.
func (c *Cache) Signed(ctx context.Context, version, arch string) ([]byte, error) {
	t, err := c.describe(ctx, name{version, arch})
	if err != nil {
		return nil, err
	}
	return t.signed, nil
}

func (c *Cache) describe(ctx context.Context, of name) (*text, error) {
	return c.texts.do(ctx, of, func() (*text, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		t := c.known[of]
		return t, t != nil && time.Since(t.at) < fresh
	}, func() (*text, error) {
		t := &text{at: time.Now()}
		var err error
		if t.signed, err = c.from.Signed(ctx, of.version, of.arch); err != nil {
			return nil, err
		}
		if t.Package, _, err = release.Open(t.signed, nil); err != nil {
			return nil, fmt.Errorf("cannot use the description of version %.80q: %w", of.version, err)
		}
		c.forget(time.Now())
		c.mu.Lock()
		defer c.mu.Unlock()
		c.known[of] = t
		return t, nil
	})
}

// Piece implements Source.
func (c *Cache) Piece(ctx context.Context, version, arch string, number int) ([]byte, error) {
	t, err := c.describe(ctx, name{version, arch})
	if err != nil {
		return nil, err
	}
	if number < 0 || number >= len(t.Pieces) {
		return nil, wire.ErrNoPackage
	}
	sum := t.Pieces[number]
	return c.pieces.do(ctx, sum, func() ([]byte, bool) { return c.find(sum) }, func() ([]byte, error) {
		data, err := c.from.Piece(ctx, version, arch, number)
		if err != nil {
			return nil, err
		}
		if !t.Holds(number, data) { // the package has been replaced since
			return nil, fmt.Errorf("piece %d of version %s is another one: %w", number, version, wire.ErrDepotBusy)
		}
		c.keep(sum, data)
		return data, nil
	})
}

// find returns the piece with a sum, if the cache keeps it.
func (c *Cache) find(sum string) (data []byte, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.kept[sum]
	if p == nil {
		return nil, false
	}
	p.asked = time.Now()
	return p.data, true
}

// keep adds a piece. It drops the one for which nobody has asked for the longest time if there are too many.
func (c *Cache) keep(sum string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[sum] = &piece{data, time.Now()}
	if len(c.kept) <= MostKept {
		return
	}
	oldest := sum
	for other, p := range c.kept {
		if p.asked.Before(c.kept[oldest].asked) {
			oldest = other
		}
	}
	delete(c.kept, oldest)
}

// flights has the questions that are under way. Its zero value has none.
type flights[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]*flight[V]
}

// flight is a question that is under way. Its answer counts when done is closed.
type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// do returns what find has, else the answer of ask. Of those who want the same at a time, one asks.
func (f *flights[K, V]) do(ctx context.Context, key K, find func() (V, bool), ask func() (V, error)) (V, error) {
	f.mu.Lock()
	if have, found := find(); found {
		f.mu.Unlock()
		return have, nil
	}
	if way := f.all[key]; way != nil {
		f.mu.Unlock()
		select {
		case <-way.done:
			return way.value, way.err
		case <-ctx.Done():
			return way.value, ctx.Err()
		}
	}
	if f.all == nil {
		f.all = map[K]*flight[V]{}
	}
	way := &flight[V]{done: make(chan struct{})}
	f.all[key] = way
	f.mu.Unlock()
	way.value, way.err = ask()
	f.mu.Lock()
	delete(f.all, key)
	f.mu.Unlock()
	close(way.done)
	return way.value, way.err
}
