package eventlog_test

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"drover/internal/agent/eventlog"
	"drover/internal/process"
)

func TestEventsComeBackAsTheyWere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	now := time.UnixMilli(1_700_000_000_123)
	l, err := eventlog.Open(eventlog.Config{
		Dir: dir, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
	})
	must(t, err)
	defer l.Close()
	first := happened(1)
	first.Exit = &process.Exit{Known: true, Code: 3, At: 99}
	first.Breach = &process.Breach{Resource: "mem", Limit: 1.5, Samples: []float64{2, 3}}
	first.Cause = process.Cause{ID: process.CauseExitStatus, Text: "it said \"no\"\n", Evidence: []string{"a", "b"}}
	second := happened(2)
	second.At = 0
	l.Append(first)
	l.Append(second)
	got := decoded(pending(t, l))
	if len(got) != 2 || got[0].Stream == "" {
		t.Fatalf("%d events: %+v", len(got), got)
	}
	first.Stream, first.Seq = got[0].Stream, 1
	second.Stream, second.Seq, second.At = got[0].Stream, 2, now.UnixMilli()
	same(t, "events", []process.Event{first, second}, got)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info, err)
	}
}

func TestPendingIsBounded(t *testing.T) {
	l := open(t, t.TempDir())
	if got, more := l.Pending(10, 1000); len(got) > 0 || more {
		t.Errorf("an empty log has %d events, more: %v", len(got), more)
	}
	appendAll(l, 1, 10)
	for _, tt := range []struct {
		events, bytes, want int
		more                bool
	}{
		{0, 1000, 0, true},
		{3, 1 << 20, 3, true},
		{10, 1 << 20, 10, false},
		{20, 1 << 20, 10, false},
		{20, 1, 1, true},
		{20, 0, 0, true},
	} {
		got, more := l.Pending(tt.events, tt.bytes)
		if len(got) != tt.want || more != tt.more {
			t.Errorf("of %d events and %d bytes: %d, more: %v", tt.events, tt.bytes, len(got), more)
		}
	}
}

func TestAcknowledgedIsNotToldAgain(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	appendAll(l, 1, 5)
	all := pending(t, l)
	l.Acknowledge(nil)
	l.Acknowledge(all[:2])
	same(t, "left", upTo(3, 5), pids(pending(t, l)))
	l.Acknowledge(all[3:]) // the third one is still missing: none is lost
	same(t, "left", upTo(3, 5), pids(pending(t, l)))
	l.Acknowledge(all[:2]) // an old answer
	same(t, "left", upTo(3, 5), pids(pending(t, l)))
	l.Acknowledge(all)
	same(t, "left", []int{}, pids(pending(t, l)))
	appendAll(l, 6, 6)
	same(t, "left", upTo(6, 6), pids(pending(t, l)))
}

// TestKilledAgent: the next life, which begins while the files of the one before are still open, finds what was not
// acknowledged, and has a stream of its own.
func TestKilledAgent(t *testing.T) {
	dir := t.TempDir()
	streams := map[string]bool{}
	for life := range 5 {
		l := open(t, dir)
		same(t, "left from before", upTo(10*life-6, 10*life)[max(0, 7-10*life):], pids(pending(t, l)))
		appendAll(l, 10*life+1, 10*life+10)
		all := pending(t, l)
		last := decoded(all)[len(all)-1]
		if last.Seq != 10 || streams[last.Stream] {
			t.Errorf("life %d ends with number %d of stream %s", life, last.Seq, last.Stream)
		}
		streams[last.Stream] = true
		l.Acknowledge(all[:len(all)-7])
	}
}

// TestNumbersAreNotUsedTwice: a power failure may leave the note of what was acknowledged and take the file that it is
// about. What comes then must not lie before that note.
func TestNumbersAreNotUsedTwice(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	appendAll(l, 1, 20)
	l.Acknowledge(pending(t, l))
	for _, path := range segments(t, dir) {
		must(t, os.Remove(path))
	}
	l = open(t, dir)
	appendAll(l, 21, 22)
	same(t, "pending", upTo(21, 22), pids(pending(t, l)))
}

func TestBounds(t *testing.T) {
	l := open(t, t.TempDir())
	long := happened(1)
	long.Output = strings.Repeat("x\xff", 10<<10) + strings.Repeat("é", 5<<10)
	long.Cause.Text = strings.Repeat("a<", 10<<10) + "\xff"
	for range 40 {
		long.Cause.Evidence = append(long.Cause.Evidence, strings.Repeat("é", 5000))
	}
	evidence := long.Cause.Evidence[0]
	odd := happened(2)
	odd.Breach = &process.Breach{Resource: "cpu", Samples: []float64{math.NaN()}}
	crowd := happened(3)
	crowd.Breach = &process.Breach{Samples: make([]float64, 500)}
	for range 10000 {
		crowd.Breach.Scores = append(crowd.Breach.Scores,
			process.Score{Process: process.ID{Namespace: "ns", Name: strings.Repeat("n", 200)}})
	}
	l.Append(long)
	l.Append(odd)
	l.Append(crowd)
	lines := pending(t, l)
	same(t, "events", upTo(1, 3), pids(lines))
	got := decoded(lines)
	e := got[0]
	if len(e.Output) > 4<<10 || len(e.Output) < 4<<10-4 || !utf8.ValidString(e.Output) ||
		!strings.HasSuffix(e.Output, "éé") {
		t.Errorf("output of %d bytes, ends with %q", len(e.Output), e.Output[len(e.Output)-10:])
	}
	if len(e.Cause.Text) != 1<<10 || len(e.Cause.Evidence) != 16 || len(e.Cause.Evidence[0]) != 1<<10 ||
		evidence != long.Cause.Evidence[0] {
		t.Errorf("text of %d bytes, %d pieces of evidence", len(e.Cause.Text), len(e.Cause.Evidence))
	}
	if got[1].Kind != process.EventExited || got[1].Process.Name != "p2" {
		t.Errorf("the event with a sample that is no number became %+v", got[1])
	}
	if b := got[2].Breach; len(b.Samples) != 100 || len(b.Scores) < 500 || len(crowd.Breach.Scores) != 10000 {
		t.Errorf("%d samples and %d scores", len(b.Samples), len(b.Scores))
	}
}

// TestSync: what was appended is on the disk soon, together with what came after it, and a log in which nothing happens
// does nothing.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := open(t, dir)
		d := &disk{room: -1}
		l.Disk(d.create)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		pass := func(after time.Duration, syncs int) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			if d.synced() != syncs {
				t.Errorf("%d syncs, want %d", d.synced(), syncs)
			}
		}
		pass(time.Hour, 0)
		appendAll(l, 1, 100)
		pass(150*time.Millisecond, 0)
		appendAll(l, 101, 200)
		pass(100*time.Millisecond, 1)
		pass(time.Hour, 1)
		appendAll(l, 201, 201)
		pass(201*time.Millisecond, 2)
		appendAll(l, 202, 202)
		synctest.Wait()
		cancel()
		must(t, <-done)
		must(t, l.Close())
		if d.synced() != 3 {
			t.Error("what was appended last was not synced at the end")
		}
	})
}

func TestSideBySide(t *testing.T) {
	const writers, each = 8, 200
	l := open(t, t.TempDir())
	l.Limit(4<<10, 1<<10, 1<<30, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var running, writing sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) })
	for w := range writers {
		writing.Go(func() {
			for n := range each {
				l.Append(process.Event{PID: w*each + n, Kind: process.EventExited})
			}
		})
	}
	over := make(chan struct{})
	go func() {
		writing.Wait()
		close(over)
	}()
	last := make([]int, writers)
	told := 0
	for finished := false; ; {
		events, more := l.Pending(50, 1<<20)
		for i, e := range decoded(events) {
			told++
			if e.Seq != uint64(told) {
				t.Fatalf("number %d comes as event %d, place %d", e.Seq, told, i)
			}
			if w, n := e.PID/each, e.PID%each+1; n != last[w]+1 {
				t.Fatalf("event %d of writer %d comes after %d", n, w, last[w])
			} else {
				last[w] = n
			}
		}
		l.Acknowledge(events)
		if finished && !more {
			break
		}
		select {
		case <-over:
			finished = true
		default:
		}
	}
	if told != writers*each {
		t.Errorf("%d events of %d", told, writers*each)
	}
	cancel()
	running.Wait()
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	must(t, os.WriteFile(path, nil, 0o600))
	if _, err := eventlog.Open(eventlog.Config{Dir: path, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a file was taken for a directory")
	}
}
