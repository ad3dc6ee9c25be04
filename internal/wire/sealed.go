package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nkeys"
)

// Messages between agents and servers pass brokers and proxies, which an attacker may control. So the sender signs each
// message with content: the agent signs reports and receipts, the server signs manifests and the answers to reports.
// The form on the wire is
//
//	1 | number of signatures | for each: public key (56 bytes), signature (64 bytes) | message

const (
	sealMark      = 1
	keySize       = 56
	signatureSize = 64
	sealSize      = keySize + signatureSize
	// maxSeals is the largest number of signatures: a server has a present key, former keys and a next key.
	maxSeals = 16
	// maxHeartbeat is the size in bytes that a report without content stays below.
	maxHeartbeat = 4 << 10
)

// ErrUnsigned rejects a message that needs a signature and has none.
var ErrUnsigned = errors.New("not signed")

// HasContent reports whether a report holds anything that a server stores or trusts. A report without such content is a
// heartbeat and needs no signature: it only shows that its sender is alive.
func HasContent(report []byte) bool {
	if len(report) > maxHeartbeat || bytes.IndexByte(report, '\n') >= 0 {
		return true
	}
	var r struct {
		Hello    json.RawMessage `json:"hello"`
		Progress json.RawMessage `json:"progress"`
		Observed json.RawMessage `json:"observed"`
		Proof    json.RawMessage `json:"proof"`
		Open     json.RawMessage `json:"open"`
		Load     json.RawMessage `json:"load"`
	}
	return json.Unmarshal(report, &r) != nil ||
		len(r.Hello)+len(r.Progress)+len(r.Observed)+len(r.Proof)+len(r.Open)+
			len(r.Load) > 0
}

// SealReport signs an encoded report to the servers of a fleet with the agent's key.
func SealReport(report []byte, fleet string, key nkeys.KeyPair) ([]byte, error) {
	return statement{kind: kindReport, to: fleet, said: report}.seal(key)
}

// OpenReport returns the report of an agent to the servers of a fleet, and whether the agent signed it. A report that
// has content must be signed.
func OpenReport(data []byte, fleet, agent string) (report []byte, signed bool, err error) {
	if !sealed(data) {
		if HasContent(data) {
			return nil, false, fmt.Errorf("report refused: %w", ErrUnsigned)
		}
		return data, false, nil
	}
	if report, err = (statement{kind: kindReport, to: fleet}).open(data, []string{agent}); err != nil {
		return nil, false, fmt.Errorf("report refused: %w", err)
	}
	return report, true, nil
}

// SealAnswer signs the encoded answer to an agent's report with the server's keys.
func SealAnswer(answer, report []byte, agent string, keys ...nkeys.KeyPair) ([]byte, error) {
	return statement{kind: kindAnswer, to: agent, about: report, said: answer}.seal(keys...)
}

// OpenAnswer returns the signed answer to an agent's report, after it has verified that the signer has a pinned key.
func OpenAnswer(data, report []byte, agent string, pinned []string) ([]byte, error) {
	answer, err := statement{kind: kindAnswer, to: agent, about: report}.open(data, pinned)
	if err != nil {
		return nil, fmt.Errorf("answer refused: %w", err)
	}
	return answer, nil
}

// SealedTrust extracts the sealed manifest with the agent's new trust from an answer. It is for an agent that cannot
// open the answer because it does not know the signing key yet. It proves nothing about the rest.
func SealedTrust(data []byte) []byte {
	_, answer, err := split(data)
	if err != nil {
		return nil
	}
	var ack struct {
		Trust []byte `json:"trust"`
	}
	if json.Unmarshal(answer, &ack) != nil {
		return nil
	}
	return ack.Trust
}

// SealReceipt signs the encoded receipt for an envelope with the agent's key.
func SealReceipt(receipt, envelope []byte, key nkeys.KeyPair) ([]byte, error) {
	return statement{kind: kindReceipt, about: envelope, said: receipt}.seal(key)
}

// OpenReceipt returns the receipt for an envelope, after it has verified the agent's signature.
func OpenReceipt(data, envelope []byte, agent string) ([]byte, error) {
	receipt, err := statement{kind: kindReceipt, about: envelope}.open(data, []string{agent})
	if err != nil {
		return nil, fmt.Errorf("receipt refused: %w", err)
	}
	return receipt, nil
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
