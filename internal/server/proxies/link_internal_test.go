package proxies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/frame"
	"drover/internal/pki/pkitest"
	"drover/internal/server/dbclock"
	"drover/internal/server/pairs"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// proxySide is a proxy at the servers, with its own side of the pair.
type proxySide struct {
	*link
	t    *testing.T
	row  store.Proxy
	pair *frame.Pair
}

const fleetName = "AFLEETFLEETFLEETFLEETFLEETFLEETFLEETFLEETFLEETFLEETFLEET"

// newLink returns the servers' side of the proxies, and the proxies of these names.
func newLink(t *testing.T, names ...string) (l *link, sides []*proxySide) {
	t.Helper()
	fleet, fleetPublic := fabrictest.NewSealingKey(t)
	public, err := frame.PublicKey(fleetPublic)
	if err != nil {
		t.Fatal(err)
	}
	p := &Register{
		cfg:   Config{Authority: pkitest.New(t), Now: dbclock.Alone(time.Now).Now, Log: slog.New(slog.DiscardHandler)},
		beats: map[string]lastBeat{},
	}
	l = &link{Register: p}
	l.pairs = pairs.New(pairs.Config{
		Fleet: fleetName, Keys: func() []nkeys.KeyPair { return []nkeys.KeyPair{fleet} }, Sealing: l.sealingOf,
	})
	for _, name := range names {
		sealing, text := fabrictest.NewSealingKey(t)
		key, err := frame.PrivateKey(sealing)
		if err != nil {
			t.Fatal(err)
		}
		_, own := fabrictest.NewKey(t)
		pair, err := frame.AtMember(own, key, fleetName, public)
		if err != nil {
			t.Fatal(err)
		}
		side := &proxySide{l, t, store.Proxy{Key: own, Area: 3, Name: name, Sealing: text}, pair}
		l.list, sides = append(l.list, side.row), append(sides, side)
	}
	return l, sides
}

// seal seals a question of the proxy.
func (p *proxySide) seal(kind frame.Kind, at time.Time, body any) (data []byte, nonce frame.Nonce) {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	data, nonce, err = p.pair.Seal(kind, at, frame.Nonce{}, text)
	if err != nil {
		p.t.Fatal(err)
	}
	return data, nonce
}

// sendBeat has somebody send what is to be a heartbeat of a proxy, and returns the answer.
func (p *proxySide) sendBeat(data []byte) []byte {
	return p.serve(p.row, frame.Beat, frame.Digest, p.beat)(p.t.Context(), "", bytes.Clone(data))
}

// online reports whether the proxy seems to be online.
func (p *proxySide) online() bool {
	for _, one := range p.List() {
		if one.Key == p.row.Key {
			return one.Online
		}
	}
	return false
}

// TestWhatAProxySaysIsShort: what a proxy tells of itself, and of the hosts that ask through it, is kept as far as a
// proxy of ours tells it.
func TestWhatAProxySaysIsShort(t *testing.T) {
	l, sides := newLink(t, "one")
	p := sides[0]
	data, _ := p.seal(frame.Beat, time.Now(), wire.Beat{Version: 1, Build: strings.Repeat("x", 60<<10), Agents: 3})
	p.sendBeat(data)
	if got := l.beats[p.row.Key]; len(got.Build) > 1<<10 || got.Agents != 3 {
		t.Errorf("a build of %d bytes is kept", len(got.Build))
	}
	var remote string
	l.TakeJoins(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { remote = r.RemoteAddr }))
	long := "fe80::1%" + strings.Repeat("x", 40<<10)
	data, _ = p.seal(frame.Join, time.Now(), wire.RelayedJoin{Version: 1, Remote: long})
	p.serve(p.row, frame.Join, frame.Joined, l.join)(t.Context(), "", data)
	if remote != "[fe80::1]:0" {
		t.Errorf("the request comes from %.100q", remote)
	}
}

// TestBeats: a heartbeat is answered with the time of the fleet, and shows that its proxy is online if the proxy has
// sealed it just now.
func TestBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, sides := newLink(t, "one", "two")
		one, two := sides[0], sides[1]
		l.digest = "digest"
		data, nonce := one.seal(frame.Beat, time.Time{}, wire.Beat{Version: 1})
		head, answer, err := one.pair.Open(frame.Digest, one.sendBeat(data), nonce)
		if err != nil || !head.Time.Equal(time.Now()) || !strings.Contains(string(answer), `"digest":"digest"`) {
			t.Errorf("a beat without a time is answered %+v %s, %v", head, answer, err)
		}
		if one.online() {
			t.Error("a beat without a time shows that the proxy is online")
		}
		recorded, _ := one.seal(frame.Beat, time.Now(), wire.Beat{Version: 1})
		if one.sendBeat(recorded); !one.online() || two.online() {
			t.Errorf("after a beat of the first one: %v, %v", one.online(), two.online())
		}
		earlier, _ := one.seal(frame.Beat, time.Now().Add(-proxyAwayAfter), wire.Beat{Version: 1})
		if one.sendBeat(earlier); !one.online() {
			t.Error("after an earlier beat that was held back the proxy seems to be away")
		}
		held, _ := one.seal(frame.Beat, time.Now().Add(time.Second), wire.Beat{Version: 1})
		time.Sleep(proxyAwayAfter + time.Second) // it counts by the time when it was sealed
		for name, data := range map[string][]byte{"a copy": recorded, "one that was held back": held} {
			if one.sendBeat(data); one.online() {
				t.Errorf("after %s the proxy seems to be online", name)
			}
		}
		ahead, _ := one.seal(frame.Beat, time.Now().Add(frame.Width+time.Second), wire.Beat{Version: 1})
		if one.sendBeat(ahead); one.online() {
			t.Error("after a beat of later the proxy seems to be online")
		}
		// With one key in hand nobody speaks for another proxy.
		now, _ := one.seal(frame.Beat, time.Now(), wire.Beat{Version: 1})
		forged, id := bytes.Clone(now), frame.PairID(mustSeal(t, two)[2:6])
		copy(forged[2:], id[:])
		for name, data := range map[string][]byte{
			"of another proxy": now, "of another proxy, relabelled": forged, "in the clear": []byte(`{"version":1}`),
			"nothing": nil,
		} {
			if reply := two.sendBeat(data); two.online() || len(reply) > 0 && !isHint(reply) {
				t.Errorf("a beat %s is answered %q; the proxy seems to be online: %v", name, reply, two.online())
			}
		}
	})
}

func mustSeal(t *testing.T, p *proxySide) []byte {
	t.Helper()
	data, _ := p.seal(frame.Beat, time.Now(), wire.Beat{Version: 1})
	return data
}

func isHint(data []byte) bool {
	_, err := frame.Read(data)
	return errors.As(err, new(*frame.HintError))
}

// TestABeatAfterTheClockWasSetBack counts, although the last one is of later.
func TestABeatAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, sides := newLink(t, "one")
		one := sides[0]
		l.beats[one.row.Key] = lastBeat{at: time.Now().Add(time.Hour)}
		one.sendBeat(mustSeal(t, one))
		if got := l.beats[one.row.Key].at; !got.Equal(time.Now()) {
			t.Errorf("the last one is of %v", got)
		}
	})
}

// TestQuestionsOfAProxyAreRecent: what somebody has kept asks for nothing, and so does what asks for something else.
func TestQuestionsOfAProxyAreRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, sides := newLink(t, "one")
		p, asked := sides[0], 0
		l.TakeJoins(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
		join := func(data []byte) []byte {
			return p.serve(p.row, frame.Join, frame.Joined, l.join)(t.Context(), "", bytes.Clone(data))
		}
		data, nonce := p.seal(frame.Join, time.Now(), wire.RelayedJoin{Version: 1, Remote: "10.0.0.1"})
		if _, _, err := p.pair.Open(frame.Joined, join(data), nonce); err != nil || asked != 1 {
			t.Errorf("answered with %v, %d requests", err, asked)
		}
		time.Sleep(frame.Width + time.Second)
		never, _ := p.seal(frame.Join, time.Time{}, wire.RelayedJoin{Version: 1, Remote: "10.0.0.1"})
		other, _ := p.seal(frame.Refresh, time.Now(), wire.RelayedJoin{Version: 1, Remote: "10.0.0.1"})
		other[1] = byte(frame.Join)
		for name, data := range map[string][]byte{"a copy": data, "one without a time": never, "another question": other} {
			if reply := join(data); len(reply) > 0 && !isHint(reply) || asked != 1 {
				t.Errorf("%s is answered %q, %d requests", name, reply, asked)
			}
		}
		refresh := l.serve(p.row, frame.Refresh, frame.Enrolment, l.refresh)
		old, _ := p.seal(frame.Refresh, time.Now().Add(-frame.Width-time.Second), wire.RefreshRequest{Version: 1})
		if reply := refresh(t.Context(), "", old); !isHint(reply) || asked != 1 {
			t.Errorf("an old question for the enrolment is answered %q", reply)
		}
	})
}

// TestAProxyThatJoinedAgain: the server answers a proxy by its present row, although it subscribed with an earlier one.
func TestAProxyThatJoinedAgain(t *testing.T) {
	t.Parallel()
	l, sides := newLink(t, "one")
	p := sides[0]
	var name string
	answer := l.serve(p.row, frame.Refresh, frame.Enrolment, func(_ context.Context, q question) (any, error) {
		name = q.from.Name
		return wire.RefreshAnswer{}, nil
	})
	l.list[0].Name = "another"
	data, _ := p.seal(frame.Refresh, time.Now(), wire.RefreshRequest{Version: 1})
	if answer(t.Context(), "", data); name != "another" {
		t.Errorf("the proxy is %q, want %q", name, "another")
	}
}

// readFails is a database that takes changes, and then does not show its proxies.
type readFails struct{ Store }

func (readFails) RemoveProxy(context.Context, string, time.Time) error { return nil }

func (readFails) UseProxyToken(context.Context, store.Proxy, func(store.JoinToken, bool) error) error {
	return nil
}

func (readFails) ListProxies(context.Context) ([]store.Proxy, error) { return nil, context.Canceled }

// TestAChangeCountsAfterAFailedRead: a caller that hangs up after the change is stored does not keep the change from
// the broker, from other servers and from the proxies.
func TestAChangeCountsAfterAFailedRead(t *testing.T) {
	t.Parallel()
	l, sides := newLink(t, "one")
	var told []string
	l.cfg.Store, l.cfg.Admitted = readFails{}, func(key string) { told = append(told, key) }
	l.changed = make(chan struct{}, 1)
	for name, change := range map[string]func() error{
		"removal": func() error { return l.Remove(t.Context(), sides[0].row.Key, time.Now()) },
		"joining": func() error { return l.Admit(t.Context(), sides[0].row, nil) },
	} {
		told = nil
		if err := change(); err != nil {
			t.Errorf("a %s fails with %v", name, err)
		}
		if len(told) != 1 || told[0] != sides[0].row.Key {
			t.Errorf("other servers hear of %q after a %s", told, name)
		}
		select {
		case <-l.changed:
		default:
			t.Errorf("nobody reads again after a %s", name)
		}
	}
}

// sharesHubs is a database of several servers, which counts the exchanges of addresses.
type sharesHubs struct {
	Store
	exchanges int
}

func (*sharesHubs) Shared() bool { return true }

func (s *sharesHubs) ShareHubs(_ context.Context, own []string, _ time.Duration) ([]string, error) {
	s.exchanges++
	return own, nil
}

// TestAddressesAreExchangedAfterTheClockWasSetBack: servers exchange their addresses every hubsEvery, and also after
// the clock of the fleet was set back.
func TestAddressesAreExchangedAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	db, now := &sharesHubs{}, time.Unix(1_800_000_000, 0)
	p := &Register{cfg: Config{
		Store: db, Addresses: func() []string { return []string{"x:1"} }, Now: func() time.Time { return now },
	}}
	for i, after := range []time.Duration{0, hubsEvery / 2, hubsEvery, -24 * time.Hour, hubsEvery / 2} {
		now = now.Add(after)
		if err := p.share(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 1, 2, 3, 3}[i]; db.exchanges != want {
			t.Errorf("after %v more there are %d exchanges, want %d", after, db.exchanges, want)
		}
	}
}
