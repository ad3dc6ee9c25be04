package frame

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nkeys"
)

// Keys are the private sealing keys of a member, with their pairs with the keys of its fleet. A member makes another
// key whenever the fleet takes another key into use (Follow). It seals with its former key until a server has taken the
// new one (Taken). It keeps the former key afterwards, in case the servers forget the new one. If a member does not
// know whether the servers have its newest key, it announces that key: after its start, and after a frame of an unknown
// pair. Keys derives a pair when it is first needed. It is safe for concurrent use.
type Keys struct {
	member string
	save   func(text []byte) error

	mu sync.Mutex
	// held are the keys, the newest first; at least one. use is the index of the key to seal with. known says that the
	// servers have the newest key.
	held  []memberKey
	use   int
	known bool
	// rows are the pairs of each held key with each key of the fleet in names; nil if they are to be made.
	rows  []pairRow
	names []string
}

// memberKey is a private key of a member.
type memberKey struct {
	// line is the key in a text: its seed, a blank, and since.
	line    string
	private *ecdh.PrivateKey
	// since is the fleet's key that was present when the member made the key. It is empty until the member knows one.
	since string
}

// pairRow is a pair that is derived when it is first needed.
type pairRow struct {
	id    PairID
	own   *ecdh.PrivateKey
	fleet *ecdh.PublicKey
	pair  *Pair
}

// NewKeys returns the keys of a member, by its public nkey, from a text. The text has a line for each key, the newest
// first: its seed, and the fleet's key since which the member has it. save stores a changed text, whole or not at all.
func NewKeys(member string, text []byte, save func(text []byte) error) (*Keys, error) {
	k := &Keys{member: member, save: save}
	words := strings.Fields(string(text))
	if len(words) == 1 { // before the first Follow
		words = append(words, "")
	}
	for ; len(words) > 1; words = words[2:] {
		key, err := readKey([]byte(words[0]), words[1])
		if err != nil {
			return nil, err
		}
		k.held = append(k.held, key)
	}
	if len(k.held) == 0 || len(words) > 0 {
		return nil, errNoKey
	}
	return k, nil
}

var errNoKey = errors.New("cannot read sealing keys: expected seeds of X25519, each with a key of the fleet")

func readKey(seed []byte, since string) (memberKey, error) {
	pair, err := nkeys.FromCurveSeed(seed)
	if err != nil { // it must not quote the seed
		return memberKey{}, errNoKey
	}
	private, err := PrivateKey(pair)
	return memberKey{line: string(seed) + " " + since, private: private, since: since}, err
}

// write stores keys, and holds them once they are stored; the caller holds the lock.
func (k *Keys) write(held []memberKey) error {
	var text []byte
	for _, key := range held {
		text = append(text, key.line+"\n"...)
	}
	if err := k.save(text); err != nil {
		return fmt.Errorf("cannot store sealing keys: %w", err)
	}
	k.held, k.rows = held, nil
	return nil
}

// Follow makes a new key if the first of the fleet's keys is another one than when the newest key was made.
func (k *Keys) Follow(fleetKeys []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	newest := k.held[0]
	if len(fleetKeys) == 0 || newest.since == fleetKeys[0] {
		return nil
	}
	if newest.since == "" { // its first fleet
		newest.line, newest.since = newest.line+fleetKeys[0], fleetKeys[0]
		return k.write(append([]memberKey{newest}, k.held[1:]...))
	}
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return fmt.Errorf("cannot make sealing key: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return fmt.Errorf("cannot make sealing key: %w", err)
	}
	made, err := readKey(seed, fleetKeys[0])
	if err != nil {
		return err
	}
	others := k.held
	if k.use > 0 { // no server has taken the newest
		others = k.held[1:]
	}
	if err := k.write(append([]memberKey{made}, others...)); err != nil {
		return err
	}
	k.use, k.known = max(k.use, 1), false
	return nil
}

// Newest returns the public half of the newest key as an nkey, and the fleet's key since which the member has the key
// before it. announce says that the member must announce its newest key.
func (k *Keys) Newest() (public, since string, announce bool) {
	k.mu.Lock()
	newest, before, known := k.held[0], k.held[min(1, len(k.held)-1)], k.known
	k.mu.Unlock()
	text, _ := nkeys.Encode(nkeys.PrefixByteCurve, newest.private.PublicKey().Bytes()) // cannot fail: a valid prefix
	return string(text), before.since, !known
}

// Taken says that a server has taken the newest key. The member seals with it from now on.
func (k *Keys) Taken() {
	k.mu.Lock()
	k.use, k.known = 0, true
	k.mu.Unlock()
}

// Answered says what came of a frame that Present's pair has sealed. If a server has opened it, and it is of the newest
// key, the member drops the keys before the former one, and also that one if the fleet has dropped its own key of that
// time. If a server says that it cannot open it (HintError), the member seals with the next older key. Other errors
// change nothing. Answered returns an error if it cannot store the keys.
func (k *Keys) Answered(pair *Pair, fleetKeys []string, err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.rows) == 0 || k.rows[k.use*len(k.names)].pair != pair { // the keys have changed since
		return nil
	}
	if _, hinted := errors.AsType[*HintError](err); hinted {
		k.use, k.known = (k.use+1)%len(k.held), false
	}
	if err != nil || k.use > 0 {
		return nil
	}
	keep := 1
	if len(k.held) > 1 && slices.Contains(fleetKeys, k.held[1].since) {
		keep = 2
	}
	if len(k.held) == keep {
		return nil
	}
	return k.write(k.held[:keep:keep])
}

// Present returns the pair to seal with, that with the first of the fleet's public keys. fleet is the public key of the
// fleet's account.
func (k *Keys) Present(fleet string, keys []string) (*Pair, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.arrange(keys); err != nil {
		return nil, err
	}
	return k.derive(&k.rows[k.use*len(keys)], fleet)
}

// Named returns the pair that a frame of the fleet names, or ErrPair: servers may have a key before or after the
// present one of this member, and of the fleet.
func (k *Keys) Named(fleet string, keys []string, id PairID) (*Pair, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.arrange(keys); err != nil {
		return nil, err
	}
	for i := range k.rows {
		if k.rows[i].id == id {
			return k.derive(&k.rows[i], fleet)
		}
	}
	k.known = false // the servers may have another key of this member than its newest
	return nil, ErrPair
}

// arrange makes the rows; at least one. The caller holds the lock.
func (k *Keys) arrange(keys []string) error {
	if len(keys) == 0 {
		return errors.New("the enrolment has no sealing key: join again")
	}
	if len(k.rows) > 0 && slices.Equal(k.names, keys) {
		return nil
	}
	rows := make([]pairRow, 0, len(k.held)*len(keys))
	for _, own := range k.held {
		for _, name := range keys {
			public, err := PublicKey(name)
			if err != nil {
				return err
			}
			rows = append(rows, pairRow{id: Name(public, own.private.PublicKey()), own: own.private, fleet: public})
		}
	}
	k.rows, k.names = rows, slices.Clone(keys)
	return nil
}

// derive returns the pair of a row; the caller holds the lock.
func (k *Keys) derive(row *pairRow, fleet string) (*Pair, error) {
	if row.pair == nil {
		pair, err := AtMember(k.member, row.own, fleet, row.fleet)
		if err != nil {
			return nil, err
		}
		row.pair = pair
	}
	return row.pair, nil
}
