package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"drover/internal/server/store"
)

// How a secret is stored: scheme$iterations$salt$hash, the last two in base64.
const (
	hashScheme     = "pbkdf2-sha256"
	hashIterations = 210_000
	hashSalt       = 16
	hashSize       = 32
)

// HashSecret returns what is stored of an app's secret. It takes some 50 ms of CPU, on purpose.
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

// matches compares a secret with its stored form, in constant time.
func matches(stored, secret string) (bool, error) {
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

// Hashing is slow, so no more than this many run at once, and none waits longer than this for its turn. Callers whose
// secret is remembered never wait.
const (
	hashersAtOnce = 2
	hashWait      = 10 * time.Second
)

// secrets remembers which secret was right for which stored hash, as a MAC under a key that only this process has. There
// is one entry per app that has shown its secret.
type secrets struct {
	key     [32]byte
	hashers chan struct{}

	mu    sync.Mutex
	right map[string][sha256.Size]byte // by app code
}

func newSecrets() *secrets {
	s := &secrets{hashers: make(chan struct{}, hashersAtOnce), right: map[string][sha256.Size]byte{}}
	_, _ = rand.Read(s.key[:]) // never fails (crypto/rand)
	return s
}

// verify reports whether the secret is the app's. It blocks while others hash, until ctx ends or hashWait has passed.
func (s *secrets) verify(ctx context.Context, app store.App, secret string) (bool, error) {
	mac := s.mac(app, secret)
	if s.known(app.Code, mac) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case s.hashers <- struct{}{}:
	case <-ctx.Done():
		return false, fmt.Errorf("cannot hash secret in time: %w", ctx.Err())
	}
	defer func() { <-s.hashers }()
	if s.known(app.Code, mac) { // another call has shown it while this one waited
		return true, nil
	}
	ok, err := matches(app.SecretHash, secret)
	if err != nil || !ok {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.right[app.Code] = mac
	return true, nil
}

func (s *secrets) known(code string, mac [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	right, ok := s.right[code]
	return ok && hmac.Equal(right[:], mac[:])
}

// mac covers the stored hash too, so that a changed secret is forgotten by itself.
func (s *secrets) mac(app store.App, secret string) (mac [sha256.Size]byte) {
	h := hmac.New(sha256.New, s.key[:])
	for _, part := range []string{app.Code, app.SecretHash, secret} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	h.Sum(mac[:0])
	return mac
}
