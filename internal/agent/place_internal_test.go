package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPlaces: a copy of the directory, and another boot, are other places; a start of the agent is not.
func TestPlaces(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	here := placeOf(filepath.Join(base, "a"), "boot")
	if len(here) != 16 || here != placeOf(filepath.Join(base, "a"), "boot") {
		t.Errorf("%q changes", here)
	}
	if here == placeOf(filepath.Join(base, "b"), "boot") || here == placeOf(filepath.Join(base, "a"), "boot 2") {
		t.Error("another directory or boot is the same place")
	}
}

// TestAnIdentityIsSetAside: all of it, and only while nobody uses it.
func TestAnIdentityIsSetAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agent")
	now := time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC)
	if aside, err := Forget(dir, now); aside != "" || err != nil {
		t.Errorf("of nothing there is %q, %v", aside, err)
	}
	first, err := OwnKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	aside, err := Forget(dir, now)
	if err != nil || filepath.Base(aside) != "agent.former-20261120T010203" {
		t.Fatalf("%q, %v", aside, err)
	}
	kept, err := OwnKey(aside)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OwnKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := first.PublicKey()
	b, _ := kept.PublicKey()
	c, _ := second.PublicKey()
	if a != b || a == c {
		t.Errorf("the keys are %s, aside %s, now %s", a, b, c)
	}
}
