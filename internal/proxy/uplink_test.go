package proxy

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/pki"
	"drover/internal/wire"
)

// watched runs an uplink in a bubble, where time is virtual.
func watched(t *testing.T, h *enrolmentState, test func(u *uplink, s *servers, w *street)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, w := &servers{digest: "first"}, &street{joined: true}
		if keeper, ok := keepers.Load(h.dir); ok {
			s.keeper, _ = keeper.(*pki.Keeper)
		}
		u := newUplink(s, w, h, "test", slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, part := range []func(context.Context) error{u.watch, u.keep} {
			running.Go(func() {
				if err := part(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		test(u, s, w)
		cancel()
		running.Wait()
	})
}

// TestWatchdog: a way over which nothing comes back is made anew after three beats, again and again, and only while it
// looks whole.
func TestWatchdog(t *testing.T) {
	h := joined(t, newAuthority(t))
	watched(t, h, func(u *uplink, s *servers, w *street) {
		if err := u.ready(); err != nil {
			t.Errorf("it has been answered: %v", err)
		}
		s.set(func() { s.silent = true })
		time.Sleep(beatsMissed*beatEvery - time.Second)
		synctest.Wait()
		if w.rejoins() != 0 || u.ready() != nil {
			t.Errorf("given up too early: %d times", w.rejoins())
		}
		time.Sleep(beatTime + time.Second)
		synctest.Wait()
		if w.rejoins() != 1 || u.ready() == nil {
			t.Errorf("given up %d times, ready: %v", w.rejoins(), u.ready())
		}
		time.Sleep(beatsMissed * beatEvery)
		synctest.Wait()
		if w.rejoins() != 2 {
			t.Errorf("given up %d times, want 2", w.rejoins())
		}
		w.mu.Lock()
		w.joined = false
		w.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.rejoins() != 2 {
			t.Errorf("what is not there was given up: %d times", w.rejoins())
		}
		refreshed := s.count("refresh")
		s.set(func() { s.silent = false })
		time.Sleep(2 * beatEvery)
		synctest.Wait()
		if u.ready() != nil || s.count("refresh") == refreshed {
			t.Errorf("ready: %v, and it has not asked what has changed meanwhile", u.ready())
		}
	})
}

// TestRefresh: at each connect, on news, when a beat tells of it, and each hour; after a failure soon again.
func TestRefresh(t *testing.T) {
	a := newAuthority(t)
	h := joined(t, a)
	next := a.enrolment(t, h.id, 3)
	// Each token has the second in which it was made.
	next.Digest, next.Account = "second", h.enrolment().Account
	if err := a.broker.Revoke(otherKey(t).public); err != nil {
		t.Fatal(err)
	}
	third := a.enrolment(t, h.id, 3)
	third.Digest, third.Hubs = "third", []string{"192.0.2.9:7352"}
	watched(t, h, func(u *uplink, s *servers, w *street) {
		asked := s.count("refresh")
		if asked != 1 {
			t.Errorf("asked %d times at the connect, want 1", asked)
		}
		// There was no enrolment in the answer.
		s.set(func() { s.digest, s.answer = "second", wire.RefreshAnswer{Version: wire.Version, Enrolment: &next} })
		time.Sleep(refreshAgain)
		synctest.Wait()
		if s.count("refresh") != asked+1 || h.enrolment().Digest != "second" {
			t.Errorf("asked %d times, and goes by %q", s.count("refresh"), h.enrolment().Digest)
		}
		s.set(func() { s.digest, s.answer.Enrolment = "third", &third })
		time.Sleep(beatEvery)
		synctest.Wait()
		if h.enrolment().Digest != "third" {
			t.Errorf("a beat did not tell of the change: %q", h.enrolment().Digest)
		}
		select {
		case <-u.moved:
		default:
			t.Error("other hubs are not gone to")
		}
		if n := len(w.accounts); n != 1 || w.accounts[0] != third.Account {
			t.Errorf("%d accounts were handed on", n)
		}
		asked = s.count("refresh")
		u.enrolmentChanged()
		synctest.Wait()
		time.Sleep(refreshEvery)
		synctest.Wait()
		if got := s.count("refresh") - asked; got != 2 {
			t.Errorf("asked %d times for the news and in the hour after, want 2", got)
		}
		s.set(func() { s.answer = wire.RefreshAnswer{Version: wire.Version + 1} })
		if err := u.refresh(context.Background()); err == nil {
			t.Error("an answer of a later version is taken")
		}
		s.set(func() { s.answer = wire.RefreshAnswer{Version: wire.Version, Error: "no"} })
		if err := u.refresh(context.Background()); err == nil || err.Error() != "no" {
			t.Errorf("a refusal is %v", err)
		}
	})
}

// TestAnEnrolmentThatNoServerHasSigned: whoever is between a proxy and its servers has it believe no other authority,
// and nothing of before.
func TestAnEnrolmentThatNoServerHasSigned(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	h := joined(t, a)
	next := a.enrolment(t, h.id, 3)
	next.Digest = "second"
	evil := a.enrolment(t, h.id, 3)
	evil.Digest, evil.CA, evil.Hubs = "evil", stranger.keeper.CA(), []string{"192.0.2.66:7352"}
	watched(t, h, func(u *uplink, s *servers, _ *street) {
		s.set(func() { s.answer = wire.RefreshAnswer{Version: wire.Version, Enrolment: &next} })
		if err := u.refresh(context.Background()); err != nil || h.enrolment().Digest != "second" {
			t.Fatalf("what a server has signed is not taken: %v", err)
		}
		recorded := s.sent
		for name, change := range map[string]func(){
			"nobody":         func() { s.keeper = nil },
			"a stranger":     func() { s.keeper = stranger.keeper },
			"a server, once": func() { s.replay = recorded },
		} {
			own := s.keeper
			s.set(func() {
				change()
				s.answer.Enrolment = &evil
			})
			if err := u.refresh(context.Background()); err == nil ||
				!strings.Contains(err.Error(), "cannot trust the answer") {
				t.Errorf("signed by %s: %v", name, err)
			}
			s.set(func() { s.keeper, s.replay = own, nil })
		}
		if got := h.enrolment(); got.Digest != "second" || got.CA == evil.CA {
			t.Errorf("it goes by %q", got.Digest)
		}
	})
}
