package fabric_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
)

func public(t *testing.T, key nkeys.KeyPair, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	p, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func load(t *testing.T, path string) string {
	t.Helper()
	key, err := fabric.LoadOrCreateKey(path, nkeys.PrefixByteUser)
	return public(t, key, err)
}

func TestKeyIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.nk")
	first := load(t, path)
	if !nkeys.IsValidPublicUserKey(first) {
		t.Errorf("%q is no public user key", first)
	}
	if again := load(t, path); again != first {
		t.Errorf("loaded %s, want %s", again, first)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("key file has mode %v, want 0600", info.Mode())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("%v was left behind, want the key file only", entries)
	}
}

func TestOneKeyForAllWhoCreateItAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.nk")
	keys := make([]string, 32)
	var creating sync.WaitGroup
	for i := range keys {
		creating.Go(func() {
			if key, err := fabric.LoadOrCreateKey(path, nkeys.PrefixByteUser); err != nil {
				t.Error(err)
			} else if keys[i], err = key.PublicKey(); err != nil {
				t.Error(err)
			}
		})
	}
	creating.Wait()
	for _, k := range keys {
		if k != keys[0] {
			t.Fatalf("got keys %s and %s", keys[0], k)
		}
	}
}

func TestKeyFileIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		prepare    func(t *testing.T, path string)
	}{
		{"readable by the group", "0640", func(t *testing.T, path string) {
			load(t, path)
			chmod(t, path, 0o640)
		}},
		{"readable by all", "0604", func(t *testing.T, path string) {
			load(t, path)
			chmod(t, path, 0o604)
		}},
		{"empty", "expected an nkey seed", func(t *testing.T, path string) { write(t, path, "") }},
		{"nonsense", "expected an nkey seed", func(t *testing.T, path string) { write(t, path, "SUsecret") }},
		{"huge", "expected an nkey seed", func(t *testing.T, path string) {
			write(t, path, strings.Repeat("S", 1<<20))
		}},
		{"another kind", "account", func(t *testing.T, path string) {
			if _, err := fabric.LoadOrCreateKey(path, nkeys.PrefixByteAccount); err != nil {
				t.Fatal(err)
			}
		}},
		{"directory", "not a regular file", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{"FIFO", "not a regular file", func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"symbolic link", "cannot read", func(t *testing.T, path string) {
			load(t, path+".real")
			if err := os.Symlink(path+".real", path); err != nil {
				t.Fatal(err)
			}
		}},
		{"link to nowhere", "cannot read", func(t *testing.T, path string) {
			if err := os.Symlink(path+".none", path); err != nil {
				t.Fatal(err)
			}
		}},
		{"no directory", "cannot create", func(t *testing.T, path string) {
			if err := os.Remove(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys", "agent.nk")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			c.prepare(t, path)
			before, _ := os.ReadFile(nonBlocking(path))
			key, err := fabric.LoadOrCreateKey(path, nkeys.PrefixByteUser)
			if err == nil {
				t.Fatalf("got key %v, want an error", key)
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q does not name %q and the path", err, c.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q tells what is in the file", err)
			}
			if after, _ := os.ReadFile(nonBlocking(path)); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

// nonBlocking avoids reading what would block or what is no file.
func nonBlocking(path string) string {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return os.DevNull
	}
	return path
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKeyFileMayBePadded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.nk")
	want := load(t, path)
	seed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "\n  "+strings.TrimSpace(string(seed))+"\r\n\n")
	if got := load(t, path); got != want {
		t.Errorf("got key %s, want %s", got, want)
	}
}

// TestAtHand: a pair with its halves at hand signs as the one that it was made of.
func TestAtHand(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	quick := fabric.CachedKey(pair)
	sig, err := quick.Sign([]byte("said"))
	if err != nil || pair.Verify([]byte("said"), sig) != nil || quick.Verify([]byte("other"), sig) == nil {
		t.Errorf("signature %x, %v", sig, err)
	}
	if name := public(t, quick, nil); name != public(t, pair, nil) || fabric.CachedKey(quick) != quick {
		t.Errorf("it is %s", name)
	}
	half, err := nkeys.FromPublicKey(public(t, pair, nil))
	if err != nil {
		t.Fatal(err)
	}
	if fabric.CachedKey(half) != half {
		t.Error("a half is taken for a whole pair")
	}
}
