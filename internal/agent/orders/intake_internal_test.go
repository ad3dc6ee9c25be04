package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/agent/metrics"
	"drover/internal/agent/report"
	"drover/internal/agent/specstore"
	"drover/internal/agent/uplink"
	"drover/internal/process"
	"drover/internal/wire"
)

// badDisk journals nothing.
type badDisk struct {
	Disk
	err error
}

func (d badDisk) Known([]string) ([]specstore.Entry, error) { return nil, nil }

func (d badDisk) Accept([]specstore.Entry) (fresh, known []specstore.Entry, err error) {
	return nil, nil, fmt.Errorf("cannot journal operations: %w", d.err)
}

// keys are an agent's Link to a server that the test plays: the keys of both.
type keys struct{ server, agent nkeys.KeyPair }

func newKeys(t *testing.T) keys {
	t.Helper()
	own, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	return keys{server: mustKey(t), agent: own}
}

func mustKey(t *testing.T) nkeys.KeyPair {
	t.Helper()
	key, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func public(t *testing.T, key nkeys.KeyPair) string {
	t.Helper()
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func (k keys) AwaitOrders(context.Context, time.Duration) bool { return true }

func (k keys) OpenManifest(sealed []byte) (*wire.Manifest, error) {
	pinned, err := k.server.PublicKey()
	if err != nil {
		return nil, err
	}
	return wire.Open(sealed, []string{pinned}, "me")
}

func (k keys) SealReceipt(receipt, manifest []byte) ([]byte, error) {
	return wire.SealReceipt(receipt, manifest, k.agent)
}

// newIntake returns an intake whose newest message was issued now.
func newIntake(link Link, disk Disk, now time.Time) *Intake {
	log := slog.New(slog.DiscardHandler)
	wall := func() time.Time { return now }
	reports := report.New(report.Config{Standing: uplink.NewStanding(log), Wall: wall, Log: log})
	return New(Config{
		Link: link, Disk: disk, Tracker: NewTracker(reports, func() time.Duration { return 0 }), Newest: now,
		Note: func(time.Time) error { return nil }, Wall: wall, Clock: func() time.Duration { return 0 },
		Metrics: metrics.New("test"), Log: log,
	})
}

// TestOrdersThatCannotBeJournalled: a full disk is a clear refusal; one that may have the orders all the same is
// answered with nothing, so that they are sent again.
func TestOrdersThatCannotBeJournalled(t *testing.T) {
	link := newKeys(t)
	now := time.Now()
	sealed, err := wire.Seal(wire.Manifest{
		Agent: "me", Issued: now, Expires: now.Add(time.Minute),
		Orders: []wire.Order{{Item: "1", Process: process.ID{Namespace: "ns", Name: "a"}, Op: process.Start}},
	}, link.server)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string // empty: no receipt
	}{
		{syscall.ENOSPC, "no space left on device"},
		{syscall.EROFS, "read-only"},
		{syscall.EIO, ""},
	} {
		reply := newIntake(link, badDisk{err: c.err}, now).Take(t.Context(), sealed)
		if c.want == "" {
			if reply != nil {
				t.Errorf("%v is answered with %s", c.err, reply)
			}
			continue
		}
		var r wire.Receipt
		if reply, err = wire.OpenReceipt(reply, sealed, public(t, link.agent)); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(reply, &r); err != nil || !strings.Contains(r.Error, c.want) {
			t.Errorf("%v is answered with %s (%v), want %q", c.err, reply, err, c.want)
		}
	}
}

// deaf is a link over which the server has not accepted the agent.
type deaf struct{ Link }

func (deaf) AwaitOrders(context.Context, time.Duration) bool { return false }

// TestNoOrdersBeforeTheIntroduction: what comes before the server has accepted the agent is not even read.
func TestNoOrdersBeforeTheIntroduction(t *testing.T) {
	if reply := newIntake(deaf{}, nil, time.Now()).Take(t.Context(), []byte("x")); reply != nil {
		t.Errorf("it is answered with %s", reply)
	}
}

// TestReceiptsOfWhatIsKnown: a manifest that is refused says so of its new orders only, and tells again what came of
// the others.
func TestReceiptsOfWhatIsKnown(t *testing.T) {
	link := newKeys(t)
	now := time.Now()
	disk := oddJournal(t)
	if _, _, err := disk.Accept(commands("1", "2")); err != nil {
		t.Fatal(err)
	}
	if err := disk.Finish("1", command("1").Process, process.Outcome{Text: process.Success},
		specstore.Change{}); err != nil {
		t.Fatal(err)
	}
	sealed, err := wire.Seal(wire.Manifest{
		Agent: "me", Issued: now.Add(-48 * time.Hour), Expires: now,
		Orders: []wire.Order{
			{Item: "1", Op: process.Start},
			{Item: "2", Op: process.Start},
			{Item: "3", Op: process.Start},
			{Item: "4", Op: process.Query},
		},
	}, link.server)
	if err != nil {
		t.Fatal(err)
	}
	receipt, certain := newIntake(link, disk, now).accept(t.Context(), sealed)
	if !certain || !slices.Equal(receipt.Accepted, []string{"1", "2"}) ||
		!strings.Contains(receipt.Error, "before the newest manifest") || len(receipt.Answers) > 0 {
		text, err := json.Marshal(receipt)
		t.Errorf("the receipt is %s (%v), certain %v", text, err, certain)
	}
}
