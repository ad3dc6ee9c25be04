package pairs_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/frame"
)

// TestReplacedKeys: the former key is valid as long as the servers have the fleet's key of its time.
func TestReplacedKeys(t *testing.T) {
	r := newRig(t)
	fleetKey, of, fleetName := key(t)
	next, nextKey, _ := key(t)
	_, _, strange := key(t)
	r.keys = []nkeys.KeyPair{next, fleetKey}
	_, first, firstName := key(t)
	_, second, secondName := key(t)
	_, _, thirdName := key(t)
	replaced := func(text, key, since, want string) string {
		t.Helper()
		got, err := r.pairs.Replaced(text, key, since)
		if err != nil || got != want {
			t.Errorf("from %q to %q it is %q, want %q: %v", text, key, got, want, err)
		}
		return got
	}
	both := replaced(firstName, secondName, fleetName, strings.Join([]string{secondName, firstName, fleetName}, " "))
	replaced(both, secondName, strange, both)
	replaced(firstName, secondName, strange, secondName)
	replaced(both, thirdName, fleetName, strings.Join([]string{thirdName, secondName, fleetName}, " "))
	replaced(both, firstName, fleetName, strings.Join([]string{firstName, secondName, fleetName}, " "))
	for text, odd := range map[string]string{firstName: "X", "": firstName} {
		if got, err := r.pairs.Replaced(text, odd, fleetName); err == nil {
			t.Errorf("from %q to %q it is %q", text, odd, got)
		}
	}
	r.register[name] = both
	for _, own := range []bool{true, false} {
		private := first
		if own {
			private = second
		}
		if err := r.open(r.frameOf(private, of)); err != nil {
			t.Errorf("the newest key %v: %v", own, err)
		}
	}
	if err := r.opens(second, nextKey); err != nil {
		t.Errorf("servers seal with another key than the newest: %v", err)
	}
	r.keys = []nkeys.KeyPair{next}
	r.pairs.Changed()
	if err := r.open(r.frameOf(first, nextKey)); err == nil {
		t.Error("the former key is valid after the fleet's key of its time was dropped")
	}
	if err := r.open(r.frameOf(second, nextKey)); err != nil {
		t.Errorf("the newest key: %v", err)
	}
}

// world is a fleet and one of its members, whose messages may get lost and who may lose their memories.
type world struct {
	*rig
	random *rand.Rand
	// trust are the fleet's keys that the member knows, text its file, and broken makes it unwritable.
	trust  []string
	text   []byte
	broken bool
	member *frame.Keys
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{rig: newRig(t), random: rand.New(rand.NewPCG(seed, 1))}
	fleetKey, _, fleetName := key(t)
	own, _, public := key(t)
	w.keys, w.trust, w.register[name] = []nkeys.KeyPair{fleetKey}, []string{fleetName}, public
	text, err := own.Seed()
	if err != nil {
		t.Fatal(err)
	}
	w.text = text
	w.start()
	return w
}

// start is a start of the member.
func (w *world) start() {
	w.t.Helper()
	member, err := frame.NewKeys(name, w.text, func(text []byte) error {
		if w.broken {
			return errors.New("killed")
		}
		w.text = text
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.member = member
	_ = w.member.Follow(w.trust) // a broken disk
}

// names are the fleet's keys on the server, the present one first.
func (w *world) names() (all []string) {
	for _, k := range w.keys {
		public, _ := k.PublicKey()
		all = append(all, public)
	}
	return all
}

// report sends a report, whose way there or back may be cut, and reports whether the member got an answer.
func (w *world) report(there, back bool) bool {
	w.t.Helper()
	pair, err := w.member.Present(fleet, w.trust)
	if err != nil {
		w.t.Fatal(err)
	}
	newest, since, announce := w.member.Newest()
	data, nonce, err := pair.Seal(frame.Report, time.Now(), frame.Nonce{}, nil)
	if err != nil || !there {
		return false
	}
	head, err := frame.Read(data)
	if err != nil {
		w.t.Fatal(err)
	}
	reply := frame.Hint("unknown")
	if at, err := w.pairs.For(w.t.Context(), name, head.Pair); err == nil {
		if _, _, err := at.Open(frame.Report, data, frame.Nonce{}); err != nil {
			w.t.Fatal(err)
		}
		if text, err := w.pairs.Replaced(w.register[name], newest, since); err == nil && announce {
			w.register[name] = text
		}
		if reply, _, err = at.Seal(frame.Ack, time.Now(), nonce, nil); err != nil {
			w.t.Fatal(err)
		}
	}
	if !back {
		return false
	}
	_, _, err = pair.Open(frame.Ack, reply, nonce)
	_ = w.member.Answered(pair, w.trust, err) // a broken disk
	if err != nil {
		return false
	}
	if announce {
		w.member.Taken()
	}
	w.trust = w.names()
	_ = w.member.Follow(w.trust)
	return true
}

// order sends an order, and reports whether the member has its key.
func (w *world) order() bool {
	w.t.Helper()
	pair, err := w.pairs.Present(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.member.Named(fleet, w.trust, pair.ID())
	return err == nil
}

// rotate takes another key of the fleet into use, and drops all but the former one.
func (w *world) rotate() {
	w.t.Helper()
	made, _, _ := key(w.t)
	w.keys = append([]nkeys.KeyPair{made}, w.keys[:1]...)
	w.pairs.Changed()
}

// reachable reports whether one side has a key that the other one knows, for the fleet and for the member.
func (w *world) reachable() bool {
	if !slices.Contains(w.names(), w.trust[0]) { // the member seals with this one
		return false
	}
	words := strings.Fields(w.register[name])
	if len(words) > 1 && !slices.Contains(w.names(), words[2]) {
		words = words[:1]
	}
	for line := range strings.Lines(string(w.text)) {
		pair, err := nkeys.FromCurveSeed([]byte(strings.Fields(line)[0]))
		if err != nil {
			w.t.Fatal(err)
		}
		if public, _ := pair.PublicKey(); slices.Contains(words, public) {
			return true
		}
	}
	return false
}

// TestNoLossLocksOut: whatever messages get lost, whichever side is killed or restored from a copy, a few whole
// exchanges later both use the newest keys, as long as they have had one in common.
func TestNoLossLocksOut(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, seed)
		type copied struct {
			text     []byte
			trust    []string
			register string
		}
		var copies []copied
		for range 60 {
			before := copied{w.text, w.trust, w.register[name]}
			keys := w.keys
			switch w.random.IntN(10) {
			case 0:
				w.rotate()
			case 1, 2, 3:
				w.report(true, true)
			case 4:
				w.report(true, false)
			case 5:
				w.report(false, false)
			case 6:
				w.start()
			case 9:
				w.order()
			case 7: // killed amid a write
				w.broken = true
				w.report(true, true)
				w.broken = false
				w.start()
			case 8:
				copies = append(copies, before)
				old := copies[w.random.IntN(len(copies))]
				if w.random.IntN(2) == 0 {
					w.register[name] = old.register
				} else {
					w.text, w.trust = old.text, old.trust
					w.start()
				}
			}
			if !w.reachable() { // docs/ops/rotation.md: it has to join again
				w.keys, w.text, w.trust, w.register[name] = keys, before.text, before.trust, before.register
				w.pairs.Changed()
				w.start()
			}
		}
		for range 8 {
			w.report(true, true)
			w.order()
		}
		newest, _, announce := w.member.Newest()
		if !w.report(true, true) || !w.order() || announce || strings.Fields(w.register[name])[0] != newest ||
			strings.Count(string(w.text), "\n") > 2 {
			t.Fatalf("seed %d: the newest key is %s (announce %v), the register has %q, the file\n%s", seed, newest, announce,
				w.register[name], w.text)
		}
	}
}
