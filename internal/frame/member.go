package frame

import (
	"crypto/ecdh"
	"errors"
	"slices"
	"sync"
)

// Keys are the pairs of a member with the keys of its fleet, derived when they are first needed. They are safe for
// concurrent use.
type Keys struct {
	member string
	key    *ecdh.PrivateKey

	mu sync.Mutex
	// pairs belong to the fleet's keys of these names, in their order.
	pairs []*Pair
	names []string
}

// NewKeys returns the pairs of a member, by its public nkey and its private sealing key.
func NewKeys(member string, key *ecdh.PrivateKey) *Keys { return &Keys{member: member, key: key} }

// Present returns the pair to seal with, that with the first of the fleet's public keys. fleet is the public key of the
// fleet's account.
func (k *Keys) Present(fleet string, keys []string) (*Pair, error) {
	pairs, err := k.all(fleet, keys)
	if err != nil {
		return nil, err
	}
	return pairs[0], nil
}

// Named returns the pair that a frame of the fleet names, or ErrPair: servers may have a key before or after the
// present one of this member.
func (k *Keys) Named(fleet string, keys []string, id PairID) (*Pair, error) {
	pairs, err := k.all(fleet, keys)
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		if pair.ID() == id {
			return pair, nil
		}
	}
	return nil, ErrPair
}

// all returns the pairs with all keys of the fleet; at least one.
func (k *Keys) all(fleet string, keys []string) ([]*Pair, error) {
	if len(keys) == 0 {
		return nil, errors.New("the enrolment has no sealing key: join again")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Equal(k.names, keys) {
		return k.pairs, nil
	}
	pairs := make([]*Pair, 0, len(keys))
	for _, name := range keys {
		public, err := PublicKey(name)
		if err != nil {
			return nil, err
		}
		pair, err := AtMember(k.member, k.key, fleet, public)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair)
	}
	k.pairs, k.names = pairs, slices.Clone(keys)
	return pairs, nil
}
