package limits_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/test/harness"
)

// history asks what a process has used.
func (d *daemon) history(s *harness.Server, last string) v1.UsageHistory {
	d.t.Helper()
	var h v1.UsageHistory
	status, body := s.Do("GET", "/api/v1/processes/"+d.Namespace+"/"+d.Name+"/hosts/"+harness.Agent+"/usage?last="+last, nil)
	if status != 200 {
		d.t.Fatalf("HTTP %d: %v", status, body)
	}
	text, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return h
}

// TestUsageHistory: the history of a process shows the memory that the process takes, and its restart. It survives a
// restart of the agent, and begins anew after the death of the agent, which touches no process.
func TestUsageHistory(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover, "--limit-interval", "1s")
	d := run(t, s, "usage", "grows", "hog-mem", func(*harness.Process) {}, "-delay", "12s", "-mb", fmt.Sprint(hogMiB))
	large := func(step v1.UsageStep) bool { return step.Memory >= hogMiB<<20 }
	small := func(step v1.UsageStep) bool { return step.Memory > 0 && step.Memory < hogMiB<<20/4 }
	restarted := func(step v1.UsageStep) bool { return step.Restarted }

	harness.Eventually(t, "the history to show the growth", func() bool {
		steps := d.history(s, v1.UsageQuarter).Steps
		i := slices.IndexFunc(steps, small)
		return i >= 0 && slices.ContainsFunc(steps[i:], large) && !slices.ContainsFunc(steps, restarted)
	})
	harness.Signal(t, harness.ReadPID(t, d.dir+"/oddd.pid"), syscall.SIGKILL)
	d.awaitStarts(2)
	harness.Eventually(t, "the history to show the restart and the fall", func() bool {
		steps := d.history(s, v1.UsageQuarter).Steps
		i := slices.IndexFunc(steps, restarted)
		return i >= 0 && slices.ContainsFunc(steps[i:], small)
	})
	pid := harness.ReadPID(t, d.dir+"/oddd.pid")
	before := d.history(s, v1.UsageHour)
	if day := d.history(s, v1.UsageDay); before.Step != 30 || day.Step != 300 || len(before.Steps) == 0 ||
		!slices.ContainsFunc(day.Steps, large) {
		t.Errorf("an hour: %+v\na day: %+v", before, day)
	}

	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	s.Run()
	harness.Eventually(t, "the agent to answer again", func() bool { return d.history(s, v1.UsageHour).Problem == "" })
	after := d.history(s, v1.UsageHour)
	if len(after.Steps) < len(before.Steps) || after.Steps[0].Memory != before.Steps[0].Memory ||
		after.Steps[0].At.Sub(before.Steps[0].At).Abs() > time.Second || !slices.ContainsFunc(after.Steps, restarted) {
		t.Errorf("after a restart of the agent: %+v\nwant %+v", after, before)
	}

	s.Kill()
	s.Run()
	var anew []v1.UsageStep
	harness.Eventually(t, "the next agent to begin a history", func() bool {
		anew = d.history(s, v1.UsageHour).Steps
		return len(anew) > 0
	})
	if slices.ContainsFunc(anew, restarted) {
		t.Errorf("the history of a killed agent is there: %+v", anew)
	}
	if got := harness.ReadPID(t, d.dir+"/oddd.pid"); got != pid || !harness.Alive(pid) {
		t.Errorf("pid %d runs, want %d still", got, pid)
	}
}
