package fabric

import (
	"fmt"

	"github.com/nats-io/nkeys"
)

// A broker's challenge has 15 characters. Later ones may be longer, but never as long as a digest.
const (
	shortestChallenge = 11
	longestChallenge  = 31
)

// SignChallenge answers a broker's challenge: it proves that whoever connects has the key. Anybody may pose as a broker, and choose what
// is to be signed. So only what has the form of a challenge is: letters, digits, '-' and '_', which nothing else has that counts.
func SignChallenge(key nkeys.KeyPair, challenge []byte) ([]byte, error) {
	if len(challenge) < shortestChallenge || len(challenge) > longestChallenge {
		return nil, fmt.Errorf("challenge of %d bytes refused: expected %d to %d", len(challenge), shortestChallenge, longestChallenge)
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
