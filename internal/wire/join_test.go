package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/fabric/fabrictest"
	"drover/internal/wire"
)

const finger = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestJoinToken(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	token := wire.NewJoinToken(finger, now)
	got, err := wire.ParseJoinToken("\n" + token.String() + " \n")
	if err != nil || got != token {
		t.Errorf("%+v became %+v, %v", token, got, err)
	}
	later := wire.NewJoinToken(finger, now.Add(time.Second))
	if later.ID <= token.ID || later.Secret == token.Secret || len(token.Secret) < 26 {
		t.Errorf("%+v and then %+v", token, later)
	}
}

func TestBadJoinTokens(t *testing.T) {
	whole := wire.NewJoinToken(finger, time.Now()).String()
	for text, want := range map[string]string{
		"":                                 "not a token",
		"drovertok_SECRETSECRET":           "not a token",
		"dvt2" + whole[4:]:                 "another version",
		whole[:40]:                         "parts",
		whole[:len(whole)-1]:               "cut off",
		whole[:len(whole)-1] + "x":         "cut off",
		"dvt1.id.short." + finger:          "damaged",
		"dvt1.." + whole[len("dvt1.")+19:]: "damaged",
	} {
		_, err := wire.ParseJoinToken(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error about %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), whole[24:40])) {
			t.Errorf("the error quotes the token: %v", err)
		}
	}
}

func TestJoinRequest(t *testing.T) {
	key, public := fabrictest.NewKey(t)
	_, sealing := fabrictest.NewSealingKey(t)
	r := wire.JoinRequest{
		Token: "t", Secret: "s3cret", At: time.Now().UTC().Truncate(time.Second), IP: "10.0.0.1", ID: "id", Name: "web",
		Build: "b", Sealing: sealing,
		Host: wire.Host{OS: "linux", CPUs: 2},
	}
	data, err := wire.SealJoin(r, key)
	if err != nil {
		t.Fatal(err)
	}
	r.Version, r.Key = wire.Version, public
	got, err := wire.OpenJoin(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}

	var sealed map[string][]byte
	if err := json.Unmarshal(data, &sealed); err != nil {
		t.Fatal(err)
	}
	change := func(old, replacement string) []byte {
		changed, err := json.Marshal(map[string][]byte{
			"request":   bytes.Replace(sealed["request"], []byte(old), []byte(replacement), 1),
			"signature": sealed["signature"],
		})
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	_, stranger := fabrictest.NewKey(t)
	for name, data := range map[string][]byte{
		"another address": change("10.0.0.1", "10.0.0.2"),
		"another key":     change(public, stranger),
	} {
		if _, err := wire.OpenJoin(data); !errors.Is(err, wire.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := wire.OpenJoin(change(`"version":1`, `"version":2`)); !errors.Is(err, wire.ErrVersion) {
		t.Errorf("a newer one: %v", err)
	}
	// The broker asks the same key to sign nonces: that must not be a request.
	bare, err := key.Sign(sealed["request"])
	if err != nil {
		t.Fatal(err)
	}
	data, err = json.Marshal(map[string][]byte{"request": sealed["request"], "signature": bare})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.OpenJoin(data); !errors.Is(err, wire.ErrForged) {
		t.Errorf("a signature for another purpose: %v", err)
	}
	for _, data := range [][]byte{nil, []byte("s3cret"), []byte(`{}`), change(public, "UNOTAKEY")} {
		if _, err := wire.OpenJoin(data); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func FuzzParseJoinToken(f *testing.F) {
	f.Add(wire.NewJoinToken(finger, time.Unix(1, 0)).String())
	f.Add("dvt1...")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := wire.ParseJoinToken(text)
		if err != nil {
			return
		}
		if again, err := wire.ParseJoinToken(token.String()); err != nil || again != token {
			t.Errorf("%q became %+v and then %+v, %v", text, token, again, err)
		}
	})
}
