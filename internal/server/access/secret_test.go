package access_test

import (
	"strings"
	"testing"

	"drover/internal/server/access"
)

func TestSecrets(t *testing.T) {
	ours := access.NewSecrets([]byte("our key"))
	hash := ours.Hash("a secret")
	if again := ours.Hash("a secret"); hash == again || strings.Contains(hash, "a secret") {
		t.Errorf("hashes are %q and %q", hash, again)
	}
	for secret, want := range map[string]bool{"a secret": true, "a secret ": false, "": false, "A secret": false} {
		if got := ours.Match(hash, secret); got != want {
			t.Errorf("%q: %v", secret, got)
		}
	}
	if access.NewSecrets([]byte("their key")).Match(hash, "a secret") {
		t.Error("a copy of the database is enough to try secrets")
	}
	for _, broken := range []string{
		"", "plain", "hmac-sha256$", "hmac-sha256$!", "hmac-sha256$AAAA", "md5$" + hash,
		hash + "AAAA", hash[:len(hash)-4],
	} {
		if ours.Match(broken, "plain") || ours.Match(broken, "a secret") {
			t.Errorf("stored form %q matches", broken)
		}
	}
	if a, b := access.NewSecret(), access.NewSecret(); a == b || len(a) != 48 {
		t.Errorf("new secrets are %d and %d characters long", len(a), len(b))
	}
}

func TestTokens(t *testing.T) {
	token, hash := access.NewToken()
	other, otherHash := access.NewToken()
	if token == other || hash == otherHash || strings.Contains(hash, token) {
		t.Error("two tokens are the same, or a hash holds its token")
	}
	if access.HashToken(token) != hash || access.HashToken(token+" ") == hash {
		t.Error("a token is not found by its hash")
	}
	if !access.IsToken(token) || access.IsToken("bkcrypt$x") || access.IsToken(hash) {
		t.Error("tokens of ours are not told from others")
	}
}
