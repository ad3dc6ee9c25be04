package peers

import (
	"encoding/json"
	"fmt"

	"drover/internal/frame"
)

// Messages between servers may pass external brokers. So each one is a frame of the pair that the servers have among
// themselves. An attacker on the way can resend a message for a short time, and only until a receiver has received
// later news of the same run.

// seal encodes and seals a message that answers none. It returns the nonce that an answer is about.
func (h *Hub) seal(kind frame.Kind, m any) (data []byte, own frame.Nonce, err error) {
	pair, err := h.present()
	if err != nil {
		return nil, own, err
	}
	return h.sealBy(pair, kind, frame.Nonce{}, m)
}

// sealBy is seal with a pair; about is the question that the message answers.
func (h *Hub) sealBy(pair *frame.Pair, kind frame.Kind, about frame.Nonce, m any) (
	data []byte, own frame.Nonce, err error,
) {
	body, err := json.Marshal(m)
	if err != nil { // not reached: a plain struct always encodes
		return nil, own, fmt.Errorf("cannot encode message: %w", err)
	}
	return pair.Seal(kind, h.cfg.Now(), about, body)
}

// present returns the pair to seal with.
func (h *Hub) present() (*frame.Pair, error) {
	pairs, err := h.cfg.Pairs()
	if err != nil {
		return nil, err
	}
	return pairs[0], nil
}

// open opens a message of any server, and decodes it into m and its sender into from. It returns the pair and the nonce
// for an answer.
func (h *Hub) open(kind frame.Kind, about frame.Nonce, data []byte, m any, from *sender) (
	pair *frame.Pair, own frame.Nonce, err error,
) {
	head, err := frame.Read(data)
	if err != nil {
		return nil, own, err
	}
	if pair, err = h.named(head.Pair); err != nil {
		return nil, own, err
	}
	head, body, err := pair.Open(kind, data, about)
	if err == nil && head.Time.Sub(h.cfg.Now()).Abs() > frame.Width {
		err = frame.ErrStale
	}
	if err == nil {
		err = decode(body, m, from)
	}
	return pair, head.Nonce, err
}

// named returns the pair that a message names.
func (h *Hub) named(id frame.PairID) (*frame.Pair, error) {
	pairs, err := h.cfg.Pairs()
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		if pair.ID() == id {
			return pair, nil
		}
	}
	return nil, frame.ErrPair
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
