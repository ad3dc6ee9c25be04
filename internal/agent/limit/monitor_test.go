package limit_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/instance"
	"drover/internal/agent/limit"
	"drover/internal/agent/procfs"
	history "drover/internal/agent/usage"
	"drover/internal/process"
	"drover/internal/spec"
)

// host is a made-up one: what runs there, and what it uses.
type host struct {
	began time.Time

	mu       sync.Mutex
	subjects []limit.Subject
	cpu      map[int]float64 // by pid
	groups   map[string][]process.Group
	fault    error
	measured []string // names, one round after another
	told     []string
	moved    []string
	logged   strings.Builder
	last     map[int]time.Duration
	book     *history.Book
}

func (h *host) Subjects() iter.Seq[limit.Subject] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Values(h.subjects)
}

func (h *host) Exceeded(id process.ID, instance instance.Identity, b process.Breach) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, id.Name+" "+b.Resource+" at "+h.clock().String())
}

func (h *host) Moved(id process.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved = append(h.moved, id.Name+" at "+h.clock().String())
}

func (h *host) Groups() (map[string][]process.Group, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != nil {
		return nil, h.fault
	}
	return h.groups, nil
}

func (h *host) Measure(roots []procfs.Root) ([]procfs.TreeUse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != nil {
		return nil, h.fault
	}
	names, uses := "", make([]procfs.TreeUse, len(roots))
	for i, r := range roots {
		names += " " + r.Run
		cpu, ok := h.cpu[r.Identity.PID]
		if !ok {
			continue
		}
		uses[i] = procfs.TreeUse{CPU: cpu, Mem: 1, RSS: int64(cpu) << 20, Since: h.last[r.Identity.PID], At: h.clock(), Processes: 2}
		h.last[r.Identity.PID] = h.clock()
	}
	h.measured = append(h.measured, h.clock().String()+names)
	return uses, nil
}

func (h *host) clock() time.Duration { return time.Since(h.began) }

func (h *host) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logged.Write(p)
}

// log returns what was logged, heard what was told of breaches, and changes what was told of groups.
func (h *host) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logged.String()
}

func (h *host) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}

func (h *host) changes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.moved)
}

func (h *host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func subject(name string, pid int, limits spec.Thresholds) limit.Subject {
	return limit.Subject{
		ID: id(name), Instance: instance.Identity{BootID: "b", PID: pid, StartTicks: 1}, Run: name,
		Limits: limits,
	}
}

// pass lets virtual time pass, and everything happen that is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// keep runs a monitor in virtual time.
func keep(t *testing.T, fn func(t *testing.T, h *host, k *limit.Monitor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &host{began: time.Now(), cpu: map[int]float64{}, last: map[int]time.Duration{}, book: history.NewBook()}
		k := limit.NewMonitor(limit.Config{
			Groups: h, Trees: h, Histories: h.book, Clock: h.clock, Log: slog.New(slog.NewTextHandler(h, nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx, h, h) }()
		fn(t, h, k)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestMonitorMeasures(t *testing.T) {
	keep(t, func(t *testing.T, h *host, k *limit.Monitor) {
		pass(20 * time.Second)
		h.set(func() {
			h.subjects = []limit.Subject{
				subject("plain", 2, spec.Thresholds{}),
				subject("limited", 3, spec.Thresholds{Memory: 50}), subject("gone", 4, spec.Thresholds{}),
			}
			h.cpu[2], h.cpu[3] = 20, 30
		})
		if _, ok := k.Usage(id("plain")); ok {
			t.Error("somebody is told of who was not measured")
		}
		pass(45 * time.Second)
		want := []string{
			"25s limited", "30s limited", "35s plain limited gone", "40s limited", "45s limited", "50s limited",
			"55s limited", "1m0s limited",
			"1m5s plain limited gone",
		}
		if diff := cmp.Diff(want, h.measured); diff != "" {
			t.Errorf("measured (-want +got):\n%s", diff)
		}
		u, ok := k.Usage(id("plain"))
		if diff := cmp.Diff(process.Usage{CPU: 20, Mem: 1, RSS: 20 << 20, Processes: 2, At: h.began.Add(65 * time.Second).UnixMilli()},
			u); !ok || diff != "" {
			t.Errorf("usage %v (-want +got):\n%s", ok, diff)
		}
		if _, ok := k.Usage(id("gone")); ok {
			t.Error("what has ended has a usage")
		}
		h.set(func() { h.subjects = []limit.Subject{subject("plain", 5, spec.Thresholds{})} })
		pass(beat)
		if _, ok := k.Usage(id("plain")); ok {
			t.Error("another instance has the usage of the one before")
		}
	})
}

// TestMonitorTellsWhatMoved: at leisure, however often somebody is measured, and nothing that is much as it was.
func TestMonitorTellsWhatMoved(t *testing.T) {
	keep(t, func(t *testing.T, h *host, _ *limit.Monitor) {
		h.set(func() {
			h.subjects = []limit.Subject{
				subject("steady", 2, spec.Thresholds{}),
				subject("wild", 3, spec.Thresholds{CPU: 50}),
			}
			h.cpu[2], h.cpu[3] = 20, 0
		})
		for i := range 26 {
			pass(beat)
			h.set(func() { h.cpu[2], h.cpu[3] = 20+float64(i%2)/2, float64(i%20) })
		}
		h.set(func() { h.subjects[0].Instance.StartTicks = 9 })
		pass(30 * time.Second)
		want := []string{
			"steady at 5s", "wild at 5s", "wild at 35s", "wild at 1m5s", "wild at 1m35s", "wild at 2m5s",
			"steady at 2m35s", "wild at 2m35s",
		}
		if diff := cmp.Diff(want, h.changes()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestMonitorTells(t *testing.T) {
	keep(t, func(t *testing.T, h *host, _ *limit.Monitor) {
		h.set(func() {
			h.subjects = []limit.Subject{
				subject("a", 2, spec.Thresholds{CPU: 10}), subject("b", 3, spec.Thresholds{}),
				subject("c", 4, spec.Thresholds{}),
			}
			h.cpu[2], h.cpu[3], h.cpu[4] = 9, 60, 50
		})
		pass(time.Minute)
		h.set(func() { h.groups = map[string][]process.Group{"ns": {{ID: "g", CPULimit: 100}}} })
		pass(time.Minute)
		h.set(func() { h.cpu[2] = 11 })
		pass(20 * time.Second)
		want := []string{"b cpu at 1m15s", "a cpu at 2m15s"}
		heard := h.heard()
		if diff := cmp.Diff(want[:1], heard[:1]); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if last := heard[len(heard)-1]; last != want[1] {
			t.Errorf("told %q, want %q in the end", heard, want[1])
		}
	})
}

// TestMonitorStartWindow: a hog is told within 20 s of the end of its start window, and not before it.
func TestMonitorStartWindow(t *testing.T) {
	keep(t, func(t *testing.T, h *host, _ *limit.Monitor) {
		s := subject("hog", 2, spec.Thresholds{CPU: 10})
		s.StartedAt, s.StartWindow = 2*time.Second, 11*time.Second
		h.set(func() { h.subjects, h.cpu[2] = []limit.Subject{s}, 99 })
		pass(time.Minute)
		if diff := cmp.Diff([]string{"hog cpu at 30s"}, h.heard()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// TestMonitorWithoutAHost: a failure is logged once, ends what was counted, and leaves the groups in force.
func TestMonitorWithoutAHost(t *testing.T) {
	keep(t, func(t *testing.T, h *host, _ *limit.Monitor) {
		h.set(func() {
			h.subjects = []limit.Subject{subject("a", 2, spec.Thresholds{})}
			h.groups = map[string][]process.Group{"ns": {{ID: "g", CPULimit: 1}}}
			h.cpu[2] = 50
		})
		pass(2 * beat)
		h.set(func() { h.fault = errors.New("disk on fire") })
		pass(2 * beat)
		h.set(func() { h.fault = nil })
		pass(2 * beat)
		if len(h.heard()) != 0 {
			t.Errorf("told: %q", h.heard())
		}
		pass(beat)
		if diff := cmp.Diff([]string{"a cpu at 35s"}, h.heard()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if n := strings.Count(h.log(), "disk on fire"); n != 2 {
			t.Errorf("%d lines, want one for the groups and one for the processes:\n%s", n, h.log())
		}
	})
}

// TestMonitorKeepsHistories: each look is in the history of its process. A question makes the monitor look at its
// process at every interval for a minute, and at no other; it reports no more than before.
func TestMonitorKeepsHistories(t *testing.T) {
	keep(t, func(t *testing.T, h *host, k *limit.Monitor) {
		h.set(func() {
			h.subjects = []limit.Subject{subject("a", 2, spec.Thresholds{}), subject("b", 3, spec.Thresholds{})}
			h.cpu[2], h.cpu[3] = 20, 30
		})
		pass(40 * time.Second) // looks at 5 s and 35 s
		steps, _ := h.book.History(id("a"), history.Hour, h.clock())
		got := steps[len(steps)-2:]
		want := []history.Step{{CPU: 20, Memory: 20 << 20}, {CPU: 20, Memory: 20 << 20}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		h.set(func() { h.measured, h.cpu[2] = nil, 21 })
		pass(75 * time.Second)
		looks := []string{
			"45s a", "50s a", "55s a", "1m0s a", "1m5s a b", "1m10s a", "1m15s a", "1m20s a", "1m25s a", "1m30s a", "1m35s a b",
		}
		if diff := cmp.Diff(looks, h.measured); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a at 5s", "b at 5s", "a at 1m5s"}, h.changes()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		uses := k.Uses()
		if len(uses) != 2 || uses[0].ID != id("a") || uses[0].Memory != 21<<20 || uses[1].CPU != 30 {
			t.Errorf("uses: %v", uses)
		}
	})
}
