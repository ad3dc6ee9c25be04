package limit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/instance"
	"drover/internal/agent/limit"
	"drover/internal/agent/procfs"
	"drover/internal/process"
	"drover/internal/spec"
)

const beat = 5 * time.Second

func id(name string) process.ID { return process.ID{Namespace: "ns", Name: name} }

// reading is of a process that has run for long.
func reading(name string, cpu, mem float64, limits spec.Thresholds, at time.Duration) limit.Reading {
	return limit.Reading{
		ID: id(name), Instance: instance.Identity{BootID: "b", PID: len(name) + 1, StartTicks: 7}, Limits: limits,
		Use: procfs.TreeUse{CPU: cpu, Mem: mem, Since: at - beat, At: at, Processes: 1},
	}
}

// TestOwnLimit plays readings of one process, one a round.
func TestOwnLimit(t *testing.T) {
	type step struct {
		cpu, mem float64
		change   func(r *limit.Reading)
		pause    time.Duration // before it, beside the beat
		missing  bool
	}
	another := func(r *limit.Reading) { r.Instance.StartTicks = 8 }
	in := func(window time.Duration) func(r *limit.Reading) {
		return func(r *limit.Reading) { r.Ready = window }
	}
	for _, c := range []struct {
		name   string
		limits spec.Thresholds
		steps  []step
		// at is the step at which there is a verdict; -1 for none at all.
		at   int
		want process.Breach
	}{
		{
			"three readings running",
			spec.Thresholds{CPU: 10},
			[]step{{cpu: 11}, {cpu: 30}, {cpu: 10.01}},
			2,
			process.Breach{Resource: "cpu", Limit: 10, Samples: []float64{11, 30, 10.01}},
		},
		{
			"memory",
			spec.Thresholds{CPU: 10, Memory: 5},
			[]step{{cpu: 10, mem: 1}, {mem: 6}, {mem: 7}, {mem: 8}},
			3,
			process.Breach{Resource: "mem", Limit: 5, Samples: []float64{6, 7, 8}},
		},
		{
			"both at once: the processor is told",
			spec.Thresholds{CPU: 10, Memory: 5},
			[]step{{cpu: 11, mem: 6}, {cpu: 12, mem: 7}, {cpu: 13, mem: 8}},
			2,
			process.Breach{Resource: "cpu", Limit: 10, Samples: []float64{11, 12, 13}},
		},
		{
			"one sample only",
			spec.Thresholds{CPU: 10},
			[]step{{cpu: 99}, {}, {cpu: 99}, {}, {cpu: 99}, {cpu: 99}, {}},
			-1,
			process.Breach{},
		},
		{"at the limit", spec.Thresholds{CPU: 10}, []step{{cpu: 10}, {cpu: 10}, {cpu: 10}}, -1, process.Breach{}},
		{
			"now one resource, now the other",
			spec.Thresholds{CPU: 10, Memory: 5},
			[]step{{cpu: 11}, {cpu: 11}, {mem: 6}, {mem: 6}},
			-1,
			process.Breach{},
		},
		{"no limit", spec.Thresholds{CPU: 0, Memory: -1}, []step{
			{cpu: 99, mem: 99},
			{cpu: 99, mem: 99},
			{cpu: 99, mem: 99},
		}, -1, process.Breach{}},
		{
			"missing from a round",
			spec.Thresholds{CPU: 10},
			[]step{{cpu: 11}, {cpu: 11}, {missing: true}, {cpu: 11}, {cpu: 11}, {cpu: 12}},
			5,
			process.Breach{Resource: "cpu", Limit: 10, Samples: []float64{11, 11, 12}},
		},
		{
			"a gap",
			spec.Thresholds{CPU: 10},
			[]step{{cpu: 11}, {cpu: 11}, {cpu: 12, pause: time.Hour}, {cpu: 13}, {cpu: 14}},
			4,
			process.Breach{Resource: "cpu", Limit: 10, Samples: []float64{12, 13, 14}},
		},
		{
			"a late round is no gap",
			spec.Thresholds{CPU: 10},
			[]step{{cpu: 11}, {cpu: 11, pause: beat}, {cpu: 12}},
			2,
			process.Breach{Resource: "cpu", Limit: 10, Samples: []float64{11, 11, 12}},
		},
		{
			"another instance",
			spec.Thresholds{CPU: 10},
			[]step{
				{cpu: 11},
				{cpu: 11},
				{cpu: 12, change: another},
				{cpu: 13, change: another},
				{cpu: 14, change: another},
			},
			4,
			process.Breach{Resource: "cpu", Limit: 10, Samples: []float64{12, 13, 14}},
		},
		{
			// The rounds are at 5 s, 10 s and so on; the third one's figure is of 10 s to 15 s.
			"the start window, to 11 s",
			spec.Thresholds{CPU: 10},
			[]step{
				{cpu: 99, change: in(11 * time.Second)},
				{cpu: 99, change: in(11 * time.Second)},
				{cpu: 99, change: in(11 * time.Second)},
				{cpu: 20, change: in(11 * time.Second)},
				{cpu: 21, change: in(11 * time.Second)},
				{cpu: 22, change: in(11 * time.Second)},
			},
			5,
			process.Breach{Resource: "cpu", Limit: 10, Samples: []float64{20, 21, 22}},
		},
		{
			"the start window of memory, which is of a moment",
			spec.Thresholds{Memory: 10},
			[]step{
				{mem: 99, change: in(11 * time.Second)},
				{mem: 99, change: in(11 * time.Second)},
				{mem: 20, change: in(11 * time.Second)},
				{mem: 21, change: in(11 * time.Second)},
				{mem: 22, change: in(11 * time.Second)},
			},
			4,
			process.Breach{Resource: "mem", Limit: 10, Samples: []float64{20, 21, 22}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			judge, at := limit.NewJudge(3, 2*beat), time.Duration(0)
			for i, s := range c.steps {
				at += beat + s.pause
				r := reading("p", s.cpu, s.mem, c.limits, at)
				if s.change != nil {
					s.change(&r)
				}
				readings := []limit.Reading{r}
				if s.missing {
					readings = nil
				}
				got := judge.Round(at, readings, nil)
				var want []limit.Verdict
				if i == c.at {
					want = []limit.Verdict{{ID: r.ID, Instance: r.Instance, Breach: c.want}}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// TestCondemnedAreLeftToBeEnded: nobody is told twice within a minute, nor counted meanwhile; who is still there after
// it is judged anew, and so is whoever came in its place.
func TestCondemnedAreLeftToBeEnded(t *testing.T) {
	judge, at := limit.NewJudge(2, 2*beat), time.Duration(0)
	pool := map[string][]process.Group{"ns": {{ID: "g", CPULimit: 50}}}
	var told []string
	round := func(start uint64) {
		at += beat
		hog, other := reading("hog", 60, 0, spec.Thresholds{CPU: 20}, at), reading("other", 40, 0, spec.Thresholds{}, at)
		hog.Instance.StartTicks = start
		for _, v := range judge.Round(at, []limit.Reading{hog, other}, pool) {
			told = append(told, v.ID.Name+" at "+at.String())
		}
	}
	for range 16 {
		round(1)
	}
	for range 2 {
		round(2)
	}
	if diff := cmp.Diff([]string{"hog at 10s", "hog at 1m15s", "hog at 1m30s"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
