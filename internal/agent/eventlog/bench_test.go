package eventlog_test

import (
	"log/slog"
	"testing"

	"drover/internal/agent/eventlog"
)

// BenchmarkAppend is what an event costs the process that it happens to.
func BenchmarkAppend(b *testing.B) {
	l, err := eventlog.Open(eventlog.Config{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	e := happened(1)
	for b.Loop() {
		l.Append(e)
	}
}

// BenchmarkPending is what a report without events costs.
func BenchmarkPending(b *testing.B) {
	l, err := eventlog.Open(eventlog.Config{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	appendAll(l, 1, 500)
	all, _ := l.Pending(500, 1<<20)
	l.Acknowledge(all)
	for b.Loop() {
		if events, _ := l.Pending(500, 1<<20); len(events) > 0 {
			b.Fatal("something is left")
		}
	}
}

// BenchmarkPendingFull is what it costs to read the events of a full report.
func BenchmarkPendingFull(b *testing.B) {
	l, err := eventlog.Open(eventlog.Config{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	appendAll(l, 1, 500)
	for b.Loop() {
		if events, _ := l.Pending(500, 1<<20); len(events) != 500 {
			b.Fatalf("%d events", len(events))
		}
	}
}
