package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// largePolls: a poll returns a task of many pages completely and in order, also with repeated keys and with long
// results.
func largePolls(t *testing.T, s store.Store) {
	const all = 5000
	var agents []string
	for i := range all {
		agents = append(agents, fmt.Sprintf("%05d", i))
	}
	create(t, s, "in order", request(process.Start, "a", agents...))
	twice := request(process.Start, "a", agents...)
	again := request(process.Stop, "a", agents[100], agents[4000], agents[0])
	create(t, s, "twice", twice, again)
	long := request(process.Start, "b", agents[:50]...)
	for i := range long.Targets {
		long.Targets[i].Outcome = &process.Outcome{Fault: process.Failed, Text: strings.Repeat("x", 100<<10)}
	}
	create(t, s, "long", long)
	for id, want := range map[string]int{"in order": all, "twice": all, "long": 50} {
		found := views(t, s, id)
		var keys []string
		stops := 0
		for i, v := range found {
			if keys = append(keys, v.Asked); v.Op == process.Stop {
				stops++
			}
			if v.Asked != agents[i] {
				t.Fatalf("%s: item %d is %s", id, i, v.Asked)
			}
		}
		if len(keys) != want || (stops == 3) != (id == "twice") {
			t.Errorf("%s: %d items, %d of which are stops", id, len(keys), stops)
		}
	}
	// A poll must not return a part of a task that is removed meanwhile.
	seen := 0
	err := s.TaskItems(t.Context(), "long", "", func(store.ItemView) error {
		if seen++; seen == 1 {
			_, err := s.PruneTasks(t.Context(), at(time.Hour), 100)
			return err
		}
		return nil
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a task that was pruned meanwhile %d items were told: %v", seen, err)
	}
}

// slowPolls: a caller that reads slowly blocks no other.
func slowPolls(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end := make(chan struct{})
	var polls, arrived sync.WaitGroup
	for range 40 {
		arrived.Add(1)
		polls.Go(func() {
			arrive := sync.OnceFunc(arrived.Done)
			defer arrive()
			err := s.TaskItems(ctx, "t", "", func(store.ItemView) error {
				arrive()
				select {
				case <-end:
				case <-ctx.Done():
				}
				return nil
			})
			if err != nil {
				t.Errorf("a poll: %v", err)
			}
		})
	}
	arrived.Wait()
	if _, err := s.GetTask(ctx, "t", ""); err != nil {
		t.Errorf("another read: %v", err)
	}
	close(end)
	polls.Wait()
}
