package eventlog_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/eventlog"
	"drover/internal/process"
)

// TestSegments: the log is in several files; those that the server has are removed when there are too many, others
// never before.
func TestSegments(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	l.Limit(2<<10, 12<<10, 1<<30, time.Hour)
	appendAll(l, 1, 200)
	many := len(segments(t, dir))
	if many < 10 {
		t.Fatalf("200 events are in %d files", many)
	}
	all := pending(t, l)
	same(t, "events", upTo(1, 200), pids(all))
	l.Acknowledge(all[:100])
	if n := len(segments(t, dir)); n > many/2+2 || n < many/2-2 {
		t.Errorf("%d of %d files are left, half is acknowledged", n, many)
	}
	same(t, "left", upTo(101, 200), pids(pending(t, l)))
	l.Acknowledge(all)
	if n := len(segments(t, dir)); n != 3 {
		t.Errorf("%d files are left of what is acknowledged, 3 may be", n)
	}
	same(t, "left in the next life", []int{}, pids(pending(t, open(t, dir))))
}

// TestOldSegments: what the server has is kept for a while only.
func TestOldSegments(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	appendAll(l, 1, 3)
	l.Acknowledge(pending(t, l)[:2])
	must(t, l.Close())
	path := segments(t, dir)[0]
	long := time.Now().Add(-8 * 24 * time.Hour)
	must(t, os.Chtimes(path, long, long))
	l = open(t, dir)
	same(t, "left", upTo(3, 3), pids(pending(t, l)))
	l.Acknowledge(pending(t, l))
	if all := segments(t, dir); len(all) > 0 {
		t.Errorf("%q are left", all)
	}
}

// TestFarTooMuch: in the end even what the server has not goes, oldest first, and how much is told.
func TestFarTooMuch(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	l.Limit(2<<10, 1<<10, 16<<10, time.Hour)
	appendAll(l, 1, 200)
	l.Append(happened(201)) // whatever the last one has removed is told with this one
	told, lost := 0, 0
	next := 0
	for _, e := range decoded(pending(t, l)) {
		if e.Kind == process.EventsLost {
			lost += e.Attempt
			continue
		}
		if next > 0 && e.PID != next {
			t.Errorf("%d comes when it is the turn of %d", e.PID, next)
		}
		next = e.PID + 1
		told++
	}
	if next != 202 || lost == 0 || told < 30 {
		t.Errorf("%d are told, %d are lost, the last one is %d", told, lost, next-1)
	}
	if told+lost < 195 || told+lost > 201 { // a lost notice of a loss is made good by the one after it
		t.Errorf("%d told and %d lost are not the 201 that happened", told, lost)
	}
}

// TestFullDisk: what cannot be written is told from memory, and written in its order once there is room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	d := &disk{room: 500}
	l.Disk(d.create)
	appendAll(l, 1, 50)
	all := pending(t, l)
	same(t, "pending", upTo(1, 50), pids(all))
	l.Acknowledge(all[:20])
	same(t, "left", upTo(21, 50), pids(pending(t, l)))
	d.has(300)
	appendAll(l, 51, 51)
	d.has(-1)
	appendAll(l, 52, 52)
	same(t, "left", upTo(21, 52), pids(pending(t, l)))
	same(t, "left in the next life", upTo(21, 52), pids(pending(t, open(t, dir))))
	l.Acknowledge(all[20:])
	same(t, "left after all", upTo(51, 52), pids(pending(t, l)))
}

// TestHalfALine: what a full disk has taken of a line is taken back, or left behind where that fails.
func TestHalfALine(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		dir := t.TempDir()
		l := open(t, dir)
		d := &disk{room: 400, stuck: stuck}
		l.Disk(d.create)
		appendAll(l, 1, 5)
		d.has(-1)
		appendAll(l, 6, 6)
		same(t, "pending", upTo(1, 6), pids(pending(t, l)))
		same(t, "pending in the next life", upTo(1, 6), pids(pending(t, open(t, dir))))
	}
}

// TestFullMemory: beyond a bound the oldest events are lost, and one event says how many.
func TestFullMemory(t *testing.T) {
	dir := t.TempDir()
	losses := 0
	l, err := eventlog.Open(eventlog.Config{
		Dir: dir, Log: slog.New(slog.DiscardHandler), Lost: func() { losses++ },
	})
	must(t, err)
	d := &disk{}
	l.Disk(d.create)
	appendAll(l, 1, eventlog.MaxWaiting+30)
	same(t, "pending", upTo(31, eventlog.MaxWaiting+30), pids(pending(t, l)))
	d.has(-1)
	if losses != 0 {
		t.Error("a loss is told before the disk takes something")
	}
	l.Append(happened(0))
	if losses != 1 {
		t.Errorf("the loss is told %d times", losses)
	}
	must(t, l.Close())
	l = open(t, dir)
	all := decoded(pending(t, l))
	if n := len(all); n != eventlog.MaxWaiting+2 {
		t.Fatalf("%d events", n)
	}
	notice, last := all[eventlog.MaxWaiting], all[eventlog.MaxWaiting+1]
	if notice.Kind != process.EventsLost || notice.Attempt != 30 || notice.Seq+1 != last.Seq {
		t.Errorf("the notice is %+v, then %+v", notice, last)
	}
}

// TestLossIsToldOnAFullDisk: a server that hears of what is in memory hears of the loss too.
func TestLossIsToldOnAFullDisk(t *testing.T) {
	l := open(t, t.TempDir())
	l.Disk((&disk{}).create)
	appendAll(l, 1, eventlog.MaxWaiting+1)
	l.Acknowledge(pending(t, l))
	all := decoded(pending(t, l))
	if len(all) != 1 || all[0].Kind != process.EventsLost || all[0].Attempt != 1 {
		t.Errorf("%+v", all)
	}
}

// TestDiskIsTriedAgain: the log does not wait for the next event to write what it has in memory.
func TestDiskIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := open(t, dir)
		d := &disk{}
		l.Disk(d.create)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		appendAll(l, 1, 3)
		<-time.After(10 * time.Second)
		d.has(-1)
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		same(t, "on disk", upTo(1, 3), pids(pending(t, open(t, dir))))
		cancel()
		must(t, <-done)
	})
}

// TestBacklog: how much is still to tell, on disk and in memory, and how much never will be.
func TestBacklog(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	if b := l.Backlog(); b != (eventlog.Backlog{}) {
		t.Errorf("of nothing: %+v", b)
	}
	appendAll(l, 1, 10)
	all := l.Backlog()
	l.Acknowledge(pending(t, l)[:5])
	half := l.Backlog()
	if half.Bytes <= 0 || half.Bytes >= all.Bytes {
		t.Errorf("of ten events %+v, of five %+v", all, half)
	}
	l.Acknowledge(pending(t, l))
	if b := l.Backlog(); b != (eventlog.Backlog{}) {
		t.Errorf("of what the server has: %+v", b)
	}
	full := open(t, t.TempDir())
	d := &disk{}
	full.Disk(d.create)
	appendAll(full, 1, eventlog.MaxWaiting+30)
	if b := full.Backlog(); b.Unwritten != eventlog.MaxWaiting || b.Lost != 30 {
		t.Errorf("on a full disk: %+v", b)
	}
	d.has(-1)
	full.Append(happened(0))
	if b := full.Backlog(); b.Unwritten != 0 || b.Lost != 30 || b.Bytes == 0 {
		t.Errorf("once there is room: %+v", b)
	}
}
