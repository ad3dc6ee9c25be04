package procfs

import "sync"

// Rounds has one look at the host serve everybody who asks for it at about the same time: otherwise a thousand
// operations at once would each look at a thousand processes. Those who ask while a look is under way share the next
// one, so that no answer is older than its question. It is safe for concurrent use.
type Rounds[T any] struct {
	look func(*T) error
	// looking is held during a look.
	looking sync.Mutex

	mu sync.Mutex
	// next is the one that has not begun; nil if nobody waits for one.
	next *turn[T]
}

// turn is one look, and what it has found.
type turn[T any] struct {
	once  sync.Once
	found T
	err   error
}

// NewRounds returns rounds of look, which fills its argument in.
func NewRounds[T any](look func(*T) error) *Rounds[T] { return &Rounds[T]{look: look} }

// Take returns what a look finds that begins after the call. join may add to what the look is to find; it must not
// block. Take blocks for as long as two looks take.
func (r *Rounds[T]) Take(join func(*T)) (*T, error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &turn[T]{}
	}
	shared := r.next
	join(&shared.found)
	r.mu.Unlock()
	shared.once.Do(func() {
		r.looking.Lock()
		defer r.looking.Unlock()
		r.mu.Lock()
		r.next = nil
		r.mu.Unlock()
		shared.err = r.look(&shared.found)
	})
	return &shared.found, shared.err
}
