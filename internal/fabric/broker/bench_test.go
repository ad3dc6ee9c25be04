package broker_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
)

// BenchmarkRequest measures a request with its reply between two connections, one at a time and many at once.
func BenchmarkRequest(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	br, err := broker.Start(b.Context(), broker.Config{
		Dir: filepath.Join(b.TempDir(), "fabric"), Listen: "127.0.0.1:0",
		Log: log,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Shutdown()
	dial := func() *fabric.Conn {
		c, err := fabric.Dial(b.Context(), fabric.DialConfig{Broker: br, Identity: br.ServerIdentity(), Log: log})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	asker, server := dial(), dial()
	defer asker.Close()
	defer server.Close()
	if _, err := server.Serve("bench", "", 8, echo); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 512)
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if _, err := asker.Request(b.Context(), "bench", data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("many", func(b *testing.B) {
		b.SetParallelism(64)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := asker.Request(b.Context(), "bench", data); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	b.Run("nobody", func(b *testing.B) {
		for b.Loop() {
			if _, err := asker.Request(b.Context(), "nobody", data); err == nil {
				b.Fatal("somebody answered")
			}
		}
	})
}

// BenchmarkStart measures a second start, with keys on disk.
func BenchmarkStart(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "fabric")
	for b.Loop() {
		br, err := broker.Start(b.Context(), broker.Config{
			Dir: dir, Listen: "127.0.0.1:0",
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		br.Shutdown()
	}
}
