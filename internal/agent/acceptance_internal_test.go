package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/wire"
)

func TestAcceptance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAcceptance("here")
		begin := time.Now()
		if a.wait(t.Context(), 2*time.Second) || time.Since(begin) != 2*time.Second {
			t.Errorf("given after %v by nobody", time.Since(begin))
		}
		go func() {
			time.Sleep(time.Second)
			a.accept()
			a.accept()
		}()
		begin = time.Now()
		if !a.wait(t.Context(), 2*time.Second) || time.Since(begin) != time.Second {
			t.Errorf("given after %v", time.Since(begin))
		}
		if !a.wait(t.Context(), 0) {
			t.Error("it is given once only")
		}
		a.reset()
		a.reset()
		if a.wait(t.Context(), time.Millisecond) {
			t.Error("it counts for another link")
		}
	})
}

// TestACopyBeginsNothing: an agent that starts and is taken for a copy waits, and as long as that is certain for ever.
func TestACopyBeginsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		certain bool
		waits   time.Duration
	}{"certain": {true, 0}, "not certain": {false, waitForKeyHolder}} {
		synctest.Test(t, func(t *testing.T) {
			conf := newConfirmation(slog.New(slog.DiscardHandler))
			go func() { _ = conf.run(t.Context()) }() // it returns nil
			conf.noteLink()
			conf.noteRejection(wire.Stranger{Reason: "x", Clone: c.certain})
			select {
			case <-conf.done:
				if c.certain {
					t.Errorf("%s: it goes on", name)
				}
			case <-time.After(time.Hour):
				if !c.certain {
					t.Errorf("%s: it waits for more than %v", name, c.waits)
				}
			}
			conf.confirm()
			synctest.Wait()
			select {
			case <-conf.done:
			default:
				t.Errorf("%s: it waits although the server has taken it for the one", name)
			}
		})
	}
}

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
