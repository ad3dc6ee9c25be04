package orders

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/process"
	"drover/internal/wire"
)

// TestI8_AnswersAreVerified: what the server is said to know is obeyed only if it is signed, fresh, for this agent, and
// whole. What is refused holds up nothing.
func TestI8_AnswersAreVerified(t *testing.T) {
	link := newKeys(t)
	key, stranger := link.server, mustKey(t)
	now := time.Now()
	desired := &wire.Desired{Processes: []wire.Desires{{Process: process.ID{Namespace: "ns", Name: "a"}, Revision: 1}}}
	for name, c := range map[string]struct {
		m    wire.Manifest
		by   nkeys.KeyPair
		want string
	}{
		"by a stranger":     {wire.Manifest{Agent: "me", Issued: now, Desired: desired}, stranger, "not pinned"},
		"for another agent": {wire.Manifest{Agent: "you", Issued: now, Desired: desired}, key, "another agent"},
		"of long ago": {
			wire.Manifest{Agent: "me", Issued: now.Add(-48 * time.Hour), Desired: desired},
			key,
			"before the newest",
		},
		"of something else":    {wire.Manifest{Agent: "me", Issued: now}, key, "does not mention this disk"},
		"without a spec in it": {wire.Manifest{Agent: "me", Issued: now, Desired: desired}, key, "no spec of ns/a"},
	} {
		sealed, err := wire.Seal(c.m, c.by)
		if err != nil {
			t.Fatal(err)
		}
		i := newIntake(link, nil, now)
		if again, err := i.reconcile(sealed); err == nil || again || !strings.Contains(err.Error(), c.want) {
			t.Errorf("an answer %s: %v, %v; want %q", name, again, err, c.want)
		}
		if i.Introduced(sealed) {
			t.Errorf("an answer %s has the agent introduce itself again", name)
		}
	}
	if newIntake(link, nil, now).Introduced(nil) {
		t.Error("no answer at all has the agent introduce itself again")
	}
}
