package broker_test

import (
	"path/filepath"
	"testing"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
)

// TestTheSignerOfProxiesIsReplaced: credentials of the former key count until it is dropped, and end then, also in the
// hands of a thief of that key.
func TestTheSignerOfProxiesIsReplaced(t *testing.T) {
	n := newNetwork(t)
	held := func(name string) nkeys.KeyPair {
		t.Helper()
		key, err := fabric.LoadOrCreateKey(filepath.Join(n.dir, name+"-signer.nk"), nkeys.PrefixByteAccount)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	second, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	first := held("proxy")
	sign := func(issue nkeys.KeyPair, others ...nkeys.KeyPair) {
		t.Helper()
		by := broker.Issuers{Issue: issue}
		for _, key := range others {
			public, err := key.PublicKey()
			if err != nil {
				t.Fatal(err)
			}
			by.Others = append(by.Others, public)
		}
		if err := n.SetSigners(broker.Signers{Agents: broker.Issuers{Issue: held("agent")}, Proxies: by}); err != nil {
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
