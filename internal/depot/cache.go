package depot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

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
	from          Source
	texts, pieces singleflight.Group

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
	return once(ctx, &c.texts, of.version+"/"+of.arch, func() (*text, error) {
		c.mu.Lock()
		t := c.known[of]
		c.mu.Unlock()
		if t != nil && time.Since(t.at) < fresh {
			return t, nil
		}
		t = &text{at: time.Now()}
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
	return once(ctx, &c.pieces, sum, func() ([]byte, error) {
		if data, found := c.find(sum); found {
			return data, nil
		}
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

// once returns the answer of ask. Of those who want the same at a time, one asks.
func once[V any](ctx context.Context, g *singleflight.Group, key string, ask func() (V, error)) (answer V, err error) {
	select {
	case r := <-g.DoChan(key, func() (any, error) { return ask() }):
		answer, _ = r.Val.(V)
		return answer, r.Err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}
