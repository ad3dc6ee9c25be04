package frame

import (
	"crypto/ecdh"
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"
)

// PublicKey reads a public key of X25519 in the form of an nkey ("X" and 55 letters).
func PublicKey(text string) (*ecdh.PublicKey, error) {
	raw, err := nkeys.Decode(nkeys.PrefixByteCurve, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("cannot read sealing key %.60q: %w", text, err)
	}
	return ecdh.X25519().NewPublicKey(raw)
}

// PrivateKey returns the private key of a pair of nkeys for X25519.
func PrivateKey(pair nkeys.KeyPair) (*ecdh.PrivateKey, error) {
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("cannot read sealing key: %w", err)
	}
	defer clear(seed)
	kind, raw, err := nkeys.DecodeSeed(seed)
	if err != nil || kind != nkeys.PrefixByteCurve {
		return nil, errors.New("cannot read sealing key: it is not a key of X25519")
	}
	defer clear(raw)
	return ecdh.X25519().NewPrivateKey(raw)
}
