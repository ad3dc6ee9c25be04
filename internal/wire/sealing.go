package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
)

// SealingChange says that a member has another sealing key.
type SealingChange struct {
	// Key is its public half, as an nkey. Since is the fleet's sealing key that was present when the member made its
	// former key.
	Key, Since string
	// At is the clock of the fleet.
	At time.Time
}

// SignSealing signs a change for the servers of a fleet with the key that is the member's name.
func SignSealing(c SealingChange, fleet string, name nkeys.KeyPair) ([]byte, error) {
	said := []byte(fleet + " " + c.Key + " " + c.Since + " " + strconv.FormatInt(c.At.UnixMilli(), 10))
	_, made, err := statement{kind: kindSealing, said: said}.sign(name)
	return append(made, said...), err
}

// OpenSealing verifies and reads a change that a member has signed for a fleet. It does not judge the time.
func OpenSealing(data []byte, member, fleet string) (SealingChange, error) {
	const words = 4
	if len(data) < signatureSize {
		return SealingChange{}, ErrUnsigned
	}
	said := data[signatureSize:]
	if err := (statement{kind: kindSealing, said: said}).verify(member, data[:signatureSize]); err != nil {
		return SealingChange{}, fmt.Errorf("cannot verify new sealing key: %w", err)
	}
	parts := strings.Split(string(said), " ")
	if len(parts) != words || !nkeys.IsValidPublicCurveKey(parts[1]) {
		return SealingChange{}, errors.New("cannot read new sealing key")
	}
	if parts[0] != fleet {
		return SealingChange{}, ErrNotForMe
	}
	at, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return SealingChange{}, errors.New("cannot read new sealing key")
	}
	return SealingChange{Key: parts[1], Since: parts[2], At: time.UnixMilli(at)}, nil
}
