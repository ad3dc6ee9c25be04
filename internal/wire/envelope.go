package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"
)

// Seal encodes a manifest and signs it with the server's operation key, and with the others if there are any.
func Seal(m Manifest, key nkeys.KeyPair, others ...nkeys.KeyPair) ([]byte, error) {
	m.Version = Version
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cannot encode manifest: %w", err)
	}
	return statement{kind: kindManifest, said: body}.seal(append([]nkeys.KeyPair{key}, others...)...)
}

// The reasons to reject an envelope.
var (
	ErrUnknownKey = errors.New("signed by a key that is not pinned")
	ErrForged     = errors.New("signature does not match")
	ErrNotForMe   = errors.New("addressed to another agent")
	ErrVersion    = errors.New("written by a newer version")
)

// Open verifies an envelope against the pinned public keys and the reader's own name, and returns the manifest. It
// does not check Expires: the server may still ask about an accepted order.
func Open(data []byte, pinned []string, agent string) (*Manifest, error) {
	body, err := statement{kind: kindManifest}.open(data, pinned)
	if err != nil {
		return nil, fmt.Errorf("cannot read envelope: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(body, &m); err != nil {
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
