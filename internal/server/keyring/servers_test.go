package keyring_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/keyring"
)

// TestAServerThatLags looks for the keys that agents speak of, before it has a say.
func TestAServerThatLags(t *testing.T) {
	dirs, db := []string{t.TempDir(), t.TempDir()}, &facts{kept: map[string]string{}}
	one := open(t, dirs[0], db)
	share(t, dirs[0], dirs[1])
	synctest.Test(t, func(t *testing.T) {
		two := open(t, dirs[1], db)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- two.Run(ctx) }()
		synctest.Wait()
		s, err := one.Announce(ctx, keyring.AgentSigner)
		if err != nil {
			t.Fatal(err)
		}
		for _, revision := range []int{s.Revision, s.Revision + 7} { // the database has lost the second one
			if !two.Behind(revision) {
				t.Errorf("the server does not look for revision %d", revision)
			}
			synctest.Wait() // no time passes
			if two.Behind(revision) || two.State().Revision != s.Revision {
				t.Errorf("after it has looked for revision %d, it goes by %d", revision, two.State().Revision)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestARevisionThatIsMadeUp: one agent that speaks of keys which nobody has does not have a server give out older ones
// to others later.
func TestARevisionThatIsMadeUp(t *testing.T) {
	dirs, db := []string{t.TempDir(), t.TempDir()}, &facts{kept: map[string]string{}}
	one := open(t, dirs[0], db)
	share(t, dirs[0], dirs[1])
	synctest.Test(t, func(t *testing.T) {
		two := open(t, dirs[1], db)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- two.Run(ctx) }()
		synctest.Wait()
		two.Behind(math.MaxInt)
		time.Sleep(time.Minute)
		synctest.Wait()
		s, err := one.Announce(ctx, keyring.AgentSigner)
		if err != nil {
			t.Fatal(err)
		}
		if !two.Behind(s.Revision) {
			t.Error("the server takes the word of the liar for later keys, too")
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestAKeyOfAnotherServerIsWithdrawn: the keys that are here stay.
func TestAKeyOfAnotherServerIsWithdrawn(t *testing.T) {
	for _, kind := range []keyring.Kind{keyring.Manifest, keyring.AgentSigner} {
		dirs, db := []string{t.TempDir(), t.TempDir()}, &facts{kept: map[string]string{}}
		one := open(t, dirs[0], db)
		if _, err := one.Announce(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
		if _, err := one.Advance(t.Context(), kind, time.Hour); err != nil {
			t.Fatal(err)
		}
		share(t, dirs[0], dirs[1])
		if _, err := open(t, dirs[1], db).Announce(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
		before := files(t, dirs[0])
		if _, err := one.Withdraw(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
		if after := files(t, dirs[0]); !maps.Equal(before, after) {
			t.Errorf("%s: the key files were %v and are %v", kind, before, after)
		}
	}
}

// files are those of the nkeys in a directory.
func files(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, pattern := range []string{"*.nkey", "broker/*.nk"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			all[path] = true
		}
	}
	return all
}

// TestTwoServersChangeTheKeysAtOnce: one of them is told so, changes nothing, and goes by what the other has done.
func TestTwoServersChangeTheKeysAtOnce(t *testing.T) {
	dirs, db := []string{t.TempDir(), t.TempDir()}, &facts{kept: map[string]string{}}
	one := open(t, dirs[0], db)
	share(t, dirs[0], dirs[1])
	other := &facts{kept: maps.Clone(db.kept)} // what the other one sees at that time
	if _, err := open(t, dirs[1], other).Announce(t.Context(), keyring.Manifest); err != nil {
		t.Fatal(err)
	}
	db.between = func() { db.kept, db.between = other.kept, nil }
	if _, err := one.Announce(t.Context(), keyring.AgentSigner); !errors.Is(err, keyring.ErrChanged) {
		t.Errorf("error is %v", err)
	}
	if got := stages(one.State(), keyring.AgentSigner); got != "present" {
		t.Errorf("the one that was late goes by %q", got)
	}
	s, err := one.Announce(t.Context(), keyring.AgentSigner)
	if err != nil || stages(s, keyring.Manifest) != "present next" || stages(s, keyring.AgentSigner) != "present next" {
		t.Errorf("after that: %v, %+v", err, s)
	}
}

// TestARaceThatWasLost: a server that has noted a change which the database has not got goes by the database.
func TestARaceThatWasLost(t *testing.T) {
	dirs, db := []string{t.TempDir(), t.TempDir()}, &facts{kept: map[string]string{}}
	one := open(t, dirs[0], db)
	share(t, dirs[0], dirs[1])
	lost := &facts{kept: maps.Clone(db.kept)}
	if _, err := open(t, dirs[1], lost).Announce(t.Context(), keyring.Manifest); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Announce(t.Context(), keyring.Manifest); err != nil {
		t.Fatal(err)
	}
	if two := open(t, dirs[1], db); digest(two) != digest(one) {
		t.Error("the servers tell agents different things")
	}
}
