package wire_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	v1 "drover/api/v1"
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

// trustOf is new trust.
func trustOf() wire.Enrolment {
	return wire.Enrolment{
		URLs: []string{"tls://192.0.2.1:1"}, JWT: "a.b.c", ManifestKeys: []string{"A1"}, SealingKeys: []string{"X1", "X2"},
		Cloud: 3, IP: "192.0.2.7", ID: "世界", TrustHeld: wire.TrustHeld{Generation: 7, Digest: "d"},
	}
}

func seal(t testing.TB, agent string, pair nkeys.KeyPair) []byte {
	t.Helper()
	data, err := wire.SealTrust(agent, trustOf(), pair)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// resign puts other bytes into a signed message and signs them.
func resign(t *testing.T, body string, pair nkeys.KeyPair) []byte {
	t.Helper()
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := pair.Sign(wire.Statement("trust", public, []byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return signed(public, signature, []byte(body))
}

// signed is a message as it travels, with one signature.
func signed(public string, signature, body []byte) []byte {
	return slices.Concat([]byte{1, 1}, []byte(public), signature, body)
}

// Where the parts of a message with one signature begin.
const (
	publicAt    = 2
	signatureAt = publicAt + 56
	bodyAt      = signatureAt + 64
)

func TestSealAndOpen(t *testing.T) {
	server, public := key(t, "s")
	_, old := key(t, "o")
	_, agent := key(t, "a")
	got, err := wire.OpenTrust(seal(t, agent, server), []string{old, public}, agent)
	if err != nil {
		t.Fatal(err)
	}
	want := trustOf()
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("trust (-want +got): %s", diff)
	}
}

// TestOpenRefuses everything that is not new trust for this agent, signed by a pinned key.
func TestOpenRefuses(t *testing.T) {
	server, public := key(t, "s")
	stranger, strange := key(t, "x")
	_, agent := key(t, "a")
	_, other := key(t, "b")
	genuine := seal(t, agent, server)
	signature, body := genuine[signatureAt:bodyAt], genuine[bodyAt:]
	altered := bytes.Replace(genuine, []byte("192.0.2.1"), []byte("192.0.2.9"), 1)
	foreign := seal(t, agent, stranger)
	badKey := strings.Repeat("x", signatureAt-publicAt)

	for _, c := range []struct {
		name string
		data []byte
		want error
		text string
	}{
		{"a key that is not pinned", seal(t, agent, stranger), wire.ErrUnknownKey, ""},
		{"no key", signed(strings.Repeat("\x00", len(public)), signature, body), wire.ErrUnknownKey, ""},
		{"an address that was altered", altered, wire.ErrForged, ""},
		{
			"a foreign signature under a pinned key", signed(public, foreign[signatureAt:bodyAt], body),
			wire.ErrForged, "",
		},
		{"no signature", signed(public, make([]byte, len(signature)), body), wire.ErrForged, ""},
		{"another agent's", seal(t, other, server), wire.ErrNotForMe, ""},
		{"nobody's", seal(t, "", server), wire.ErrNotForMe, ""},
		{"a newer version", resign(t, `{"version":2,"agent":"`+agent+`"}`, server), wire.ErrVersion, ""},
		{
			"a newer version for another agent", resign(t, `{"version":2,"agent":"`+other+`"}`, server), wire.ErrVersion,
			"",
		},
		{"nothing for this agent", resign(t, `{"agent":"`+agent+`"}`, server), nil, "cannot read trust: it is empty"},
		{"signed garbage", resign(t, "garbage", server), nil, "cannot read trust: "},
		{"nothing signed", resign(t, "", server), nil, "cannot read trust: "},
		{"garbage", []byte("garbage"), nil, "cannot verify trust: "},
		{"nothing", nil, nil, "cannot verify trust: "},
		{"half", genuine[:len(genuine)/2], wire.ErrForged, ""},
		{"half a seal", genuine[:signatureAt], nil, "cannot verify trust: "},
		{"twice", append(slices.Clone(genuine), genuine...), wire.ErrForged, ""},
		{"not sealed", body, wire.ErrUnsigned, ""},
		{"no seal", slices.Concat([]byte{1, 0}, body), nil, "cannot verify trust: "},
		{
			"too many seals", slices.Concat([]byte{1, 17}, bytes.Repeat(genuine[publicAt:bodyAt], 17), body), nil,
			"cannot verify trust: ",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := wire.OpenTrust(c.data, []string{public}, agent)
			if m != nil || err == nil {
				t.Fatalf("opened as %+v, %v", m, err)
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), c.text) {
				t.Errorf("got %v, want %v%s", err, c.want, c.text)
			}
		})
	}
	if _, err := wire.OpenTrust(genuine, nil, agent); !errors.Is(err, wire.ErrUnknownKey) {
		t.Errorf("without a pinned key: %v", err)
	}
	if _, err := wire.OpenTrust(resign(t, `{}`, server), []string{public, "not a key", strange}, agent); !errors.Is(err,
		wire.ErrNotForMe) {
		t.Errorf("a pinned key that makes no sense is in the way: %v", err)
	}
	if _, err := wire.OpenTrust(signed(badKey, signature, body), []string{badKey}, agent); err == nil ||
		!strings.Contains(err.Error(), "cannot read key") {
		t.Errorf("a pinned key that makes no sense is believed: %v", err)
	}
}

// TestNoByteMayChange: whatever single byte of a signed message is another one, it is refused or says the same.
func TestNoByteMayChange(t *testing.T) {
	server, public := key(t, "s")
	_, agent := key(t, "a")
	genuine := seal(t, agent, server)
	want, err := wire.OpenTrust(genuine, []string{public}, agent)
	if err != nil {
		t.Fatal(err)
	}
	for i := range genuine {
		forged := slices.Clone(genuine)
		forged[i] ^= 1 << (i % 7)
		m, err := wire.OpenTrust(forged, []string{public}, agent)
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
	if data, err := wire.SealTrust("", wire.Enrolment{}, pair); err == nil {
		t.Errorf("signed without a private key: %s", data)
	}
}

// TestManifest: what is encoded is read, but neither garbage nor a newer version.
func TestManifest(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := wire.Manifest{
		Version: wire.Version, Issued: at, Expires: at.Add(time.Minute), Orders: []wire.Order{
			{
				Item: "item-1", Process: process.ID{Namespace: "ns", Name: "ngi\"nx"}, Op: process.Start,
				Spec: &process.Spec{Compat: &v1.Compat{Labels: `{"a":[1]}`}},
			},
			{Item: "item-2", Process: process.ID{Namespace: "ns", Name: "世界"}, Op: process.Query},
		},
	}
	body, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.ReadManifest(body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("manifest (-want +got): %s", diff)
	}
	if _, err := wire.ReadManifest([]byte(`{"version":2}`)); !errors.Is(err, wire.ErrVersion) {
		t.Errorf("a newer version: %v", err)
	}
	for _, garbage := range []string{"", "garbage", `{"orders":1}`} {
		if m, err := wire.ReadManifest([]byte(garbage)); err == nil {
			t.Errorf("%q is read as %+v", garbage, m)
		}
	}
	broken := wire.Manifest{Orders: []wire.Order{{Spec: &process.Spec{Restart: &v1.Restart{Factor: new(math.NaN())}}}}}
	if data, err := broken.Encode(); err == nil {
		t.Errorf("encoded as %s", data)
	}
}

// FuzzOpen: nothing makes Open panic, and what it lets through was signed as it is.
func FuzzOpen(f *testing.F) {
	server, public := key(f, "s")
	stranger, _ := key(f, "x")
	_, agent := key(f, "a")
	genuine := seal(f, agent, server)
	f.Add(genuine)
	f.Add(seal(f, "another", server))
	f.Add(seal(f, agent, stranger))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.OpenTrust(data, []string{public}, agent)
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
		said, proven := wire.Statement("trust", public, body), false
		for i := range int(data[1]) {
			one := data[publicAt+i*(bodyAt-publicAt):]
			proven = proven || server.Verify(said, one[signatureAt-publicAt:bodyAt-publicAt]) == nil
		}
		if !proven {
			t.Errorf("opened although it is not signed: %+v", m)
		}
	})
}
