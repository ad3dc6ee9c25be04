package enrol_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/process"
	"drover/internal/server/enrol"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/wire"
)

const finger = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// rig is a desk over a real database, with a clock of its own and a broker that takes notes.
type rig struct {
	*enrol.Enroller
	t      *testing.T
	store  store.Store
	fleet  *fleet.Directory
	now    time.Time
	broker []string
	woken  int
	// sealing is the sealing key of every host that asks.
	sealing string
}

func (r *rig) Revoke(key string) error  { r.broker = append(r.broker, "revoke "+key); return nil }
func (r *rig) Restore(key string) error { r.broker = append(r.broker, "restore "+key); return nil }

func newRig(t *testing.T) *rig {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := &rig{t: t, store: s, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	_, r.sealing = fabrictest.NewSealingKey(t)
	r.fleet = fleet.New(s, r.now.Add(-time.Hour))
	r.Enroller = enrol.New(enrol.Config{
		Store: s, Directory: r.fleet, Broker: r, Fingerprint: func(store.JoinToken) string { return finger },
		Now: func() time.Time { return r.now }, Happened: func() { r.woken++ },
		Issue: func(a store.Agent) (wire.Enrolment, error) {
			return wire.Enrolment{JWT: "jwt of " + a.Key, Cloud: a.Cloud, IP: a.IP, ID: a.ID}, nil
		},
	})
	return r
}

// token makes a token.
func (r *rig) token(uses int) wire.JoinToken {
	r.t.Helper()
	return r.make(store.JoinToken{Cloud: 3, Uses: uses, Labels: map[string]string{"role": "web"}, Business: 7})
}

// tokenFor makes a token for the host of an agent.
func (r *rig) tokenFor(key string) wire.JoinToken {
	r.t.Helper()
	return r.make(store.JoinToken{Cloud: 3, Uses: 1, Replaces: key})
}

func (r *rig) make(t store.JoinToken) wire.JoinToken {
	r.t.Helper()
	_, text, err := r.NewToken(r.t.Context(), t, time.Hour)
	if err != nil {
		r.t.Fatal(err)
	}
	token, err := wire.ParseJoinToken(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// join asks to join, after change has had its way with a request that is all right.
func (r *rig) join(token wire.JoinToken, key nkeys.KeyPair,
	change func(*wire.JoinRequest),
) (wire.Enrolment, enrol.Attempt, error) {
	r.t.Helper()
	request := wire.JoinRequest{
		Token: token.ID, Secret: token.Secret, At: r.now, IP: "10.0.0.1", Name: "web-1",
		Build: "test", Sealing: r.sealing,
	}
	if change != nil {
		change(&request)
	}
	data, err := wire.SealJoin(request, key)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, attempt, err := r.Enroller.Join(context.Background(), data, enrol.Origin{Remote: "192.0.2.1"})
	e, _ := answer.(wire.Enrolment) // nil for who is refused
	return e, attempt, err
}

// refused fails the test unless the error is a refusal for the reason, with the words.
func (r *rig) refused(err error, reason enrol.Reason, words string) {
	r.t.Helper()
	refusal, ok := errors.AsType[*enrol.Refusal](err)
	if !ok || refusal.Reason != reason || !strings.Contains(refusal.Text, words) {
		r.t.Errorf("error is %v, want one of reason %d about %q", err, reason, words)
	}
}

// TestTheSealingKey is in the register, and a host without one is refused.
func TestTheSealingKey(t *testing.T) {
	r := newRig(t)
	token := r.token(2)
	key, public := fabrictest.NewKey(t)
	_, _, err := r.join(token, key, func(q *wire.JoinRequest) { q.Sealing = "" })
	r.refused(err, enrol.Malformed, "has no sealing key")
	_, _, err = r.join(token, key, func(q *wire.JoinRequest) { q.Sealing = public })
	r.refused(err, enrol.Malformed, "is not a public key of X25519")
	for range 2 { // a host that joins again may bring another key
		_, r.sealing = fabrictest.NewSealingKey(t)
		if _, _, err = r.join(token, key, nil); err != nil {
			t.Fatal(err)
		}
		agents, err := r.store.GetAgents(t.Context(), []string{public})
		if err != nil || len(agents) != 1 || agents[0].Sealing != r.sealing {
			t.Errorf("the register has %+v, %v, expected the key %s", agents, err, r.sealing)
		}
	}
}

func TestJoin(t *testing.T) {
	r := newRig(t)
	token := r.token(1)
	if token.Fingerprint != finger {
		t.Errorf("the token is of %s", token.Fingerprint)
	}
	key, public := fabrictest.NewKey(t)
	got, attempt, err := r.join(token, key, func(q *wire.JoinRequest) { q.ID = "web-1" })
	if err != nil {
		t.Fatal(err)
	}
	if got.JWT != "jwt of "+public || got.Cloud != 3 || got.IP != "10.0.0.1" || got.ID != "web-1" {
		t.Errorf("it got %+v", got)
	}
	if attempt.Key != public || attempt.Token != token.ID || attempt.Cloud == nil || *attempt.Cloud != 3 ||
		attempt.Name != "web-1" {
		t.Errorf("the record is of %+v", attempt)
	}
	a, ok := r.fleet.LookupID("web-1")
	if !ok || a.Key != public || a.Labels["role"] != "web" || a.Business != 7 || a.Token != token.ID ||
		!a.Created.Equal(r.now) {
		t.Errorf("the register has %+v", a)
	}
	r.fleet.RecordMessage(public, r.now)
	if _, _, err := r.join(token, key, func(q *wire.JoinRequest) {
		q.ID, q.IP = "web-1", "::ffff:10.0.0.1"
	}); err != nil {
		t.Errorf("the answer was lost, and a second request is refused: %v", err)
	}
	for _, rename := range []func(q *wire.JoinRequest){
		func(q *wire.JoinRequest) { q.ID = "web-2" },
		func(q *wire.JoinRequest) { q.ID, q.IP = "web-1", "10.0.0.9" },
	} {
		_, _, err := r.join(token, key, rename)
		r.refused(err, enrol.Ended, "is used up")
	}
	other, _ := fabrictest.NewKey(t)
	_, _, err = r.join(token, other, func(q *wire.JoinRequest) { q.IP = "10.0.0.2" })
	r.refused(err, enrol.Ended, "is used up: it was valid for 1: make another one")
	if kept, err := r.store.GetJoinToken(t.Context(), token.ID); err != nil || kept.Used != 1 ||
		strings.Contains(kept.Hash, token.Secret) {
		t.Errorf("kept is %+v, %v", kept, err)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	token := r.token(9)
	key, _ := fabrictest.NewKey(t)
	holder, holderKey := fabrictest.NewKey(t)
	if _, _, err := r.join(token, holder, func(q *wire.JoinRequest) { q.IP = "10.0.0.9" }); err != nil {
		t.Fatal(err)
	}
	r.fleet.RecordMessage(holderKey, r.now)
	for _, c := range []struct {
		name   string
		change func(*wire.JoinRequest)
		reason enrol.Reason
		words  string
	}{
		{
			"another secret", func(q *wire.JoinRequest) { q.Secret = strings.Repeat("x", 26) }, enrol.NoToken,
			"does not know the token",
		},
		{"no secret", func(q *wire.JoinRequest) { q.Secret = "" }, enrol.NoToken, "does not know the token"},
		{"an unknown token", func(q *wire.JoinRequest) { q.Token = "none" }, enrol.NoToken, "does not know the token"},
		{"neither", func(q *wire.JoinRequest) { q.Token, q.Secret = "", "" }, enrol.NoToken, "does not know the token"},
		{
			"a clock ahead", func(q *wire.JoinRequest) { q.At = q.At.Add(time.Hour) }, enrol.Unfit,
			"is 1h0m0s ahead of the server's",
		},
		{
			"a clock behind", func(q *wire.JoinRequest) { q.At = q.At.Add(-11 * time.Minute) }, enrol.Unfit,
			"is 11m0s behind the server's",
		},
		{"an id that is a pattern", func(q *wire.JoinRequest) { q.ID = "web-*" }, enrol.Unfit, "is not the id of a host"},
		{"an id that stands for one letter", func(q *wire.JoinRequest) { q.ID = "web-?" }, enrol.Unfit, "is not the id of a host"},
		{"no address", func(q *wire.JoinRequest) { q.IP = "web-1" }, enrol.Unfit, "not an IP address"},
		{"a long id", func(q *wire.JoinRequest) { q.ID = strings.Repeat("x", 65) }, enrol.Unfit, "--id"},
		{"a blank id", func(q *wire.JoinRequest) { q.ID = "a b" }, enrol.Unfit, "--id"},
		{
			"an id that reads as an address", func(q *wire.JoinRequest) { q.ID = "0:10.0.0.1" }, enrol.Unfit,
			`--id "0:10.0.0.1" reads as the address of another host than 3:`,
		},
		{
			"the address of another", func(q *wire.JoinRequest) { q.IP = "10.0.0.9" }, enrol.Taken,
			"3:10.0.0.9 belongs to another agent, which is online",
		},
	} {
		_, attempt, err := r.join(token, key, c.change)
		r.refused(err, c.reason, c.words)
		if text := fmt.Sprintf("%+v %v", attempt, err); strings.Contains(text, token.Secret) ||
			strings.Contains(text, "xxxxxxxxxxxxxxxxxxxxxxxxxx") && c.name == "another secret" {
			t.Errorf("%s: the record tells the secret: %s", c.name, text)
		}
	}
	if kept, err := r.store.GetJoinToken(t.Context(), token.ID); err != nil || kept.Used != 1 {
		t.Errorf("refusals were counted: %+v, %v", kept, err)
	}
	_, _, err := r.Join(t.Context(), []byte("nothing"), enrol.Origin{Remote: "192.0.2.1"})
	r.refused(err, enrol.Malformed, "cannot read the request")

	if _, err := r.store.RevokeJoinToken(t.Context(), token.ID, r.now); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.join(token, key, nil)
	r.refused(err, enrol.Ended, "was revoked on 2026-11-20T12:00:00Z")
	_, _, err = r.join(token, holder, func(q *wire.JoinRequest) { q.IP = "10.0.0.9" })
	r.refused(err, enrol.Ended, "was revoked")
	late := r.token(1)
	r.now = r.now.Add(time.Hour)
	_, _, err = r.join(late, key, nil)
	r.refused(err, enrol.Ended, "has expired on 2026-11-20T13:00:00Z")
}

func TestJoinAfterAStart(t *testing.T) {
	r := newRig(t)
	holder, public := fabrictest.NewKey(t)
	token := r.token(2)
	if _, _, err := r.join(token, holder, nil); err != nil {
		t.Fatal(err)
	}
	restarted := fleet.New(r.store, r.now)
	if err := restarted.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Directory = restarted
	key, _ := fabrictest.NewKey(t)
	token = r.tokenFor(public)
	_, _, err := r.join(token, key, nil)
	r.refused(err, enrol.NotYet, "try again in 30 s")
	r.now = r.now.Add(time.Minute)
	if _, _, err := r.join(token, key, nil); err != nil {
		t.Errorf("the other one has not come back: %v", err)
	}
}

func TestStrangersAreSlowedDown(t *testing.T) {
	r := newRig(t)
	token := r.token(1)
	key, _ := fabrictest.NewKey(t)
	wrong := func(q *wire.JoinRequest) { q.Secret = strings.Repeat("y", 26) }
	for range 20 {
		_, _, err := r.join(token, key, wrong)
		r.refused(err, enrol.NoToken, "")
	}
	_, _, err := r.join(token, key, nil)
	r.refused(err, enrol.TooOften, "try again in")
	if refusal, _ := errors.AsType[*enrol.Refusal](err); refusal.Retry <= 0 || refusal.Retry > 3*time.Second {
		t.Errorf("to be tried again in %v", refusal.Retry)
	}
	_, _, err = r.Join(t.Context(), []byte("nothing"), enrol.Origin{Remote: "192.0.2.2"})
	r.refused(err, enrol.Malformed, "") // another address is not
	r.now = r.now.Add(3 * time.Second)
	if _, _, err := r.join(token, key, nil); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

func TestRemove(t *testing.T) {
	r := newRig(t)
	token := r.token(2)
	key, public := fabrictest.NewKey(t)
	if _, _, err := r.join(token, key, nil); err != nil {
		t.Fatal(err)
	}
	down := store.Observed{
		Agent: public, Process: process.ID{Namespace: "shop", Name: "down"},
		Status: process.Status{Known: true, State: process.StateGivenUp},
	}
	up := down
	up.Process.Name, up.Status.State = "up", process.StateRunning
	if err := r.store.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{down, up}, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context(), public, process.Actor{Kind: process.ActorCaller, User: "anna"}); err != nil {
		t.Fatal(err)
	}
	// The alarms of the host and of its processes end with it.
	events, _, err := r.store.EventsAfter(t.Context(), 0, store.EventFilter{}, 10)
	if err != nil || len(events) != 2 || r.woken != 1 {
		t.Fatalf("the events are %+v (woken %d): %v", events, r.woken, err)
	}
	for i, want := range []process.ID{{}, down.Process} {
		if e := events[i].Event; e.Kind != process.EventHostRemoved || e.Process != want || e.Actor.User != "anna" {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	if _, ok := r.fleet.ByKey(public); ok {
		t.Error("it is still there")
	}
	removed, err := r.store.ListRemoved(t.Context())
	if err != nil || len(removed) != 1 || removed[0] != public {
		t.Errorf("removed are %q, %v", removed, err)
	}
	if err := r.Remove(t.Context(), public, process.Actor{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if _, _, err := r.join(token, key, nil); err != nil {
		t.Errorf("it cannot join again: %v", err)
	}
	want := []string{"restore " + public, "revoke " + public, "restore " + public}
	if strings.Join(r.broker, ", ") != strings.Join(want, ", ") {
		t.Errorf("the broker was told %q, want %q", r.broker, want)
	}
	_, _, err = r.join(r.token(1), key, func(q *wire.JoinRequest) { q.At = time.Time{} })
	r.refused(err, enrol.Unfit, "clock")
}

// TestAnEmptiedHost: a new key with a token for the host of an agent that is away gets what that one had, and that one
// is refused from then on. Nobody else gets a name of that agent.
func TestAnEmptiedHost(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*wire.JoinRequest)
		replaces bool // by the token
		refused  bool
	}{
		"the same host":              {nil, true, false},
		"another id":                 {func(q *wire.JoinRequest) { q.ID = "x" }, true, false},
		"another address":            {func(q *wire.JoinRequest) { q.IP = "10.0.0.2" }, true, false},
		"a stranger":                 {nil, false, true},
		"its name, as a stranger":    {func(q *wire.JoinRequest) { q.IP, q.ID = "10.0.0.2", "id" }, false, true},
		"another spelling of it":     {func(q *wire.JoinRequest) { q.IP = "::ffff:10.0.0.1" }, false, true},
		"an address in its vicinity": {func(q *wire.JoinRequest) { q.IP = "10.0.0.10" }, false, false},
	} {
		r := newRig(t)
		token := r.token(9)
		old, oldKey := fabrictest.NewKey(t)
		if _, _, err := r.join(token, old, func(q *wire.JoinRequest) { q.ID = "id" }); err != nil {
			t.Fatal(err)
		}
		id := process.ID{Namespace: "ns", Name: "p"}
		status := process.Status{Known: true, Hosted: true, Revision: 5}
		if err := r.store.PutObserved(t.Context(), store.ReportMark{Agent: oldKey},
			[]store.Observed{{Agent: oldKey, Process: id, Status: status, Spec: &process.Spec{}}}, nil); err != nil {
			t.Fatal(err)
		}
		r.fleet.RecordMessage(oldKey, r.now)
		r.now = r.now.Add(time.Minute)
		key, public := fabrictest.NewKey(t)
		if c.replaces {
			token = r.tokenFor(oldKey)
		}
		_, attempt, err := r.join(token, key, c.change)
		if c.refused {
			r.refused(err, enrol.Taken, "join with a token of 'drover token create --replaces ")
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, _, err := r.join(token, key, c.change); err != nil { // its answer was lost
			t.Errorf("%s, again: %v", name, err)
		}
		confirmed, err := r.store.AgentConfirmed(t.Context(), public)
		if err != nil {
			t.Fatal(err)
		}
		_, there := r.fleet.ByKey(oldKey)
		removed, err := r.store.ListRemoved(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(confirmed) == 1; got != c.replaces || there == c.replaces || (len(removed) == 1) != c.replaces ||
			(attempt.Replaced == oldKey) != c.replaces {
			t.Errorf("%s: it has %+v, the old one is there: %v, removed are %q, on record is %q", name, confirmed,
				there, removed, attempt.Replaced)
		}
		if now, _ := r.fleet.ByKey(public); c.replaces && (now.Labels["role"] != "web" || now.Business != 7) {
			t.Errorf("%s: it has the labels %v and business %d", name, now.Labels, now.Business)
		}
		if revoked := slices.Contains(r.broker, "revoke "+oldKey); revoked != c.replaces {
			t.Errorf("%s: the broker was told %q", name, r.broker)
		}
	}
}

// TestOneRequestAgainAndAgain: a request to join that somebody sends again and again is answered some times, and others
// are not kept waiting.
func TestOneRequestAgainAndAgain(t *testing.T) {
	r := newRig(t)
	token := r.token(2)
	key, _ := fabrictest.NewKey(t)
	for range 20 {
		if _, _, err := r.join(token, key, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := r.join(token, key, nil)
	r.refused(err, enrol.TooOften, "this host has joined too often: try again in")
	other, _ := fabrictest.NewKey(t)
	if _, _, err := r.join(token, other, func(q *wire.JoinRequest) { q.IP = "10.0.0.2" }); err != nil {
		t.Errorf("another host is refused: %v", err)
	}
	r.now = r.now.Add(3 * time.Second)
	if _, _, err := r.join(token, key, nil); err != nil {
		t.Errorf("later it is refused: %v", err)
	}
}
