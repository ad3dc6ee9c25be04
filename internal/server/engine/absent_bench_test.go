package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

// desert is a link to nobody.
type desert struct{}

func (desert) Send(context.Context, string, []byte) ([]byte, error) { return nil, engine.ErrNobody }

func (desert) Ping(context.Context, string) error { return engine.ErrNobody }

// BenchmarkAbsent asks 30,000 agents that have joined and are all away, in one task, until each key is answered.
func BenchmarkAbsent(b *testing.B) {
	const many = 30_000
	log := slog.New(slog.DiscardHandler)
	db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "drover.db"), log)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	request := store.Request{
		Op: process.Query, Process: process.ID{Namespace: "ns", Name: "nginx"},
		Spec: &process.Spec{},
	}
	var joins sync.WaitGroup
	const side = 100
	for from := range side {
		joins.Go(func() {
			for i := from; i < many; i += side {
				a := store.Agent{Key: fmt.Sprintf("agent-%d", i), IP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255,
					i&255), Created: time.Now()}
				if err := db.PutAgent(b.Context(), a); err != nil {
					b.Error(err)
				}
			}
		})
	}
	joins.Wait()
	for i := range many {
		name := fmt.Sprintf("agent-%d", i)
		request.Targets = append(request.Targets, store.Target{ItemKey: name, Spelling: name, Agent: name})
	}
	directory := fleet.New(db, time.Now().Add(-time.Hour))
	if err := directory.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	e := engine.New(engine.Config{Store: db, Directory: directory, Link: desert{}, Log: log})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		id := fmt.Sprint("task-", n)
		if err := e.Submit(ctx, &store.Task{ID: id, Requests: []store.Request{request}},
			store.AuditRow{At: time.Now()}); err != nil {
			b.Fatal(err)
		}
		if err := e.Wait(ctx, id); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
}
