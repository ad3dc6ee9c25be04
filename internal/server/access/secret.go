package access

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Longest credentials, in bytes.
const (
	MaxAppCode   = 32
	MaxAppSecret = 128
	MaxUser      = 128
	MaxToken     = 4096
)

// How a secret is stored: scheme$iterations$salt$hash, the last two in base64.
const (
	hashScheme     = "pbkdf2-sha256"
	hashIterations = 210_000
	hashSalt       = 16
	hashSize       = 32
)

// NewSecret returns a secret that nobody can guess, of 48 hexadecimal digits.
func NewSecret() string {
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	return hex.EncodeToString(random[:])
}

// HashSecret returns what is stored of an app's secret. It takes some 50 ms of CPU, on purpose: a secret may be one that
// people made up.
func HashSecret(secret string) (string, error) {
	salt := make([]byte, hashSalt)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	hash, err := pbkdf2.Key(sha256.New, secret, salt, hashIterations, hashSize)
	if err != nil {
		return "", fmt.Errorf("cannot hash secret: %w", err)
	}
	b64 := base64.RawStdEncoding
	return strings.Join([]string{hashScheme, strconv.Itoa(hashIterations), b64.EncodeToString(salt), b64.EncodeToString(hash)}, "$"), nil
}

// NobodysHash is a stored form that no secret matches: to compare with it takes as long as with that of an app.
func NobodysHash() string {
	b64 := base64.RawStdEncoding
	return strings.Join([]string{
		hashScheme, strconv.Itoa(hashIterations), b64.EncodeToString(make([]byte, hashSalt)), b64.EncodeToString(make([]byte, hashSize)),
	}, "$")
}

// SecretMatches compares a secret with its stored form, in constant time. An error says that the stored form is broken.
func SecretMatches(stored, secret string) (bool, error) {
	parts := strings.Split(stored, "$")
	if len(parts) != 4 || parts[0] != hashScheme {
		return false, errors.New("stored secret is not of a known form")
	}
	iterations, err := strconv.Atoi(parts[1])
	if err != nil || iterations < 1 {
		return false, errors.New("stored secret has no iteration count")
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[2])
	if err != nil {
		return false, fmt.Errorf("cannot read salt of stored secret: %w", err)
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[3])
	if err != nil || len(want) == 0 {
		return false, errors.New("stored secret has no hash")
	}
	got, err := pbkdf2.Key(sha256.New, secret, salt, iterations, len(want))
	if err != nil {
		return false, fmt.Errorf("cannot hash secret: %w", err)
	}
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

// tokenMark begins every token of ours, so that one that got out is easily found by programs that search for secrets.
const tokenMark = "drovertok_"

// NewToken returns a user's token, which is shown once, and the hash that is stored of it.
func NewToken() (token, hash string) {
	token = tokenMark + rand.Text()
	return token, HashToken(token)
}

// IsToken reports whether a text has the form of our own tokens.
func IsToken(text string) bool { return strings.HasPrefix(text, tokenMark) }

// HashToken returns what is stored of a token. A token is 130 random bits, so it needs neither salt nor slowness, and may
// be looked up by its hash.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
