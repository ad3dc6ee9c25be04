package pairs_test

import (
	"context"
	"crypto/ecdh"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
	"drover/internal/server/pairs"
)

var (
	fleet = "A" + strings.Repeat("FLEET", 11)
	name  = "U" + strings.Repeat("AGENT", 11)
)

// key makes a sealing key.
func key(t *testing.T) (pair nkeys.KeyPair, private *ecdh.PrivateKey, public string) {
	t.Helper()
	pair, public = fabrictest.NewSealingKey(t)
	private, err := frame.PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	return pair, private, public
}

// rig has the keys of a fleet and the register.
type rig struct {
	t        *testing.T
	pairs    *pairs.Pairs
	keys     []nkeys.KeyPair
	register map[string]string
	err      error
	reads    int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, register: map[string]string{}}
	r.pairs = pairs.New(pairs.Config{
		Fleet: fleet, Keys: func() []nkeys.KeyPair { r.reads++; return r.keys },
		Sealing: func(_ context.Context, agent string) (string, bool, error) {
			key, known := r.register[agent]
			return key, known, r.err
		},
	})
	return r
}

// frameOf is a report that an agent seals with its key and a public key of the fleet.
func (r *rig) frameOf(own *ecdh.PrivateKey, of *ecdh.PrivateKey) []byte {
	r.t.Helper()
	pair, err := frame.AtMember(name, own, fleet, of.PublicKey())
	if err != nil {
		r.t.Fatal(err)
	}
	data, _, err := pair.Seal(frame.Report, time.Time{}, frame.Nonce{}, []byte("told"))
	if err != nil {
		r.t.Fatal(err)
	}
	return data
}

// opens reports whether the agent with this key opens what a server seals for it, by this key of the fleet.
func (r *rig) opens(own, of *ecdh.PrivateKey) error {
	r.t.Helper()
	pair, err := r.pairs.Present(r.t.Context(), name)
	if err != nil {
		return err
	}
	data, _, err := pair.Seal(frame.Orders, time.Now(), frame.Nonce{}, []byte("do"))
	if err != nil {
		return err
	}
	member, err := frame.AtMember(name, own, fleet, of.PublicKey())
	if err != nil {
		r.t.Fatal(err)
	}
	_, _, err = member.Open(frame.Orders, data, frame.Nonce{})
	return err
}

// open opens a report as a server does.
func (r *rig) open(data []byte) error {
	r.t.Helper()
	h, err := frame.Read(data)
	if err != nil {
		r.t.Fatal(err)
	}
	pair, err := r.pairs.For(r.t.Context(), name, h.Pair)
	if err != nil {
		return err
	}
	_, body, err := pair.Open(frame.Report, data, frame.Nonce{})
	if err == nil && string(body) != "told" {
		r.t.Errorf("it says %q", body)
	}
	return err
}

// TestPairs: a server opens what an agent seals with any key of the fleet that the server has, and with the key that
// the agent has in the register.
func TestPairs(t *testing.T) {
	r := newRig(t)
	present, presentKey, _ := key(t)
	former, formerKey, _ := key(t)
	_, strangeKey, _ := key(t)
	_, own, public := key(t)
	r.keys = []nkeys.KeyPair{present, former}
	if err := r.open(r.frameOf(own, presentKey)); !errors.Is(err, pairs.ErrUnknownMember) {
		t.Errorf("of a member that is not in the register: %v", err)
	}
	r.register[name] = public
	for range 2 {
		for _, of := range []*ecdh.PrivateKey{presentKey, formerKey} {
			if err := r.open(r.frameOf(own, of)); err != nil {
				t.Error(err)
			}
		}
	}
	if err := r.open(r.frameOf(own, strangeKey)); !errors.Is(err, pairs.ErrUnknownKeys) {
		t.Errorf("for another fleet: %v", err)
	}
	if r.reads != 1 {
		t.Errorf("the keys of the fleet were read %d times", r.reads)
	}
	r.keys = r.keys[:1]
	r.pairs.Changed()
	if err := r.open(r.frameOf(own, formerKey)); !errors.Is(err, pairs.ErrUnknownKeys) {
		t.Errorf("with a key that was dropped: %v", err)
	}
	if err := r.open(r.frameOf(own, presentKey)); err != nil {
		t.Error(err)
	}
}

// TestAMemberWithAnotherKey: once the register has another key of an agent, the earlier one opens nothing.
func TestAMemberWithAnotherKey(t *testing.T) {
	r := newRig(t)
	present, presentKey, _ := key(t)
	_, first, firstPublic := key(t)
	_, second, secondPublic := key(t)
	r.keys, r.register[name] = []nkeys.KeyPair{present}, firstPublic
	if err := r.open(r.frameOf(first, presentKey)); err != nil {
		t.Error(err)
	}
	r.register[name] = secondPublic
	if err := r.open(r.frameOf(first, presentKey)); !errors.Is(err, pairs.ErrUnknownKeys) {
		t.Errorf("with the earlier key: %v", err)
	}
	if err := r.open(r.frameOf(second, presentKey)); err != nil {
		t.Error(err)
	}
}

// TestKeysThatCannotBeRead: the errors say what is wrong, and nothing is opened.
func TestKeysThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	present, presentKey, _ := key(t)
	_, own, public := key(t)
	data := r.frameOf(own, presentKey)
	r.keys, r.register[name], r.err = []nkeys.KeyPair{present}, public, fs.ErrInvalid
	if err := r.open(data); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("without the database: %v", err)
	}
	r.err = nil
	for _, odd := range []string{"", "X", name} {
		r.register[name] = odd
		if err := r.open(data); err == nil {
			t.Errorf("the key %q is taken", odd)
		}
	}
	signer, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	r.keys, r.register[name] = []nkeys.KeyPair{signer}, public
	r.pairs.Changed()
	if err := r.open(data); err == nil {
		t.Error("a key that signs is taken for one that seals")
	}
}

// TestThePresentKey: servers seal with the fleet's first key and the agent's registered one.
func TestThePresentKey(t *testing.T) {
	r := newRig(t)
	_, own, public := key(t)
	first, firstKey, _ := key(t)
	second, secondKey, _ := key(t)
	if err := r.opens(own, firstKey); !errors.Is(err, pairs.ErrUnknownMember) {
		t.Errorf("an unknown agent: %v", err)
	}
	r.register[name] = public
	if err := r.opens(own, firstKey); !errors.Is(err, pairs.ErrUnknownKeys) {
		t.Errorf("without a key: %v", err)
	}
	r.keys = []nkeys.KeyPair{first, second}
	r.pairs.Changed()
	for range 2 {
		if err := r.opens(own, firstKey); err != nil {
			t.Error(err)
		}
	}
	if err := r.open(r.frameOf(own, secondKey)); err != nil { // the next key may not seal, but opens
		t.Error(err)
	}
	if err := r.opens(own, firstKey); err != nil {
		t.Errorf("after a report by the next key: %v", err)
	}
	r.keys = []nkeys.KeyPair{second, first}
	r.pairs.Changed()
	if err := r.opens(own, secondKey); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	if err := r.opens(own, firstKey); !errors.Is(err, frame.ErrPair) {
		t.Errorf("after a rotation it is still the former key: %v", err)
	}
}

// TestServers: servers seal with the fleet's first key, and open what one of them has sealed with another key.
func TestServers(t *testing.T) {
	r, other := newRig(t), newRig(t)
	if _, err := r.pairs.Servers(); !errors.Is(err, pairs.ErrUnknownKeys) {
		t.Errorf("without a key: %v", err)
	}
	first, _, _ := key(t)
	second, _, _ := key(t)
	r.keys, other.keys = []nkeys.KeyPair{first, second}, []nkeys.KeyPair{second, first}
	r.pairs.Changed()
	own := servers(t, r)
	theirs := servers(t, other)
	if len(own) != 2 || own[0].ID() != theirs[1].ID() || own[1].ID() != theirs[0].ID() {
		t.Fatal("the pairs do not follow the keys")
	}
	data, _, err := theirs[0].Seal(frame.News, time.Now(), frame.Nonce{}, []byte("news"))
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := own[1].Open(frame.News, data, frame.Nonce{}); err != nil || string(body) != "news" {
		t.Errorf("it reads %q, %v", body, err)
	}
	before := own[1].ID()
	r.keys = r.keys[:1]
	r.pairs.Changed()
	if own = servers(t, r); len(own) != 1 || own[0].ID() == before {
		t.Error("a key that was dropped is still used")
	}
}

func servers(t *testing.T, r *rig) []*frame.Pair {
	t.Helper()
	list, err := r.pairs.Servers()
	if err != nil {
		t.Fatal(err)
	}
	return list
}
