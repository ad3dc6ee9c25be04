package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/frame"
	"drover/internal/wire"
)

// watched runs an uplink in a bubble, where time is virtual.
func watched(t *testing.T, a *authority, h *enrolmentState, test func(u *uplink, s *servers, w *street)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, w := &servers{pair: a.pair(t, h.id), digest: "first"}, &street{joined: true}
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
	a := newAuthority(t)
	watched(t, a, joined(t, a), func(u *uplink, s *servers, w *street) {
		if err := u.ready(); err != nil {
			t.Errorf("it has been answered: %v", err)
		}
		s.set(func() { s.silent = true })
		time.Sleep(beatsMissed*beatEvery - time.Second)
		synctest.Wait()
		if w.rejoins() != 0 || w.sentAways() != 0 || u.ready() != nil {
			t.Errorf("given up too early: %d times, agents were sent away %d times", w.rejoins(), w.sentAways())
		}
		time.Sleep(beatTime + time.Second)
		synctest.Wait()
		if w.rejoins() != 1 || u.ready() == nil {
			t.Errorf("given up %d times, ready: %v", w.rejoins(), u.ready())
		}
		time.Sleep(beatsMissed * beatEvery)
		synctest.Wait()
		if w.rejoins() != 2 || w.sentAways() != 1 {
			t.Errorf("given up %d times, want 2; agents were sent away %d times, want 1", w.rejoins(), w.sentAways())
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

// TestUnknownProxy: a proxy that the servers do not know asks for its enrolment with each beat, and no more often.
func TestUnknownProxy(t *testing.T) {
	a := newAuthority(t)
	watched(t, a, joined(t, a), func(_ *uplink, s *servers, _ *street) {
		most := s.count("refresh") + int(time.Minute/beatEvery) + 2
		s.set(func() {
			s.swap = func(verb string, reply []byte) []byte {
				if s.asked["refresh"] > 2*most {
					return reply // otherwise a storm would stop the time of the test
				}
				return frame.Hint("unknown")
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := s.count("refresh"); got > most {
			t.Errorf("asked %d times in a minute, want %d at most", got, most)
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
	watched(t, a, h, func(u *uplink, s *servers, w *street) {
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

// TestAnEnrolmentThatNoServerHasSealed: whoever is between a proxy and its servers has it believe no other authority,
// and nothing of before.
func TestAnEnrolmentThatNoServerHasSealed(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	h := joined(t, a)
	next := a.enrolment(t, h.id, 3)
	next.Digest = "second"
	evil := a.enrolment(t, h.id, 3)
	evil.Digest, evil.CA, evil.Hubs = "evil", stranger.manager.CA(), []string{"192.0.2.66:7352"}
	forged, err := json.Marshal(wire.RefreshAnswer{Version: wire.Version, Enrolment: &evil})
	if err != nil {
		t.Fatal(err)
	}
	watched(t, a, h, func(u *uplink, s *servers, _ *street) {
		s.set(func() { s.answer = wire.RefreshAnswer{Version: wire.Version, Enrolment: &next} })
		if err := u.refresh(context.Background()); err != nil || h.enrolment().Digest != "second" {
			t.Fatalf("what a server has sealed is not taken: %v", err)
		}
		recorded, strange := bytes.Clone(s.sent["refresh"]), stranger.pair(t, h.id)
		id := s.pair.ID()
		s.set(func() { s.answer.Enrolment = &evil })
		for name, swap := range map[string]func(reply []byte) []byte{
			"nobody": func([]byte) []byte { return bytes.Clone(forged) },
			"a stranger": func([]byte) []byte {
				data, _, err := strange.Seal(frame.Enrolment, time.Now(), s.question, forged)
				if err != nil {
					t.Error(err)
				}
				copy(data[2:], id[:])
				return data
			},
			"a server, once":                 func([]byte) []byte { return bytes.Clone(recorded) },
			"a server, as something else":    func([]byte) []byte { return bytes.Clone(s.sent["beat"]) },
			"a server, and somebody after":   func(reply []byte) []byte { reply[len(reply)-1] ^= 1; return reply },
			"nobody, who calls it a refusal": func([]byte) []byte { return frame.Hint("have it join again") },
		} {
			s.set(func() {
				s.swap = func(verb string, reply []byte) []byte {
					if verb == "refresh" {
						return swap(reply)
					}
					return reply
				}
			})
			if err := u.refresh(context.Background()); err == nil ||
				!strings.Contains(err.Error(), "cannot trust the answer") {
				t.Errorf("sealed by %s: %v", name, err)
			}
		}
		if got := h.enrolment(); got.Digest != "second" || got.CA == evil.CA {
			t.Errorf("it goes by %q", got.Digest)
		}
	})
}

// TestBeatsHaveTheTimeOfTheFleet: a proxy that has just started learns it by its first beat, and sends another one.
func TestBeatsHaveTheTimeOfTheFleet(t *testing.T) {
	a := newAuthority(t)
	watched(t, a, joined(t, a), func(u *uplink, s *servers, _ *street) {
		if n := s.count("beat"); n != 2 || !s.times["beat"].Equal(time.Now()) {
			t.Errorf("after %d beats the last one is of %v", n, s.times["beat"])
		}
		if at := s.times["refresh"]; !at.Equal(time.Now()) {
			t.Errorf("it has asked for its enrolment at %v", at)
		}
		request := wire.RelayedJoin{Version: wire.Version, Remote: "10.0.0.1", Request: []byte("join")}
		answer, err := u.join(t.Context(), request)
		if err != nil || string(answer.Body) != "welcome" || s.relay.Remote != "10.0.0.1" ||
			string(s.relay.Request) != "join" {
			t.Errorf("a host is answered %+v, %v; the servers have %+v", answer, err, s.relay)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if at := s.times["beat"]; time.Since(at) > beatEvery {
			t.Errorf("an hour later the last beat is of %v ago", time.Since(at))
		}
	})
}

// TestAQuestionBeforeTheFirstBeat: a host may ask a proxy that has just started. The servers take no question without
// its time, so the proxy learns the time first.
func TestAQuestionBeforeTheFirstBeat(t *testing.T) {
	a := newAuthority(t)
	h := joined(t, a)
	synctest.Test(t, func(t *testing.T) {
		for kind, ask := range map[string]func(u *uplink) error{
			"join": func(u *uplink) error {
				_, err := u.join(t.Context(), wire.RelayedJoin{Version: wire.Version, Request: []byte("join")})
				return err
			},
			"refresh": func(u *uplink) error {
				_, err := u.enrolment(t.Context(), nil)
				return err
			},
		} {
			s := &servers{pair: a.pair(t, h.id), digest: "first"}
			u := newUplink(s, &street{joined: true}, h, "test", slog.New(slog.DiscardHandler))
			if err := ask(u); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if at := s.times[kind]; !at.Equal(time.Now()) {
				t.Errorf("the %s is of %v", kind, at)
			}
			s.set(func() { s.silent = true })
			if err := ask(newUplink(s, &street{joined: true}, h, "test", slog.New(slog.DiscardHandler))); err == nil {
				t.Errorf("the %s of a proxy that nobody answers succeeds", kind)
			}
		}
	})
}

// TestAChangeCountsOnce: the servers' notice counts once and near its time, and nobody else can give it.
func TestAChangeCountsOnce(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	h := joined(t, a)
	watched(t, a, h, func(u *uplink, s *servers, _ *street) {
		time.Sleep(refreshAgain) // there was no enrolment in the first answer
		synctest.Wait()
		e := h.enrolment()
		s.set(func() { s.answer = wire.RefreshAnswer{Version: wire.Version, Enrolment: &e} })
		time.Sleep(refreshAgain)
		synctest.Wait()
		asked := s.count("refresh")
		heard := func(data []byte) int {
			u.hear(bytes.Clone(data))
			synctest.Wait()
			before := asked
			asked = s.count("refresh")
			return asked - before
		}
		notice := s.change(t, time.Now())
		if n := heard(notice); n != 1 {
			t.Errorf("after the notice it has asked %d times", n)
		}
		forged := (&servers{pair: stranger.pair(t, h.id)}).change(t, time.Now())
		relabelled, id := bytes.Clone(forged), s.pair.ID()
		copy(relabelled[2:], id[:])
		for name, data := range map[string][]byte{
			"a copy": notice, "one of long ago": s.change(t, time.Now().Add(-frame.Width-time.Second)),
			"one of another fleet": forged, "one that names the keys": relabelled, "nothing": nil,
			"an answer": s.sent["beat"],
		} {
			if n := heard(data); n != 0 {
				t.Errorf("after %s it has asked %d times", name, n)
			}
		}
		if n := heard(s.change(t, time.Now())); n != 1 {
			t.Errorf("after another notice it has asked %d times", n)
		}
	})
}

// TestTheServersDoNotKnowTheProxy: their word of it, which nobody proves, is in the log once, and the proxy is not
// ready.
func TestTheServersDoNotKnowTheProxy(t *testing.T) {
	a := newAuthority(t)
	h := joined(t, a)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &servers{
			pair: a.pair(t, h.id), swap: func(string, []byte) []byte { return frame.Hint("have it join again") },
		}
		u := newUplink(s, &street{}, h, "test", slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithTimeout(t.Context(), 5*beatEvery)
		defer cancel()
		if err := u.watch(ctx); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "have it join again"); n != 1 || u.ready() == nil {
			t.Errorf("ready: %v, and its log has\n%s", u.ready(), log.String())
		}
	})
}
