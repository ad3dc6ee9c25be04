package gate

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/store"
)

// hashWait is how long a call waits at most for its turn to hash. Callers whose secret is remembered never wait.
const hashWait = 10 * time.Second

// secrets remembers which secret was right for which stored hash, as a MAC under a key that only this process has. There
// is one entry per secret that was shown, of those that apps have had since the start.
type secrets struct {
	key     [32]byte
	hashers chan struct{}

	mu    sync.Mutex
	right map[shown][sha256.Size]byte
}

// shown names a secret of an app.
type shown struct{ app, secret string }

func newSecrets() *secrets {
	s := &secrets{hashers: make(chan struct{}, hashersAtOnce()), right: map[shown][sha256.Size]byte{}}
	_, _ = rand.Read(s.key[:]) // never fails (crypto/rand)
	return s
}

// verify reports whether the secret is one of the app's that count now, and remembers it. It takes some 50 ms of processor for each secret
// of the app: the caller has its turn.
func (s *secrets) verify(app store.App, secret string, now time.Time) (bool, error) {
	// The newest first: it is what a caller will go on using.
	for _, stored := range slices.Backward(app.Secrets) {
		if !stored.Valid(now) {
			continue
		}
		ok, err := access.SecretMatches(stored.Hash, secret)
		if err != nil {
			return false, fmt.Errorf("secret %q of app %q: %w", stored.ID, app.Code, err)
		}
		if ok {
			s.remember(app, stored, secret)
			return true, nil
		}
	}
	return false, nil
}

// turn waits until the caller may hash, until ctx ends or hashWait has passed.
func (s *secrets) turn(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case s.hashers <- struct{}{}:
		return func() { <-s.hashers }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("cannot hash secret in time: %w", ctx.Err())
	}
}

// known reports whether the secret was found right before for a hash that still counts.
func (s *secrets) known(app store.App, secret string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stored := range app.Secrets {
		right, ok := s.right[shown{app.Code, stored.ID}]
		if !ok || !stored.Valid(now) {
			continue
		}
		if mac := s.mac(app.Code, stored, secret); hmac.Equal(right[:], mac[:]) {
			return true
		}
	}
	return false
}

func (s *secrets) remember(app store.App, stored store.Secret, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.right { // those that the app no longer has
		if key.app == app.Code && !has(app, key.secret) {
			delete(s.right, key)
		}
	}
	s.right[shown{app.Code, stored.ID}] = s.mac(app.Code, stored, secret)
}

func has(app store.App, secret string) bool {
	for _, s := range app.Secrets {
		if s.ID == secret {
			return true
		}
	}
	return false
}

// mac covers the stored hash too, so that a changed secret is forgotten by itself.
func (s *secrets) mac(code string, stored store.Secret, secret string) (mac [sha256.Size]byte) {
	h := hmac.New(sha256.New, s.key[:])
	for _, part := range []string{code, stored.ID, stored.Hash, secret} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	h.Sum(mac[:0])
	return mac
}
