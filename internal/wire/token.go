package wire

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// JoinToken is what a host needs to join: written as dvt1.ID.SECRET.FINGERPRINT. Only its holder knows the secret;
// the server that makes it forgets the secret after showing it. The fingerprint identifies the authority that
// verifies the server's certificate.
type JoinToken struct {
	ID, Secret, Fingerprint string
}

// joinTokenMark begins every token, so that secret scanners easily find a leaked token. The number is the version of
// the form.
const joinTokenMark = "dvt1"

const (
	// hexadecimal digits: the time, so that ids are in the order of their creation, and a random part
	joinTokenID    = 18
	joinFinger     = 64 // hexadecimal digits
	minJoinSecret  = 20
	maxJoinTokenID = 32
)

// NewJoinToken makes a token with an id and a secret of 130 random bits.
func NewJoinToken(fingerprint string, now time.Time) JoinToken {
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	id := fmt.Sprintf("%011x", now.UnixMilli()) + hex.EncodeToString(random[:])
	return JoinToken{ID: id[:joinTokenID], Secret: rand.Text(), Fingerprint: fingerprint}
}

// String returns the complete token, with its secret.
func (t JoinToken) String() string {
	return strings.Join([]string{joinTokenMark, t.ID, t.Secret, t.Fingerprint}, ".")
}

// ParseJoinToken reads a token. No error quotes any part of the token.
func ParseJoinToken(text string) (JoinToken, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	switch {
	case !strings.HasPrefix(parts[0], "dvt"):
		return JoinToken{}, errors.New("not a token: expected the output of 'drover token create', which begins with " +
			joinTokenMark)
	case parts[0] != joinTokenMark:
		return JoinToken{}, errors.New("the token has another version: install the agent of the server's version")
	case len(parts) != 4:
		return JoinToken{}, fmt.Errorf("the token has %d parts, expected 4: did you copy all of it?", len(parts))
	}
	t := JoinToken{ID: parts[1], Secret: parts[2], Fingerprint: strings.ToLower(parts[3])}
	if _, err := hex.DecodeString(t.Fingerprint); err != nil || len(t.Fingerprint) != joinFinger {
		return JoinToken{}, errors.New("the token is cut off or damaged at its end: did you copy all of it?")
	}
	if t.ID == "" || len(t.ID) > maxJoinTokenID || len(t.Secret) < minJoinSecret {
		return JoinToken{}, errors.New("the token is damaged: did you copy all of it?")
	}
	return t, nil
}
