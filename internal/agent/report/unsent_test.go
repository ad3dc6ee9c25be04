package report_test

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/report"
	"drover/internal/process"
)

// TestWhatCannotBeEncoded: a state that has no JSON is left out, an outcome is told without what came with it, all the
// rest gets there, and the log says it once.
func TestWhatCannotBeEncoded(t *testing.T) {
	odd := process.Status{State: "running", Usage: &process.Usage{CPU: math.NaN()}}
	first := process.Status{State: "stopped", Usage: &process.Usage{Mem: math.Inf(1)}}
	var log strings.Builder
	bubble(t, func(_ *testing.T, r *rig) {
		r.Reporter = report.New(report.Config{
			Link: link{r, time.Now()}, LinkState: r.linkState, Journal: r, Events: history{r}, Heartbeat: 5 * time.Second,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		r.set(id("first"), first)
	}, func(t *testing.T, r *rig) {
		if got := r.take(); len(got) != 1 || got[0].Hello == nil || len(got[0].Observed) > 0 {
			t.Errorf("introduced by %+v", got)
		}
		r.Finished("item-odd", process.Outcome{
			Text: "success", Hosted: true,
			Status: &process.Status{Instance: process.Instance{Mem: math.Inf(1)}},
		})
		r.Finished("item-well", outcome("success"))
		r.set(id("odd"), odd)
		r.set(id("well"), process.Status{State: "running"})
		pass(time.Second)
		states, outcomes := map[string]bool{}, map[string]process.Outcome{}
		for _, rep := range r.take() {
			for _, o := range rep.Observed {
				states[o.Process.Name] = true
			}
			for _, p := range rep.Progress {
				outcomes[p.Item] = *p.Outcome
			}
		}
		if states["odd"] || !states["well"] || outcomes["item-well"].Text != "success" {
			t.Errorf("told were %v and %v", states, outcomes)
		}
		if o := outcomes["item-odd"]; o.Fault != process.Failed || !o.Hosted ||
			!strings.Contains(o.Text, "cannot be told") {
			t.Errorf("told as %+v", o)
		}
		if len(r.acked) != 2 {
			t.Errorf("acknowledged were %v", r.acked)
		}
		for range 5 {
			r.Changed(id("odd"))
			pass(time.Second)
		}
		if n := strings.Count(log.String(), "ns/odd"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		r.set(id("odd"), process.Status{State: "stopped"})
		pass(0)
		if got := r.take(); len(got) == 0 || len(got[len(got)-1].Observed) != 1 ||
			got[len(got)-1].Observed[0].Status.State != "stopped" {
			t.Errorf("reports %+v", got)
		}
	})
}
