package frame_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"drover/internal/frame"
)

func headAt(number uint64, at time.Time) (h frame.Head) {
	binary.BigEndian.PutUint64(h.Nonce[:], number)
	h.Time = at
	return h
}

func TestWindow(t *testing.T) {
	w := frame.NewWindow(sealedAt)
	for i, c := range []struct {
		number  uint64
		at, now time.Duration
		want    error
	}{
		{1, 0, 0, nil},
		{1, 0, time.Second, frame.ErrRepeated},
		{2, -time.Millisecond, time.Second, frame.ErrStale}, // from before the window's life
		{3, frame.Width, 0, nil},
		{4, frame.Width + time.Second, 0, frame.ErrStale},
		{5, time.Second, frame.Width + time.Second, nil},
		{6, time.Second, frame.Width + 2*time.Second, frame.ErrStale},
		{3, frame.Width, 2 * frame.Width, frame.ErrRepeated}, // remembered as long as its time counts
		{7, 3 * frame.Width, 3 * frame.Width, nil},
		{8, 2*frame.Width - time.Second, 3 * frame.Width, frame.ErrStale},
		{7, 3 * frame.Width, 3 * frame.Width, frame.ErrRepeated},
		{9, 9 * frame.Width, 9 * frame.Width, nil},
		{7, 3 * frame.Width, 3 * frame.Width, nil}, // the clock was set back by more than the window knows of
		{10, 3*frame.Width + time.Second, 3 * frame.Width, nil},
		{10, 3*frame.Width + time.Second, 3 * frame.Width, frame.ErrRepeated},
	} {
		if err := w.Admit(headAt(c.number, sealedAt.Add(c.at)), sealedAt.Add(c.now)); !errors.Is(err, c.want) {
			t.Errorf("step %d: got %v, want %v", i, err, c.want)
		}
	}
}

// TestTheClockGoesBackAtOnce: if the clock is set back just after the beginning of a window, frames count at once.
func TestTheClockGoesBackAtOnce(t *testing.T) {
	for _, by := range []time.Duration{time.Second, frame.Width - time.Second, time.Hour} {
		w := frame.NewWindow(sealedAt)
		if err := w.Admit(headAt(1, sealedAt.Add(time.Second)), sealedAt.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		back := sealedAt.Add(-by)
		for number, want := range []error{nil, frame.ErrRepeated} {
			if err := w.Admit(headAt(2, back), back); !errors.Is(err, want) {
				t.Errorf("back by %s, frame %d: got %v, want %v", by, number, err, want)
			}
		}
	}
}

// TestNoTimeUnknown: a frame whose sender does not know the clock is not fresh.
func TestNoTimeUnknown(t *testing.T) {
	if err := frame.NewWindow(time.Time{}).Admit(headAt(1, time.Time{}), sealedAt); !errors.Is(err, frame.ErrStale) {
		t.Errorf("got %v", err)
	}
}

// TestNoFrameTwice: at random times, with a clock that also goes back a little, no frame is admitted twice, and each
// one that is new and near the clock is admitted once.
func TestNoFrameTwice(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // to be repeated
		w := frame.NewWindow(sealedAt)
		var sent []frame.Head
		admitted := map[frame.Nonce]bool{}
		clock := sealedAt
		for i := range uint64(5000) {
			clock = clock.Add(time.Duration(random.Int64N(int64(4 * time.Second))))
			if random.IntN(300) == 0 {
				clock = clock.Add(time.Duration(random.Int64N(int64(6 * frame.Width))))
			}
			now := clock.Add(-time.Duration(random.Int64N(int64(frame.Width))))
			h := headAt(i, now.Add(time.Duration(random.Int64N(int64(2*frame.Width)))-frame.Width))
			if len(sent) > 0 && random.IntN(2) == 0 {
				h = sent[max(0, len(sent)-1-random.IntN(200))]
			} else {
				sent = append(sent, h)
			}
			err := w.Admit(h, now)
			if err == nil && admitted[h.Nonce] {
				t.Fatalf("seed %d, step %d: a frame is admitted twice", seed, i)
			}
			if errors.Is(err, frame.ErrRepeated) && !admitted[h.Nonce] {
				t.Fatalf("seed %d, step %d: a new frame is taken for a copy", seed, i)
			}
			admitted[h.Nonce] = admitted[h.Nonce] || err == nil
		}
		if len(admitted) == 0 {
			t.Fatal("nothing is admitted")
		}
	}
}

// TestTheWindowHasABound: more frames than it remembers are rejected, and only until it forgets.
func TestTheWindowHasABound(t *testing.T) {
	w := frame.NewWindow(sealedAt)
	for i := range uint64(frame.MaxRemembered) {
		if err := w.Admit(headAt(i, sealedAt), sealedAt); err != nil {
			t.Fatal(err)
		}
	}
	next := headAt(frame.MaxRemembered, sealedAt)
	if err := w.Admit(next, sealedAt); !errors.Is(err, frame.ErrCrowded) {
		t.Errorf("got %v", err)
	}
	at := sealedAt.Add(2*frame.Width + 1)
	next.Time = at
	if err := w.Admit(next, at); err != nil {
		t.Error(err)
	}
}
