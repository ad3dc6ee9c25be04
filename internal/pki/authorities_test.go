package pki_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drover/internal/pki"
	"drover/internal/pki/pkitest"
)

// TestAnotherAuthority: who trusts the former authority alone, the present one alone or both believes the server,
// before and after the change, and a token that pins either of them counts.
func TestAnotherAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	k := pkitest.Open(t, pki.Config{Dir: dir, Names: []string{"x"}})
	first := k.Authority()
	second, err := k.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	believed := func(step string, want ...string) {
		t.Helper()
		for name, a := range map[string]pki.Authority{"first": first, "second": second} {
			for how, client := range map[string]func() error{
				"pins":   func() error { _, err := shake(t, k.ServerTLS(), pki.Pinned(a.Fingerprint)); return err },
				"trusts": func() error { _, err := shake(t, k.ServerTLS(), trusting(t, a.PEM)); return err },
			} {
				if err := client(); (err == nil) != slices.Contains(want, name) {
					t.Errorf("%s: who %s the %s one: %v", step, how, name, err)
				}
			}
		}
	}
	use := func(r pki.Roles) {
		t.Helper()
		if err := k.Use(r); err != nil {
			t.Fatal(err)
		}
	}
	believed("made and not used", "first")
	if strings.Count(k.CA(), "BEGIN CERTIFICATE") != 1 || k.Fingerprint() != first.Fingerprint {
		t.Error("an authority without a role is made known")
	}
	use(pki.Roles{Present: first.Fingerprint, Trusted: []string{first.PEM, second.PEM}})
	believed("made known", "first")
	if k.CA() != first.PEM+second.PEM {
		t.Errorf("agents are told to trust\n%s", k.CA())
	}
	before, err := k.ServerTLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	use(pki.Roles{
		Present: second.Fingerprint, Former: []string{first.Fingerprint},
		Trusted: []string{first.PEM, second.PEM},
	})
	believed("taken into use", "first", "second")
	after, err := k.ServerTLS().GetCertificate(nil)
	if err != nil || before.Leaf.Equal(after.Leaf) {
		t.Errorf("the same certificate is shown: %v", err)
	}
	if k.Fingerprint() != second.Fingerprint || k.CA() != second.PEM+first.PEM {
		t.Error("tokens and agents are told of another one than the present one first")
	}
	strict := trusting(t, first.PEM).Clone()
	strict.InsecureSkipVerify, strict.VerifyConnection, strict.ServerName, strict.RootCAs = false, nil, "x",
		pool(t, first.PEM)
	if _, err := shake(t, k.ServerTLS(), strict); err != nil {
		t.Errorf("an ordinary caller with the former certificate: %v", err)
	}

	k = pkitest.Open(t, pki.Config{Dir: dir, Names: []string{"x"}})
	if k.Fingerprint() != second.Fingerprint {
		t.Error("a start forgets which one is the present one")
	}
	third, err := k.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	use(pki.Roles{
		Present: third.Fingerprint, Former: []string{first.Fingerprint, second.Fingerprint},
		Trusted: []string{first.PEM, second.PEM, third.PEM},
	})
	believed("two changes later", "first", "second")
	use(pki.Roles{
		Present: third.Fingerprint, Former: []string{second.Fingerprint},
		Trusted: []string{second.PEM, third.PEM},
	})
	if err := k.Drop(first.Fingerprint); err != nil {
		t.Fatal(err)
	}
	believed("the first one was dropped", "second")
	if err := k.Drop(third.Fingerprint); err == nil {
		t.Error("the present one was dropped")
	}
	if err := k.Drop("../../x"); err == nil {
		t.Error("what is no fingerprint was dropped")
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 4 {
		t.Errorf("there are %q, %v", names, err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestAChangeThatWasCutShort: wherever the files were when the power went, the next start has the present authority, or
// goes on.
func TestAChangeThatWasCutShort(t *testing.T) {
	for name, cut := range map[string]func(dir, first, second string) error{
		"nothing was renamed": func(string, string, string) error { return nil },
		"the old key was linked": func(dir, first, _ string) error {
			return os.Link(filepath.Join(dir, "ca.key"), filepath.Join(dir, "ca-"+first[:16]+".key"))
		},
		"the new key was renamed": func(dir, first, second string) error {
			if err := os.Link(filepath.Join(dir, "ca.key"), filepath.Join(dir, "ca-"+first[:16]+".key")); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, "ca-"+second[:16]+".key"), filepath.Join(dir, "ca.key"))
		},
	} {
		dir := filepath.Join(t.TempDir(), "pki")
		k := pkitest.Open(t, pki.Config{Dir: dir, Names: []string{"x"}})
		first := k.Authority()
		second, err := k.NewAuthority()
		if err != nil {
			t.Fatal(err)
		}
		if err := cut(dir, first.Fingerprint, second.Fingerprint); err != nil {
			t.Fatal(err)
		}
		k = pkitest.Open(t, pki.Config{Dir: dir, Names: []string{"x"}})
		roles := pki.Roles{
			Present: second.Fingerprint, Former: []string{first.Fingerprint},
			Trusted: []string{first.PEM, second.PEM},
		}
		if err := k.Use(roles); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if k = pkitest.Open(t, pki.Config{Dir: dir, Names: []string{"x"}}); k.Fingerprint() != second.Fingerprint {
			t.Errorf("%s: the present one is not the one that it was told to be", name)
		}
	}
}

func TestUseRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	k := pkitest.Open(t, pki.Config{Dir: dir, Names: []string{"x"}})
	stranger := pkitest.Open(t, pki.Config{Dir: t.TempDir(), Names: []string{"x"}}).Authority()
	before := k.CA()
	for name, r := range map[string]pki.Roles{
		"one that is elsewhere": {Present: stranger.Fingerprint, Trusted: []string{stranger.PEM}},
		"no certificate":        {Present: k.Fingerprint(), Trusted: []string{"x"}},
		"nothing":               {},
	} {
		if err := k.Use(r); err == nil || k.CA() != before {
			t.Errorf("%s is used: %v", name, err)
		}
	}
	if err := k.Use(pki.Roles{
		Present: k.Fingerprint(), Former: []string{stranger.Fingerprint},
		Trusted: []string{k.CA(), stranger.PEM},
	}); err != nil {
		t.Errorf("a former one whose key is elsewhere: %v", err)
	}
}

// TestTrustIsRenewed: what a client trusts can be changed between two connections.
func TestTrustIsRenewed(t *testing.T) {
	one, two := pkitest.Open(t, pki.Config{Dir: t.TempDir(), Names: []string{"x"}}),
		pkitest.Open(t, pki.Config{Dir: t.TempDir(), Names: []string{"x"}})
	trust, err := pki.NewTrust(one.CA())
	if err != nil {
		t.Fatal(err)
	}
	client := trust.TLS()
	if _, err := shake(t, two.ServerTLS(), client); err == nil {
		t.Error("a stranger is believed")
	}
	if err := trust.Set("nothing"); err == nil {
		t.Error("nothing is trusted")
	}
	if err := trust.Set(one.CA() + two.CA()); err != nil {
		t.Fatal(err)
	}
	for _, k := range []*pki.Manager{one, two} {
		if _, err := shake(t, k.ServerTLS(), client); err != nil {
			t.Errorf("%v", err)
		}
	}
}
