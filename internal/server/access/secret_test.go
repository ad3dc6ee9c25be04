package access_test

import (
	"strings"
	"testing"

	"drover/internal/server/access"
)

func TestSecrets(t *testing.T) {
	hash, err := access.HashSecret("a secret")
	if err != nil {
		t.Fatal(err)
	}
	again, err := access.HashSecret("a secret")
	if err != nil {
		t.Fatal(err)
	}
	if hash == again || strings.Contains(hash, "a secret") || !strings.HasPrefix(hash, "pbkdf2-sha256$") {
		t.Errorf("hashes are %q and %q", hash, again)
	}
	for secret, want := range map[string]bool{"a secret": true, "a secret ": false, "": false, "A secret": false} {
		if got, err := access.SecretMatches(hash, secret); got != want || err != nil {
			t.Errorf("%q: %v, %v", secret, got, err)
		}
	}
	for _, broken := range []string{"", "plain", "pbkdf2-sha256$x$AA$AA", "pbkdf2-sha256$0$AA$AA", "pbkdf2-sha256$10$!$AA", "pbkdf2-sha256$10$AA$", "md5$10$AA$AA"} {
		if ok, err := access.SecretMatches(broken, "plain"); ok || err == nil {
			t.Errorf("stored form %q: %v, %v", broken, ok, err)
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
