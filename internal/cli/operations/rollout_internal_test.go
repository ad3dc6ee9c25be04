package operations

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
)

// rolloutOf is a rollout whose hosts have states, a batch of two after another.
func rolloutOf(states ...string) *v1.Rollout {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &v1.Rollout{ID: "ro-1", State: v1.RolloutRunning, CreatedAt: begun, Batch: -1}
	count := map[string]*int{
		v1.RolloutHostWaiting: &r.Counts.Waiting, v1.RolloutHostBegun: &r.Counts.Begun,
		v1.RolloutHostBaking: &r.Counts.Baking, v1.RolloutHostOK: &r.Counts.OK,
		v1.RolloutHostFailed: &r.Counts.Failed, v1.RolloutHostSkipped: &r.Counts.Skipped,
	}
	for i, state := range states {
		r.Hosts = append(r.Hosts, v1.RolloutHost{Host: "h", Batch: i / 2, State: state})
		r.Counts.Hosts++
		*count[state]++
		if state != v1.RolloutHostWaiting {
			r.Batch = i / 2
		}
	}
	return r
}

// TestLanes: on a terminal each batch has a bar, the rate tells when the rest is done, and a second look replaces the
// lines of the first.
func TestLanes(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&out)
	v := rolloutView{cmd: cmd, rewrite: true}
	r := rolloutOf("ok", "ok", "ok", "failed", "begun", "baking", "waiting", "waiting")
	r.Failures = []v1.RolloutFailure{{Cause: "backoff", Message: "shop/web is backoff", Hosts: []string{"a\x1b[31m"}}}
	v.show(r, r.CreatedAt.Add(2*time.Minute))
	want := []string{
		"ro-1: running, 3/8 ok, 1 failed, 2.0 hosts/min, about 2m left",
		"  batch 1    [####################] 2 ok",
		"  batch 2    [##########!!!!!!!!!!] 1 ok, 1 failed",
		"  batch 3    [==========>>>>>>>>>>] 1 baking, 1 under way",
		"  batch 4    [....................] 2 waiting",
		"  1 failed, backoff: shop/web is backoff (a?[31m)",
	}
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || got[i] != want[i] {
			t.Fatalf("line %d of %q, want %q", i, got, want)
		}
	}
	out.Reset()
	v.show(r, r.CreatedAt)
	if !strings.HasPrefix(out.String(), "\x1b[6A\r\x1b[Jro-1: ") {
		t.Errorf("the second look does not replace the first: %q", out.String())
	}
	if text := pace(r, r.CreatedAt.Add(2*time.Minute)); text != ", 2.0 hosts/min, about 2m left" {
		t.Errorf("the pace is %q", text)
	}
	if text := pace(rolloutOf("begun", "waiting"), r.CreatedAt.Add(time.Minute)); text != "" {
		t.Errorf("before the first host the pace is %q", text)
	}
}

// TestSkippedHosts: a rollout that has come to its end names the hosts that it has skipped, by cause. It does not name the
// hosts that were not needed.
func TestSkippedHosts(t *testing.T) {
	r := rolloutOf("skipped", "skipped")
	for i := range r.Hosts {
		r.Hosts[i].Cause, r.Hosts[i].Message = "away", "agent not found or offline"
	}
	want := "  2 skipped, away: agent not found or offline (h, h)"
	if r.State = "done"; !slices.Contains(rolloutLines(r), want) {
		t.Errorf("it says %q, want %q", rolloutLines(r), want)
	}
	if r.Counts.OK = 1; !slices.Contains(rolloutLines(r), want) {
		t.Errorf("with a host that is ok it says %q", rolloutLines(r))
	}
	if r.OneOf = true; slices.Contains(rolloutLines(r), want) {
		t.Errorf("of an operation on one of the hosts it says %q", rolloutLines(r))
	}
}

// TestManyLanes: of many batches those around the present one are shown.
func TestManyLanes(t *testing.T) {
	states := make([]string, 40)
	for i := range states {
		states[i] = "waiting"
		if i < 20 {
			states[i] = "ok"
		}
	}
	lines := lanes(rolloutOf(states...))
	if len(lines) != mostLanes+1 || !strings.HasPrefix(lines[0], "  batch 7 ") || lines[mostLanes] != "  and 8 more batches" {
		t.Errorf("the lanes are %q", lines)
	}
}

// TestPlainProgress: without a terminal there is a line for each change.
func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&out)
	v := rolloutView{cmd: cmd}
	for _, r := range []*v1.Rollout{rolloutOf("begun", "waiting"), rolloutOf("begun", "waiting"), rolloutOf("ok", "begun")} {
		v.show(r, r.CreatedAt)
	}
	want := "ro-1: running, batch 1, 0/2 ok, 0 failed, 0 skipped, 1 under way, 0 baking, 1 waiting\n" +
		"ro-1: running, batch 1, 1/2 ok, 0 failed, 0 skipped, 1 under way, 0 baking, 0 waiting\n"
	if out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

// TestLastToUndo: without an id an undo takes the last apply, unless that is ambiguous or cannot be undone.
func TestLastToUndo(t *testing.T) {
	of := func(id, op, state, undoes, request string) v1.Rollout {
		return v1.Rollout{
			ID: id, Op: op, State: state, Undoes: undoes, RequestID: request, Processes: []string{"shop/web"},
			Counts: v1.RolloutCounts{Hosts: 2},
		}
	}
	restart, first := of("ro-r", "restart", "done", "", "9"), of("ro-1", "apply", "done", "", "1")
	second, part := of("ro-2", "apply", "paused", "", "2"), of("ro-3", "apply", "done", "", "2")
	for want, list := range map[string][]v1.Rollout{
		"ro-2": {restart, second, first},
		"ro-1": {restart, of("ro-u", "apply", "done", "ro-2", "3"), second, first},
		"the last apply has made several rollouts: expected one of ro-3 (shop/web), ro-2 (shop/web), ro-1 (shop/web)": {
			part, second, first,
		},
		"nothing undoes the last rollout, ro-4, now: expected one of ro-1 (shop/web)": {
			of("ro-4", "apply", "running", "", "4"), first,
		},
		"no recent rollout can be undone: expected the id of a rollout": {restart},
		"no recent rollout can be undone: expected the id of a rollout ": {
			of("ro-4", "apply", "running", "", "4"), of("ro-u", "apply", "done", "ro-2", "3"), second,
		},
		"the last rollout is an undo: expected its id, ro-u, to undo it": {
			of("ro-u", "apply", "done", "ro-2", "3"), second,
		},
	} {
		r, err := lastToUndo(list)
		got := r.ID
		if err != nil {
			got = err.Error()
		}
		if got != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
