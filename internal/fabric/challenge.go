package fabric

import (
	"fmt"

	"github.com/nats-io/nkeys"
)

// A broker's challenge has 15 characters. Later versions may be longer, but never as long as a digest.
const (
	shortestChallenge = 11
	longestChallenge  = 31
)

// SignChallenge signs a broker's challenge, which proves that the client holds the key. Anyone may pose as a broker and
// choose the text to sign. So SignChallenge signs only texts in the form of a challenge: letters, digits, '-' and '_'.
// No other signed text has this form.
func SignChallenge(key nkeys.KeyPair, challenge []byte) ([]byte, error) {
	if len(challenge) < shortestChallenge || len(challenge) > longestChallenge {
		return nil, fmt.Errorf("challenge of %d bytes refused: expected %d to %d", len(challenge), shortestChallenge,
			longestChallenge)
	}
	for _, c := range challenge {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return nil, fmt.Errorf("challenge refused: it holds %q", c)
		}
	}
	return key.Sign(challenge)
}
