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

	"drover/internal/idle"

	"drover/internal/pki"
	"drover/internal/wire"
)

// trust is what the agent goes by: where the fabric is, who vouches for it, who may sign orders, and its own token. The
// server may replace it while the agent runs, by an enrolment that is signed by a key of the present one; it is on disk
// before it counts.
type trust struct {
	dir, key string // key is the public one of the agent
	log      *slog.Logger
	roots    *pki.Trust // nil without TLS
	// addressesChanged tells that there are other addresses.
	addressesChanged chan struct{}

	mu        sync.RWMutex
	enrolment enrolment
}

// openTrust reads what is on disk of the agent with the public key.
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

// tls returns how the fabric is verified; nil without TLS. Of proxies only those of this agent's area are believed.
func (t *trust) tls() *tls.Config {
	if t.roots == nil {
		return nil
	}
	return pki.ProxiesOf(t.current().Cloud, t.roots.TLS())
}

// open verifies what the server has sent.
func (t *trust) open(sealed []byte) (*wire.Manifest, error) {
	return wire.Open(sealed, t.current().ManifestKeys, t.key)
}

// answer returns the server's answer to a report. Where it is signed by a key that is new, it brings what proves that
// key.
func (t *trust) answer(sealed, report []byte) ([]byte, error) {
	answer, err := wire.OpenAnswer(sealed, report, t.key, t.current().ManifestKeys)
	if !errors.Is(err, wire.ErrUnknownKey) {
		return answer, err
	}
	if _, untrusted := t.adopt(wire.SealedTrust(sealed)); untrusted != nil {
		return nil, err
	}
	return wire.OpenAnswer(sealed, report, t.key, t.current().ManifestKeys)
}

// adopt takes over what the server has sent, and returns whether it is new.
func (t *trust) adopt(sealed []byte) (bool, error) {
	m, err := t.open(sealed)
	if err != nil {
		return false, fmt.Errorf("trust refused: %w", err)
	}
	if m.Trust == nil {
		return false, errors.New("trust refused: it is empty")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Trust.Generation <= t.enrolment.Generation {
		return false, nil // sent again
	}
	if m.Trust.Generation != t.enrolment.Generation+1 { // else no later one would count after it
		return false, fmt.Errorf("trust refused: it follows generation %d, which this agent never received",
			m.Trust.Generation-1)
	}
	if err := t.usable(*m.Trust); err != nil {
		return false, fmt.Errorf("trust refused: %w", err)
	}
	next := enrolment{Enrolment: *m.Trust, Former: t.enrolment.Former}
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

// usable refuses what the agent could not work with afterwards, or that would have it speak without TLS.
func (t *trust) usable(e wire.Enrolment) error {
	if len(e.URLs) == 0 || e.JWT == "" || len(e.ManifestKeys) == 0 {
		return errors.New("it is incomplete")
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

// subjectOf returns whose a token is, without verifying it: the fabric does that.
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

// tryFormerAfter is how long no address may lead anywhere until those that counted before are tried, and the other way
// round.
const tryFormerAfter = time.Minute

// addresses returns where the fabric is to be looked for: at the present addresses, or on every second attempt at the
// former ones.
func (t *trust) addresses(attempt int) []string {
	e := t.current()
	if attempt%2 == 1 && len(e.Former) > 0 {
		return e.Former
	}
	return e.URLs
}
