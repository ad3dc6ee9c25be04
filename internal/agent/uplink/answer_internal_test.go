package uplink

import (
	"context"
	"crypto/ecdh"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
	"drover/internal/wire"
)

// fleetSide plays the servers of one agent.
type fleetSide struct {
	t    *testing.T
	link *Link
	// keys are the fleet's, and names their public halves. The agent trusts the keys that trusts names.
	keys  []*ecdh.PrivateKey
	names []string
	agent *ecdh.PublicKey
	taken []string
}

// fleetKey makes a sealing key of the fleet, at the side of the servers.
func fleetKey(t *testing.T) (private *ecdh.PrivateKey, public string) {
	t.Helper()
	pair, public := fabrictest.NewSealingKey(t)
	private, err := frame.PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

// newFleetSide returns an agent that the servers have accepted, and whose fleet has two keys.
func newFleetSide(t *testing.T) *fleetSide {
	t.Helper()
	own, _ := fabrictest.NewSealingKey(t)
	key, err := frame.PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	f := &fleetSide{t: t, agent: key.PublicKey()}
	for range 2 {
		private, public := fleetKey(t)
		f.keys, f.names = append(f.keys, private), append(f.names, public)
	}
	log, begun := slog.New(slog.DiscardHandler), time.Now()
	name := "U" + strings.Repeat("AGENT", 11)
	seed, err := own.Seed()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := frame.NewKeys(name, seed, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	f.link = &Link{
		LinkState: NewLinkState(log), key: name, sealing: keys, log: log,
		clock: frame.NewClock(func() time.Duration { return time.Since(begun) }), trust: &trust{},
	}
	f.trusts(0, 1)
	f.link.Connected()
	return f
}

// trusts has the agent trust these keys.
func (f *fleetSide) trusts(keys ...int) {
	e := wire.Enrolment{Fleet: "A" + strings.Repeat("FLEET", 11)}
	for _, k := range keys {
		e.SealingKeys = append(e.SealingKeys, f.names[k])
	}
	f.link.trust.enrolment = enrolment{Enrolment: e}
}

// accept has the servers accept the agent, at their time.
func (f *fleetSide) accept(at time.Time) {
	f.link.BeginReport()
	f.link.Accepted(false)
	f.link.clock.Set(at, f.link.clock.Reading())
}

func (f *fleetSide) pair(key int) *frame.Pair {
	f.t.Helper()
	pair, err := frame.AtFleet(f.link.trust.current().Fleet, f.keys[key], f.link.key, f.agent)
	if err != nil {
		f.t.Fatal(err)
	}
	return pair
}

// seal seals orders with a key of the fleet.
func (f *fleetSide) seal(key int, at time.Time, kind frame.Kind, body string) (data []byte, nonce frame.Nonce) {
	f.t.Helper()
	data, nonce, err := f.pair(key).Seal(kind, at, frame.Nonce{}, []byte(body))
	if err != nil {
		f.t.Fatal(err)
	}
	return data, nonce
}

// send hands a frame over as orders, as often as a broker wants. It returns what comes back.
func (f *fleetSide) send(data []byte) []byte {
	return f.link.answer(f.t.Context(), frame.Orders, frame.Receipt, append([]byte(nil), data...),
		func(_ context.Context, body []byte) []byte {
			f.taken = append(f.taken, string(body))
			return []byte("receipt of " + string(body))
		})
}

// refused wants a hint with that text, and nothing taken.
func (f *fleetSide) refused(what string, data []byte, want string) {
	f.t.Helper()
	taken := len(f.taken)
	_, err := frame.Read(f.send(data))
	if _, hint := errors.AsType[*frame.HintError](err); !hint || !strings.Contains(err.Error(), want) {
		f.t.Errorf("%s is answered with %v, want a hint with %q", what, err, want)
	}
	if len(f.taken) != taken {
		f.t.Errorf("%s is taken", what)
	}
}

// TestOrdersAreOpened: orders of every key that the agent trusts are taken once, and the answer is for them alone.
func TestOrdersAreOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetSide(t)
		f.accept(time.Now())
		for _, key := range []int{0, 1, 0} {
			data, nonce := f.seal(key, time.Now(), frame.Orders, "do")
			_, receipt, err := f.pair(key).Open(frame.Receipt, f.send(data), nonce)
			if err != nil || string(receipt) != "receipt of do" {
				t.Errorf("by key %d: %q, %v", key, receipt, err)
			}
			f.refused("the same frame again", data, "copy of an earlier frame")
		}
		if len(f.taken) != 3 {
			t.Errorf("%d were taken", len(f.taken))
		}
		f.trusts(1)
		dropped, _ := f.seal(0, time.Now(), frame.Orders, "do")
		f.refused("a frame of a key that was dropped", dropped, "another pair")
	})
}

// TestOrdersThatAreRefused: nobody but the servers commands the agent, not later, and not with another kind of message.
func TestOrdersThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetSide(t)
		early, _ := f.seal(0, time.Now(), frame.Orders, "do")
		time.Sleep(2 * time.Second)
		f.accept(time.Now())
		f.refused("what was sealed before the first report", early, "too long ago")
		question, _ := f.seal(0, time.Now(), frame.Question, "tell")
		f.refused("a question", question, "frame of another kind")
		stranger := newFleetSide(t)
		foreign, _ := stranger.seal(0, time.Now(), frame.Orders, "do")
		f.refused("a frame of another fleet", foreign, "another pair")
		held, _ := f.seal(0, time.Now(), frame.Orders, "do")
		relabelled := append([]byte(nil), foreign...)
		copy(relabelled[2:6], held[2:6])
		f.refused("a frame of another fleet under this one's name", relabelled, "forged frame")
		changed := append([]byte(nil), held...)
		changed[len(changed)-1] ^= 1
		f.refused("a changed frame", changed, "forged frame")
		timeless, _ := f.seal(0, time.Time{}, frame.Orders, "do")
		f.refused("a frame without a time", timeless, "too long ago")
		f.refused("nothing", nil, "not a frame")
		f.refused("what was an order once", []byte(`{"orders":[]}`), "not a frame")
		time.Sleep(frame.Width + time.Second)
		f.refused("a frame that was held", held, "too long ago")
	})
}

// TestOrdersBeforeTheAnswer: a server sends orders as soon as an agent has introduced itself, perhaps before it seals
// the answer.
func TestOrdersBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetSide(t)
		asked := f.link.clock.Reading()
		data, _ := f.seal(0, time.Now(), frame.Orders, "do")
		time.Sleep(3 * time.Second)
		f.link.BeginReport()
		f.link.Accepted(false)
		f.link.clock.Set(time.Now(), asked)
		if f.send(data); len(f.taken) != 1 {
			t.Error("they are refused")
		}
	})
}

// TestNoOrdersBeforeTheIntroduction: what comes before the server has accepted the agent is not even read.
func TestNoOrdersBeforeTheIntroduction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetSide(t)
		f.link.clock.Set(time.Now(), f.link.clock.Reading())
		data, _ := f.seal(0, time.Now(), frame.Orders, "do")
		if reply := f.send(data); reply != nil || len(f.taken) > 0 {
			t.Errorf("it is answered with %q", reply)
		}
	})
}

// TestNoAnswer: what the handler cannot answer has the server send it again.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetSide(t)
		f.accept(time.Now())
		data, _ := f.seal(0, time.Now(), frame.Orders, "do")
		if reply := f.link.answer(t.Context(), frame.Orders, frame.Receipt, data, func(context.Context, []byte) []byte {
			return nil
		}); reply != nil {
			t.Errorf("it is answered with %q", reply)
		}
	})
}

// TestPings: only the agent answers a ping of its servers, also before they have accepted it. An answer is for one
// ping. The agent reports after a ping, and once only, however often somebody resends it.
func TestPings(t *testing.T) {
	f := newFleetSide(t)
	pinged := 0
	answer := func(data []byte) []byte { return f.link.here(data, func() { pinged++ }) }
	for key := range f.keys {
		ping, nonce := f.seal(key, time.Now(), frame.Ping, "")
		here := answer(ping)
		_, other := f.seal(key, time.Now(), frame.Ping, "")
		again := append([]byte(nil), here...)
		if _, _, err := f.pair(key).Open(frame.Here, again, other); !errors.Is(err, frame.ErrForged) {
			t.Errorf("it answers another ping, too: %v", err)
		}
		if _, _, err := f.pair(key).Open(frame.Here, here, nonce); err != nil {
			t.Error(err)
		}
	}
	order, _ := f.seal(0, time.Now(), frame.Orders, "do")
	for name, data := range map[string][]byte{"nothing": nil, "the old form": []byte("here"), "orders": order} {
		if _, err := frame.Read(answer(data)); !errors.As(err, new(*frame.HintError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if pinged > 0 {
		t.Errorf("it reports %d times before it knows the time of the fleet, or for what is no ping", pinged)
	}
	f.accept(time.Now())
	ping, _ := f.seal(0, time.Now(), frame.Ping, "")
	for range 3 {
		answer(ping)
	}
	if pinged != 1 {
		t.Errorf("it reports %d times for one ping", pinged)
	}
}

// TestReportsHaveATime: servers take no report without their time. An agent that does not know it asks first.
func TestReportsHaveATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetSide(t)
		f.trusts(0)
		type report struct {
			at   time.Time
			body string
		}
		var got []report
		servers := func(_ context.Context, sealed []byte) ([]byte, error) {
			head, body, err := f.pair(0).Open(frame.Report, sealed, frame.Nonce{})
			if err != nil {
				return nil, err
			}
			got = append(got, report{head.Time, string(body)})
			answer, _, err := f.pair(0).Seal(frame.Ack, time.Now(), head.Nonce, []byte("answer to "+string(body)))
			return answer, err
		}
		begun := time.Now()
		for _, body := range []string{"hello", "news"} {
			answer, err := f.link.exchange(t.Context(), servers, []byte(body))
			if err != nil || string(answer) != "answer to "+body {
				t.Errorf("%s is answered with %q, %v", body, answer, err)
			}
			time.Sleep(time.Second)
		}
		for i, want := range []report{{time.Time{}, ""}, {begun, "hello"}, {begun.Add(time.Second), "news"}} {
			if len(got) != 3 || got[i].body != want.body || !got[i].at.Equal(want.at) {
				t.Fatalf("reports are %v, the one at %d should be %v", got, i, want)
			}
		}
		lost := errors.New("lost")
		f.link.clock = frame.NewClock(f.link.clock.Reading)
		if _, err := f.link.exchange(t.Context(), func(context.Context, []byte) ([]byte, error) {
			return nil, lost
		}, []byte("hello")); !errors.Is(err, lost) {
			t.Errorf("without an answer: %v", err)
		}
	})
}
