package orders

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/agent/metrics"
	"drover/internal/agent/record"
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

func (d badDisk) Entries([]string) ([]record.Entry, error) { return nil, nil }

func (d badDisk) Accept([]record.Entry) (fresh, known []record.Entry, err error) {
	return nil, nil, fmt.Errorf("cannot journal operations: %w", d.err)
}

// encoded is a manifest as it comes out of its frame.
func encoded(t *testing.T, m wire.Manifest) []byte {
	t.Helper()
	body, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// newIntake returns an intake whose newest message was issued now.
func newIntake(disk Disk, now time.Time) *Intake {
	log := slog.New(slog.DiscardHandler)
	wall := func() time.Time { return now }
	reports := report.New(report.Config{LinkState: uplink.NewLinkState(log), Wall: wall, Log: log})
	return New(Config{
		Disk: disk, Tracker: NewTracker(reports, func() time.Duration { return 0 }), Newest: now,
		Note: func(time.Time) error { return nil }, Wall: wall, Clock: func() time.Duration { return 0 },
		Metrics: metrics.New("test"), Log: log,
	})
}

// TestOrdersThatCannotBeJournalled: a full disk is a clear refusal; one that may have the orders all the same is
// answered with nothing, so that they are sent again.
func TestOrdersThatCannotBeJournalled(t *testing.T) {
	now := time.Now()
	manifest := encoded(t, wire.Manifest{
		Issued: now, Expires: now.Add(time.Minute),
		Orders: []wire.Order{{Item: "1", Process: process.ID{Namespace: "ns", Name: "a"}, Op: process.Start}},
	})
	for _, c := range []struct {
		err  error
		want string // empty: no receipt
	}{
		{syscall.ENOSPC, "no space left on device"},
		{syscall.EROFS, "read-only"},
		{syscall.EIO, ""},
	} {
		reply := newIntake(badDisk{err: c.err}, now).Take(t.Context(), manifest)
		if c.want == "" {
			if reply != nil {
				t.Errorf("%v is answered with %s", c.err, reply)
			}
			continue
		}
		var r wire.Receipt
		if err := json.Unmarshal(reply, &r); err != nil || !strings.Contains(r.Error, c.want) {
			t.Errorf("%v is answered with %s (%v), want %q", c.err, reply, err, c.want)
		}
	}
}

// TestReceiptsOfWhatIsKnown: a manifest that is refused says so of its new orders only, and tells again what came of
// the others.
func TestReceiptsOfWhatIsKnown(t *testing.T) {
	now := time.Now()
	disk := oddJournal(t)
	if _, _, err := disk.Accept(commands("1", "2")); err != nil {
		t.Fatal(err)
	}
	if err := disk.Finish("1", command("1").Process, process.Outcome{Text: process.Success},
		specstore.Change{}); err != nil {
		t.Fatal(err)
	}
	manifest := encoded(t, wire.Manifest{
		Issued: now.Add(-48 * time.Hour), Expires: now,
		Orders: []wire.Order{
			{Item: "1", Op: process.Start},
			{Item: "2", Op: process.Start},
			{Item: "3", Op: process.Start},
			{Item: "4", Op: process.Query},
		},
	})
	receipt, certain := newIntake(disk, now).accept(t.Context(), manifest)
	if !certain || !slices.Equal(receipt.Accepted, []string{"1", "2"}) ||
		!strings.Contains(receipt.Error, "before the newest manifest") || len(receipt.Answers) > 0 {
		text, err := json.Marshal(receipt)
		t.Errorf("the receipt is %s (%v), certain %v", text, err, certain)
	}
}
