package keyring_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/server/keyring"
	"drover/internal/wire"
)

// facts stands for the database.
type facts struct {
	mu   sync.Mutex
	kept map[string]string
	err  error
	// between is what another server does just before a change; nil for nothing.
	between func()
}

func (f *facts) Identify(_ context.Context, own map[string]string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	for name, value := range own {
		if _, ok := f.kept[name]; !ok {
			f.kept[name] = value
		}
	}
	return maps.Clone(f.kept), nil
}

func (f *facts) SetFact(_ context.Context, name, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.kept[name] = value
	}
	return f.err
}

func (f *facts) SwapFact(_ context.Context, name, before, value string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.between != nil {
		f.between()
	}
	if f.err != nil || f.kept[name] != before {
		return false, f.err
	}
	f.kept[name] = value
	return true, nil
}

// digest is the name of what agents are told.
func digest(r *keyring.Ring) string {
	text, _ := r.Digest()
	return text
}

// open opens a ring with authorities of its own.
func open(t *testing.T, dir string, db *facts) *keyring.Ring {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	authorities := pkitest.Open(t, pki.Config{Dir: filepath.Join(dir, "pki"), Names: []string{"x"}})
	r, err := keyring.Open(keyring.Config{Dir: dir, Authorities: authorities, Now: time.Now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if db != nil {
		if err := r.Join(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// stages are those of the keys of a kind, in the order of their making.
func stages(s keyring.State, kind keyring.Kind) string {
	var all []string
	for _, k := range s.Keys[kind] {
		all = append(all, string(k.Stage))
	}
	return strings.Join(all, " ")
}

func sealed(t *testing.T, key nkeys.KeyPair, others ...nkeys.KeyPair) []byte {
	t.Helper()
	data, err := wire.SealTrust("A", wire.Enrolment{}, key, others...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestARotation: at each step agents that know the latest set, and those that know only the first key, take what is
// meant for them.
func TestARotation(t *testing.T) {
	for _, kind := range keyring.Kinds() {
		dir, db := t.TempDir(), &facts{kept: map[string]string{}}
		r := open(t, dir, db)
		changes := 0
		r.OnChange(func() { changes++ })
		first, before := r.ManifestKeys(), digest(r)
		step := func(want string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if got := stages(r.State(), kind); got != want {
				t.Errorf("%s: the stages are %q, want %q", kind, got, want)
			}
			for name, pinned := range map[string][]string{"the latest": r.ManifestKeys(), "the first": first} {
				if _, err := wire.OpenTrust(sealed(t, r.ManifestKey(), r.Further()...), pinned, "A"); err != nil &&
					(kind != keyring.Manifest || want != "present") {
					t.Errorf("%s, %s: who knows %s does not take what is signed by all: %v", kind, want, name, err)
				}
			}
			if !r.Whole() {
				t.Errorf("%s, %s: not all keys are there", kind, want)
			}
			if again := open(t, dir, nil); stages(again.State(), kind) != want || digest(again) != digest(r) {
				t.Errorf("%s, %s: a start has %q", kind, want, stages(again.State(), kind))
			}
		}
		step("present", nil)
		_, err := r.Announce(t.Context(), kind)
		step("present next", err)
		if same := digest(r) == before; same != (kind == keyring.AgentSigner || kind == keyring.ProxySigner ||
			kind == keyring.ServerSigner) {
			t.Errorf("%s: agents are told again: %v", kind, !same)
		}
		if _, err := r.Announce(t.Context(), kind); !errors.Is(err, keyring.ErrUnderWay) {
			t.Errorf("%s: two next keys: %v", kind, err)
		}
		if _, err := wire.OpenTrust(sealed(t, r.ManifestKey()), first, "A"); err != nil {
			t.Errorf("%s: the next key signs: %v", kind, err)
		}
		_, err = r.Advance(t.Context(), kind, time.Hour)
		step("former present", err)
		if kind == keyring.Manifest {
			if _, err := wire.OpenTrust(sealed(t, r.ManifestKey()), first, "A"); !errors.Is(err, wire.ErrUnknownKey) {
				t.Errorf("the former key signs alone: %v", err)
			}
		}
		if _, err := r.Advance(t.Context(), kind, time.Hour); !errors.Is(err, keyring.ErrNoNext) {
			t.Errorf("%s: taken into use twice: %v", kind, err)
		}
		_, err = r.Announce(t.Context(), kind)
		step("former present next", err)
		_, err = r.Withdraw(t.Context(), kind)
		step("former present", err)
		former := r.State().Keys[kind][0].ID
		if _, err := r.Retire(t.Context(), kind, r.State().Keys[kind][1].ID); !errors.Is(err, keyring.ErrNoSuch) {
			t.Errorf("%s: the present key was retired: %v", kind, err)
		}
		_, err = r.Retire(t.Context(), kind, former)
		step("present", err)
		if changes != 5 {
			t.Errorf("%s: %d changes were told, want 5", kind, changes)
		}
		held(t, dir, kind, former)
	}
}

// held fails the test if anything in a directory is or names a key that was dropped, or if something lies about.
func held(t *testing.T, dir string, kind keyring.Kind, dropped string) {
	t.Helper()
	files := map[keyring.Kind]string{
		keyring.Manifest: "manifest*.nkey", keyring.Sealing: "sealing*.nkey",
		keyring.AgentSigner: "broker/agent-signer*.nk", keyring.ProxySigner: "broker/proxy-signer*.nk", keyring.CA: "pki/ca*.key",
		keyring.ServerSigner: "broker/server-signer*.nk",
	}
	paths, err := filepath.Glob(filepath.Join(dir, files[kind]))
	if err != nil || len(paths) != 1 {
		t.Errorf("%s: there are %q, %v", kind, paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if pair, err := nkeys.FromSeed(data); err == nil {
			if id, err := pair.PublicKey(); err != nil || id == dropped {
				t.Errorf("%s: the dropped key is in %s (%v)", kind, path, err)
			}
		}
	}
}

// TestFormerKeysEnd: nobody has to think of it.
func TestFormerKeysEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir, &facts{kept: map[string]string{}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		for _, step := range []func() error{
			func() error { _, err := r.Announce(ctx, keyring.Manifest); return err },
			func() error { _, err := r.Advance(ctx, keyring.Manifest, time.Hour); return err },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if got := stages(r.State(), keyring.Manifest); got != "former present" {
			t.Errorf("before its time is over the stages are %q", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := stages(r.State(), keyring.Manifest); got != "present" {
			t.Errorf("after that they are %q", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestSeveralServers: what one changes counts for all, also for one that has not got the next key yet.
func TestSeveralServers(t *testing.T) {
	dirs, db := []string{t.TempDir(), t.TempDir()}, &facts{kept: map[string]string{}}
	one := open(t, dirs[0], db)
	share(t, dirs[0], dirs[1])
	synctest.Test(t, func(t *testing.T) {
		two := open(t, dirs[1], db)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- two.Run(ctx) }()
		after := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if digest(one) != digest(two) {
				t.Error("the servers tell agents different things")
			}
		}
		_, err := one.Announce(ctx, keyring.Manifest)
		after(err)
		if !two.Whole() {
			t.Error("the next key is missed before it is used")
		}
		if _, err := two.Advance(ctx, keyring.Manifest, time.Hour); !errors.Is(err, keyring.ErrNotHeld) {
			t.Errorf("a server takes a key into use that it has not got: %v", err)
		}
		_, err = one.Advance(ctx, keyring.Manifest, time.Hour)
		after(err)
		if two.Whole() || !slices.Equal(two.Missing(), []keyring.Kind{keyring.Manifest}) {
			t.Error("the present key is not missed")
		}
		if _, err := wire.OpenTrust(sealed(t, two.ManifestKey()), one.ManifestKeys(), "A"); err != nil {
			t.Errorf("what the other one signs meanwhile is not believed: %v", err)
		}
		share(t, dirs[0], dirs[1])
		_, err = one.Announce(ctx, keyring.AgentSigner)
		after(err)
		if !two.Whole() {
			t.Error("keys that were brought are not taken up")
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// share copies the keys from one server to another, as an operator does.
func share(t *testing.T, from, to string) {
	t.Helper()
	for _, pattern := range []string{"*.nkey", "broker/*.nk", "pki/*", "keys.json"} {
		paths, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(to, strings.TrimPrefix(path, from))
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestKeysOfAnotherFleet: a server whose keys are others than those of its database is refused, and told why.
func TestKeysOfAnotherFleet(t *testing.T) {
	db := &facts{kept: map[string]string{}}
	one := open(t, t.TempDir(), db)
	other := open(t, t.TempDir(), nil)
	if err := other.Join(t.Context(), db); err == nil || !strings.Contains(err.Error(), "different fleets") {
		t.Errorf("error is %v", err)
	}
	if _, err := one.Announce(t.Context(), keyring.Manifest); err != nil {
		t.Fatal(err)
	}
	if err := other.Join(t.Context(), db); err == nil || !strings.Contains(err.Error(), "import the keys") {
		t.Errorf("after a change the error is %v", err)
	}
}

// TestADatabaseOfYesterday: a state that is older than the server's own gives way.
func TestADatabaseOfYesterday(t *testing.T) {
	dir, db := t.TempDir(), &facts{kept: map[string]string{}}
	r := open(t, dir, db)
	old := maps.Clone(db.kept)
	if _, err := r.Announce(t.Context(), keyring.Manifest); err != nil {
		t.Fatal(err)
	}
	db.kept = old
	if r = open(t, dir, db); stages(r.State(), keyring.Manifest) != "present next" {
		t.Errorf("the stages are %q", stages(r.State(), keyring.Manifest))
	}
	var kept keyring.State
	if err := json.Unmarshal([]byte(db.kept["keys"]), &kept); err != nil || kept.Revision != r.State().Revision {
		t.Errorf("the database has %+v, %v", kept, err)
	}
}

// TestNothingChangesWithoutTheDatabase: a change counts for all servers or for none.
func TestNothingChangesWithoutTheDatabase(t *testing.T) {
	db := &facts{kept: map[string]string{}}
	r := open(t, t.TempDir(), db)
	db.err = errors.New("on fire")
	if _, err := r.Announce(t.Context(), keyring.Manifest); err == nil ||
		stages(r.State(), keyring.Manifest) != "present" {
		t.Errorf("error is %v, the stages are %q", err, stages(r.State(), keyring.Manifest))
	}
}

func TestDamage(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":        "{",
		"no present key": `{"revision":2,"keys":{"manifest":[{"id":"A","stage":"former"}]}}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "keys.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Open(keyring.Config{
			Dir: dir, Now: time.Now,
			Log: slog.New(slog.DiscardHandler),
		}); err == nil || !strings.Contains(err.Error(), "keys.json is damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheSignerGivesNothingAway: it is handed to what only signs.
func TestTheSignerGivesNothingAway(t *testing.T) {
	k := open(t, t.TempDir(), nil).ManifestKey()
	if _, err := k.Seed(); err == nil {
		t.Error("the seed is given away")
	}
	if _, err := k.PrivateKey(); err == nil {
		t.Error("the private key is given away")
	}
	k.Wipe()
	signature, err := k.Sign([]byte("order"))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Verify([]byte("order"), signature); err != nil {
		t.Error(err)
	}
}
