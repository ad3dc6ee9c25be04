package peers

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Messages between servers may pass external brokers. So each message begins with a MAC over its kind, its request and
// its content. Only the servers of a fleet have the secret of the MAC. An attacker on the way can replay a message only
// until a receiver has received later news of the same run.

// kind is the kind of a message.
type kind string

const (
	newsKind    kind = "news"
	requestKind kind = "question"
	replyKind   kind = "answer"
)

var errForged = errors.New("not written by a server of this fleet")

// seal returns the content with its MAC in front; about is the request that it answers.
func (h *Hub) seal(k kind, about, said []byte) []byte {
	return append(h.mac(k, about, said), said...)
}

// open verifies the MAC and returns the content.
func (h *Hub) open(k kind, about, data []byte) ([]byte, error) {
	if len(data) < sha256.Size || !hmac.Equal(data[:sha256.Size], h.mac(k, about, data[sha256.Size:])) {
		return nil, fmt.Errorf("cannot verify %s: %w", k, errForged)
	}
	return data[sha256.Size:], nil
}

func (h *Hub) mac(k kind, about, said []byte) []byte {
	mac := hmac.New(sha256.New, h.cfg.Secret)
	a, s := sha256.Sum256(about), sha256.Sum256(said)
	_, _ = fmt.Fprintf(mac, "drover peers 1\n%s\n%x\n%x\n", k, a, s) // it never fails
	return mac.Sum(nil)
}

// mostRuns is how many runs of servers have a stored last number.
const mostRuns = 1000

// inTurn reports whether news of a server's run follow all its received news.
func (h *Hub) inTurn(run string, number uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.numbers[run]
	if known && number <= last {
		return false
	}
	if !known && len(h.numbers) >= mostRuns {
		for old := range h.numbers {
			if _, there := h.members[old]; !there {
				delete(h.numbers, old)
				break
			}
		}
	}
	h.numbers[run] = number
	return true
}
