package report_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/wire"
)

// number is that of an event.
func number(line []byte) uint64 {
	var e process.Event
	_ = json.Unmarshal(line, &e)
	return e.Seq
}

// numbers are those of the events of reports, "-" between reports.
func numbers(reports []wire.Report) string {
	var parts []string
	for _, r := range reports {
		var all []string
		for _, line := range r.Events {
			all = append(all, fmt.Sprint(number(line)))
		}
		parts = append(parts, strings.Join(all, " "))
	}
	return strings.Join(parts, " - ")
}

// TestEventsAreToldUntilTheyAreAcknowledged, and then not any more.
func TestEventsAreToldUntilTheyAreAcknowledged(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.happen(1, 2)
		if got := numbers(r.take()); got != "1 2" || len(r.told) != 2 {
			t.Errorf("told were %s, %d are acknowledged", got, len(r.told))
		}
		for _, answer := range []func(wire.Report) (wire.ReportAck, error){
			func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") },
			func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{Error: "disk full"}, nil },
		} {
			r.answers(answer)
			r.happen(3, 3)
			r.happen(4, 4)
			pass(time.Second)
			if got := numbers(r.take()); !strings.HasSuffix(got, "3 4") || len(r.told) != 2 {
				t.Errorf("told were %s, %d are acknowledged", got, len(r.told))
			}
			r.events = nil
		}
		r.happen(3, 4)
		r.answers(accept)
		pass(time.Second)
		if got := numbers(r.take()); got != "3 4" || len(r.told) != 4 {
			t.Errorf("told were %s, %d are acknowledged", got, len(r.told))
		}
		pass(5 * time.Second)
		if got := numbers(r.take()); got != "" {
			t.Errorf("the heartbeat tells of %s", got)
		}
	})
}

// TestEventsComeLast: what is too much for one report comes in several, in its order, after all else.
func TestEventsComeLast(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		for i := range 500 {
			r.Finished(fmt.Sprintf("item-%d", i), outcome("success"))
		}
		r.known[id("a")] = process.Status{State: "running"}
		r.happen(1, 1200)
	}, func(t *testing.T, r *rig) {
		reports := r.take()
		if len(reports) != 4 || len(reports[0].Events) > 0 || len(reports[0].Observed) != 1 ||
			len(reports[1].Progress) != 1 {
			t.Fatalf("%d reports, the first with %d events", len(reports), len(reports[0].Events))
		}
		last := uint64(0)
		for i, rep := range reports {
			if n := len(rep.Progress) + len(rep.Observed) + len(rep.Events); n > 500 {
				t.Errorf("report %d has %d entries", i, n)
			}
			for _, line := range rep.Events {
				n := number(line)
				if n != last+1 {
					t.Errorf("number %d comes after %d", n, last)
				}
				last = n
			}
		}
		if last != 1200 || len(r.told) != 1200 {
			t.Errorf("%d events are told, %d acknowledged", last, len(r.told))
		}
	})
}

// TestLargeEvents: they share the bytes of a report with all else.
func TestLargeEvents(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.Finished("item", outcome(strings.Repeat("x", 150<<10)))
		for n := range uint64(4) {
			r.events = append(r.events, process.Event{Stream: "s", Seq: n + 1, Output: strings.Repeat("x", 75<<10)})
		}
	}, func(t *testing.T, r *rig) {
		if got := numbers(r.take()); got != "1 2 - 3 4" {
			t.Errorf("told were %s", got)
		}
	})
}
