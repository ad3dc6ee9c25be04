package wire_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/wire"
)

// opener is who takes what was signed for one kind, from one key.
type opener func(said, signature []byte) error

// TestNoStatementStandsForAnother: of all that a key signs nothing is taken for anything else, were the same key
// trusted with all of it.
func TestNoStatementStandsForAnother(t *testing.T) {
	pair, public := key(t, "a")
	request := joinRequest(t, public)
	sealed := func(said, signature []byte) []byte {
		return append(append(append([]byte{1, 1}, public...), signature...), said...)
	}
	openers := map[string]opener{
		"trust": func(said, signature []byte) error {
			_, err := wire.OpenTrust(sealed(said, signature), []string{public}, public)
			return err
		},
		"join": func(said, signature []byte) error {
			data, err := json.Marshal(map[string][]byte{"request": said, "signature": signature})
			if err != nil {
				t.Fatal(err)
			}
			_, err = wire.OpenJoin(data)
			return err
		},
	}
	sign := func(text []byte) []byte {
		signature, err := pair.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	for _, made := range wire.Kinds() {
		text := wire.Statement(made, public, request)
		signature := sign(text)
		for kind, open := range openers {
			if err := open(request, signature); (err == nil) != (made == kind) {
				t.Errorf("a signature of a %s is taken for that of a %s: %v", made, kind, err)
			}
		}
		if signature, err := fabric.SignChallenge(pair, text); err == nil {
			t.Errorf("a broker that asks for a %s gets %x", made, signature)
		}
	}
	if len(openers) != len(wire.Kinds()) {
		t.Errorf("%d kinds are opened, there are %d", len(openers), len(wire.Kinds()))
	}
	// A broker may choose its challenge.
	for _, challenge := range []string{"abcdefghijk", "0123456789-_ABCDEFGHIJKLMNOPQRS"} {
		signature, err := fabric.SignChallenge(pair, []byte(challenge))
		if err != nil {
			t.Fatal(err)
		}
		for kind, open := range openers {
			if err := open(request, signature); err == nil {
				t.Errorf("the answer to a challenge is taken for the signature of a %s", kind)
			}
		}
	}
}

// TestAStatementNamesItsSpeaker: two keys never sign the same text, nor does one for two kinds or messages.
func TestAStatementNamesItsSpeaker(t *testing.T) {
	_, one := key(t, "a")
	_, two := key(t, "b")
	var texts []string
	for _, kind := range wire.Kinds() {
		for _, from := range []string{one, two} {
			for _, said := range []string{"x", "y"} {
				texts = append(texts, string(wire.Statement(kind, from, []byte(said))))
			}
		}
	}
	slices.Sort(texts)
	if n := len(slices.Compact(slices.Clone(texts))); n != len(texts) {
		t.Errorf("%d statements have %d texts", len(texts), n)
	}
}

// joinRequest is a message that every reader understands: a request to join and new trust for who asks at once.
func joinRequest(t *testing.T, public string) []byte {
	t.Helper()
	if !nkeys.IsValidPublicUserKey(public) {
		t.Fatal("no public key of an agent")
	}
	data, err := json.Marshal(map[string]any{
		"version": 1, "agent": public, "key": public, "token": "t", "trust": map[string]any{},
		"ip": "192.0.2.7",
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
