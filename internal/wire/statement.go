package wire

import (
	"crypto/sha256"
	"fmt"

	"github.com/nats-io/nkeys"
)

// Agents and servers sign statements, and nothing else but a broker's challenge (fabric.SignChallenge). A statement
// is a text of three lines: its kind, the key of the speaker, and a digest of the message. So a signature is valid for
// one kind, one speaker and one message. A statement begins with "drover", a blank and the kind: no challenge, token of
// the fabric or certificate does.
const statementForm = "drover %s 1\nfrom %s\nsaid %x\n"

// The kinds of statements.
const (
	kindTrust   = "trust"
	kindJoin    = "join"
	kindSealing = "sealing"
)

// statement is a text to sign.
type statement struct {
	kind string
	said []byte
}

// text returns the text that a key signs.
func (s statement) text(key string) []byte {
	return fmt.Appendf(nil, statementForm, s.kind, key, sha256.Sum256(s.said))
}

// sign returns the public key of a pair, and the signature by the pair.
func (s statement) sign(key nkeys.KeyPair) (public string, made []byte, err error) {
	if public, err = key.PublicKey(); err == nil {
		made, err = key.Sign(s.text(public))
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot sign %s: %w", s.kind, err)
	}
	return public, made, nil
}

func (s statement) verify(key string, made []byte) error {
	public, err := nkeys.FromPublicKey(key)
	if err != nil {
		return fmt.Errorf("cannot read key: %w", err)
	}
	if err := public.Verify(s.text(key), made); err != nil {
		return ErrForged
	}
	return nil
}
