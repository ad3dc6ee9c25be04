//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

func beginAndFinish(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Query, "a", "x", "y"))
	x := lease(t, s, epoch, 10)[0]
	// The report overtakes the receipt.
	must(t, s.Begin(t.Context(), "x", map[string]time.Time{x.ID: at(time.Minute)}))
	must(t, s.MarkAccepted(t.Context(), []string{x.ID}, time.Time{}))
	got, err := s.Unfinished(t.Context(), "x")
	must(t, err)
	if len(got) != 1 || got[0].State != task.Begun {
		t.Fatalf("after begin and receipt: %+v", got)
	}
	o := process.Outcome{Fault: process.CheckFailed, Text: "gone", Hosted: true, Status: &process.Status{
		Known: true, State: "up", RegisteredAt: 5, Instance: process.Instance{PID: 42, CPU: 0.25, Cmdline: "nginx -g"},
	}}
	same(t, "tasks", []string{"t"}, finish(t, s, x, o))
	if again := finish(t, s, x, success()); len(again) != 0 {
		t.Errorf("it was finished again: %v", again)
	}
	must(t, s.Begin(t.Context(), "x", map[string]time.Time{x.ID: at(time.Hour)}))
	must(t, s.MarkSent(t.Context(), []string{x.ID}, epoch))
	v := views(t, s, "t")
	same(t, "outcome", &o, v[0].Outcome)
	if !v[0].Done || v[1].Done || v[1].Outcome != nil {
		t.Errorf("views are %+v", v)
	}
	got, err = s.Unfinished(t.Context(), "x")
	must(t, err)
	same(t, "unfinished", []string{}, brief(got))
}

func finishTasks(t *testing.T, s store.Store) {
	create(t, s, "1", request(process.Start, "a", "x", "y"))
	create(t, s, "2", request(process.Start, "b", "x", "y"))
	create(t, s, "3", request(process.Start, "c", "x"))
	outcomes := map[string]process.Outcome{"no such id": success()}
	items := lease(t, s, epoch, 10)
	for _, it := range items[:3] {
		outcomes[it.ID] = success()
	}
	tasks, err := s.Finish(t.Context(), Reported("", outcomes))
	must(t, err)
	slices.Sort(tasks)
	same(t, "tasks", []string{"1", "2"}, tasks)
}

func foreignResults(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x"))
	it := leaseOne(t, s, epoch)
	must(t, s.Begin(t.Context(), "y", map[string]time.Time{it.ID: at(time.Second)}))
	tasks, err := s.Finish(t.Context(), Reported("y", map[string]process.Outcome{it.ID: success()}))
	must(t, err)
	if len(tasks) != 0 || views(t, s, "t")[0].Done {
		t.Error("an agent finished what another was asked for")
	}
	same(t, "still due", []string{"start x:a"}, brief(lease(t, s, at(time.Minute), 10)))
}

func conclude(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x", "y", "z"), request(process.Stop, "a", "x"))
	read := lease(t, s, epoch, 10)
	must(t, s.MarkAccepted(t.Context(), []string{read[1].ID}, time.Time{}))
	must(t, s.Begin(t.Context(), "z", map[string]time.Time{read[2].ID: at(time.Hour)}))
	var ended []store.DecidedOutcome
	for _, it := range append(read, store.Item{ID: "no such id"}) {
		ended = append(ended, store.DecidedOutcome{Item: it, Outcome: process.Outcome{
			Fault: process.Failed,
			Text:  "gone",
		}})
	}
	tasks, err := s.Conclude(t.Context(), ended)
	must(t, err)
	same(t, "tasks", []string{"t"}, tasks)
	var done []bool
	for _, v := range views(t, s, "t") {
		done = append(done, v.Done)
	}
	same(t, "done: only what had not changed", []bool{false, false, false}, done) // x:a shows its second item
	same(t, "the second of x", []string{"stop x:a"}, brief(lease(t, s, epoch, 10)))
}

func overdue(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x", "y"), request(process.Stop, "a", "x"))
	if _, ok, err := s.NextDeadline(t.Context()); err != nil || !ok {
		t.Fatalf("next deadline: %v, %v", ok, err)
	}
	items := lease(t, s, epoch, 10)
	must(t, s.Begin(t.Context(), "y", map[string]time.Time{items[1].ID: at(time.Minute)}))
	next, _, err := s.NextDeadline(t.Context())
	must(t, err)
	same(t, "next deadline", at(time.Minute), next)

	for _, tt := range []struct {
		now  time.Duration
		want []string
	}{
		{time.Minute - 1, []string{}},
		{time.Minute, []string{"start y:a"}},
		{task.WaitLimit, []string{"start y:a", "start x:a", "stop x:a"}},
	} {
		late, err := s.Overdue(t.Context(), at(tt.now), 10)
		must(t, err)
		same(t, tt.now.String(), tt.want, brief(late))
	}
	late, err := s.Overdue(t.Context(), at(time.Hour), 2)
	must(t, err)
	same(t, "limit", []string{"start y:a", "start x:a"}, brief(late))

	for _, it := range append(late, lease(t, s, at(time.Hour), 10)...) {
		finish(t, s, it, success())
	}
	finish(t, s, leaseOne(t, s, at(time.Hour)), success())
	if at, ok, err := s.NextDeadline(t.Context()); err != nil || ok {
		t.Errorf("a deadline is left: %v, error %v", at, err)
	}
	if at, ok, err := s.NextDue(t.Context()); err != nil || ok {
		t.Errorf("something is left to be sent: %v, error %v", at, err)
	}
}

func unknownIDs(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x"))
	it := leaseOne(t, s, epoch)
	unknown := []string{
		"", "x", "-", "0-1", "1", it.ID + "0", "0" + it.ID, it.ID[1:], "'; DROP TABLE items; --",
		"[1,2]", "\x00",
	}
	for _, id := range unknown {
		must(t, s.MarkAccepted(t.Context(), []string{id}, time.Time{}))
		must(t, s.MarkSent(t.Context(), []string{id}, at(time.Hour)))
		must(t, s.Postpone(t.Context(), []string{id}, at(time.Hour)))
		must(t, s.Begin(t.Context(), "", map[string]time.Time{id: at(time.Hour)}))
		tasks, err := s.Finish(t.Context(), Reported("", map[string]process.Outcome{id: success()}))
		must(t, err)
		if len(tasks) != 0 {
			t.Errorf("id %q was taken for %q", id, it.ID)
		}
	}
	got := leaseOne(t, s, at(time.Minute))
	same(t, "item", it, got)
}

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
			if keys = append(keys, v.Spelling); v.Op == process.Stop {
				stops++
			}
			if v.Spelling != agents[i] {
				t.Fatalf("%s: item %d is %s", id, i, v.Spelling)
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
