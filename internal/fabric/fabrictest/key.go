package fabrictest

import (
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
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

// Server makes credentials of a server of the fleet: with every right on its fabric. signer issues them.
func Server(t testing.TB, signer nkeys.KeyPair, fleet string) fabric.Identity {
	t.Helper()
	key, public := NewKey(t)
	claims := jwt.NewUserClaims(public)
	claims.IssuerAccount = fleet
	token, err := claims.Encode(signer)
	if err != nil {
		t.Fatal(err)
	}
	return fabric.Identity{JWT: token, Key: key, Area: fabric.ServerArea}
}
