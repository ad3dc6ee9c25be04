package audit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/audit"
	"drover/internal/server/store"
)

// rows is a store that remembers what each write held.
type rows struct {
	mu     sync.Mutex
	writes [][]string
	err    error
}

func (r *rows) PutAudit(_ context.Context, given ...store.AuditRow) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	var names []string
	for _, row := range given {
		names = append(names, row.Action)
	}
	r.writes = append(r.writes, names)
	return nil
}

func (r *rows) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *rows) all() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes)
}

func (r *rows) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.writes)
}

// running runs a recorder; end stops it and waits.
func running(t *testing.T, s audit.Store, log *slog.Logger) (r *audit.Recorder, end func()) {
	t.Helper()
	r = audit.New(s, log)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return r, func() { cancel(); wg.Wait() }
}

func note(t *testing.T, r *audit.Recorder, action string) {
	t.Helper()
	if err := r.NoteAudit(t.Context(), store.AuditRow{Action: action}); err != nil {
		t.Errorf("%s: %v", action, err)
	}
}

func TestRowsAreWrittenTogetherWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rows{}
		r, end := running(t, s, slog.New(slog.DiscardHandler))
		note(t, r, "a")
		note(t, r, "b")
		if err := r.PutAudit(t.Context(), store.AuditRow{Action: "now"}); err != nil {
			t.Error(err)
		}
		if got := s.text(); got != "[[now]]" {
			t.Errorf("before a second has passed, written is %s", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := s.text(); got != "[[now] [a b]]" {
			t.Errorf("after a second, written is %s", got)
		}
		note(t, r, "c")
		end()
		if got := s.text(); got != "[[now] [a b] [c]]" {
			t.Errorf("at the end, written is %s", got)
		}
		note(t, r, "late")
		if got := s.text(); got != "[[now] [a b] [c] [late]]" {
			t.Errorf("after the end, written is %s", got)
		}
	})
}

func TestRowsWaitWhileTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rows{}
		s.fail(errors.New("disk is full"))
		r, end := running(t, s, slog.New(slog.DiscardHandler))
		note(t, r, "a")
		time.Sleep(time.Second)
		synctest.Wait()
		note(t, r, "b")
		s.fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := s.text(); got != "[[a b]]" {
			t.Errorf("written is %s", got)
		}
		end()
	})
}

func TestLostRowsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := &rows{}, &strings.Builder{}
		r, end := running(t, s, slog.New(slog.NewTextHandler(log, nil)))
		note(t, r, "a")
		note(t, r, "b")
		s.fail(errors.New("disk is full"))
		end()
		if !strings.Contains(log.String(), "rows=2") {
			t.Errorf("the log is %s", log)
		}
	})
}

func TestManyRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rows{}
		r, end := running(t, s, slog.New(slog.DiscardHandler))
		for i := range 20_001 {
			if err := r.NoteAudit(t.Context(), store.AuditRow{App: strconv.Itoa(i % 100), Action: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(s.all()); n != 1 { // the one for which there was no room
			t.Errorf("%d writes at once, want 1", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		end()
		total, largest := 0, 0
		for _, w := range s.all() {
			total, largest = total+len(w), max(largest, len(w))
		}
		if total != 20_001 || largest > 500 {
			t.Errorf("%d rows were written, up to %d together", total, largest)
		}
	})
}
