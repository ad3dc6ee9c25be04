package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/report"
	"drover/internal/agent/uplink"
	"drover/internal/process"
	"drover/internal/wire"
)

// medium is a disk, or why it can't be read.
type medium struct {
	latest  uint64
	records map[process.ID]uint64

	mu  sync.Mutex // the time that passes orders nothing between goroutines
	err error
}

// heal lets the disk be read from now on.
func (m *medium) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = nil
}

func (m *medium) Revisions() (uint64, map[process.ID]uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest, m.records, m.err
}

// teacher is a server that answers introductions, and keeps them.
type teacher struct {
	disks  []*wire.Disk
	answer func() *wire.Desired

	mu      sync.Mutex // the time that passes orders nothing between goroutines
	reports int
	broken  error
}

// breaks has the next reports fail with an error.
func (s *teacher) breaks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

// heal lets the next answers arrive, and returns how many reports have come.
func (s *teacher) heal() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = nil
	return s.reports
}

func (s *teacher) Report(_ context.Context, data []byte) ([]byte, error) {
	var rep wire.Report
	if err := json.Unmarshal(data, &rep); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports++
	ack := wire.ReportAck{Version: wire.Version}
	if rep.Hello != nil {
		s.disks = append(s.disks, rep.Hello.Disk)
		ack.Desired = s.answer()
	}
	return mustJSON(ack), s.broken
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// introduced is what is done with the answers to introductions.
type introduced func(desired *wire.Desired) (again bool)

func (f introduced) Introduced(desired *wire.Desired) (again bool) { return f(desired) }

func (introduced) Unsure() []string { return nil }

func (introduced) Answered(*wire.Report, *wire.ReportAck) {}

// lesson runs fn beside a reporter that is answered by a teacher.
func lesson(t *testing.T, m *medium, s *teacher, introduced introduced,
	fn func(r *report.Reporter, linkState *uplink.LinkState),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		linkState := linked()
		r := report.New(report.Config{
			Link: s, LinkState: linkState, Disk: m, Heartbeat: time.Hour,
			Log: slog.New(slog.DiscardHandler),
		})
		during(t, r, &rig{t: t}, introduced, func() { fn(r, linkState) })
	})
}

// TestIntroductionIsAnswered: each tells what is on the disk then, and is repeated as often as there is more to learn.
func TestIntroductionIsAnswered(t *testing.T) {
	m, s := &medium{latest: 3, records: map[process.ID]uint64{id("a"): 2}}, &teacher{}
	one, two := &wire.Desired{Revision: 1}, &wire.Desired{Revision: 2}
	lessons := []*wire.Desired{one, two, nil}
	s.answer = func() *wire.Desired {
		next := lessons[0]
		lessons = append(lessons[1:], nil)
		return next
	}
	var learnt []*wire.Desired
	again := func(desired *wire.Desired) bool {
		learnt = append(learnt, desired)
		m.latest++
		return cmp.Equal(desired, one)
	}
	lesson(t, m, s, again, func(r *report.Reporter, linkState *uplink.LinkState) {
		if diff := cmp.Diff([]*wire.Desired{one, two}, learnt); diff != "" {
			t.Errorf("learnt (-want +got):\n%s", diff)
		}
		r.Happened() // nothing but an introduction is answered
		synctest.Wait()
		linkState.Connected()
		synctest.Wait()
	})
	if diff := cmp.Diff([]*wire.Desired{one, two, nil}, learnt); diff != "" {
		t.Errorf("learnt (-want +got):\n%s", diff)
	}
	record := wire.Records{id("a"): 2}
	if diff := cmp.Diff([]*wire.Disk{
		{Revision: 3, Records: record},
		{Revision: 4, Records: record},
		{Revision: 5, Records: record},
	}, s.disks); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestIntroductionThatIsNotTakenIn is no word of the server's.
func TestIntroductionThatIsNotTakenIn(t *testing.T) {
	s := &teacher{answer: func() *wire.Desired { return &wire.Desired{} }, broken: errors.New("link lost")}
	var heard atomic.Int64
	lesson(t, &medium{}, s, func(*wire.Desired) bool { heard.Add(1); return false }, func(*report.Reporter, *uplink.LinkState) {
		pass(time.Minute)
		if n := s.heal(); heard.Load() > 0 || n == 0 {
			t.Errorf("%d words in %d reports", heard.Load(), n)
		}
		pass(time.Second)
	})
	if heard.Load() != 1 {
		t.Errorf("%d words", heard.Load())
	}
}

// TestEachReasonIsLogged: a log shows why reports fail now, not only why the first one did; a reason that stays is
// logged once.
func TestEachReasonIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &teacher{answer: func() *wire.Desired { return nil }, broken: errors.New("no subscriber")}
		var text lockedText
		r := report.New(report.Config{
			Link: s, LinkState: linked(), Disk: &medium{},
			Heartbeat: time.Hour, Log: slog.New(slog.NewTextHandler(&text, nil)),
		})
		during(t, r, &rig{t: t}, nil, func() {
			pass(time.Minute)
			s.breaks(errors.New("answer refused"))
			pass(time.Minute)
			s.heal()
			pass(time.Minute)
		})
		for line, want := range map[string]int{"no subscriber": 1, "answer refused": 1, "delivering reports again": 1} {
			if n := strings.Count(text.String(), line); n != want {
				t.Errorf("%d lines say %q, want %d:\n%s", n, line, want, text.String())
			}
		}
	})
}

// lockedText is a log that may be read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestUnreadableDisk: an agent that can't say what it has does not introduce itself as one that has nothing.
func TestUnreadableDisk(t *testing.T) {
	m, s := &medium{err: errors.New("disk on fire")}, &teacher{answer: func() *wire.Desired { return nil }}
	lesson(t, m, s, func(*wire.Desired) bool { return false }, func(*report.Reporter, *uplink.LinkState) {
		pass(time.Minute)
		if n := s.heal(); n > 0 {
			t.Errorf("%d reports", n)
		}
		m.heal()
		pass(time.Second)
	})
	if len(s.disks) != 1 || s.disks[0] == nil {
		t.Errorf("told %v", s.disks)
	}
}

// TestGoneWithItsRevision: until the server has it, and again if it was not heard.
func TestGoneWithItsRevision(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		gone := func(revision uint64) wire.Report {
			return wire.Report{Observed: []wire.Observation{{
				Process: id("a"), Gone: true,
				Status: process.Status{Revision: revision},
			}}}
		}
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("link lost") })
		r.Removed(id("a"), 7)
		r.want(r.take(), gone(7))
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), gone(7))
		r.Changed(id("a"))
		r.want(r.take(), gone(0))
		r.Removed(id("a"), 9)
		r.set(id("a"), process.Status{State: "stopped", Revision: 10})
		pass(0)
		back := first("a", "stopped")
		back.Status.Revision = 10
		if got := r.take(); len(got) > 2 || len(got[len(got)-1].Observed) != 1 ||
			!cmp.Equal(got[len(got)-1].Observed[0], back) {
			t.Errorf("%+v, want %+v in the end", got, back)
		}
	})
}

// TestIntroductionGoesAlone: what waits for its answer does not wait for a thousand states.
func TestIntroductionGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := &rig{
			t: t, known: map[process.ID]process.Status{id("a"): {State: "running"}},
			specs: map[process.ID]*process.Spec{}, answer: accept,
		}
		r := report.New(report.Config{
			Link: link{world, time.Now()}, LinkState: linked(), Journal: world, Events: history{world},
			Disk: &medium{latest: 1}, Heartbeat: time.Hour,
			Log: slog.New(slog.DiscardHandler),
		})
		r.Finished("item", outcome("success"))
		world.events = []process.Event{{Stream: "s", Seq: 1}}
		during(t, r, world, nil, func() {
			world.want(
				world.take(), wire.Report{Hello: &wire.Hello{Disk: &wire.Disk{Revision: 1, Records: nil}}},
				wire.Report{
					Observed: []wire.Observation{first("a", "running")},
					Events:   lines(process.Event{Stream: "s", Seq: 1}),
					Progress: []wire.Progress{{Item: "item", Outcome: &process.Outcome{Text: "success"}}},
				},
			)
		})
	})
}
