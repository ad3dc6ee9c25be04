package trust_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"drover/internal/fabric"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// TestTimesOfOneHost: times that no calendar has, of one host, hide nothing of others: lists, pages and streams are
// whole.
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
		Events: lines(
			process.Event{Stream: "s", Seq: 1, At: far, Process: name, Kind: process.EventExited},
			process.Event{Stream: "s", Seq: 2, At: time.Now().UnixMilli(), Process: name, Kind: process.EventExited},
		),
		Observed: []wire.Observation{{Process: name, Status: process.Status{
			State: "running", RegisteredAt: far,
			ReportedAt: far, LastStartAt: far, NextRun: far,
		}}},
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

// TestGroupsThatAHostMakesUp: a host that says again and again that it has process groups which it should not have does
// not fill the queue of all.
func TestGroupsThatAHostMakesUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if code, errs := f.Join("evil", "127.0.0.2", f.Token(0)); code != 0 {
		t.Fatal(errs)
	}
	h := f.turn(t, "evil")
	groups := map[string]string{}
	for i := range 1000 {
		groups[fmt.Sprintf("made-up-%d", i)] = "x"
	}
	for range 10 {
		if ack := h.tell(wire.Report{Hello: &wire.Hello{
			IP: "127.0.0.2", Build: "evil",
			Groups: groups,
		}}); ack.Error != "" {
			t.Fatal(ack.Error)
		}
	}
	var rows []struct{ Targets int }
	if err := json.Unmarshal([]byte(f.CLI("audit", "--action", "restore_process_groups", "-o", "json")),
		&rows); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, row := range rows {
		sum += row.Targets
	}
	if sum == 0 || sum > 3000 {
		t.Errorf("%d orders were made for it", sum)
	}
}

// TestAnswersReachWhoHasAsked: an agent that names the inbox of another one for the answer to its report gets none, and
// the other one hears nothing of it.
func TestAnswersReachWhoHasAsked(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for name, ip := range map[string]string{"evil": "127.0.0.2", "good": "127.0.0.3"} {
		if code, errs := f.Join(name, ip, f.Token(0)); code != 0 {
			t.Fatal(errs)
		}
	}
	evil, good := f.turn(t, "evil"), f.turn(t, "good")
	inbox := fabric.InboxPrefix("0", good.public) + ".r.x"
	heard, err := good.conn.SubscribeSync(inbox)
	if err == nil {
		err = good.conn.Flush()
	}
	if err == nil { // an agent that does not listen is away
		_, err = evil.conn.SubscribeSync(wire.PingSubject(0, evil.public))
	}
	if err != nil {
		t.Fatal(err)
	}
	introduce := func() []byte {
		evil.number++
		report, err := json.Marshal(wire.Report{
			Version: wire.Version, Session: "s9", Number: evil.number,
			Hello: &wire.Hello{IP: "127.0.0.2", Build: "evil"},
		})
		if err != nil {
			t.Fatal(err)
		}
		sealed, _ := evil.seal(report)
		return sealed
	}
	if err := evil.conn.PublishRequest(evil.subject, inbox, introduce()); err != nil {
		t.Fatal(err)
	}
	f.Online(first)
	// What it asks after that is answered after that, once the first report is over.
	harness.Eventually(t, "the evil one to be answered itself", func() bool {
		_, err := evil.conn.Request(evil.subject, introduce(), time.Second)
		return err == nil
	})
	if err := good.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := heard.NextMsg(time.Millisecond); err == nil {
		t.Errorf("the other one hears %q", m.Data)
	}
}

// TestNamesOfOneHost: names and texts of a host that nobody could have given it, and of any length, are not shown to
// all others.
func TestNamesOfOneHost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if code, errs := f.Join("evil", "127.0.0.2", f.Token(0)); code != 0 {
		t.Fatal(errs)
	}
	h := f.turn(t, "evil")
	long := strings.Repeat("x", 128<<10)
	report := wire.Report{Hello: &wire.Hello{IP: "127.0.0.2", Build: long, Name: long, Policy: long}}
	for _, id := range []process.ID{
		{},
		{Namespace: "web"},
		{Namespace: "web\n", Name: "x"},
		{Namespace: "web", Name: "\x1b[2J"},
		{Namespace: "web", Name: long},
		{Namespace: "web", Name: "mine"},
	} {
		report.Observed = append(report.Observed,
			wire.Observation{Process: id, Status: process.Status{State: "running"}})
	}
	if ack := h.tell(report); ack.Error != "" {
		t.Fatal(ack.Error)
	}
	var list []struct{ Name string }
	if err := json.Unmarshal([]byte(f.CLI("ps", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Name != "mine" {
		t.Errorf("there are %d processes: %.200v", len(list), list)
	}
	if out := f.CLI("agents", "-o", "json"); len(out) > 20<<10 {
		t.Errorf("one host takes %d bytes in the list of all", len(out))
	}
	if ack := h.tell(wire.Report{Place: long}); ack.Error == "" {
		t.Error("a place of 128 KiB is remembered")
	}
}
