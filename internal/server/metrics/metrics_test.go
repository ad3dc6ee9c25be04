package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/pki"
	"drover/internal/process"
	"drover/internal/server/metrics"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// world is what a server would be asked.
type world struct {
	figures error
	asked   int
}

func (w *world) Counts(context.Context) (store.Counts, error) {
	w.asked++
	return store.Counts{
		Processes: map[string]int{"running": 3, "given-up": 1, "made up": 2, "odd": 1}, Hosted: 4, Flapping: 2,
		Unhealthy: 1, Drifted: 1,
		Items: map[task.State]int{task.Sent: 5},
	}, w.figures
}

func (w *world) ListReceivers(context.Context) ([]store.Subscription, error) {
	return []store.Subscription{
		{Receiver: store.Receiver{Name: "fine"}, Delivery: store.Delivery{Cursor: 12, Delivered: time.UnixMilli(1500)}},
		{Receiver: store.Receiver{Name: "gone"}, Delivery: store.Delivery{Cursor: 2, Failures: 3}},
	}, nil
}

func (w *world) LastCursor(context.Context) (int64, error) { return 12, nil }

func (w *world) Latest(s store.Subscription) store.Delivery { return s.Delivery }

func (w *world) Count(time.Time) (known, online int) { return 7, 5 }

func (w *world) Rivals(time.Time) int { return 1 }

// scrape returns the samples of the figures.
func scrape(t *testing.T, m *metrics.Metrics, more func(io.Writer) error) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler(more, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET",
		"/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", w.Code, w.Body)
	}
	return strings.Split(w.Body.String(), "\n")
}

func wantSamples(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, sample := range want {
		if !slices.Contains(got, sample) {
			name, _, _ := strings.Cut(sample, "{")
			name, _, _ = strings.Cut(name, " ")
			near := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.HasPrefix(s, name) })
			t.Errorf("there is no %q, but %q", sample, near)
		}
	}
}

func TestWhatHasHappenedIsCounted(t *testing.T) {
	m := metrics.New("1.2.3")
	m.Ended(process.Start, process.None, 2*time.Second)
	m.Ended(process.Stop, process.CheckFailed, time.Second)
	m.Happened(process.EventRelaunched, time.Second)
	m.Happened(process.EventExited, 0)
	m.Happened("of a newer agent", 0)
	m.Wrote(3, time.Millisecond, nil)
	m.Wrote(1, time.Millisecond, store.ErrExists)
	m.Wrote(1, time.Millisecond, fmt.Errorf("cannot write: %w", full{}))
	m.Audited(2)
	m.Reported(1000, time.Millisecond)
	wantSamples(t, scrape(t, m, nil),
		`drover_operations_total{code="0",op="start",outcome="ok"} 1`,
		`drover_operations_total{code="836",op="stop",outcome="check-failed"} 1`,
		`drover_operation_seconds_sum{op="start"} 2`,
		`drover_events_total{kind="relaunched"} 1`,
		`drover_events_total{kind="given-up"} 0`,
		`drover_events_total{kind="other"} 1`,
		`drover_process_restarts_total 1`,
		`drover_event_lag_seconds_count 3`,
		`drover_database_writes_total 5`,
		`drover_database_write_seconds_count 3`,
		`drover_database_write_failures_total 1`,
		`drover_audit_rows_total 2`,
		`drover_report_bytes_sum 1000`,
		`drover_report_seconds_count 1`,
	)
}

// full is an error of a database.
type full struct{}

func (full) Error() string { return "disk full" }
func (full) Code() int     { return 13 }

func TestTheStateIsShown(t *testing.T) {
	m, w := metrics.New("1.2.3"), &world{}
	m.Show(metrics.Sources{
		Store: w, Agents: w, Receivers: w, Waiting: func() int { return 9 }, Now: time.Now,
		Certificates: func() []pki.Certificate {
			return []pki.Certificate{{Name: "ca", Ends: time.Unix(1.8e9, 0)}}
		},
		Servers: func() int { return 3 }, Skew: func() time.Duration { return -90 * time.Second },
		LogLost:   func() uint64 { return 6 },
		ClocksOff: func() int { return 2 },
		Proxies:   func() (known, online int) { return 3, 2 },

		Unregistered: func() int { return 4 },
		Log:          slog.New(slog.DiscardHandler),
	})
	for range 2 {
		wantSamples(t, scrape(t, m, nil),
			`drover_processes{state="running"} 3`, `drover_processes{state="given-up"} 1`,
			`drover_processes{state="backoff"} 0`,
			`drover_processes{state="other"} 3`,
			`drover_processes_hosted 4`, `drover_processes_flapping 2`, `drover_processes_unhealthy 1`,
			`drover_processes_config_drifted 1`,
			`drover_open_items{state="sent"} 5`, `drover_open_items{state="begun"} 0`, `drover_outbox_items 9`,
			`drover_hosts{presence="online"} 5`, `drover_hosts{presence="away"} 2`,
			`drover_receiver_lag_events{receiver="gone"} 10`, `drover_receiver_failing{receiver="gone"} 1`,
			`drover_receiver_failing{receiver="fine"} 0`,
			`drover_receiver_failed_attempts{receiver="gone"} 3`,
			`drover_receiver_last_delivery_timestamp_seconds{receiver="fine"} 1.5`,
			`drover_receiver_last_delivery_timestamp_seconds{receiver="gone"} 0`,
			`drover_certificate_expiry_timestamp_seconds{certificate="ca"} 1.8e+09`,
			`drover_servers 3`, `drover_log_lines_lost_total 6`, `drover_clock_skew_seconds -90`,
			`drover_hosts_clock_off 2`, `drover_hosts_copied 1`, `drover_hosts_unknown 4`,
			`drover_proxies{presence="online"} 2`, `drover_proxies{presence="away"} 1`,
		)
	}
	if w.asked != 1 {
		t.Errorf("all processes were counted %d times for two looks at once", w.asked)
	}
}

// TestAStoreThatFailsHidesTheRestOnly: the figures are needed most when something is wrong.
func TestAStoreThatFailsHidesTheRestOnly(t *testing.T) {
	m, w := metrics.New("x"), &world{figures: errors.New("no")}
	m.Show(metrics.Sources{
		Store: w, Agents: w, Receivers: w, Waiting: func() int { return 0 }, Certificates: func() []pki.Certificate {
			return nil
		},
		Servers: func() int { return 1 }, Skew: func() time.Duration { return 0 },
		LogLost: func() uint64 { return 0 }, ClocksOff: func() int { return 0 }, Unregistered: func() int { return 0 },
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Proxies: func() (known, online int) { return 0, 0 },
	})
	got := scrape(t, m, func(io.Writer) error { return errors.New("no") })
	wantSamples(t, got, `drover_hosts{presence="online"} 5`, `drover_receiver_failing{receiver="gone"} 1`)
	if strings.Contains(strings.Join(got, "\n"), "drover_processes{") {
		t.Error("processes are counted although that failed")
	}
}

func TestMoreIsShown(t *testing.T) {
	got := scrape(t, metrics.New("x"), func(w io.Writer) error {
		_, err := io.WriteString(w,
			"# HELP drover_agent_x X.\n# TYPE drover_agent_x gauge\ndrover_agent_x{a=\"b\"} 4\n")
		return err
	})
	wantSamples(t, got, "# HELP drover_agent_x X.", `drover_agent_x{a="b"} 4`)
}

func TestCallsAreMeasured(t *testing.T) {
	m := metrics.New("x")
	h := m.Counted(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = strings.TrimPrefix(r.URL.Path, "/")
		switch r.Pattern {
		case "refused":
			w.WriteHeader(http.StatusForbidden)
		case "flushed":
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		case "cut":
			panic(http.ErrAbortHandler)
		}
	}))
	for _, path := range []string{"/", "/refused", "/flushed", "/cut", "/a/stream"} {
		func() {
			defer func() { _ = recover() }() //nolint:errcheck // the cut one
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		}()
	}
	got := scrape(t, m, nil)
	wantSamples(t, got,
		`drover_http_request_seconds_count{endpoint="unknown",status="2xx"} 1`,
		`drover_http_request_seconds_count{endpoint="refused",status="4xx"} 1`,
		`drover_http_request_seconds_count{endpoint="flushed",status="2xx"} 1`,
		`drover_http_request_seconds_count{endpoint="cut",status="aborted"} 1`,
	)
	if strings.Contains(strings.Join(got, "\n"), "a/stream") {
		t.Error("a stream was measured as a call")
	}
}
