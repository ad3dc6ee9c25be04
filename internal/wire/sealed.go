package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nkeys"
)

// What agents and servers say to each other passes brokers and proxies, which may be somebody else's by then. So what counts is signed by
// the one who says it: reports and receipts by the agent, manifests and the answers to reports by the server. As it travels it is
//
//	1 | how many signatures | for each: public key (56 bytes), signature (64 bytes) | what was said

const (
	sealMark      = 1
	keySize       = 56
	signatureSize = 64
	sealSize      = keySize + signatureSize
	// maxSeals is how many signatures there may be: a server has a present key, and those that came before and comes next.
	maxSeals = 16
	// silence is more than a report takes that tells nothing.
	silence = 4 << 10
)

// ErrUnsigned refuses what counts and bears no signature.
var ErrUnsigned = errors.New("not signed")

// Tells reports whether a report has anything in it that a server keeps, or believes. One that has not, a heartbeat, needs no signature: all
// that it says is that somebody is there.
func Tells(report []byte) bool {
	if len(report) > silence {
		return true
	}
	var r struct {
		Hello    json.RawMessage `json:"hello"`
		Progress json.RawMessage `json:"progress"`
		Observed json.RawMessage `json:"observed"`
		Events   json.RawMessage `json:"events"`
		Proof    json.RawMessage `json:"proof"`
		Open     json.RawMessage `json:"open"`
	}
	return json.Unmarshal(report, &r) != nil || len(r.Hello)+len(r.Progress)+len(r.Observed)+len(r.Events)+len(r.Proof)+len(r.Open) > 0
}

// SealReport signs an encoded report to the servers of a fleet with the agent's key.
func SealReport(report []byte, fleet string, key nkeys.KeyPair) ([]byte, error) {
	return statement{kind: kindReport, to: fleet, said: report}.seal(key)
}

// OpenReport returns the report of an agent to the servers of a fleet, and whether it was signed by the agent. One that Tells something has
// to be.
func OpenReport(data []byte, fleet, agent string) (report []byte, signed bool, err error) {
	if !sealed(data) {
		if Tells(data) {
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

// OpenAnswer returns the answer to an agent's report that was signed, once it is proven to be that of one who has a pinned key.
func OpenAnswer(data, report []byte, agent string, pinned []string) ([]byte, error) {
	answer, err := statement{kind: kindAnswer, to: agent, about: report}.open(data, pinned)
	if err != nil {
		return nil, fmt.Errorf("answer refused: %w", err)
	}
	return answer, nil
}

// SealedTrust returns the sealed manifest with what an agent is to trust from now on out of an answer that it cannot open, as it is
// signed by a key that it does not know yet. It proves nothing of the rest.
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

// OpenReceipt returns the receipt for an envelope, once it is proven to be the agent's.
func OpenReceipt(data, envelope []byte, agent string) ([]byte, error) {
	receipt, err := statement{kind: kindReceipt, about: envelope}.open(data, []string{agent})
	if err != nil {
		return nil, fmt.Errorf("receipt refused: %w", err)
	}
	return receipt, nil
}

// seal returns the statement as it travels.
func (s statement) seal(keys ...nkeys.KeyPair) ([]byte, error) {
	data := make([]byte, 0, 2+len(keys)*sealSize+len(s.said))
	data = append(data, sealMark, byte(len(keys))) //nolint:gosec // a few
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

// open returns what was said. It looks for a signature by a pinned key; the first one that is there decides.
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

// split takes the signatures off what was said. They prove nothing yet.
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
