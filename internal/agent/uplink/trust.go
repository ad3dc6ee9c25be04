package uplink

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/frame"
	"drover/internal/idle"

	"drover/internal/pki"
	"drover/internal/wire"
)

// trust is what the agent trusts: the addresses of the fabric, its authorities, the keys of the servers, and the
// agent's own token. The server may renew it while the agent runs. A key of the present trust signs the new enrolment,
// which is on disk before it counts.
type trust struct {
	dir, key string // key is the agent's public key
	log      *slog.Logger
	roots    *pki.Trust // nil without TLS
	// addressesChanged says that there are new addresses.
	addressesChanged chan struct{}

	mu        sync.RWMutex
	enrolment enrolment
}

// openTrust reads the enrolment of the agent with this public key.
func openTrust(dir, key string, log *slog.Logger) (*trust, error) {
	e, err := loadEnrolment(dir)
	if err != nil {
		return nil, err
	}
	t := &trust{dir: dir, key: key, log: log, enrolment: e, addressesChanged: make(chan struct{}, 1)}
	if e.CA != "" {
		if t.roots, err = pki.NewTrust(e.CA); err != nil {
			return nil, fmt.Errorf("cannot use enrolment: %w", err)
		}
	}
	return t, nil
}

func (t *trust) current() enrolment {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.enrolment
}

// tls returns how to verify the fabric; nil without TLS. It accepts proxies of this agent's area only.
func (t *trust) tls() *tls.Config {
	if t.roots == nil {
		return nil
	}
	return pki.ProxiesOf(t.current().Cloud, t.roots.TLS())
}

// adopt verifies and stores renewed trust, and reports whether it is new.
func (t *trust) adopt(sealed []byte) (bool, error) {
	renewed, err := wire.OpenTrust(sealed, t.current().ManifestKeys, t.key)
	if err != nil {
		return false, fmt.Errorf("trust refused: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if renewed.Generation <= t.enrolment.Generation {
		return false, nil // sent again
	}
	if renewed.Generation != t.enrolment.Generation+1 { // otherwise no later generation would be accepted
		return false, fmt.Errorf("trust refused: it follows generation %d, which this agent never received",
			renewed.Generation-1)
	}
	if err := t.usable(*renewed); err != nil {
		return false, fmt.Errorf("trust refused: %w", err)
	}
	next := enrolment{Enrolment: *renewed, Former: t.enrolment.Former}
	moved := !sameAddresses(next.URLs, t.enrolment.URLs)
	if moved {
		next.Former = t.enrolment.URLs
	}
	if err := saveEnrolment(t.dir, next); err != nil {
		return false, err
	}
	if t.roots != nil {
		if err := t.roots.Set(next.CA); err != nil {
			return false, err
		}
	}
	t.log.Info("server renewed the trust", "generation", next.Generation, "manifest_keys", len(next.ManifestKeys),
		"authorities",
		strings.Count(next.CA, "BEGIN CERTIFICATE"), "urls", next.URLs)
	t.enrolment = next
	if moved {
		idle.Wake(t.addressesChanged)
	}
	return true, nil
}

// usable rejects trust that the agent could not work with, or that would make it connect without TLS.
func (t *trust) usable(e wire.Enrolment) error {
	if len(e.URLs) == 0 || e.JWT == "" || len(e.ManifestKeys) == 0 || len(e.SealingKeys) == 0 {
		return errors.New("it is incomplete")
	}
	for _, key := range e.SealingKeys {
		if _, err := frame.PublicKey(key); err != nil {
			return err
		}
	}
	if e.Fleet != t.enrolment.Fleet {
		return fmt.Errorf("it is for fleet %q: a host changes its fleet by joining again", e.Fleet)
	}
	if e.Cloud != t.enrolment.Cloud {
		return fmt.Errorf("it is for area %d: a host changes its area by joining again", e.Cloud)
	}
	if subject := subjectOf(e.JWT); subject != t.key {
		return fmt.Errorf("its token belongs to %q", subject)
	}
	if t.roots == nil {
		return nil
	}
	if _, err := pki.NewTrust(e.CA); err != nil {
		return err
	}
	for _, address := range e.URLs {
		if !strings.HasPrefix(address, "tls://") {
			return fmt.Errorf("its fabric at %s has no TLS", address)
		}
	}
	return nil
}

func sameAddresses(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// subjectOf returns the owner of a token. It does not verify the token: the fabric does that.
func subjectOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(body, &claims); err != nil {
		return ""
	}
	return claims.Subject
}

// tryFormerAfter is how long the link may be down before the agent switches between the present and the former
// addresses.
const tryFormerAfter = time.Minute

// addresses returns the addresses of the fabric: the present ones, or on every second attempt the former ones.
func (t *trust) addresses(attempt int) []string {
	e := t.current()
	if attempt%2 == 1 && len(e.Former) > 0 {
		return e.Former
	}
	return e.URLs
}
