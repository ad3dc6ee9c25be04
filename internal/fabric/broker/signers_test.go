package broker_test

import (
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
)

// TestTheSignerOfProxiesIsReplaced: credentials of the former key count until it is dropped, and end then, also in the
// hands of a thief of that key.
func TestTheSignerOfProxiesIsReplaced(t *testing.T) {
	n := newNetwork(t)
	held := func(name string) nkeys.KeyPair { return heldSigner(t, n.dir, name) }
	first, second := held("proxy"), newSigner(t)
	sign := func(issue nkeys.KeyPair, others ...nkeys.KeyPair) {
		t.Helper()
		if err := n.SetSigners(broker.Signers{
			Agents: issuers(t, held("agent")), Proxies: issuers(t, issue, others...), Servers: issuers(t, held("server")),
		}); err != nil {
			t.Fatal(err)
		}
	}
	old, stolen := n.relay(3)
	eventually(t, "the proxy to be joined", old.Joined)
	sign(first, second)
	sign(second, first)
	late := n.relayAs(stolen) // it was away
	renewed, _ := n.relay(3)
	eventually(t, "a proxy with a former credential to be joined", late.Joined)
	eventually(t, "a proxy with a present credential to be joined", renewed.Joined)
	late.Shutdown()
	if !old.Joined() {
		t.Error("a former credential ended before its key was dropped")
	}
	sign(second)
	eventually(t, "the former credential to end", func() bool { return !old.Joined() })
	thief := n.relayAs(stolen)
	agent := n.user(3, n.IssueAgent)
	n.reported(3)
	absent(t, n.dial(thief.URL(), agent.Identity), areaReports(3, agent.key))
	if thief.Joined() || !renewed.Joined() {
		t.Errorf("joined with a credential of the dropped key: %v, of the present key: %v", thief.Joined(), renewed.Joined())
	}
}

// TestTheSignerOfServersIsReplaced: a server stays on the fabric, and a thief of the former key does not.
func TestTheSignerOfServersIsReplaced(t *testing.T) {
	n := newNetwork(t)
	first, second := heldSigner(t, n.dir, "server"), newSigner(t)
	sign := func(issue nkeys.KeyPair, others ...nkeys.KeyPair) {
		t.Helper()
		if err := n.SetSigners(broker.Signers{
			Agents: issuers(t, heldSigner(t, n.dir, "agent")), Proxies: issuers(t, heldSigner(t, n.dir, "proxy")),
			Servers: issuers(t, issue, others...),
		}); err != nil {
			t.Fatal(err)
		}
	}
	account, err := broker.AccountName(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	agent := n.user(testArea, n.IssueAgent)
	there := n.dial(n.URL(), agent.Identity)
	if _, err := there.Serve(areaOrders(testArea, agent.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	own, err := fabric.Dial(t.Context(), fabric.DialConfig{
		Broker: n.Broker, Identity: n.ServerIdentity(), Token: func() string { return n.ServerIdentity().JWT },
		Name: "own", Log: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	thief := n.dial(n.URL(), serverBy(t, first, account))
	reaches(t, thief, areaOrders(testArea, agent.key))
	sign(first, second)
	sign(second, first)
	reaches(t, own, areaOrders(testArea, agent.key))
	reaches(t, thief, areaOrders(testArea, agent.key))
	sign(second)
	eventually(t, "the thief to be cut off", func() bool { return !thief.Connected() })
	reaches(t, own, areaOrders(testArea, agent.key))
	if n.dial(n.URL(), serverBy(t, first, account)).Connected() {
		t.Error("a credential of the dropped key counts")
	}
	if !there.Connected() {
		t.Error("the agent was cut off")
	}
}

// TestTheSignerOfServersIsReplacedOutside: external brokers that know the next key from their configuration go on when
// it signs the account. When they know the former key no more, it gives nobody a place.
func TestTheSignerOfServersIsReplacedOutside(t *testing.T) {
	o := startOutside(t, 2)
	o.whole()
	first, second := heldSigner(t, o.keys.Dir, "server"), newSigner(t)
	account, err := broker.AccountName(o.keys.Dir)
	if err != nil {
		t.Fatal(err)
	}
	x := o.server()
	a := o.agent(x, 1)
	if _, err := a.Serve(orders(a.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	sign := func(issue nkeys.KeyPair, others ...nkeys.KeyPair) {
		t.Helper()
		o.keys.Signers = broker.Signers{
			Agents: issuers(t, heldSigner(t, o.keys.Dir, "agent")), Proxies: issuers(t, heldSigner(t, o.keys.Dir, "proxy")),
			Servers: issuers(t, issue, others...),
		}
		o.keys.Operators = others
		if err := x.SetSigners(o.keys.Signers); err != nil {
			t.Fatal(err)
		}
	}
	thief := o.dial(serverBy(t, first, account), 0)
	reaches(t, thief, orders(a.key))
	sign(first, second)
	o.reconfigure()
	sign(second, first)
	reaches(t, o.dial(o.server().ServerIdentity(), 0), orders(a.key))
	reaches(t, thief, orders(a.key))
	o.reconfigure()
	sign(second)
	o.reconfigure()
	late := o.server()
	s := o.dial(late.ServerIdentity(), 0)
	reaches(t, s, orders(a.key))
	eventually(t, "the thief to be cut off", func() bool { return !thief.Connected() })
	eventually(t, "a credential of the dropped key not to count", func() bool {
		return !o.dial(serverBy(t, first, account), 1).Connected()
	})
	for _, by := range []*broker.External{x, late} { // both reach the system account of the brokers
		b := o.agent(x, 0)
		eventually(t, "another agent to be let in", b.Connected)
		if err := by.Revoke(b.key); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the agent to be cut off", func() bool { return !b.Connected() })
	}
}

// heldSigner is the key in a directory that issues the credentials of a role.
func heldSigner(t *testing.T, dir, role string) nkeys.KeyPair {
	t.Helper()
	key, err := fabric.LoadOrCreateKey(filepath.Join(dir, role+"-signer.nk"), nkeys.PrefixByteAccount)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newSigner(t *testing.T) nkeys.KeyPair {
	t.Helper()
	key, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func issuers(t *testing.T, issue nkeys.KeyPair, others ...nkeys.KeyPair) broker.Issuers {
	t.Helper()
	by := broker.Issuers{Issue: issue}
	for _, key := range others {
		public, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		by.Others = append(by.Others, public)
	}
	return by
}

// serverBy is a user with every right, by a signer.
func serverBy(t *testing.T, signer nkeys.KeyPair, account string) fabric.Identity {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(public)
	claims.IssuerAccount = account
	token, err := claims.Encode(signer)
	if err != nil {
		t.Fatal(err)
	}
	return fabric.Identity{JWT: token, Key: user, Area: fabric.ServerArea}
}
