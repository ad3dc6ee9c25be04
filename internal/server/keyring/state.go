package keyring

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is the purpose of a key.
type Kind string

// The kinds of keys that can be rotated while agents run.
const (
	// Manifest keys sign what agents trust.
	Manifest Kind = "manifest"
	// Sealing keys seal and open the frames of servers, agents and proxies.
	Sealing Kind = "sealing"
	// CA keys issue the certificates of servers and proxies.
	CA Kind = "ca"
	// AgentSigner keys issue the agents' tokens for the fabric.
	AgentSigner Kind = "agent-signer"
	// ProxySigner keys issue those of proxies.
	ProxySigner Kind = "proxy-signer"
	// ServerSigner keys issue those of servers, and sign the account for external brokers.
	ServerSigner Kind = "server-signer"
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Manifest, Sealing, CA, AgentSigner, ProxySigner, ServerSigner} }

// nkeyKinds lists the kinds whose keys are nkeys in files of this package.
func nkeyKinds() []Kind { return []Kind{Manifest, Sealing, AgentSigner, ProxySigner, ServerSigner} }

// Stage is the stage of a key's life.
type Stage string

// The stages, in their order. Agents trust a key in each of them.
const (
	// Next is made known to agents and not used yet.
	Next Stage = "next"
	// Present is the key in use.
	Present Stage = "present"
	// Former is used only for agents that do not know a later one, until it is dropped.
	Former Stage = "former"
)

// Key is the public part of a key.
type Key struct {
	// ID is the public nkey, or the fingerprint of an authority.
	ID    string    `json:"id"`
	Stage Stage     `json:"stage"`
	Since time.Time `json:"since"` // when it reached its stage
	// Until is when a former one is dropped.
	Until time.Time `json:"until,omitzero"`
	// PEM and Ends are the certificate of an authority and its end.
	PEM  string    `json:"pem,omitempty"`
	Ends time.Time `json:"ends,omitzero"`
}

// State is the set of keys. Every server of a fleet has the same state; it holds no secret.
type State struct {
	// Revision counts the changes: the state with the higher revision counts.
	Revision int            `json:"revision"`
	Keys     map[Kind][]Key `json:"keys"`
}

// The reasons why a key cannot reach a stage.
var (
	ErrUnderWay = errors.New("a next key exists already: activate or discard it")
	ErrNoNext   = errors.New("no next key")
	ErrNoSuch   = errors.New("no such former key")
)

// in returns the key of that kind and stage; the latest if there are several former keys.
func (s State) in(kind Kind, stage Stage) (Key, bool) {
	for _, k := range slices.Backward(s.Keys[kind]) {
		if k.Stage == stage {
			return k, true
		}
	}
	return Key{}, false
}

// next returns a copy to change, with the next revision.
func (s State) next() State {
	keys := make(map[Kind][]Key, len(s.Keys))
	for kind, list := range s.Keys {
		keys[kind] = slices.Clone(list)
	}
	return State{Revision: s.Revision + 1, Keys: keys}
}

// announce adds the next key of a kind.
func (s State) announce(kind Kind, k Key, now time.Time) (State, error) {
	if _, ok := s.in(kind, Next); ok {
		return s, ErrUnderWay
	}
	k.Stage, k.Since = Next, now
	n := s.next()
	n.Keys[kind] = append(n.Keys[kind], k)
	return n, nil
}

// advance makes the next key of a kind the present key. It keeps the previous one as a former key until the given time.
func (s State) advance(kind Kind, now, until time.Time) (State, error) {
	if _, ok := s.in(kind, Next); !ok {
		return s, ErrNoNext
	}
	n := s.next()
	for i := range n.Keys[kind] {
		switch k := &n.Keys[kind][i]; k.Stage {
		case Present:
			k.Stage, k.Since, k.Until = Former, now, until
		case Next:
			k.Stage, k.Since = Present, now
		case Former:
		}
	}
	return n, nil
}

// withdraw discards the next key of a kind.
func (s State) withdraw(kind Kind) (State, error) {
	if _, ok := s.in(kind, Next); !ok {
		return s, ErrNoNext
	}
	n := s.next()
	n.Keys[kind] = slices.DeleteFunc(n.Keys[kind], func(k Key) bool { return k.Stage == Next })
	return n, nil
}

// retire drops a former key now.
func (s State) retire(kind Kind, id string) (State, error) {
	n := s.next()
	n.Keys[kind] = slices.DeleteFunc(n.Keys[kind], func(k Key) bool { return k.Stage == Former && k.ID == id })
	if len(n.Keys[kind]) == len(s.Keys[kind]) {
		return s, fmt.Errorf("%w: %s", ErrNoSuch, id)
	}
	return n, nil
}

// expire drops the former keys whose end has come, and reports whether there were any.
func (s State) expire(now time.Time) (State, bool) {
	n, dropped := s.next(), false
	for kind, list := range n.Keys {
		n.Keys[kind] = slices.DeleteFunc(list, func(k Key) bool {
			over := k.Stage == Former && !now.Before(k.Until)
			dropped = dropped || over
			return over
		})
	}
	if !dropped {
		return s, false
	}
	return n, true
}

// names lists the keys with their stages, to compare and to show them.
func (s State) names() string {
	var lines []string
	for _, kind := range Kinds() {
		for _, k := range s.Keys[kind] {
			lines = append(lines, fmt.Sprintf("%s %s (%s)", kind, k.ID, k.Stage))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// follows reports whether this state knows each present key of another state, so that agents of that state trust a
// server of this one.
func (s State) follows(other State) bool {
	for _, kind := range Kinds() {
		k, ok := other.in(kind, Present)
		if ok && !slices.ContainsFunc(s.Keys[kind], func(own Key) bool { return own.ID == k.ID }) {
			return false
		}
	}
	return true
}

// sound reports whether each kind has exactly one present key.
func (s State) sound() bool {
	for _, kind := range Kinds() {
		present := 0
		for _, k := range s.Keys[kind] {
			if k.ID == "" {
				return false
			}
			if k.Stage == Present {
				present++
			}
		}
		if present > 1 || present == 0 && len(s.Keys[kind]) > 0 {
			return false
		}
	}
	return true
}
