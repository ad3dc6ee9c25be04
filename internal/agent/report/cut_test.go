package report_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/wire"
)

// TestCut: what is too much for one report comes in several, one after the other, states first.
func TestCut(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		for i := range 1300 {
			r.Finished(fmt.Sprintf("item-%d", i), outcome("success"))
		}
		for i := range 700 {
			r.Began(fmt.Sprintf("begun-%d", i), time.Minute)
			r.known[id(fmt.Sprint(i))] = process.Status{State: "running"}
		}
		pass(tellAfter)
	}, func(t *testing.T, r *rig) {
		items, processes := map[string]bool{}, map[string]bool{}
		order := 0
		reports := r.take()
		for i, rep := range reports {
			if n := len(rep.Progress) + len(rep.Observed); n > 500 {
				t.Errorf("report %d has %d entries", i, n)
			}
			if (rep.Hello != nil) != (i == 0) {
				t.Errorf("report %d: hello is %v", i, rep.Hello)
			}
			for _, o := range rep.Observed {
				if processes[o.Process.Name] {
					t.Errorf("%s is told twice", o.Process.Name)
				}
				processes[o.Process.Name] = true
			}
			for _, p := range rep.Progress {
				if items[p.Item] {
					t.Errorf("%s is told twice", p.Item)
				}
				items[p.Item] = true
				if p.Outcome == nil {
					continue
				}
				if len(processes) < 700 {
					t.Fatalf("an outcome comes when %d of 700 states are told", len(processes))
				}
				if want := fmt.Sprintf("item-%d", order); p.Item != want {
					t.Fatalf("outcome %s comes when it is the turn of %s", p.Item, want)
				}
				order++
			}
		}
		if len(items) != 2000 || len(processes) != 700 || len(reports) != 6 {
			t.Errorf("%d items and %d processes in %d reports, all at once", len(items), len(processes), len(reports))
		}
		if len(r.acked) != 1300 {
			t.Errorf("%d outcomes are acknowledged", len(r.acked))
		}
	})
}

// TestCutBetweenOutcomesAndTheRest: a report that is just full of outcomes is followed by one with the rest.
func TestCutBetweenOutcomesAndTheRest(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		for i := range 500 {
			r.Finished(fmt.Sprintf("item-%d", i), outcome("success"))
		}
		r.Began("begun", time.Minute)
		pass(tellAfter)
	}, func(t *testing.T, r *rig) {
		if got := r.take(); len(got) != 2 || len(got[1].Progress) != 1 || got[1].Progress[0].Item != "begun" {
			t.Errorf("%d reports: the rest waits for the next heartbeat", len(got))
		}
	})
}

// TestCutBySize: large entries never add up to more than a message may hold, however they are written.
func TestCutBySize(t *testing.T) {
	nasty := strings.Repeat("<\x01&\"", 16<<10) // 64 KiB that grow when they are encoded
	bubble(t, func(_ *testing.T, r *rig) {
		for i := range 20 {
			r.Finished(fmt.Sprintf("item-%d", i), outcome(nasty))
			r.Finished(fmt.Sprintf("query-%d", i), process.Outcome{Text: process.Success, Status: &process.Status{
				Message: nasty, Instance: process.Instance{PID: 1, Cmdline: nasty},
			}})
			r.known[id(fmt.Sprint(i))] = process.Status{Message: nasty, Instance: process.Instance{Cmdline: nasty}}
		}
	}, func(t *testing.T, r *rig) {
		largest := 0
		for _, n := range r.sizes {
			largest = max(largest, n)
		}
		items, processes := 0, 0
		for _, rep := range r.take() {
			items += len(rep.Progress)
			processes += len(rep.Observed)
		}
		if largest > wire.MaxReport {
			t.Errorf("the largest report has %d bytes, more than %d", largest, wire.MaxReport)
		}
		if items != 40 || processes != 20 {
			t.Errorf("%d items and %d processes are told", items, processes)
		}
	})
}

// TestFailureInTheMiddle: a report that does not arrive is made again, and those before it are not.
func TestFailureInTheMiddle(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		for i := range 1000 {
			r.known[id(fmt.Sprint(i))] = process.Status{State: "running"}
		}
		n := 0
		r.answers(func(wire.Report) (wire.ReportAck, error) {
			if n++; n == 2 {
				return wire.ReportAck{}, errors.New("link lost")
			}
			return wire.ReportAck{}, nil
		})
	}, func(t *testing.T, r *rig) {
		pass(time.Second)
		told := map[string]int{}
		reports := r.take()
		for i, rep := range reports {
			if i == 1 {
				continue // it did not arrive
			}
			for _, o := range rep.Observed {
				told[o.Process.Name]++
			}
		}
		if len(reports) != 3 || len(told) != 1000 {
			t.Errorf("%d reports tell of %d processes", len(reports), len(told))
		}
		for name, n := range told {
			if n != 1 {
				t.Errorf("%s is told %d times", name, n)
			}
		}
	})
}
