package limit_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/limit"
	"drover/internal/process"
	"drover/internal/spec"
)

// usage is how a process of the namespace stands.
type usage struct {
	name     string
	cpu, mem float64
	limits   spec.Thresholds
	starting bool
}

func readings(all []usage, at time.Duration) []limit.Reading {
	var out []limit.Reading
	for _, u := range all {
		r := reading(u.name, u.cpu, u.mem, u.limits, at)
		if u.starting {
			r.Ready = at + time.Second
		}
		out = append(out, r)
	}
	return out
}

// rounds has the judge see the same n times and returns what it said last.
func rounds(n int, all []usage, groups ...process.Group) (verdicts []limit.Verdict, early bool) {
	judge := limit.NewJudge(3, 2*beat)
	for i := range n {
		at := time.Duration(i+1) * beat
		early = early || len(verdicts) > 0
		verdicts = judge.Round(at, readings(all, at), map[string][]process.Group{"ns": groups})
	}
	return verdicts, early
}

func names(verdicts []limit.Verdict) []string {
	var out []string
	for _, v := range verdicts {
		out = append(out, v.ID.Name)
	}
	return out
}

func TestPool(t *testing.T) {
	for _, c := range []struct {
		name   string
		all    []usage
		groups []process.Group
		want   []string
	}{
		{
			"the greatest use",
			[]usage{{name: "a", cpu: 5}, {name: "b", cpu: 15}, {name: "c", cpu: 10}},
			[]process.Group{{ID: "g", CPULimit: 20}},
			[]string{"b"},
		},
		{
			"until it fits",
			[]usage{{name: "a", mem: 5}, {name: "b", mem: 15}, {name: "c", mem: 10}},
			[]process.Group{{ID: "g", MemLimit: 5}},
			[]string{"b", "c"},
		},
		{
			"at the limit",
			[]usage{{name: "a", cpu: 10}, {name: "b", cpu: 10}},
			[]process.Group{{ID: "g", CPULimit: 20}},
			nil,
		},
		{
			"by name where scores are the same",
			[]usage{{name: "b", cpu: 10}, {name: "c", cpu: 10}, {name: "a", cpu: 10}},
			[]process.Group{{ID: "g", CPULimit: 25}},
			[]string{"a"},
		},
		{
			"against the own limit: a higher one lowers the score",
			[]usage{
				{name: "a", cpu: 30, limits: spec.Thresholds{CPU: 90}},
				{name: "b", cpu: 10, limits: spec.Thresholds{CPU: 20}},
				{name: "c", cpu: 20},
			},
			[]process.Group{{ID: "g", CPULimit: 50, CPUWeight: 1}},
			[]string{"b"},
		},
		{
			"no limit counts as 100",
			[]usage{
				{name: "a", mem: 30, limits: spec.Thresholds{Memory: -1}},
				{name: "b", mem: 20, limits: spec.Thresholds{Memory: 60}},
			},
			[]process.Group{{ID: "g", MemLimit: 40, MemWeight: 1}},
			[]string{"b"},
		},
		{"none in its start window", []usage{
			{name: "a", cpu: 90, starting: true},
			{name: "b", cpu: 15},
			{name: "c", cpu: 10},
		}, []process.Group{{ID: "g", CPULimit: 20}}, []string{"b"}},
		{
			"what is in it is not counted",
			[]usage{{name: "a", cpu: 90, starting: true}, {name: "b", cpu: 15}},
			[]process.Group{{ID: "g", CPULimit: 20}},
			nil,
		},
		{"no pool", []usage{{name: "a", cpu: 90, mem: 90}}, []process.Group{{ID: "g", CPULimit: 0, MemLimit: -1}}, nil},
		{
			"of the same id the last one counts",
			[]usage{{name: "a", cpu: 50}},
			[]process.Group{{ID: "g", CPULimit: 20}, {ID: "g", CPULimit: 60}},
			nil,
		},
		{
			"each group is a pool, and who goes for one is not counted in the next",
			[]usage{{name: "a", cpu: 30, mem: 1}, {name: "b", cpu: 25, mem: 30}, {name: "c", cpu: 1, mem: 20}},
			[]process.Group{{ID: "g", CPULimit: 50}, {ID: "h", CPULimit: 28, MemLimit: 45}},
			[]string{"a", "b"},
		},
		{"an own limit goes first", []usage{
			{name: "a", cpu: 30, limits: spec.Thresholds{CPU: 20}},
			{name: "b", cpu: 40},
		}, []process.Group{{ID: "g", CPULimit: 50}}, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, early := rounds(3, c.all, c.groups...)
			if diff := cmp.Diff(c.want, names(got)); diff != "" || early {
				t.Errorf("early: %v, victims (-want +got):\n%s", early, diff)
			}
		})
	}
}

// TestPoolTellsAll: the proof holds the sums, and how everybody stood.
func TestPoolTellsAll(t *testing.T) {
	got, _ := rounds(3, []usage{
		{name: "a", cpu: 5, limits: spec.Thresholds{CPU: 50}},
		{name: "b", cpu: 15},
		{name: "s", cpu: 1, starting: true},
	}, process.Group{ID: "g", CPULimit: 18, CPUWeight: 1})
	want := process.Breach{
		Resource: "cpu", Limit: 18, Samples: []float64{20, 20, 20}, Group: "g",
		Scores: []process.Score{
			{Process: id("b"), Usage: 15, Score: 0.15},
			{Process: id("a"), Usage: 5, Limit: 50, Score: 0.1},
		},
	}
	if len(got) != 1 || got[0].ID != id("b") {
		t.Fatalf("victims %v, want b", names(got))
	}
	if diff := cmp.Diff(want, got[0].Breach); diff != "" {
		t.Errorf("breach (-want +got):\n%s", diff)
	}
}

// TestPoolsAreOfOneNamespace: others are neither counted nor chosen.
func TestPoolsAreOfOneNamespace(t *testing.T) {
	judge := limit.NewJudge(1, 2*beat)
	all := readings([]usage{{name: "a", cpu: 15}, {name: "b", cpu: 90}}, beat)
	all[1].ID.Namespace = "other"
	pools := map[string][]process.Group{"ns": {{ID: "g", CPULimit: 20}}, "third": {{ID: "g", CPULimit: 1}}}
	if got := judge.Round(beat, all, pools); len(got) != 0 {
		t.Errorf("victims: %+v", got)
	}
}

// TestPoolBeginsAnew: a sum that fits, another limit and a group that is gone for a round end what was counted.
func TestPoolBeginsAnew(t *testing.T) {
	group := func(limit float64) []process.Group { return []process.Group{{ID: "g", CPULimit: limit}} }
	for name, middle := range map[string]struct {
		cpu    float64
		groups []process.Group
	}{
		"it fits":        {10, group(20)},
		"another limit":  {30, group(25)},
		"no group":       {30, nil},
		"unlimited":      {30, group(0)},
		"another group":  {30, []process.Group{{ID: "h", CPULimit: 20}}},
		"a second group": {10, append(group(20), process.Group{ID: "h", CPULimit: 5})},
	} {
		t.Run(name, func(t *testing.T) {
			judge := limit.NewJudge(3, 2*beat)
			var told []time.Duration
			for i := range 6 {
				at, cpu, groups := time.Duration(i+1)*beat, 30.0, group(20)
				if i == 2 {
					cpu, groups = middle.cpu, middle.groups
				}
				if got := judge.Round(at, readings([]usage{{name: "a", cpu: cpu}}, at),
					map[string][]process.Group{"ns": groups}); len(got) > 0 {
					told = append(told, at)
				}
			}
			if diff := cmp.Diff([]time.Duration{6 * beat}, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPoolsAtRandom: once the victims are gone the sum fits; with one victim less it would not; nobody in the start
// window is chosen, and nobody whose score is lower than that of one who is left.
func TestPoolsAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
	chosen := 0
	for range 2000 {
		all := make([]usage, 1+random.IntN(30))
		for i := range all {
			// Quarters, so that sums are exact and many scores the same.
			all[i] = usage{name: strconv.Itoa(i), cpu: float64(random.IntN(80)) / 4, starting: random.IntN(5) == 0}
			if random.IntN(2) == 0 {
				all[i].limits.CPU = spec.Percent(1 + random.IntN(100))
			}
			if all[i].cpu > float64(all[i].limits.CPU) {
				all[i].limits.CPU = 0 // its own limit is not the subject here
			}
		}
		g := process.Group{ID: "g", CPULimit: float64(1+random.IntN(400)) / 4, CPUWeight: random.IntN(2)}
		got, early := rounds(3, all, g)
		victims := map[string]bool{}
		for _, v := range got {
			victims[v.ID.Name] = true
		}
		chosen += len(victims)
		score := func(u usage) float64 {
			switch {
			case g.CPUWeight == 0:
				return u.cpu
			case u.limits.CPU <= 0:
				return u.cpu / 100
			}
			return u.cpu / float64(u.limits.CPU)
		}
		sum, lowest := 0.0, 0.0
		for i, v := range got {
			for _, u := range all {
				if u.name == v.ID.Name && (i == 0 || score(u) <= lowest) {
					lowest = score(u)
				}
			}
		}
		last := 0.0
		for _, u := range all {
			switch {
			case u.starting && victims[u.name]:
				t.Fatalf("%s was chosen in its start window: %+v", u.name, all)
			case u.starting:
			case victims[u.name]:
				if u.name == got[len(got)-1].ID.Name {
					last = u.cpu
				}
			default:
				sum += u.cpu
				if len(got) > 0 && score(u) > lowest {
					t.Fatalf("%s is left with a score of %v, above %v of a victim", u.name, score(u), lowest)
				}
			}
		}
		if sum > g.CPULimit || len(got) > 0 && sum+last <= g.CPULimit || early {
			t.Fatalf("%v are left of a pool of %v, the last victim used %v: %+v", sum, g.CPULimit, last, all)
		}
	}
	if chosen < 1000 {
		t.Errorf("only %d victims: this proves little", chosen)
	}
}
