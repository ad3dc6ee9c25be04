package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nkeys"
)

// The set of keys to trust is signed and not sealed with the key of a pair: an agent that was away for months can check
// it by any key that it knows. Its form on the wire is
//
//	1 | number of signatures | for each: public key (56 bytes), signature (64 bytes) | message

const (
	sealMark      = 1
	keySize       = 56
	signatureSize = 64
	sealSize      = keySize + signatureSize
	// maxSeals is the largest number of signatures: a server has a present key, former keys and a next key.
	maxSeals = 16
)

// The reasons to reject a signed message.
var (
	ErrUnsigned   = errors.New("not signed")
	ErrUnknownKey = errors.New("signed by a key that is not pinned")
	ErrForged     = errors.New("signature does not match")
	ErrNotForMe   = errors.New("addressed to another agent")
)

// renewal is the message that renews the trust of an agent.
type renewal struct {
	Version int        `json:"version"`
	Agent   string     `json:"agent"`
	Trust   *Enrolment `json:"trust"`
}

// SealTrust encodes the new trust of an agent, and signs it with the present manifest key of the server, and with the
// others if there are any.
func SealTrust(agent string, e Enrolment, key nkeys.KeyPair, others ...nkeys.KeyPair) ([]byte, error) {
	body, err := json.Marshal(renewal{Version: Version, Agent: agent, Trust: &e})
	if err != nil {
		return nil, fmt.Errorf("cannot encode trust: %w", err)
	}
	return statement{kind: kindTrust, said: body}.seal(append([]nkeys.KeyPair{key}, others...)...)
}

// OpenTrust verifies new trust against the pinned public keys and the reader's own name, and returns it.
func OpenTrust(data []byte, pinned []string, agent string) (*Enrolment, error) {
	body, err := statement{kind: kindTrust}.open(data, pinned)
	if err != nil {
		return nil, fmt.Errorf("cannot verify trust: %w", err)
	}
	var r renewal
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("cannot read trust: %w", err)
	}
	switch {
	case r.Version > Version:
		return nil, ErrVersion
	case r.Agent != agent:
		return nil, ErrNotForMe
	case r.Trust == nil:
		return nil, errors.New("cannot read trust: it is empty")
	}
	return r.Trust, nil
}

// seal returns the statement in its form on the wire.
func (s statement) seal(keys ...nkeys.KeyPair) ([]byte, error) {
	data := make([]byte, 0, 2+len(keys)*sealSize+len(s.said))
	data = append(data, sealMark, byte(len(keys))) //nolint:gosec // at most maxSeals
	for _, key := range keys {
		public, made, err := s.sign(key)
		if err != nil {
			return nil, err
		}
		data = append(append(data, public...), made...)
	}
	return append(data, s.said...), nil
}

func sealed(data []byte) bool { return len(data) > 0 && data[0] == sealMark }

// open returns the signed message. It looks for a signature by a pinned key; the first such signature decides.
func (s statement) open(data []byte, pinned []string) ([]byte, error) {
	seals, said, err := split(data)
	if err != nil {
		return nil, err
	}
	s.said = said
	for made := range slices.Chunk(seals, sealSize) {
		if key := string(made[:keySize]); slices.Contains(pinned, key) {
			if err := s.verify(key, made[keySize:]); err != nil {
				return nil, err
			}
			return said, nil
		}
	}
	return nil, ErrUnknownKey
}

// split separates the signatures from the message. The signatures prove nothing yet.
func split(data []byte) (seals, said []byte, err error) {
	if !sealed(data) {
		return nil, nil, ErrUnsigned
	}
	if len(data) < 2 || data[1] == 0 || data[1] > maxSeals || len(data) < 2+int(data[1])*sealSize {
		return nil, nil, errors.New("its signatures cannot be read")
	}
	end := 2 + int(data[1])*sealSize
	return data[2:end], data[end:], nil
}
