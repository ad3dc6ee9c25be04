package frame_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
)

// keysOfMember are the keys of a member that has one; save may be nil.
func keysOfMember(t *testing.T, pair nkeys.KeyPair, save func([]byte) error) *frame.Keys {
	t.Helper()
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	k, err := frame.NewKeys(memberName, seed, save)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestAKeyOfItsOwnForEachKeyOfTheFleet: a member makes a key when the fleet takes another key into use, seals with the
// former one until a server has the new one, and drops the former one when the fleet drops its own.
func TestAKeyOfItsOwnForEachKeyOfTheFleet(t *testing.T) {
	pair, first := fabrictest.NewSealingKey(t)
	var text []byte
	full := false
	k := keysOfMember(t, pair, func(now []byte) error {
		if full {
			return syscall.ENOSPC
		}
		text = now
		return nil
	})
	var fleet []string
	for range 3 {
		_, public := fabrictest.NewSealingKey(t)
		fleet = append(fleet, public)
	}
	one, two, both := fleet[:1], fleet[1:2], []string{fleet[1], fleet[0]}
	// sealed is the number of the held key that Present's pair is of: 0 is the newest.
	sealed := func(keys []string) (*frame.Pair, int) {
		t.Helper()
		pair, err := k.Present(fleetName, keys)
		if err != nil {
			t.Fatal(err)
		}
		public, err := frame.PublicKey(keys[0])
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			held, err := nkeys.FromCurveSeed([]byte(strings.Fields(line)[0]))
			if err != nil {
				t.Fatal(err)
			}
			private, err := frame.PrivateKey(held)
			if err != nil {
				t.Fatal(err)
			}
			if frame.Name(public, private.PublicKey()) == pair.ID() {
				return pair, i
			}
		}
		t.Fatal("it seals with a key that is not on disk")
		return nil, 0
	}
	// state checks the number of keys on disk, and the one that it seals with.
	state := func(step string, keys []string, held, use int) *frame.Pair {
		t.Helper()
		pair, got := sealed(keys)
		if n := strings.Count(string(text), "\n"); n != held || got != use {
			t.Errorf("%s: it has %d keys, seals with the one of number %d; want %d, %d", step, n, got, held, use)
		}
		known := slices.Contains([]string{"taken", "kept", "dropped", "taken at last", "after the answer"}, step)
		if _, _, announce := k.Newest(); announce == known {
			t.Errorf("%s: to announce %v", step, announce)
		}
		again, err := frame.NewKeys(memberName, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		was, _, _ := k.Newest()
		if newest, _, _ := again.Newest(); newest != was {
			t.Errorf("%s: the newest key is %s on disk and %s in memory", step, newest, was)
		}
		return pair
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(k.Follow(one))
	state("the first fleet's key", one, 1, 0)
	if newest, _, _ := k.Newest(); newest != first {
		t.Errorf("it has made another key than %s: %s", first, newest)
	}
	must(k.Follow([]string{fleet[0], fleet[1]})) // the next key of the fleet is only known
	state("announced", one, 1, 0)
	full = true
	if err := k.Follow(both); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	state("a full disk", one, 1, 0)
	full = false
	must(k.Follow(both))
	must(k.Follow(both))
	before := state("in use", both, 2, 1)
	must(k.Answered(before, both, nil))
	before = state("an answer that is not about the key", both, 2, 1)
	must(k.Answered(before, both, &frame.HintError{Text: "it does not know me"}))
	after := state("a hint", both, 2, 0)
	must(k.Answered(before, both, &frame.HintError{Text: "late"}))
	state("a late hint", both, 2, 0)
	must(k.Answered(after, both, &frame.HintError{Text: "again"}))
	must(k.Answered(state("another hint", both, 2, 1), both, errors.New("garbage")))
	state("garbage", both, 2, 1)
	k.Taken()
	must(k.Answered(state("taken", both, 2, 0), both, nil))
	must(k.Answered(state("kept", both, 2, 0), two, nil))
	state("dropped", two, 1, 0)

	must(k.Follow(fleet[2:])) // it missed the announcement
	state("two changes", fleet[2:], 2, 1)
	must(k.Follow(one))
	for range 20 {
		must(k.Follow(two))
		must(k.Follow(one))
	}
	before = state("many changes, and nobody has answered", one, 2, 1)
	must(k.Answered(before, one, nil))
	k.Taken()
	must(k.Answered(state("taken at last", one, 2, 0), one, nil))
	state("after the answer", one, 1, 0)
	if _, err := k.Named(fleetName, one, frame.PairID{1}); !errors.Is(err, frame.ErrPair) {
		t.Errorf("an unknown pair: %v", err)
	}
	state("a frame that it has no key for", one, 1, 0)
	for _, odd := range []string{"", "SU", "X\n", string(text) + "odd\n"} {
		if _, err := frame.NewKeys(memberName, []byte(odd), nil); err == nil || strings.Contains(err.Error(), "odd") {
			t.Errorf("%q is taken: %v", odd, err)
		}
	}
}

// TestThePresentKeyOfTheFleet is the first one of the enrolment, also after the enrolment was renewed. Frames of the
// other keys are opened, too.
func TestThePresentKeyOfTheFleet(t *testing.T) {
	pair, _ := fabrictest.NewSealingKey(t)
	k := keysOfMember(t, pair, nil)
	key, err := frame.PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
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
