package frame

import (
	"errors"
	"sync"
	"time"
)

// Width is how far the time of a frame may be from the clock of the fleet as its receiver knows it. It covers the
// differences between the clocks of servers, and the time that a frame takes.
const Width = 2 * time.Minute

// The reasons why a Window rejects a frame.
var (
	ErrRepeated = errors.New("a copy of an earlier frame")
	ErrStale    = errors.New("sealed too long ago, or by a clock that is too far from this one")
	// ErrCrowded rejects a frame because the window cannot remember more. The sender may seal the message again later.
	ErrCrowded = errors.New("too many frames in a short time")
)

// maxRemembered is how many frames a Window remembers in each of its halves, about 50 bytes each.
const maxRemembered = 1 << 18

// Window admits each frame of the other side once, and only near its time. A window serves one side of one pair, and
// goes on with the next pair of the same sides. It is safe for concurrent use.
//
// A window knows nothing of the frames before its life, so its owner says from which time on frames count.
type Window struct {
	mu sync.Mutex
	// since is the earliest time of a frame that counts: the window may have forgotten earlier frames.
	since time.Time
	// recent has the frames since turned, and former the frames of the time before.
	recent, former map[Nonce]struct{}
	turned         time.Time
}

// NewWindow returns a window for frames that are sealed at since or later.
func NewWindow(since time.Time) *Window {
	return &Window{since: since, recent: map[Nonce]struct{}{}, turned: since}
}

// Admit admits a frame that Open has proven. now is the clock of the fleet, as this side knows it. The clock may go
// back by Width at any time. If it goes back by more, or to before the window's life, a frame from before that may be
// admitted again.
func (w *Window) Admit(h Head, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	if h.Time.Before(w.since) || h.Time.Sub(now).Abs() > Width {
		return ErrStale
	}
	if _, known := w.recent[h.Nonce]; known {
		return ErrRepeated
	}
	if _, known := w.former[h.Nonce]; known {
		return ErrRepeated
	}
	if len(w.recent) >= maxRemembered {
		return ErrCrowded
	}
	w.recent[h.Nonce] = struct{}{}
	return nil
}

// turn forgets frames. A frame is admitted at most Width before its time, and stays for more than 2*Width after that.
// So its time is more than Width ago when turn forgets it, and since keeps it out from then on.
func (w *Window) turn(now time.Time) {
	const half = 2 * Width
	if now.Before(w.since) { // the clock was set back; no later frame would count until it is there again
		w.since, w.turned = now.Add(-Width), now
		return
	}
	switch passed := now.Sub(w.turned); {
	case passed > 2*half:
		w.recent, w.former = map[Nonce]struct{}{}, nil
	case passed > half:
		w.recent, w.former = map[Nonce]struct{}{}, w.recent
	default:
		return
	}
	w.turned = now
	if floor := now.Add(-Width); floor.After(w.since) {
		w.since = floor
	}
}
