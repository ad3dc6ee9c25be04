package uplink

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/uplink/linkstate"
	"drover/internal/wire"
)

// agentLinkState is a link state with a server that the test plays.
type agentLinkState struct{ *LinkState }

func newStanding() agentLinkState { return agentLinkState{NewLinkState(slog.New(slog.DiscardHandler))} }

// accept sends an introduction, which the server accepts.
func (s agentLinkState) accept() {
	s.BeginReport()
	s.Accepted(false)
}

// TestOrdersWaitForTheStanding: an order waits for the server's acceptance over the present link, and not for ever.
func TestOrdersWaitForTheStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStanding()
		s.Connected()
		begin := time.Now()
		if s.AwaitOrders(t.Context(), 2*time.Second) || time.Since(begin) != 2*time.Second {
			t.Errorf("given after %v by nobody", time.Since(begin))
		}
		go func() {
			time.Sleep(time.Second)
			s.accept()
			s.accept()
		}()
		begin = time.Now()
		if !s.AwaitOrders(t.Context(), 2*time.Second) || time.Since(begin) != time.Second {
			t.Errorf("given after %v", time.Since(begin))
		}
		if !s.AwaitOrders(t.Context(), 0) {
			t.Error("it is given once only")
		}
		s.Outdated()
		if !s.AwaitOrders(t.Context(), 0) {
			t.Error("it is taken back while the agent introduces itself again")
		}
		for name, ends := range map[string]func(){
			"a lost link": func() { s.Lost(); s.Lost() }, "another link": s.Connected,
			"a rejection": func() { s.Rejected(wire.Stranger{Reason: "x"}) },
		} {
			s.Connected()
			s.accept()
			ends()
			if s.AwaitOrders(t.Context(), time.Millisecond) {
				t.Errorf("it outlives %s", name)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s.AwaitOrders(ctx, time.Hour) {
			t.Error("it is given when the agent stops")
		}
	})
}

// TestACopyBeginsNothing: an agent that starts and is taken for a copy waits, and as long as that is certain for ever.
func TestACopyBeginsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		certain bool
		waits   time.Duration
	}{"certain": {true, 0}, "not certain": {false, 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStanding()
			s.start()
			defer s.stop()
			s.Connected()
			s.Rejected(wire.Stranger{Reason: "x", Clone: c.certain})
			begin := time.Now()
			select {
			case <-s.Released():
				if took := time.Since(begin); c.certain || took != c.waits {
					t.Errorf("%s: it goes on after %v", name, took)
				}
			case <-time.After(time.Hour):
				if !c.certain {
					t.Errorf("%s: it waits for more than %v", name, c.waits)
				}
			}
			s.accept()
			synctest.Wait()
			select {
			case <-s.Released():
			default:
				t.Errorf("%s: it waits although the server has taken it for the one", name)
			}
		})
	}
}

// TestALinkBeforeTheStart: the wait for an answer has its limit also if the link is there before Run.
func TestALinkBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStanding()
		s.Connected()
		s.start()
		defer s.stop()
		begin := time.Now()
		<-s.Released()
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestWakingUp: a new link and an introduction that is due each wake the reports once; a report takes both.
func TestWakingUp(t *testing.T) {
	s := newStanding()
	pending := func() (due, linked int) { return len(s.IntroductionDue()), len(s.Linked()) }
	s.Connected()
	s.Connected()
	if due, linked := pending(); due != 1 || linked != 1 {
		t.Errorf("%d are due, %d links", due, linked)
	}
	if !s.BeginReport() {
		t.Error("the first report does not introduce the agent")
	}
	if due, linked := pending(); due+linked > 0 {
		t.Errorf("%d are still due, %d links", due, linked)
	}
	s.Accepted(true)
	if due, _ := pending(); due != 1 || s.Now().State != linkstate.Introduced || !s.BeginReport() {
		t.Errorf("%d are due in %+v", due, s.Now())
	}
	s.Accepted(false)
	if s.BeginReport() {
		t.Error("it introduces itself although nothing is due")
	}
	s.Outdated()
	if due, linked := pending(); due != 1 || linked != 0 || !s.BeginReport() {
		t.Errorf("%d are due, %d links, in %+v", due, linked, s.Now())
	}
}

// TestTheServersWord: the server's word ends the wait; without a link it takes five seconds, and three once there is
// one.
func TestTheServersWord(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		link, word, want time.Duration
	}{
		"at once":                 {0, 0, 0},
		"a link and a word":       {time.Second, 2 * time.Second, 2 * time.Second},
		"a link and no word":      {time.Second, never, 4 * time.Second},
		"a late link and no word": {4 * time.Second, never, 7 * time.Second},
		"no link":                 {never, never, 5 * time.Second},
		"a link that comes later": {6 * time.Second, 7 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStanding()
				began := time.Now()
				s.start()
				defer s.stop()
				time.AfterFunc(c.link, func() {
					s.Connected()
					s.Connected() // the link was lost meanwhile
				})
				time.AfterFunc(c.word, func() {
					s.accept()
					s.accept()
				})
				<-s.Released()
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				<-time.After(never)
			})
		})
	}
}

// TestTheWaitEnds with the agent that waits.
func TestTheWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStanding()
		s.start()
		s.stop()
		s.Connected()
		<-time.After(time.Hour)
		select {
		case <-s.Released():
			t.Error("an agent that stops goes on")
		default:
		}
	})
}
