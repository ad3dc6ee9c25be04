package pairs

import (
	"crypto/ecdh"
	"slices"
	"strings"
	"time"

	"drover/internal/frame"
	"drover/internal/wire"
)

// A register has the sealing keys of a member as a text of one or three words: the present key; the former key, and the
// fleet's key with which the former key ends.

// OpenSealing opens a change of a member's sealing key, which the member itself has signed. It returns frame.ErrStale
// if the member has signed the change more than frame.Width before or after now.
func (p *Pairs) OpenSealing(signed []byte, member string, now time.Time) (wire.SealingChange, error) {
	c, err := wire.OpenSealing(signed, member, p.cfg.Fleet)
	if err == nil && c.At.Sub(now).Abs() > frame.Width {
		err = frame.ErrStale
	}
	return c, err
}

// Replaced returns the text of a register after a member has taken another key into use. since is the fleet's key with
// which the member has had its former key; without it, on this server, the former key ends at once.
func (p *Pairs) Replaced(text, key, since string) (string, error) {
	if _, err := frame.PublicKey(key); err != nil {
		return "", err
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return "", ErrUnknownMember
	}
	if words[0] == key {
		return text, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.fleetKeys(); err != nil {
		return "", err
	}
	if !slices.Contains(p.names, since) {
		return key, nil
	}
	return strings.Join([]string{key, words[0], since}, " "), nil
}

// keysOf reads the text of a register: the present key, and the former one unless its time is over. The caller holds
// the lock.
func (p *Pairs) keysOf(text string) ([]*ecdh.PublicKey, error) {
	words := strings.Fields(text)
	last := len(words) - 1
	if last > 0 && slices.Contains(p.names, words[last]) {
		words = words[:last]
	} else {
		words = words[:min(len(words), 1)]
	}
	keys := make([]*ecdh.PublicKey, len(words))
	for i, word := range words {
		var err error
		if keys[i], err = frame.PublicKey(word); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
