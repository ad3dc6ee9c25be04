package usage_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/usage"
	"drover/internal/process"
)

func id(name string) process.ID { return process.ID{Namespace: "ns", Name: name} }

const mib = 1 << 20

// shown are the steps of a window as text, without the empty ones before the first: CPU, memory in MiB and files, a
// star for a restart, and a dash for a step without a look.
func shown(b *usage.Book, window, now time.Duration) []string {
	steps, _ := b.History(id("p"), window, now)
	list := []string{}
	for _, s := range steps {
		switch {
		case s == (usage.Step{}) && len(list) == 0:
		case s == (usage.Step{}):
			list = append(list, "-")
		default:
			text := fmt.Sprintf("%g %d %d", s.CPU, s.Memory/mib, s.Files)
			if s.Restarted {
				text += " *"
			}
			list = append(list, text)
		}
	}
	return list
}

// TestFolding adds looks whose steps are known exactly.
func TestFolding(t *testing.T) {
	const s = time.Second
	look := func(since, at time.Duration, cpu float64, memory int64, files int) usage.Look {
		return usage.Look{CPU: cpu, Memory: memory * mib, Files: files, Since: since, At: at, StartTicks: 1}
	}
	second := func(l usage.Look) usage.Look {
		l.StartTicks = 2
		return l
	}
	for _, c := range []struct {
		name        string
		looks       []usage.Look
		now         time.Duration
		hour, whole []string
	}{
		{
			"one step for each look",
			[]usage.Look{look(300*s, 330*s, 0.5, 10, 4), look(330*s, 360*s, 0.25, 20, 8)},
			360 * s,
			[]string{"0.5 10 4", "0.25 20 8", "-"},
			[]string{"0.38 20 8"},
		},
		{
			"a look across two steps",
			[]usage.Look{look(300*s, 320*s, 0.6, 10, 4), look(320*s, 350*s, 0.3, 20, 4)},
			355 * s,
			[]string{"0.5 20 4", "0.3 20 4"},
			[]string{"0.42 20 4"},
		},
		{
			"several looks in a step: mean CPU by time, most memory",
			[]usage.Look{
				look(300*s, 305*s, 0.6, 30, 4), look(305*s, 315*s, 0, 10, 3), look(315*s, 330*s, 0.2, 12, 2),
			},
			329 * s,
			[]string{"0.2 30 4"},
			[]string{"0.2 30 4"},
		},
		{
			"time without looks is no zero",
			[]usage.Look{look(300*s, 330*s, 0, 10, 4), second(look(425*s, 430*s, 0, 11, 4))},
			430 * s,
			[]string{"0 10 4", "-", "-", "-", "0 11 4 *"},
			[]string{"0 11 4 *"},
		},
		{
			"a restart without a pause is in the step in which the instance began",
			[]usage.Look{look(300*s, 330*s, 0, 10, 4), second(look(350*s, 365*s, 0, 11, 4))},
			365 * s,
			[]string{"0 10 4", "0 11 4 *", "0 11 4"},
			[]string{"0 11 4 *"},
		},
		{
			"the first look at an old process covers its life, and is none of a step",
			[]usage.Look{look(0, 330*s, 90, 10, 4), look(330*s, 360*s, 0.5, 10, 4)},
			359 * s,
			[]string{"0.5 10 4"},
			[]string{"0.5 10 4"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := usage.NewBook()
			for _, l := range c.looks {
				b.Add(id("p"), l)
			}
			if diff := cmp.Diff(c.hour, shown(b, usage.Hour, c.now)); diff != "" {
				t.Errorf("hour (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.whole, shown(b, usage.Day, c.now)); diff != "" {
				t.Errorf("day (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOldStepsLeave: a window holds its time and no more, also after a pause of any length.
func TestOldStepsLeave(t *testing.T) {
	b, at := usage.NewBook(), 10*time.Hour
	for range 50 * 60 * 2 {
		b.Add(id("p"), usage.Look{CPU: 1, Memory: mib, Since: at, At: at + 30*time.Second})
		at += 30 * time.Second
	}
	for window, want := range map[time.Duration]int{usage.Quarter: 180, usage.Hour: 120, usage.Day: 288} {
		if got := shown(b, window, at-1); len(got) != want || got[0] != "1 1 0" || got[want-1] != "1 1 0" {
			t.Errorf("%v: %d steps: %v", window, len(got), got)
		}
	}
	for pause, want := range map[time.Duration]int{30 * time.Minute: 60, time.Hour: 0, 40 * time.Hour: 0} {
		if got := shown(b, usage.Hour, at+pause-1); len(got) != 0 && got[0] == "-" ||
			len(got) != min(want*2, 120) && want > 0 || want == 0 && len(got) != 0 {
			t.Errorf("after %v: %v", pause, got)
		}
	}
	at += 100 * time.Hour
	b.Add(id("p"), usage.Look{CPU: 1, Memory: mib, Since: at, At: at + 30*time.Second})
	if got := shown(b, usage.Day, at+time.Second); len(got) != 1 {
		t.Errorf("after a long pause: %v", got)
	}
}

// TestFineSteps: from the first question on, the looks of each 5 s are steps of their own. Before it, and once nobody
// has asked for a quarter of an hour, steps have the figures of 30 s.
func TestFineSteps(t *testing.T) {
	const s = time.Second
	b, at := usage.NewBook(), 3600*s
	look := func(length time.Duration, cpu float64) {
		b.Add(id("p"), usage.Look{CPU: cpu, Memory: mib, Since: at, At: at + length})
		at += length
	}
	look(30*s, 6)
	if b.Watched(id("p"), at) {
		t.Error("watched before a question")
	}
	if got, want := shown(b, usage.Quarter, at-1), repeat("6 1 0", 6); cmp.Diff(want, got) != "" {
		t.Errorf("before: %v", got)
	}
	if !b.Watched(id("p"), at+59*s) || b.Watched(id("p"), at+60*s) {
		t.Error("a question does not make the agent look for a minute")
	}
	look(5*s, 1)
	look(5*s, 2)
	at += 5 * s // the process was down
	look(5*s, 3)
	want := append(repeat("6 1 0", 6), "1 1 0", "2 1 0", "-", "3 1 0")
	if got := shown(b, usage.Quarter, at-1); cmp.Diff(want, got) != "" {
		t.Errorf("watched: %v", got)
	}
	at += usage.Quarter + 2*time.Minute + 10*s
	b.Tidy([]process.ID{id("p")}, at)
	look(30*s, 4)
	if got, want := shown(b, usage.Quarter, at-1), repeat("4 1 0", 6); cmp.Diff(want, got) != "" {
		t.Errorf("later: %v", got)
	}
}

// TestRestartIsMarkedOnce: also in the 30 s in which the steps of 5 s begin.
func TestRestartIsMarkedOnce(t *testing.T) {
	const s = time.Second
	for _, restarted := range []time.Duration{3635 * s, 3640 * s} {
		b := usage.NewBook()
		for _, at := range []time.Duration{3630 * s, 3635 * s, 3640 * s} {
			l := usage.Look{CPU: 1, Memory: mib, Since: at, At: at + 5*s}
			if at >= restarted {
				l.StartTicks = 1
			}
			if at == 3640*s {
				b.History(id("p"), usage.Quarter, at)
			}
			b.Add(id("p"), l)
		}
		got := shown(b, usage.Quarter, 3645*s-1)
		if n := strings.Count(strings.Join(got, ","), "*"); n != 1 || len(got) != 3 {
			t.Errorf("a restart at %v is marked %d times: %v", restarted, n, got)
		}
	}
}

func repeat(text string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = text
	}
	return list
}

// TestWatchedAreFew: questions about very many processes do not make the agent look at all of them more often.
func TestWatchedAreFew(t *testing.T) {
	b, watched := usage.NewBook(), 0
	for i := range 1000 {
		b.History(id(fmt.Sprint(i)), usage.Hour, time.Hour)
	}
	for i := range 1000 {
		if b.Watched(id(fmt.Sprint(i)), time.Hour) {
			watched++
		}
	}
	if watched != 64 {
		t.Errorf("%d processes are watched, want 64", watched)
	}
	for _, name := range []string{"one", "two"} {
		at := time.Hour + time.Minute
		if b.History(id(name), usage.Hour, at); !b.Watched(id(name), at) {
			t.Error("former questions still count")
		}
	}
}

// TestExactness measures by how much a step differs from what was measured.
func TestExactness(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		l := usage.Look{
			CPU:    math.Round(10_000*math.Exp(-9*random.Float64())) / 100,
			Memory: int64(math.Exp(10 + 20*random.Float64())), Files: int(math.Exp(13 * random.Float64())),
			Since: 0, At: 30 * time.Second,
		}
		b := usage.NewBook()
		b.Add(id("p"), l)
		steps, _ := b.History(id("p"), usage.Hour, 0)
		got := steps[len(steps)-1]
		near := func(what string, have, want, part, least float64) {
			if math.Abs(have-want) > want*part+least {
				t.Errorf("%s is %g, want %g", what, have, want)
			}
		}
		near("CPU", got.CPU, l.CPU, 0.008, 0.0051)
		near("memory", float64(got.Memory), float64(l.Memory), 0.002, 1024)
		near("files", float64(got.Files), float64(l.Files), 0.032, 0)
	}
}

// TestSaved: another agent goes on with the histories, unless the machine has booted or the file is damaged.
func TestSaved(t *testing.T) {
	b, at := usage.NewBook(), time.Hour
	for i := range 200 {
		b.Add(id("p"), usage.Look{
			CPU: float64(i % 9), Memory: mib, Since: at, At: at + 30*time.Second, StartTicks: uint64(1 + i/150),
		})
		at += 30 * time.Second
	}
	var file bytes.Buffer
	if err := b.Save(&file, "boot"); err != nil {
		t.Fatal(err)
	}
	next := usage.NewBook()
	if err := next.Load(file.Bytes(), "boot"); err != nil {
		t.Fatal(err)
	}
	for _, window := range []time.Duration{usage.Hour, usage.Day} {
		if diff := cmp.Diff(shown(b, window, at), shown(next, window, at)); diff != "" {
			t.Errorf("%v (-saved +loaded):\n%s", window, diff)
		}
	}
	next.Add(id("p"), usage.Look{CPU: 1, Memory: mib, Since: at, At: at + 30*time.Second, StartTicks: 2})
	if got := shown(next, usage.Hour, at); got[len(got)-1] != "1 1 0" {
		t.Errorf("the same instance goes on as %v", got[len(got)-1])
	}
	for name, data := range map[string][]byte{
		"another boot": bytes.Replace(file.Bytes(), []byte("boot"), []byte("toob"), 1), "nothing": nil,
		"half": file.Bytes()[:file.Len()/2], "no form": []byte("x"),
	} {
		b := usage.NewBook()
		if err := b.Load(data, "boot"); err == nil || len(shown(b, usage.Hour, at)) > 0 {
			t.Errorf("%s: loaded: %v", name, err)
		}
	}
}

// TestMemory: a thousand processes with a full history take at most 2,000 bytes each.
func TestMemory(t *testing.T) {
	const processes = 1000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	ids := make([]process.ID, processes)
	for i := range ids {
		ids[i] = id(fmt.Sprint(i))
	}
	before, b := heap(), usage.NewBook()
	for at := time.Hour; at < 3*time.Hour; at += 30 * time.Second {
		for _, id := range ids {
			b.Add(id, usage.Look{CPU: 1, Memory: mib, Since: at, At: at + 30*time.Second})
		}
	}
	each := (heap() - before) / processes
	t.Logf("%d bytes a process", each)
	if each > 2000 {
		t.Errorf("a process takes %d bytes, want at most 2000", each)
	}
	b.Tidy(ids[:1], 3*time.Hour)
	if left := heap(); left > before+10*2000 {
		t.Errorf("%d bytes are left after the processes", left-before)
	}
	runtime.KeepAlive(b)
}
