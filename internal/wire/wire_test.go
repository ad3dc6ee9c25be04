package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"drover/internal/process"
	"drover/internal/wire"
)

// key returns the key pair that belongs to a letter, always the same.
func key(t testing.TB, letter string) (pair nkeys.KeyPair, public string) {
	t.Helper()
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, []byte(strings.Repeat(letter, 32)))
	if err != nil {
		t.Fatal(err)
	}
	public, err = pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

func manifest(agent string) wire.Manifest {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return wire.Manifest{
		Agent: agent, Issued: at, Expires: at.Add(time.Minute),
		Orders: []wire.Order{
			{
				Item: "item-1", Process: process.ID{Namespace: "ns", Name: "ngi\"nx"}, Op: process.Start,
				Spec: &process.Spec{Labels: json.RawMessage(`{"a":[1]}`)},
			},
			{Item: "item-2", Process: process.ID{Namespace: "ns", Name: "世界"}, Op: process.Query},
		},
	}
}

func seal(t testing.TB, m wire.Manifest, pair nkeys.KeyPair) []byte {
	t.Helper()
	data, err := wire.Seal(m, pair)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// resign puts other bytes into an envelope and signs them.
func resign(t *testing.T, body string, pair nkeys.KeyPair) []byte {
	t.Helper()
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := pair.Sign(wire.Statement("manifest", public, "", nil, []byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return enveloped(public, signature, []byte(body))
}

// enveloped is a manifest as it travels, with one signature.
func enveloped(public string, signature, manifest []byte) []byte {
	return slices.Concat([]byte{1, 1}, []byte(public), signature, manifest)
}

// Where the parts of an envelope with one signature begin.
const (
	publicAt    = 2
	signatureAt = publicAt + 56
	manifestAt  = signatureAt + 64
)

func TestSealAndOpen(t *testing.T) {
	server, public := key(t, "s")
	_, old := key(t, "o")
	_, agent := key(t, "a")
	m, err := wire.Open(seal(t, manifest(agent), server), []string{old, public}, agent)
	if err != nil {
		t.Fatal(err)
	}
	want := manifest(agent)
	want.Version = wire.Version
	if diff := cmp.Diff(&want, m); diff != "" {
		t.Errorf("manifest (-want +got): %s", diff)
	}
}

// TestOpenRefuses everything that is not a manifest for this agent, signed by a pinned key.
func TestOpenRefuses(t *testing.T) {
	server, public := key(t, "s")
	stranger, strange := key(t, "x")
	_, agent := key(t, "a")
	_, other := key(t, "b")
	genuine := seal(t, manifest(agent), server)
	signature, body := genuine[signatureAt:manifestAt], genuine[manifestAt:]
	altered := bytes.Replace(genuine, []byte("query"), []byte("start"), 1)
	foreign := seal(t, manifest(agent), stranger)
	badKey := strings.Repeat("x", signatureAt-publicAt)

	for _, c := range []struct {
		name string
		data []byte
		want error
		text string
	}{
		{"a key that is not pinned", seal(t, manifest(agent), stranger), wire.ErrUnknownKey, ""},
		{"no key", enveloped(strings.Repeat("\x00", len(public)), signature, body), wire.ErrUnknownKey, ""},
		{"an order that was altered", altered, wire.ErrForged, ""},
		{
			"a foreign signature under a pinned key", enveloped(public, foreign[signatureAt:manifestAt], body),
			wire.ErrForged, "",
		},
		{"no signature", enveloped(public, make([]byte, len(signature)), body), wire.ErrForged, ""},
		{"another agent's", seal(t, manifest(other), server), wire.ErrNotForMe, ""},
		{"nobody's", seal(t, manifest(""), server), wire.ErrNotForMe, ""},
		{"a newer version", resign(t, `{"version":2,"agent":"`+agent+`"}`, server), wire.ErrVersion, ""},
		{
			"a newer version for another agent", resign(t, `{"version":2,"agent":"`+other+`"}`, server), wire.ErrVersion,
			"",
		},
		{"signed garbage", resign(t, "garbage", server), nil, "cannot read manifest: "},
		{"nothing signed", resign(t, "", server), nil, "cannot read manifest: "},
		{"garbage", []byte("garbage"), nil, "cannot read envelope: "},
		{"nothing", nil, nil, "cannot read envelope: "},
		{"half", genuine[:len(genuine)/2], wire.ErrForged, ""},
		{"half a seal", genuine[:signatureAt], nil, "cannot read envelope: "},
		{"twice", append(slices.Clone(genuine), genuine...), wire.ErrForged, ""},
		{"not sealed", body, wire.ErrUnsigned, ""},
		{"no seal", slices.Concat([]byte{1, 0}, body), nil, "cannot read envelope: "},
		{
			"too many seals", slices.Concat([]byte{1, 17}, bytes.Repeat(genuine[publicAt:manifestAt], 17), body), nil,
			"cannot read envelope: ",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := wire.Open(c.data, []string{public}, agent)
			if m != nil || err == nil {
				t.Fatalf("opened as %+v, %v", m, err)
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), c.text) {
				t.Errorf("got %v, want %v%s", err, c.want, c.text)
			}
		})
	}
	if _, err := wire.Open(genuine, nil, agent); !errors.Is(err, wire.ErrUnknownKey) {
		t.Errorf("without a pinned key: %v", err)
	}
	if _, err := wire.Open(resign(t, `{}`, server), []string{public, "not a key", strange}, agent); !errors.Is(err,
		wire.ErrNotForMe) {
		t.Errorf("a pinned key that makes no sense is in the way: %v", err)
	}
	if _, err := wire.Open(enveloped(badKey, signature, body), []string{badKey}, agent); err == nil ||
		!strings.Contains(err.Error(), "cannot read key") {
		t.Errorf("a pinned key that makes no sense is believed: %v", err)
	}
}

// TestNoByteMayChange: whatever single byte of an envelope is another one, it is refused or says the same.
func TestNoByteMayChange(t *testing.T) {
	server, public := key(t, "s")
	_, agent := key(t, "a")
	genuine := seal(t, manifest(agent), server)
	want, err := wire.Open(genuine, []string{public}, agent)
	if err != nil {
		t.Fatal(err)
	}
	for i := range genuine {
		forged := slices.Clone(genuine)
		forged[i] ^= 1 << (i % 7)
		m, err := wire.Open(forged, []string{public}, agent)
		if err == nil && !cmp.Equal(m, want) {
			t.Errorf("byte %d: opened as %+v", i, m)
		}
	}
}

func TestSealNeedsAPrivateKey(t *testing.T) {
	_, public := key(t, "s")
	pair, err := nkeys.FromPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := wire.Seal(wire.Manifest{}, pair); err == nil {
		t.Errorf("signed without a private key: %s", data)
	}
	server, _ := key(t, "s")
	broken := wire.Manifest{Orders: []wire.Order{{Spec: &process.Spec{Labels: json.RawMessage("{")}}}}
	if data, err := wire.Seal(broken, server); err == nil {
		t.Errorf("signed although it cannot be encoded: %s", data)
	}
}

// FuzzOpen: nothing makes Open panic, and what it lets through was signed as it is.
func FuzzOpen(f *testing.F) {
	server, public := key(f, "s")
	stranger, _ := key(f, "x")
	_, agent := key(f, "a")
	genuine := seal(f, manifest(agent), server)
	f.Add(genuine)
	f.Add(seal(f, manifest("another"), server))
	f.Add(seal(f, manifest(agent), stranger))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.Open(data, []string{public}, agent)
		if err != nil {
			if m != nil {
				t.Errorf("refused with %v, and yet opened", err)
			}
			return
		}
		_, body, err := wire.Split(data)
		if err != nil {
			t.Fatal(err)
		}
		said, signed := wire.Statement("manifest", public, "", nil, body), false
		for i := range int(data[1]) {
			one := data[publicAt+i*(manifestAt-publicAt):]
			signed = signed || server.Verify(said, one[signatureAt-publicAt:manifestAt-publicAt]) == nil
		}
		if !signed || m.Agent != agent || m.Version > wire.Version {
			t.Errorf("opened although it is not signed (%v) or not for us: %+v", signed, m)
		}
	})
}
