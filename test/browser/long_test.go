package browser_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"

	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
	"drover/test/judge"
)

// tick is the unit of processor time in /proc (proc(5)).
const tick = 10 * time.Millisecond

// processorTime is the time that a process has had on the processors.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	fields := harness.Stat(pid)
	if len(fields) < 13 {
		t.Fatalf("there is no process %d", pid)
	}
	user, err := strconv.Atoi(fields[11])
	must0(t, err)
	system, err := strconv.Atoi(fields[12])
	must0(t, err)
	return time.Duration(user+system) * tick
}

// TestLargeFleet: with 100,000 processes on 20,000 hosts a first page takes at most 300 ms of the server's processor time,
// and with a million 600 ms. In the short form there are fewer, and no bound.
func TestLargeFleet(t *testing.T) {
	t.Parallel()
	for _, size := range []struct {
		hosts, each int
		most        time.Duration
	}{{20_000, 5, 300 * time.Millisecond}, {20_000, 50, 600 * time.Millisecond}} {
		if !judge.Long() {
			size.hosts /= 1000
		}
		t.Run(fmt.Sprint(size.hosts*size.each), func(t *testing.T) {
			t.Parallel()
			f := harness.NewFleet(t, binaries.drover, binaries.agent, "--log-level", "info")
			fill(f, size.hosts, size.each)
			b := open(t, f.URL, browser{})
			b.signInBy(strings.TrimSpace(f.CLI("login")))
			b.await("all processes", fmt.Sprintf("document.querySelector('.tiles a b').innerText.replace(/\\D/g, '') === '%d'",
				size.hosts*size.each))
			for _, path := range []string{
				"/ui/", "/ui/processes", "/ui/processes?state=given-up&group=none", "/ui/processes?group=host&sort=-wrong",
				"/ui/processes?group=none&sort=-since", "/ui/hosts", "/ui/events",
			} {
				b.costs(f, path, size.most)
			}
		})
	}
}

// costs fails a long test if a page takes more of the server's processor time than most.
func (b *tab) costs(f *harness.Fleet, path string, most time.Duration) {
	b.t.Helper()
	const loads = 20
	before := processorTime(b.t, f.Server.PID())
	for range loads {
		if status := evaluate[int](b, fmt.Sprintf("fetch(%q).then((r) => r.text().then(() => r.status))", path)); status != 200 {
			b.t.Fatalf("%s: %d", path, status)
		}
	}
	each := (processorTime(b.t, f.Server.PID()) - before) / loads
	b.t.Logf("%s: %v of processor time", path, each)
	if judge.Long() && each > most {
		b.t.Errorf("%s takes %v of processor time, want %v at most", path, each, most)
	}
}

// TestLongTab: a tab that is open while events come in without end does not grow.
func TestLongTab(t *testing.T) {
	t.Parallel()
	length, _ := judge.Choices(t, 8*time.Second)
	f := harness.NewFleet(t, binaries.drover, binaries.agent, "--log-level", "info")
	l := newLiar(f, "10.66.0.1")
	l.introduce()
	var r wire.Report
	id := process.ID{Namespace: "busy", Name: "worker"}
	r.Observed = []wire.Observation{observation(id.Namespace, id.Name, 0, process.Status{State: process.StateRunning})}
	l.tell(r)
	first := open(t, f.URL, browser{})
	first.signInBy(strings.TrimSpace(f.CLI("login")))
	tabs := []*tab{first, first.another()}
	tabs[0].load("/ui/")
	tabs[1].load("/ui/events")
	heaps := map[*tab][]float64{}
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for began := time.Now(); time.Since(began) < length; <-every.C {
		var events wire.Report
		for range 200 {
			events.Events = append(events.Events, l.event(id, process.EventExited, "exit status 3"))
		}
		l.tell(events)
		for _, b := range tabs {
			b.call(heapprofiler.CollectGarbage)
			heaps[b] = append(heaps[b], call(b, runtime.GetHeapUsage, cdp.Empty{}).UsedSize/1e6)
		}
	}
	for _, b := range tabs {
		b.await("the events", "document.querySelectorAll('main tbody tr').length > 5")
		h := heaps[b]
		middle, last := h[len(h)/2], h[len(h)-1]
		t.Logf("%s: %.1f MB of heap in the middle, %.1f MB at the end", b.where(), middle, last)
		if last > 80 || judge.Long() && last > 1.2*middle+1 {
			t.Errorf("%s: the heap has %.1f MB in the middle and %.1f MB at the end", b.where(), middle, last)
		}
	}
}
