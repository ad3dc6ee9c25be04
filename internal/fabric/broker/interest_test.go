package broker_test

import (
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/fabric/broker"
	"drover/internal/pki/pkitest"
)

// listens reports whether somebody listens on a subject, as a broker knows.
func listens(t *testing.T, b *broker.Broker, subject string) bool {
	t.Helper()
	is, err := b.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	nobody := strings.Split(subject, ".")
	nobody[len(nobody)-2] = "nobody"
	return is(subject, strings.Join(nobody, "."))
}

func changes(t *testing.T, b *broker.Broker) uint64 {
	t.Helper()
	n, err := b.Changes()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestListeners: a broker knows which agents are connected to it, to another broker and to a proxy, and at once when
// they no longer are. Its number of changes tells when to look.
func TestListeners(t *testing.T) {
	k, dir := pkitest.New(t), filepath.Join(t.TempDir(), "fabric")
	first := joined(t, dir, peerTLS(t, k), k)
	second := joined(t, dir, peerTLS(t, k), k, first)
	n := newNetwork(t)
	relay, _ := n.relay(testArea)
	who, behind := issue(t, first), n.user(testArea, n.IssueAgent)
	near := dialTLS(t, first, who.Identity, trusting(t, k))
	far := n.dial(relay.URL(), behind.Identity)
	for _, c := range []struct {
		what    string
		at      *broker.Broker
		subject string
		begin   func() error
		end     func()
	}{
		{"an agent of another broker", second, orders(who.key), func() error {
			_, err := near.Serve(orders(who.key), "", 1, echo)
			return err
		}, near.Close},
		{"an agent behind a proxy", n.Broker, areaOrders(testArea, behind.key), func() error {
			_, err := far.Serve(areaOrders(testArea, behind.key), "", 1, echo)
			return err
		}, far.Close},
	} {
		before := changes(t, c.at)
		if listens(t, c.at, c.subject) {
			t.Errorf("%s listens before it does", c.what)
		}
		if err := c.begin(); err != nil {
			t.Fatal(err)
		}
		eventually(t, c.what+" to be known", func() bool { return listens(t, c.at, c.subject) })
		while := changes(t, c.at)
		if while <= before {
			t.Errorf("%s: %d changes before it listens, %d after", c.what, before, while)
		}
		c.end()
		eventually(t, c.what+" to be gone", func() bool { return !listens(t, c.at, c.subject) })
		if after := changes(t, c.at); after <= while {
			t.Errorf("%s: %d changes while it listens, %d after", c.what, while, after)
		}
	}
}
