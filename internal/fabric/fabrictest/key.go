package fabrictest

import (
	"testing"

	"github.com/nats-io/nkeys"
)

// NewKey makes a key, as an agent's, and returns it with its public part.
func NewKey(t testing.TB) (key nkeys.KeyPair, public string) {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = key.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return key, public
}

// NewSealingKey makes a key for sealed messages, and returns it with its public part.
func NewSealingKey(t testing.TB) (key nkeys.KeyPair, public string) {
	t.Helper()
	key, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = key.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return key, public
}
