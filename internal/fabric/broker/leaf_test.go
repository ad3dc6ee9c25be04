package broker_test

import (
	"path/filepath"
	"testing"

	"drover/internal/fabric/broker"
	"drover/internal/fabric/fabrictest"
	"drover/internal/pki/pkitest"
)

// leaf connects to the hub as a proxy that somebody has taken over.
func (n *network) leaf(id credential, name string) *fabrictest.Leaf {
	n.t.Helper()
	account, err := broker.AccountName(n.dir)
	if err != nil {
		n.t.Fatal(err)
	}
	return fabrictest.DialLeaf(n.t, n.config.Leaves, trusting(n.t, n.manager), id.Identity, name, account)
}

// TestWildcardsPretendNobody: a subscription with wildcards has no agent seem to be connected, also where the broker
// takes it from a proxy of another area. The server itself may listen to all.
func TestWildcardsPretendNobody(t *testing.T) {
	n := newNetwork(t)
	there, away := n.user(testArea, n.IssueAgent), n.user(testArea, n.IssueAgent)
	agent := n.dial(n.URL(), there.Identity)
	if _, err := agent.Serve(areaOrders(testArea, there.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	thief := n.user(testArea+1, n.IssueProxy)
	for _, c := range []struct {
		who  string
		tell func(subject string) (stop func())
	}{
		{"a proxy of another area", func(subject string) func() {
			l := n.leaf(thief, "evil")
			l.Say("LS+ " + subject)
			return l.Close
		}},
		{"a server", func(subject string) func() {
			stop, err := n.dial(n.URL(), n.ServerIdentity()).Serve(subject, "", 1, echo)
			if err != nil {
				t.Fatal(err)
			}
			return stop
		}},
	} {
		for _, subject := range []string{"test.*.agent.*.orders", ">"} {
			before := changes(t, n.Broker)
			stop := c.tell(subject)
			eventually(t, "the subscription", func() bool { return changes(t, n.Broker) > before })
			if listens(t, n.Broker, areaOrders(testArea, away.key)) {
				t.Errorf("%s, %s: an agent that is away seems to be connected", c.who, subject)
			}
			if !listens(t, n.Broker, areaOrders(testArea, there.key)) {
				t.Errorf("%s, %s: an agent that is connected seems to be away", c.who, subject)
			}
			while := changes(t, n.Broker)
			stop()
			eventually(t, "the end of the subscription", func() bool { return changes(t, n.Broker) > while })
		}
	}
}

// TestAProxyCannotTakeThePlaceOfAnother: whoever has a proxy of one area, and knows the public key of another, does not
// end the connection of that one.
func TestAProxyCannotTakeThePlaceOfAnother(t *testing.T) {
	n := newNetwork(t)
	relay, own := n.relay(testArea)
	eventually(t, "the relay to join", relay.Joined)
	behind := n.user(testArea, n.IssueAgent)
	agent := n.dial(relay.URL(), behind.Identity)
	if _, err := agent.Serve(areaOrders(testArea, behind.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent to be known", func() bool { return listens(t, n.Broker, areaOrders(testArea, behind.key)) })
	before := changes(t, n.Broker)
	thief := n.leaf(n.user(testArea+1, n.IssueProxy), "proxy-"+own.key)
	thief.Say("LS+ test.6.agent.x")
	eventually(t, "the thief to be connected", func() bool { return changes(t, n.Broker) > before })
	if !relay.Joined() || !listens(t, n.Broker, areaOrders(testArea, behind.key)) {
		t.Error("the relay has lost its connection")
	}
}

// TestWildcardsHideNoOtherBroker: beside a subscription with wildcards, an agent of another broker of the cluster is
// still known.
func TestWildcardsHideNoOtherBroker(t *testing.T) {
	k, dir := pkitest.New(t), filepath.Join(t.TempDir(), "fabric")
	first := joined(t, dir, peerTLS(t, k), k)
	second := joined(t, dir, peerTLS(t, k), k, first)
	who, away := issue(t, first), issue(t, first)
	agent := dialTLS(t, first, who.Identity, trusting(t, k))
	if _, err := agent.Serve(orders(who.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other broker to know the agent", func() bool { return listens(t, second, orders(who.key)) })
	for _, at := range []*broker.Broker{first, second} {
		stop, err := dialTLS(t, at, at.ServerIdentity(), trusting(t, k)).Serve("test.agent.>", "", 1, echo)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		eventually(t, "the agent that is away to be unknown", func() bool { return !listens(t, second, orders(away.key)) })
		if !listens(t, second, orders(who.key)) {
			t.Error("an agent of the other broker seems to be away")
		}
	}
}
