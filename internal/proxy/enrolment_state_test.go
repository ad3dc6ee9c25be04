package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/wire"
)

// TestTake: what is newer is on disk and counts, and what is another's is refused and changes nothing.
func TestTake(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	h := joined(t, a)
	first := h.enrolment()

	again := a.enrolment(t, h.id, 3) // the same, signed anew
	again.Certificate, again.Digest = "", "second"
	made, err := h.replace(again)
	if err != nil || made.uplink {
		t.Errorf("the same again: %+v, %v", made, err)
	}
	if now := h.enrolment(); now.JWT != first.JWT || now.Certificate != first.Certificate || now.Digest != "second" {
		t.Errorf("taken is %+v", now)
	}
	kept, err := load(h.dir)
	if err != nil || kept.Digest != "second" || kept.Certificate != first.Certificate {
		t.Errorf("kept is %+v, %v", kept, err)
	}

	if err := a.broker.Revoke(otherKey(t).public); err != nil {
		t.Fatal(err)
	}
	moved := a.enrolment(t, h.id, 3)
	moved.Hubs = []string{"192.0.2.2:7352"}
	if made, err := h.replace(moved); err != nil || !made.account || !made.uplink {
		t.Errorf("other hubs and another account: %+v, %v", made, err)
	}

	before := h.enrolment()
	for name, change := range map[string]func(e *wire.ProxyEnrolment){
		"another area":          func(e *wire.ProxyEnrolment) { e.Area = 4 },
		"another fleet":         func(e *wire.ProxyEnrolment) { *e = other.enrolment(t, h.id, 3) },
		"an account of another": func(e *wire.ProxyEnrolment) { e.Account = other.enrolment(t, h.id, 3).Account },
		"a certificate of others": func(e *wire.ProxyEnrolment) {
			e.Certificate = a.enrolment(t, otherKey(t), 3).Certificate
		},
		"no certificate in PEM": func(e *wire.ProxyEnrolment) { e.Certificate = "x" },
		"no hubs":               func(e *wire.ProxyEnrolment) { e.Hubs = nil },
		"no authority":          func(e *wire.ProxyEnrolment) { e.CA = "" },
		"no token":              func(e *wire.ProxyEnrolment) { e.JWT = "" },
		"no sealing key":        func(e *wire.ProxyEnrolment) { e.SealingKeys = nil },
		"an odd sealing key":    func(e *wire.ProxyEnrolment) { e.SealingKeys = append(e.SealingKeys, "X") },
		"another account":       func(e *wire.ProxyEnrolment) { e.Fleet = other.fleet },
	} {
		e := a.enrolment(t, h.id, 3)
		change(&e)
		if made, err := h.replace(e); err == nil {
			t.Errorf("%s: it is taken: %+v", name, made)
		}
	}
	after, err := load(h.dir)
	if err != nil || after.Digest != before.Digest || after.Account != before.Account ||
		h.enrolment().Account != before.Account {
		t.Errorf("something has changed: %+v, %v", after, err)
	}
}

func TestACertificateIsRenewedInTime(t *testing.T) {
	h := joined(t, newAuthority(t))
	now := time.Now()
	if request, err := h.renewalRequest(now); err != nil || request != nil {
		t.Errorf("a fresh one is renewed: %d bytes, %v", len(request), err)
	}
	if request, err := h.renewalRequest(now.Add(61 * 24 * time.Hour)); err != nil || len(request) == 0 {
		t.Errorf("one of 61 days is not renewed: %v", err)
	}
	e := h.enrolment()
	e.Certificate, e.CA = "", newAuthority(t).manager.CA()+e.CA
	if _, err := h.replace(e); err != nil {
		t.Fatal(err)
	}
	if request, err := h.renewalRequest(now); err != nil || len(request) == 0 {
		t.Errorf("one of an authority that was followed by another is not renewed: %v", err)
	}
	if n := pemOf(h.enrolment().Certificate); n != 2 {
		t.Errorf("it shows %d certificates, want its own and the issuer's", n)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	if _, err := open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has not joined a server") {
		t.Errorf("error is %v", err)
	}
	h := joined(t, newAuthority(t))
	if err := os.WriteFile(filepath.Join(h.dir, enrolmentFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(h.dir); err == nil || !strings.Contains(err.Error(), enrolmentFile) {
		t.Errorf("error is %v", err)
	}
	files, err := os.ReadDir(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s may be read by others", f.Name())
		}
	}
}
