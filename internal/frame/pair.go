package frame

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	// nameSize is the length of the names of fleets and members: public nkeys.
	nameSize = 56
	keySize  = 32
	idSize   = 4
)

// The beginnings of the texts that the keys and the name of a pair are derived from.
const (
	toMember = "drover seal 1 to member\n"
	toFleet  = "drover seal 1 to fleet\n"
	// amongServers begins as neither of them does, so no member has this key, whatever it registers.
	amongServers = "drover seal 1 among servers\n"
	ofPair       = "drover pair 1\n"
)

// PairID names a pair of public keys. Two pairs may have the same one by accident; it proves nothing.
type PairID [idSize]byte

// Name returns the name of a pair of public keys.
func Name(fleet, member *ecdh.PublicKey) (id PairID) {
	text := append([]byte(ofPair), fleet.Bytes()...)
	sum := sha256.Sum256(append(text, member.Bytes()...))
	copy(id[:], sum[:])
	return id
}

// Pair seals and opens the frames between the servers of a fleet and one member, at one of the two sides, or the frames
// of the servers among themselves. It is safe for concurrent use.
type Pair struct {
	id PairID
	// side is the side that seals, and from the side whose frames the pair opens.
	side, from Side
	own, other string
	out, in    cipher.AEAD
}

// AtFleet returns the pair at the side of the servers. fleet is the public key of the fleet's account, and member the
// public nkey of the member. It takes about 50 µs of a processor.
func AtFleet(fleet string, key *ecdh.PrivateKey, member string, public *ecdh.PublicKey) (*Pair, error) {
	d := derivation{own: key, other: public, fleet: fleet, member: member, fleetKey: key.PublicKey(), memberKey: public}
	keys, err := d.keys(toMember, toFleet)
	if err != nil {
		return nil, err
	}
	return &Pair{
		id: Name(key.PublicKey(), public), side: Fleet, from: Member, own: fleet, other: member, out: keys[0],
		in: keys[1],
	}, nil
}

// AtMember is AtFleet at the side of the member: key is the key of the member, and public the key of the fleet.
func AtMember(member string, key *ecdh.PrivateKey, fleet string, public *ecdh.PublicKey) (*Pair, error) {
	d := derivation{own: key, other: public, fleet: fleet, member: member, fleetKey: public, memberKey: key.PublicKey()}
	keys, err := d.keys(toFleet, toMember)
	if err != nil {
		return nil, err
	}
	return &Pair{
		id: Name(public, key.PublicKey()), side: Member, from: Fleet, own: member, other: fleet, out: keys[0],
		in: keys[1],
	}, nil
}

// AmongServers returns the pair of the fleet with itself. All servers have the same one, so each of them also opens
// what it has sealed itself.
func AmongServers(fleet string, key *ecdh.PrivateKey) (*Pair, error) {
	public := key.PublicKey()
	d := derivation{own: key, other: public, fleet: fleet, member: fleet, fleetKey: public, memberKey: public}
	keys, err := d.keys(amongServers)
	if err != nil {
		return nil, err
	}
	return &Pair{
		id: Name(public, public), side: Servers, from: Servers, own: fleet, other: fleet, out: keys[0], in: keys[0],
	}, nil
}

// ID returns the name of the pair of keys.
func (p *Pair) ID() PairID { return p.id }

// derivation is what the keys of a pair are derived from.
type derivation struct {
	own                 *ecdh.PrivateKey
	other               *ecdh.PublicKey
	fleet, member       string
	fleetKey, memberKey *ecdh.PublicKey
}

// keys returns the keys of these directions.
func (d derivation) keys(directions ...string) ([]cipher.AEAD, error) {
	if len(d.fleet) != nameSize || len(d.member) != nameSize {
		return nil, fmt.Errorf("cannot derive the keys of a pair: expected names of %d bytes, got %d and %d", nameSize,
			len(d.fleet), len(d.member))
	}
	if d.own.Curve() != ecdh.X25519() || d.other.Curve() != ecdh.X25519() {
		return nil, errors.New("cannot derive the keys of a pair: expected keys of X25519")
	}
	secret, err := d.own.ECDH(d.other) // it rejects a point of small order
	if err != nil {
		return nil, fmt.Errorf("cannot derive the keys of a pair: %w", err)
	}
	both := d.fleet + d.member + string(d.fleetKey.Bytes()) + string(d.memberKey.Bytes())
	keys := make([]cipher.AEAD, len(directions))
	for i, direction := range directions {
		if keys[i], err = expand(secret, direction+both); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// expand derives the key of one direction.
func expand(secret []byte, info string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, info, keySize)
	if err != nil {
		return nil, fmt.Errorf("cannot derive the keys of a pair: %w", err)
	}
	return chacha20poly1305.NewX(key)
}
