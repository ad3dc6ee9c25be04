package uplink

import (
	"encoding/base64"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/pki/pkitest"
	"drover/internal/wire"
)

// token is what looks like that of a subject; the fabric verifies it, not the agent.
func token(subject string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+subject+`"}`)) + ".x"
}

func mustKey(t *testing.T) nkeys.KeyPair {
	t.Helper()
	key, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// school is a server that has an agent trust other things.
type school struct {
	t           *testing.T
	key, second nkeys.KeyPair
	ca          string
	dir         string
	trust       *trust
	// sealing is the fleet's public sealing key.
	sealing string
}

func newSchool(t *testing.T) *school {
	t.Helper()
	s := &school{t: t, key: mustKey(t), second: mustKey(t), ca: pkitest.New(t).CA(), dir: t.TempDir()}
	_, s.sealing = fabrictest.NewSealingKey(t)
	if err := SaveEnrolment(s.dir, s.enrolment(1, s.key)); err != nil {
		t.Fatal(err)
	}
	s.open()
	return s
}

func (s *school) open() {
	s.t.Helper()
	var err error
	if s.trust, err = openTrust(s.dir, "me", slog.New(slog.DiscardHandler)); err != nil {
		s.t.Fatal(err)
	}
}

// enrolment is one with the public halves of the keys.
func (s *school) enrolment(generation uint64, keys ...nkeys.KeyPair) wire.Enrolment {
	s.t.Helper()
	e := wire.Enrolment{
		URLs: []string{"tls://192.0.2.1:1"}, JWT: token("me"), CA: s.ca, Cloud: 3, IP: "192.0.2.7",
		TrustHeld: wire.TrustHeld{Generation: generation, Digest: "d"}, SealingKeys: []string{s.sealing},
	}
	for _, k := range keys {
		public, err := k.PublicKey()
		if err != nil {
			s.t.Fatal(err)
		}
		e.ManifestKeys = append(e.ManifestKeys, public)
	}
	return e
}

// teach sends an enrolment, signed by the keys.
func (s *school) teach(e wire.Enrolment, key nkeys.KeyPair, others ...nkeys.KeyPair) (bool, error) {
	s.t.Helper()
	sealed, err := wire.SealTrust("me", e, key, others...)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.trust.adopt(sealed)
}

// TestTrustIsTakenOver: what a known key has signed counts at once and after a start, and only once.
func TestTrustIsTakenOver(t *testing.T) {
	s := newSchool(t)
	next := s.enrolment(2, s.key, s.second)
	next.URLs, next.JWT = []string{"tls://192.0.2.2:1"}, token("me")+"2"
	if taken, err := s.teach(next, s.key); !taken || err != nil {
		t.Fatalf("%v, %v", taken, err)
	}
	if d := cmp.Diff(next, s.trust.current().Enrolment); d != "" {
		t.Errorf("what counts (-want +got):\n%s", d)
	}
	select {
	case <-s.trust.addressesChanged:
	default:
		t.Error("nobody is told of other addresses")
	}
	s.open()
	if d := cmp.Diff(next, s.trust.current().Enrolment); d != "" {
		t.Errorf("after a start (-want +got):\n%s", d)
	}
	if a, b := s.trust.addresses(0), s.trust.addresses(1); a[0] != "tls://192.0.2.2:1" || b[0] != "tls://192.0.2.1:1" {
		t.Errorf("it looks for the fabric at %q, then at %q", a, b)
	}
	for _, old := range []uint64{0, 1, 2} {
		if taken, err := s.teach(s.enrolment(old, s.key), s.key); taken || err != nil {
			t.Errorf("generation %d: %v, %v", old, taken, err)
		}
	}
	// The first key goes: the second one vouches.
	if taken, err := s.teach(s.enrolment(3, s.second), s.second); !taken || err != nil {
		t.Errorf("by the second key: %v, %v", taken, err)
	}
	if _, err := s.teach(s.enrolment(4, s.key), s.key); err == nil {
		t.Error("a key that was dropped is believed")
	}
}

// TestTrustDoesNotJump: the set that an agent takes is the one after its own. Beyond the last one no other could ever
// follow.
func TestTrustDoesNotJump(t *testing.T) {
	s := newSchool(t)
	for _, far := range []uint64{3, 1 << 40, math.MaxUint64} {
		if taken, err := s.teach(s.enrolment(far, s.second), s.key); taken || err == nil ||
			s.trust.current().Generation != 1 {
			t.Errorf("generation %d: %v, %v, and it goes by %d", far, taken, err, s.trust.current().Generation)
		}
	}
	if taken, err := s.teach(s.enrolment(2, s.second), s.key); !taken || err != nil {
		t.Errorf("the next one: %v, %v", taken, err)
	}
}

// TestAnAgentThatWasAway: it knows a key only that signs nothing else any more.
func TestAnAgentThatWasAway(t *testing.T) {
	s := newSchool(t)
	third := mustKey(t)
	if taken, err := s.teach(s.enrolment(2, s.second, third), third, s.second, s.key); !taken || err != nil {
		t.Errorf("%v, %v", taken, err)
	}
	if _, err := s.teach(s.enrolment(3, s.key), mustKey(t), mustKey(t)); err == nil {
		t.Error("strangers are believed")
	}
}

func TestTrustIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*wire.Enrolment)
		want   string
	}{
		"no address":          {func(e *wire.Enrolment) { e.URLs = nil }, "incomplete"},
		"no token":            {func(e *wire.Enrolment) { e.JWT = "" }, "incomplete"},
		"no keys":             {func(e *wire.Enrolment) { e.ManifestKeys = nil }, "incomplete"},
		"no sealing keys":     {func(e *wire.Enrolment) { e.SealingKeys = nil }, "incomplete"},
		"odd sealing keys":    {func(e *wire.Enrolment) { e.SealingKeys = []string{"X"} }, "sealing key"},
		"the token of others": {func(e *wire.Enrolment) { e.JWT = token("you") }, `belongs to "you"`},
		"no token at all":     {func(e *wire.Enrolment) { e.JWT = "x" }, `belongs to ""`},
		"no authority":        {func(e *wire.Enrolment) { e.CA = "" }, "expected a certificate"},
		"an odd authority":    {func(e *wire.Enrolment) { e.CA = "x" }, "expected a certificate"},
		"no TLS": {
			func(e *wire.Enrolment) { e.URLs = append(e.URLs, "nats://192.0.2.1:1") },
			"has no TLS",
		},
		"another fleet": {func(e *wire.Enrolment) { e.Fleet = "other" }, "fleet \"other\""},
		"another area":  {func(e *wire.Enrolment) { e.Cloud = 4 }, "area 4"},
	} {
		s := newSchool(t)
		before := s.trust.current()
		e := s.enrolment(2, s.key)
		c.change(&e)
		if taken, err := s.teach(e, s.key); taken || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want an error about %q", name, taken, err, c.want)
		}
		if d := cmp.Diff(before, s.trust.current()); d != "" {
			t.Errorf("%s: it counts:\n%s", name, d)
		}
		s.open()
		if d := cmp.Diff(before, s.trust.current()); d != "" {
			t.Errorf("%s: it is on disk:\n%s", name, d)
		}
	}
	s := newSchool(t)
	for name, sealed := range map[string][]byte{
		"nothing":         nil,
		"an empty one":    must(wire.SealTrust("me", wire.Enrolment{TrustHeld: wire.TrustHeld{Generation: 2}}, s.key)),
		"another agent's": must(wire.SealTrust("you", s.enrolment(2, s.key), s.key)),
	} {
		if taken, err := s.trust.adopt(sealed); taken || err == nil {
			t.Errorf("%s: %v, %v", name, taken, err)
		}
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

// TestTrustThatCannotBeStored: what is not on the disk does not count, as it would be gone after a start.
func TestTrustThatCannotBeStored(t *testing.T) {
	s := newSchool(t)
	s.trust.dir = filepath.Join(s.dir, "gone")
	if taken, err := s.teach(s.enrolment(2, s.second), s.key); taken || err == nil ||
		s.trust.current().Generation != 1 {
		t.Errorf("%v, %v, generation %d", taken, err, s.trust.current().Generation)
	}
}
