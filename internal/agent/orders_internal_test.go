package agent

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/agent/metrics"
	"drover/internal/agent/specstore"
	"drover/internal/fabric"
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

// fresh admits what is issued now.
func fresh(now time.Time) *freshness {
	return &freshness{note: func(time.Time) error { return nil }, newest: now, noted: now}
}

// TestOrdersThatCannotBeJournalled: a full disk is a clear refusal; one that may have the orders all the same is
// answered with nothing, so that they are sent again.
func TestOrdersThatCannotBeJournalled(t *testing.T) {
	key := mustKey(t)
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	own, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	ownPublic, err := own.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	sealed, err := wire.Seal(wire.Manifest{
		Agent: "me", Issued: now, Expires: now.Add(time.Minute),
		Orders: []wire.Order{{Item: "1", Process: process.ID{Namespace: "ns", Name: "a"}, Op: process.Start}},
	}, key)
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
		log := slog.New(slog.DiscardHandler)
		a := &Agent{
			cfg: Config{Log: log}, key: "me",
			trust: &trust{key: "me", enrolment: enrolment{Enrolment: wire.Enrolment{ManifestKeys: []string{public}}}},
			wall:  func() time.Time { return now },
			uplink: uplink{
				acceptance: newAcceptance("here"),
				dial:       fabric.DialConfig{Identity: fabric.Identity{Key: own}},
			},
			metrics: metrics.New("test"),
		}
		a.intake = newOrderIntake(badDisk{err: c.err}, fresh(now))
		a.acceptance.accept()
		reply := a.handleOrders(t.Context(), sealed)
		if c.want == "" {
			if reply != nil {
				t.Errorf("%v is answered with %s", c.err, reply)
			}
			continue
		}
		var r wire.Receipt
		if reply, err = wire.OpenReceipt(reply, sealed, ownPublic); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(reply, &r); err != nil || !strings.Contains(r.Error, c.want) {
			t.Errorf("%v is answered with %s (%v), want %q", c.err, reply, err, c.want)
		}
	}
}
