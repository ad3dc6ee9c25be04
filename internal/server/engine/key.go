package engine

import (
	"crypto/ed25519"

	"github.com/nats-io/nkeys"
)

// readyKey is a key pair that has its two halves at hand. Those of nkeys derive them from the seed with every signature, which takes
// longer than to sign.
type readyKey struct {
	nkeys.KeyPair
	public  string
	private ed25519.PrivateKey
}

// ready returns the key pair with its halves at hand; the key pair itself where they cannot be had.
func ready(pair nkeys.KeyPair) nkeys.KeyPair {
	if pair == nil {
		return nil
	}
	public, err := pair.PublicKey()
	if err != nil {
		return pair
	}
	encoded, err := pair.PrivateKey()
	if err != nil {
		return pair
	}
	private, err := nkeys.Decode(nkeys.PrefixBytePrivate, encoded)
	if err != nil || len(private) != ed25519.PrivateKeySize {
		return pair
	}
	return &readyKey{KeyPair: pair, public: public, private: private}
}

// PublicKey returns the encoded public half.
func (k *readyKey) PublicKey() (string, error) { return k.public, nil }

// Sign signs the input.
func (k *readyKey) Sign(input []byte) ([]byte, error) { return ed25519.Sign(k.private, input), nil }
