// Package pairs has the keys by which servers seal and open frames: the pairs of the fleet's sealing keys with those of
// the members of a register, and with themselves for the servers. It derives a pair when it is first needed, which
// takes about 50 µs of a processor, and keeps it in memory.
package pairs

import (
	"context"
	"crypto/ecdh"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nkeys"

	"drover/internal/frame"
)

// The reasons why there is no pair.
var (
	// ErrUnknownMember says that the register does not have the member, or not its sealing key.
	ErrUnknownMember = errors.New("this server does not know the sender: have it join again")
	// ErrUnknownKeys says that the frame names other keys than those of this server and of the register.
	ErrUnknownKeys = errors.New("this server does not have the keys of the message")
)

// Hint returns the answer to a member whose frame does not open by these keys, so that the member knows how to go on;
// nil if the frame is a forgery.
func Hint(err error) []byte {
	for _, reason := range []error{ErrUnknownMember, ErrUnknownKeys, frame.ErrStale} {
		if errors.Is(err, reason) {
			return frame.Hint(err.Error())
		}
	}
	return nil
}

// mostMembers is how many members have pairs in memory, of some 600 bytes; beyond that Pairs forgets all.
const mostMembers = 200_000

// Config is what Pairs needs.
type Config struct {
	// Fleet is the name of the fleet: the public key of its account.
	Fleet string
	// Keys returns the fleet's private sealing keys on this server: the one to seal with, and then all others.
	Keys func() []nkeys.KeyPair
	// Sealing returns the sealing keys of a member, from the register of agents or from that of proxies: the text that
	// Replaced makes, or a single key. No name of one register counts in the other. Sealing may read the database.
	Sealing func(ctx context.Context, member string) (keys string, known bool, err error)
}

// Pairs has the pairs. It is safe for concurrent use.
type Pairs struct {
	cfg Config

	mu      sync.Mutex
	keys    []*ecdh.PrivateKey // nil if they are to be read
	names   []string           // the public halves of keys
	members map[string]member
	servers []*frame.Pair // nil if they are to be derived
}

// member has the pairs of a member's keys, by their names.
type member struct {
	sealing string
	keys    []*ecdh.PublicKey // the present one, and maybe the former one
	pairs   map[frame.PairID]*frame.Pair
}

// New returns pairs without any key in memory.
func New(cfg Config) *Pairs { return &Pairs{cfg: cfg, members: map[string]member{}} }

// Changed forgets all keys, because those of the fleet have changed.
func (p *Pairs) Changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys, p.names, p.servers = nil, nil, nil
	clear(p.members)
}

// Present returns the pair to seal with: that of the present keys of the fleet and of the member.
func (p *Pairs) Present(ctx context.Context, name string) (*frame.Pair, error) {
	sealing, err := p.sealing(ctx, name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	keys, err := p.fleetKeys()
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, ErrUnknownKeys
	}
	m, err := p.of(name, sealing)
	if err != nil {
		return nil, err
	}
	return p.pair(name, m, keys[0], m.keys[0])
}

// For returns the pair that a frame of a member names.
func (p *Pairs) For(ctx context.Context, name string, id frame.PairID) (*frame.Pair, error) {
	sealing, err := p.sealing(ctx, name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	keys, err := p.fleetKeys()
	if err != nil {
		return nil, err
	}
	m, err := p.of(name, sealing)
	if err != nil {
		return nil, err
	}
	if pair := m.pairs[id]; pair != nil {
		return pair, nil
	}
	for _, public := range m.keys {
		for _, key := range keys {
			if frame.Name(key.PublicKey(), public) == id {
				return p.pair(name, m, key, public)
			}
		}
	}
	return nil, ErrUnknownKeys
}

// sealing returns the sealing keys of a member, as the register has them.
func (p *Pairs) sealing(ctx context.Context, name string) (string, error) {
	text, known, err := p.cfg.Sealing(ctx, name)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read the sealing key of %s: %w", name, err)
	case !known || text == "":
		return "", ErrUnknownMember
	}
	return text, nil
}

// Servers returns the pair of the servers among themselves to seal with, and then all others. There is at least one.
func (p *Pairs) Servers() ([]*frame.Pair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.servers) > 0 {
		return p.servers, nil
	}
	keys, err := p.fleetKeys()
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, ErrUnknownKeys
	}
	pairs := make([]*frame.Pair, len(keys))
	for i, key := range keys {
		if pairs[i], err = frame.AmongServers(p.cfg.Fleet, key); err != nil {
			return nil, err
		}
	}
	p.servers = pairs
	return pairs, nil
}

// of returns the keys of a member and their pairs; the caller holds the lock and has called fleetKeys.
func (p *Pairs) of(name, sealing string) (member, error) {
	m, ok := p.members[name]
	if ok && m.sealing == sealing {
		return m, nil
	}
	keys, err := p.keysOf(sealing)
	if err != nil {
		return member{}, err
	}
	if len(p.members) >= mostMembers {
		clear(p.members)
	}
	m = member{sealing: sealing, keys: keys, pairs: map[frame.PairID]*frame.Pair{}}
	p.members[name] = m
	return m, nil
}

// pair returns a pair that it has, or derives it and keeps it; the caller holds the lock.
func (p *Pairs) pair(name string, m member, key *ecdh.PrivateKey, public *ecdh.PublicKey) (*frame.Pair, error) {
	if pair := m.pairs[frame.Name(key.PublicKey(), public)]; pair != nil {
		return pair, nil
	}
	pair, err := frame.AtFleet(p.cfg.Fleet, key, name, public)
	if err != nil {
		return nil, err
	}
	m.pairs[pair.ID()] = pair
	return pair, nil
}

// fleetKeys returns the private keys of the fleet; the caller holds the lock.
func (p *Pairs) fleetKeys() ([]*ecdh.PrivateKey, error) {
	if p.keys != nil {
		return p.keys, nil
	}
	var keys []*ecdh.PrivateKey
	var names []string
	for _, held := range p.cfg.Keys() {
		key, err := frame.PrivateKey(held)
		if err != nil {
			return nil, err
		}
		name, err := held.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("cannot read sealing key: %w", err)
		}
		keys, names = append(keys, key), append(names, name)
	}
	p.keys, p.names = keys, names
	return keys, nil
}
