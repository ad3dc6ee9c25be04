package engine

import (
	"testing"

	"github.com/nats-io/nkeys"
)

func TestReadyKey(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	want, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	k := ready(pair)
	if _, ok := k.(*readyKey); !ok {
		t.Fatalf("the key is a %T", k)
	}
	if got, err := k.PublicKey(); err != nil || got != want {
		t.Errorf("public key %s, %v, want %s", got, err, want)
	}
	signature, err := k.Sign([]byte("order"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Verify([]byte("order"), signature); err != nil {
		t.Errorf("the signature: %v", err)
	}
	public, err := nkeys.FromPublicKey(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range []nkeys.KeyPair{nil, public} {
		if got := ready(none); got != none {
			t.Errorf("%v became %v", none, got)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		b.Fatal(err)
	}
	for name, k := range map[string]nkeys.KeyPair{"as it comes": pair, "ready": ready(pair)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := k.Sign([]byte("order")); err != nil {
					b.Fatal(err)
				}
				if _, err := k.PublicKey(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
