package frame_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
)

// TestThePresentKeyOfTheFleet is the first one of the enrolment, also after the enrolment was renewed. Frames of the
// other keys are opened, too.
func TestThePresentKeyOfTheFleet(t *testing.T) {
	key := keyOf(t, "member")
	k := frame.NewKeys(memberName, key)
	if _, err := k.Present(fleetName, nil); err == nil || !strings.Contains(err.Error(), "join again") {
		t.Errorf("without a key: %v", err)
	}
	_, first := fabrictest.NewSealingKey(t)
	_, second := fabrictest.NewSealingKey(t)
	for _, keys := range [][]string{{first, second}, {first}, {second, first}, {first}} {
		for i, text := range append(keys, keys...) {
			public, err := frame.PublicKey(text)
			if err != nil {
				t.Fatal(err)
			}
			name := frame.Name(public, key.PublicKey())
			if pair, err := k.Present(fleetName, keys); err != nil || (pair.ID() == name) != (i%len(keys) == 0) {
				t.Errorf("of %q it uses another one (%v)", keys, err)
			}
			if pair, err := k.Named(fleetName, keys, name); err != nil || pair.ID() != name {
				t.Errorf("of %q it does not have %q (%v)", keys, text, err)
			}
		}
		if _, err := k.Named(fleetName, keys, frame.PairID{1}); !errors.Is(err, frame.ErrPair) {
			t.Errorf("an unknown pair: %v", err)
		}
	}
	if _, err := k.Present(fleetName, []string{"X"}); err == nil {
		t.Error("an odd key is taken")
	}
}

// TestClock: it goes on from the last answer, and is unknown before the first one.
func TestClock(t *testing.T) {
	since := time.Hour
	c := frame.NewClock(func() time.Duration { return since })
	c.Set(time.Time{}, since)
	if !c.Now().IsZero() {
		t.Errorf("before any answer it is %v", c.Now())
	}
	if err := c.Admit(headAt(1, sealedAt)); !errors.Is(err, frame.ErrStale) {
		t.Errorf("before any answer a frame is admitted: %v", err)
	}
	c.Set(sealedAt, since)
	since += time.Minute
	if got := c.Now(); !got.Equal(sealedAt.Add(time.Minute)) {
		t.Errorf("after a minute it is %v", got)
	}
	if err := c.Admit(headAt(2, sealedAt)); err != nil {
		t.Errorf("a frame of a minute ago: %v", err)
	}
	if err := c.Admit(headAt(2, sealedAt)); !errors.Is(err, frame.ErrRepeated) {
		t.Errorf("a copy: %v", err)
	}
	c.Set(sealedAt.Add(-time.Hour), since) // a server's clock was set back
	if got := c.Now(); !got.Equal(sealedAt.Add(-time.Hour)) {
		t.Errorf("after another answer it is %v", got)
	}
}

// TestFramesBeforeTheFirstAnswer count from the question on: the servers may send them before they answer.
func TestFramesBeforeTheFirstAnswer(t *testing.T) {
	since := time.Hour
	c := frame.NewClock(func() time.Duration { return since })
	asked := c.Reading()
	since += 3 * time.Second
	c.Set(sealedAt, asked)
	if err := c.Admit(headAt(1, sealedAt.Add(-3*time.Second))); err != nil {
		t.Errorf("after the question: %v", err)
	}
	if err := c.Admit(headAt(2, sealedAt.Add(-5*time.Second))); !errors.Is(err, frame.ErrStale) {
		t.Errorf("before the question: %v", err)
	}
}
