package trust_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/wire"
)

// TestTimesOfOneHost: times that no calendar has, of one host, hide nothing of others: lists, pages and streams are whole.
func TestTimesOfOneHost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.JoinAndStart("good", "127.0.0.3", 0)
	p, _ := f.daemon("p")
	f.Want(0, f.Operate(p, 0, second))
	if code, errs := f.Join("evil", "127.0.0.2", f.Token(0)); code != 0 {
		t.Fatal(errs)
	}
	h := f.turn(t, "evil")
	name := process.ID{Namespace: "web", Name: "mine"}
	far := int64(math.MaxInt64)
	ack := h.tell(wire.Report{
		At: far, Hello: &wire.Hello{IP: "127.0.0.2", Build: "evil", Started: far},
		Events: []process.Event{
			{Stream: "s", Seq: 1, At: far, Process: name, Kind: process.EventExited},
			{Stream: "s", Seq: 2, At: time.Now().UnixMilli(), Process: name, Kind: process.EventExited},
		},
		Observed: []wire.Observation{{Process: name, Status: process.Status{State: "running", RegisteredAt: far, ReportedAt: far, LastStartAt: far, NextRun: far}}},
	})
	if ack.Error != "" {
		t.Fatal(ack.Error)
	}
	for _, c := range [][]string{{"agents"}, {"events"}, {"events", "--host", second}, {"ps"}, {"ps", "-o", "wide"}} {
		out := f.CLI(append(c, "-o", "json")...)
		t.Logf("%v: %d bytes", c, len(out))
		if !strings.Contains(out, "127.0.0.3") {
			t.Errorf("%v shows\n%.2000s", c, out)
		}
	}
}
