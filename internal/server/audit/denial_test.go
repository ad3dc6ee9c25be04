package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/store"
)

// TestEqualDenials: one row at once, and one that counts the others; of another kind, address or app each has its own.
func TestEqualDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &kept{}
		r, end := running(t, s, slog.New(slog.DiscardHandler))
		deny := func(proven string, row store.AuditRow) {
			t.Helper()
			if err := r.PutDenial(t.Context(), proven, row); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 1000 {
			deny("", store.AuditRow{
				Remote: "a", Action: "start", Code: 1, App: fmt.Sprint("claimed", i),
				Message: "wrong secret",
			})
			deny("mine", store.AuditRow{
				Remote: fmt.Sprint("from", i), Action: "start", Code: 1, App: "mine",
				Message: "no right",
			})
		}
		deny("", store.AuditRow{Remote: "b", Action: "start", Code: 1, Message: "wrong secret"})
		deny("", store.AuditRow{Remote: "a", Action: "stop", Code: 1, Message: "wrong secret"})
		deny("", store.AuditRow{Remote: "a", Action: "start", Code: 2, Message: "no secret"})
		s.want(t, "at once", "claimed0@a wrong secret", "mine@from0 no right", "@b wrong secret", "@a wrong secret",
			"@a no secret")
		time.Sleep(62 * time.Second)
		synctest.Wait()
		since := time.Now().Add(-62 * time.Second).UTC().Format(time.RFC3339)
		s.want(t, "after a minute", "claimed999@a wrong secret (the last of 999 more since "+since+")",
			"mine@from999 no right (the last of 999 more since "+since+")")
		deny("", store.AuditRow{Remote: "a", Action: "start", Code: 1, Message: "wrong secret"})
		s.want(t, "in the next minute", "@a wrong secret")
		deny("", store.AuditRow{Remote: "a", Action: "start", Code: 1, Message: "wrong secret"})
		end()
		if rows := s.take(); len(rows) != 1 || !strings.Contains(rows[0], "1 more") {
			t.Errorf("at the end, written is %q", rows)
		}
	})
}

// TestDenialsOfAFlood: from all addresses and of all kinds, they are less than 100 rows a minute, and no app's own
// denial is lost in it.
func TestDenialsOfAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &kept{}
		r, end := running(t, s, slog.New(slog.DiscardHandler))
		const minutes = 60
		for minute := range minutes {
			for i := range 3000 {
				row := store.AuditRow{
					Remote: fmt.Sprint(i % 1500), Action: fmt.Sprint(i % 7), Code: i % 3,
					Message: "no",
				}
				if err := r.PutDenial(t.Context(), "", row); err != nil {
					t.Fatal(err)
				}
			}
			row := store.AuditRow{Remote: "9", Action: fmt.Sprint("mine", minute), App: "app", Message: "no right"}
			if err := r.PutDenial(t.Context(), "app", row); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		end()
		mine, counted := 0, 0
		rows := s.take()
		for _, row := range rows {
			var n int
			switch {
			case strings.HasPrefix(row, "app@"):
				mine++
			case !strings.Contains(row, "since"):
				counted++
			default:
				if _, err := fmt.Sscanf(row[strings.Index(row, " "):], " %d refusals", &n); err != nil {
					_, err = fmt.Sscanf(row[strings.Index(row, "of "):], "of %d more", &n)
					if err != nil {
						t.Fatal(row)
					}
				}
				counted += n
			}
		}
		if len(rows) > 100*minutes+200 || mine != minutes || counted != minutes*3000 {
			t.Errorf("%d rows tell of %d denials of strangers, and of %d of the app", len(rows), counted, mine)
		}
	})
}

// kept is a store that keeps its rows.
type kept struct {
	mu   sync.Mutex
	rows []string
}

func (k *kept) PutAudit(_ context.Context, rows ...store.AuditRow) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range rows {
		k.rows = append(k.rows, r.App+"@"+r.Remote+" "+r.Message)
	}
	return nil
}

func (k *kept) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	rows := k.rows
	k.rows = nil
	return rows
}

func (k *kept) want(t *testing.T, when string, want ...string) {
	t.Helper()
	got := k.take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}
