package enrol_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric/fabrictest"
	"drover/internal/server/enrol"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// register is the one of proxies, over the store.
type register struct{ store store.Store }

func (r register) Admit(ctx context.Context, p store.Proxy, check func(store.JoinToken, bool) error) error {
	return r.store.UseProxyToken(ctx, p, check)
}

func (r register) Remove(ctx context.Context, key string, at time.Time) error {
	return r.store.RemoveProxy(ctx, key, at)
}

func (r register) Issue(p store.Proxy, certificate []byte) (wire.ProxyEnrolment, error) {
	if string(certificate) != "request" {
		return wire.ProxyEnrolment{}, errors.New("cannot certify a proxy")
	}
	return wire.ProxyEnrolment{Area: p.Area, Name: p.Name}, nil
}

// roleToken makes a token of a role for area 3.
func (r *rig) roleToken(role store.Role) wire.JoinToken {
	r.t.Helper()
	made, text, err := r.NewToken(r.t.Context(), store.JoinToken{Role: role, Cloud: 3, Uses: 9}, time.Hour)
	if err != nil || made.Role != role {
		r.t.Fatal(made, err)
	}
	token, err := wire.ParseJoinToken(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// joinAs asks to join as a proxy, through a relay where there is one, after change has had its way.
func (r *rig) joinAs(token wire.JoinToken, key nkeys.KeyPair, relay *enrol.Relay,
	change func(*wire.JoinRequest),
) (any, enrol.Attempt, error) {
	r.t.Helper()
	request := wire.JoinRequest{
		Token: token.ID, Secret: token.Secret, At: r.now, Build: "test", Sealing: r.sealing,
		Proxy: &wire.ProxyFacts{Name: "dmz-1", Advertise: "10.1.0.2:7351", Certificate: []byte("request")},
	}
	if change != nil {
		change(&request)
	}
	data, err := wire.SealJoin(request, key)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.Enroller.Join(context.Background(), data, enrol.Origin{Remote: "192.0.2.1", Relay: relay})
}

func TestProxiesJoin(t *testing.T) {
	r := newRig(t)
	r.Proxies = register{r.store}
	key, public := fabrictest.NewKey(t)
	token := r.roleToken(store.RoleProxy)
	answer, attempt, err := r.joinAs(token, key, nil, nil)
	if e, ok := answer.(wire.ProxyEnrolment); err != nil || !ok || e.Area != 3 || e.Name != "dmz-1" {
		t.Fatalf("answered %+v, %v", answer, err)
	}
	if !attempt.Proxy || attempt.Name != "dmz-1" || attempt.Key != public || attempt.Via != "" || *attempt.Cloud != 3 {
		t.Errorf("recorded as %+v", attempt)
	}
	if _, _, err := r.joinAs(token, key, nil, nil); err != nil { // its answer was lost
		t.Error(err)
	}
	list, err := r.store.ListProxies(t.Context())
	if err != nil || len(list) != 1 || list[0].Key != public || list[0].Area != 3 ||
		list[0].Advertise != "10.1.0.2:7351" || list[0].Sealing != r.sealing {
		t.Errorf("proxies are %+v, %v", list, err)
	}
	if err := r.RemoveProxy(t.Context(), public); err != nil {
		t.Error(err)
	}
	if err := r.RemoveProxy(t.Context(), public); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if !slices.Contains(r.broker, "revoke "+public) {
		t.Errorf("the broker was told %q", r.broker)
	}
}

func TestProxiesRefused(t *testing.T) {
	r := newRig(t)
	r.Proxies = register{r.store}
	key, _ := fabrictest.NewKey(t)
	other, _ := fabrictest.NewKey(t)
	proxies, agents := r.roleToken(store.RoleProxy), r.roleToken(store.RoleAgent)
	if _, _, err := r.joinAs(proxies, other, nil, func(q *wire.JoinRequest) { q.Proxy.Name = "taken" }); err != nil {
		t.Fatal(err)
	}
	agent := func(q *wire.JoinRequest) { q.Proxy, q.IP = nil, "10.0.0.1" }
	facts := func(change func(p *wire.ProxyFacts)) func(*wire.JoinRequest) {
		return func(q *wire.JoinRequest) { change(q.Proxy) }
	}
	for name, c := range map[string]struct {
		token  wire.JoinToken
		relay  *enrol.Relay
		change func(*wire.JoinRequest)
		reason enrol.Reason
		words  string
	}{
		"an agent's token":        {agents, nil, nil, enrol.Unfit, "the token is for agents"},
		"an agent with a proxy's": {proxies, nil, agent, enrol.Unfit, "the token is for a proxy"},
		"through a proxy":         {proxies, &enrol.Relay{Area: 3}, nil, enrol.Unfit, "joins the server itself"},
		"an agent of another area": {
			agents, &enrol.Relay{Area: 4, Key: "U"}, agent, enrol.Unfit,
			"for area 3, and this proxy serves area 4",
		},
		"a taken name": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Name = "taken" }),
			enrol.Taken, `another proxy has the name "taken"`,
		},
		"no name": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Name = "" }), enrol.Unfit,
			"--name",
		},
		"a strange name": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Name = "a b" }), enrol.Unfit,
			"--name",
		},
		"no address": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Advertise = "" }),
			enrol.Unfit, "--advertise",
		},
		"no port": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Advertise = "x:0" }),
			enrol.Unfit, "--advertise",
		},
		"a port of zeros": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Advertise = "x:00" }),
			enrol.Unfit, "--advertise",
		},
		"every address": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Advertise = "0.0.0.0:7351" }),
			enrol.Unfit, "--advertise",
		},
		"a URL": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Advertise = "tls://x:1" }),
			enrol.Unfit, "--advertise",
		},
		"two addresses": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Advertise = "a,b:1" }),
			enrol.Unfit, "--advertise",
		},
		"no certificate to be issued": {
			proxies, nil, facts(func(p *wire.ProxyFacts) { p.Certificate = nil }),
			enrol.Unfit, "cannot certify",
		},
		"no sealing key": {
			proxies, nil, func(q *wire.JoinRequest) { q.Sealing = "" },
			enrol.Malformed, "has no sealing key",
		},
		"a clock that is far off": {
			proxies, nil, func(q *wire.JoinRequest) { q.At = r.now.Add(time.Hour) },
			enrol.Unfit, "ahead of the server's",
		},
		"a secret that is not its own": {
			proxies, nil, func(q *wire.JoinRequest) { q.Secret = agents.Secret },
			enrol.NoToken, "does not know the token",
		},
	} {
		_, attempt, err := r.joinAs(c.token, key, c.relay, c.change)
		refusal, ok := errors.AsType[*enrol.Refusal](err)
		if !ok || refusal.Reason != c.reason || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want an error about %q", name, err, c.words)
		}
		if c.relay != nil && attempt.Via != c.relay.Key {
			t.Errorf("%s: recorded as %+v", name, attempt)
		}
	}
	list, err := r.store.ListProxies(t.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("proxies are %+v, %v", list, err)
	}
	// In its own area a host is let in through a proxy.
	if answer, attempt, err := r.joinAs(agents, key, &enrol.Relay{Area: 3, Key: "U"}, agent); err != nil ||
		attempt.Via != "U" {
		t.Errorf("answered %+v, %+v, %v", answer, attempt, err)
	}
}

// TestRemovedProxiesStayOut: the key of a proxy that was removed gets in as nothing else, and its credential counts no
// more.
func TestRemovedProxiesStayOut(t *testing.T) {
	r := newRig(t)
	r.Proxies = register{r.store}
	proxy, public := fabrictest.NewKey(t)
	agent, _ := fabrictest.NewKey(t)
	proxies, agents := r.roleToken(store.RoleProxy), r.roleToken(store.RoleAgent)
	if _, _, err := r.joinAs(proxies, proxy, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveProxy(t.Context(), public); err != nil {
		t.Fatal(err)
	}
	r.broker = nil
	_, _, err := r.join(agents, proxy, nil)
	r.refused(err, enrol.Taken, "belonged to a proxy: make a new identity")
	if _, there := r.fleet.ByKey(public); there || len(r.broker) > 0 {
		t.Errorf("it is there: %v, the broker was told %q", there, r.broker)
	}
	if _, _, err := r.join(agents, agent, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.joinAs(proxies, agent, nil, nil)
	r.refused(err, enrol.Taken, "belonged to an agent")
	if _, _, err := r.joinAs(proxies, proxy, nil, nil); err != nil || !slices.Contains(r.broker, "restore "+public) {
		t.Errorf("in its own area it is let in again: %v, the broker was told %q", err, r.broker)
	}
}

// TestProxiesSlowDownTheirOwn: a proxy that makes up addresses shuts out nobody who comes by another way.
func TestProxiesSlowDownTheirOwn(t *testing.T) {
	r := newRig(t)
	key, _ := fabrictest.NewKey(t)
	agents := r.roleToken(store.RoleAgent)
	agent := func(q *wire.JoinRequest) { q.Proxy, q.IP = nil, "10.0.0.1" }
	wrong := func(q *wire.JoinRequest) { agent(q); q.Secret = "x" }
	one, other := &enrol.Relay{Area: 3, Key: "U1"}, &enrol.Relay{Area: 3, Key: "U2"}
	for range 20 {
		_, _, err := r.joinAs(agents, key, one, wrong)
		r.refused(err, enrol.NoToken, "")
	}
	_, _, err := r.joinAs(agents, key, one, agent)
	r.refused(err, enrol.TooOften, "")
	for name, relay := range map[string]*enrol.Relay{"itself": nil, "through another proxy": other} {
		if _, _, err := r.joinAs(agents, key, relay, agent); err != nil {
			t.Errorf("one that comes %s: %v", name, err)
		}
	}
}

// TestIDsOfOtherAreas: the refusal says what to do.
func TestIDsOfOtherAreas(t *testing.T) {
	r := newRig(t)
	if err := r.store.PutAgent(t.Context(), store.Agent{Key: "A", Cloud: 4, IP: "10.0.0.1", ID: "web-1"}); err != nil {
		t.Fatal(err)
	}
	if err := r.fleet.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	key, _ := fabrictest.NewKey(t)
	_, _, err := r.join(r.token(1), key, func(q *wire.JoinRequest) { q.ID = "web-1" })
	r.refused(err, enrol.Taken, `id "web-1" belongs to an agent of another area`)
}
