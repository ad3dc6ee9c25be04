package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nkeys"
)

// Envelope is a manifest on the wire: its exact bytes, the public key, and the signature of its statement.
type Envelope struct {
	Manifest  []byte `json:"manifest"`
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
	// Others are signatures of the same manifest by further keys, for a reader that does not know the first key.
	Others []Signature `json:"others,omitempty"`
}

// Signature is a signature by a further key.
type Signature struct {
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
}

// maxValues is more than the number of values in an envelope, as count counts them: two in each signature, and some
// more.
const maxValues = 8 + 4*maxSeals

// Seal encodes a manifest and signs it with the server's operation key, and with the other keys if there are any.
func Seal(m Manifest, key nkeys.KeyPair, others ...nkeys.KeyPair) ([]byte, error) {
	m.Version = Version
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cannot encode manifest: %w", err)
	}
	said := statement{kind: kindManifest, said: body}
	first, err := said.sign(key)
	if err != nil {
		return nil, err
	}
	e := Envelope{Manifest: body, Key: first.Key, Signature: first.Signature}
	for _, other := range others {
		s, err := said.sign(other)
		if err != nil {
			return nil, err
		}
		e.Others = append(e.Others, s)
	}
	return json.Marshal(e)
}

// The reasons to reject an envelope.
var (
	ErrUnknownKey = errors.New("signed by a key that is not pinned")
	ErrForged     = errors.New("signature does not match")
	ErrNotForMe   = errors.New("addressed to another agent")
	ErrExpired    = errors.New("expired")
	ErrVersion    = errors.New("written by a newer version")
)

// Open verifies an envelope against the pinned public keys and the reader's own name, and returns the manifest. It
// does not check Expires: the server may still ask about an accepted order.
func Open(data []byte, pinned []string, agent string) (*Manifest, error) {
	var e Envelope
	// Nobody has signed it yet, as far as is known.
	if len(data) > MaxMessage {
		return nil, fmt.Errorf("cannot read envelope of %d bytes: expected at most %d", len(data), MaxMessage)
	}
	if values, _, _ := count(data); values > maxValues {
		return nil, fmt.Errorf("cannot read envelope: it has %d parts, expected at most %d", values, maxValues)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("cannot read envelope: %w", err)
	}
	if err := e.verify(pinned); err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(e.Manifest, &m); err != nil {
		return nil, fmt.Errorf("cannot read manifest: %w", err)
	}
	switch {
	case m.Version > Version:
		return nil, ErrVersion
	case m.Agent != agent:
		return nil, ErrNotForMe
	}
	return &m, nil
}

// verify looks for a signature by a pinned key; the first such signature decides.
func (e *Envelope) verify(pinned []string) error {
	said := statement{kind: kindManifest, said: e.Manifest}
	if slices.Contains(pinned, e.Key) {
		return said.verify(e.Key, e.Signature)
	}
	for _, other := range e.Others {
		if slices.Contains(pinned, other.Key) {
			return said.verify(other.Key, other.Signature)
		}
	}
	return ErrUnknownKey
}
