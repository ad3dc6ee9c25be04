package wire

import (
	"crypto/sha256"
	"fmt"

	"github.com/nats-io/nkeys"
)

// Agents and servers sign statements, and nothing else but a broker's challenge (fabric.SignChallenge). A statement is a text of five
// lines: its kind, by whose key it is, whom it is for, and digests of what it answers and of what is said. So a signature is good for one
// kind, one speaker, one reader and one message. It begins with "drover", a blank and the kind: no challenge, token of the fabric or certificate
// does.
const statementForm = "drover %s 1\nfrom %s\nto %s\nabout %x\nsaid %x\n"

// The kinds of statements.
const (
	kindManifest = "manifest"
	kindReport   = "report"
	kindAnswer   = "answer"
	kindReceipt  = "receipt"
	kindJoin     = "join"
)

// statement is what is signed.
type statement struct {
	kind string
	// to is whom it is for: an agent's key, or Enrolment.Fleet for its servers. It is empty where what is said names the reader.
	to string
	// about is what it answers, if it is an answer.
	about, said []byte
}

// text returns what a key signs, or has signed.
func (s statement) text(key string) []byte {
	return fmt.Appendf(nil, statementForm, s.kind, key, s.to, sha256.Sum256(s.about), sha256.Sum256(s.said))
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
