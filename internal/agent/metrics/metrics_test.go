package metrics_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drover/internal/agent/metrics"
	"drover/internal/process"
)

func written(t *testing.T, m *metrics.Metrics, s metrics.State) string {
	t.Helper()
	var b strings.Builder
	if err := m.Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWhatIsWritten(t *testing.T) {
	m := metrics.New(`1.2"3`)
	m.Happened(process.EventRelaunched)
	m.Happened(process.EventExited)
	m.Launched(1500*time.Millisecond, nil)
	m.Launched(time.Second, errors.New("no"))
	m.Reported(100, nil)
	m.Reported(100, errors.New("no"))
	m.Accepted(3)
	m.Finished()
	text := written(t, m, metrics.State{
		Processes: map[string]int{"running": 2, "backoff": 1}, Hosted: 3, Flapping: 1, Unhealthy: 2, Waiting: 4,
		PendingBytes: 500, Unwritten: 6, Lost: 7,
		Connected: true, UsedMore: 3,
		Used: []metrics.Used{{
			Process: process.ID{Namespace: "shop", Name: "a\"\xff"}, CPU: 0.5, Memory: 1 << 20, Files: 12,
		}},
	})
	lines := strings.Split(text, "\n")
	for _, want := range []string{
		`drover_agent_processes{state="running"} 2`, `drover_agent_processes{state="backoff"} 1`,
		`drover_agent_processes_hosted 3`,
		`drover_agent_processes_flapping 1`, `drover_agent_processes_unhealthy 2`,
		`drover_agent_events_total{kind="exited"} 1`, `drover_agent_events_total{kind="given-up"} 0`,
		`drover_agent_relaunches_total 1`,
		`drover_agent_events_pending_bytes 500`, `drover_agent_events_unwritten 6`, `drover_agent_events_lost_total 7`,
		`drover_agent_operations_accepted_total 3`, `drover_agent_operations_finished_total 1`,
		`drover_agent_operations_waiting 4`,
		`drover_agent_launch_seconds_sum 2.5`, `drover_agent_launch_seconds_count 2`,
		`drover_agent_launch_failures_total 1`,
		`drover_agent_reports_total 1`, `drover_agent_report_bytes_total 100`, `drover_agent_report_failures_total 1`,
		`drover_agent_connected 1`, `drover_agent_process_metrics_left_out 3`,
		`drover_agent_process_cpu_percent{namespace="shop",name="a\"` + "\uFFFD" + `"} 0.5`,
		`drover_agent_process_memory_bytes{namespace="shop",name="a\"` + "\uFFFD" + `"} 1.048576e+06`,
		`drover_agent_process_open_files{namespace="shop",name="a\"` + "\uFFFD" + `"} 12`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if !strings.Contains(text, `version="1.2\"3"`) {
		t.Errorf("a label is not escaped:\n%s", text)
	}
}

// TestItIsTheFormatOfPrometheus: each family is described once, and can be read by its own parser.
func TestItIsTheFormatOfPrometheus(t *testing.T) {
	text := written(t, metrics.New("1.2.3"), metrics.State{
		Processes: map[string]int{"running": 1},
		Used:      []metrics.Used{{Process: process.ID{Namespace: "a", Name: "b"}}, {Process: process.ID{Namespace: "\xff\n", Name: "\\"}}},
	})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		if !strings.HasPrefix(name, "drover_agent_") || f.GetHelp() == "" || len(f.Metric) == 0 {
			t.Errorf("%s: help %q, %d samples", name, f.GetHelp(), len(f.Metric))
		}
	}
}

func TestAgeOfReports(t *testing.T) {
	m := metrics.New("x")
	m.Reported(1, nil)
	for line := range strings.Lines(written(t, m, metrics.State{})) {
		if age, ok := strings.CutPrefix(line, "drover_agent_report_age_seconds "); ok &&
			!strings.HasPrefix(age, "0.") && !strings.Contains(age, "e-") {
			t.Errorf("the last report is %s old", age)
		}
	}
}

// serve serves the figures until the end of the test, or until stop is called, and returns where.
func serve(t *testing.T, l net.Listener) (url string, stop func()) {
	t.Helper()
	m := metrics.New("x")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- metrics.Serve(ctx, l, func(w io.Writer) error { return m.Write(w, metrics.State{}) },
			slog.New(slog.DiscardHandler))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func call(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestServe(t *testing.T) {
	url, stop := serve(t, listen(t))
	for range 10 {
		if status, body := call(t, http.MethodGet, url+"/metrics"); status != http.StatusOK ||
			!strings.Contains(body, "drover_agent_build_info{") {
			t.Errorf("HTTP %d: %s", status, body)
		}
	}
	if status, _ := call(t, http.MethodGet, url+"/"); status != http.StatusNotFound {
		t.Errorf("another path is answered with %d", status)
	}
	if status, _ := call(t, http.MethodPost, url+"/metrics"); status != http.StatusMethodNotAllowed {
		t.Errorf("another method is answered with %d", status)
	}
	stop()
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://")); err == nil {
		_ = conn.Close()
		t.Error("it still listens after the end")
	}
}

// TestServeBadCallers: what is no call, or never ends, costs nobody else anything, and does not hold up the end.
func TestServeBadCallers(t *testing.T) {
	url, stop := serve(t, listen(t))
	at := strings.TrimPrefix(url, "http://")
	for _, sent := range []string{"", "GET", "\x00\x01\r\n\r\n", "GET /metrics HTTP/1.1\r\nX: " +
		strings.Repeat("x", 20<<10)} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, sent)
		if strings.HasSuffix(sent, "\r\n\r\n") || len(sent) > 1000 {
			_, _ = io.ReadAll(conn) // it is closed by the other side
			_ = conn.Close()
		} else {
			defer conn.Close() //nolint:errcheck // it is held open on purpose
		}
	}
	if status, _ := call(t, http.MethodGet, url+"/metrics"); status != http.StatusOK {
		t.Errorf("beside bad callers: %d", status)
	}
	stop()
}

// TestServeOnWhenNothingCanBeTaken: a host that is short of descriptors must not end its agent for it.
func TestServeOnWhenNothingCanBeTaken(t *testing.T) {
	url, _ := serve(t, &short{Listener: listen(t)})
	if status, _ := call(t, http.MethodGet, url+"/metrics"); status != http.StatusOK {
		t.Errorf("after a failure: %d", status)
	}
}

// short is a listener that fails once.
type short struct {
	net.Listener
	failed bool
}

func (s *short) Accept() (net.Conn, error) {
	if !s.failed {
		s.failed = true
		return nil, errors.New("too many open files")
	}
	return s.Listener.Accept()
}

// slowlyClosed is a listener whose Accept ends before its socket is closed, as that of package net may.
type slowlyClosed struct {
	net.Listener
	closing, release chan struct{}
}

func (s *slowlyClosed) Accept() (net.Conn, error) {
	<-s.closing
	return nil, net.ErrClosed
}

func (s *slowlyClosed) Close() error {
	close(s.closing)
	<-s.release
	return nil
}

// TestServeEndsAfterItsListener: nobody is served after the end, so the socket is closed before it.
func TestServeEndsAfterItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &slowlyClosed{closing: make(chan struct{}), release: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- metrics.Serve(ctx, l, nil, slog.New(slog.DiscardHandler)) }()
		cancel()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("it has ended, and its socket is not closed")
		}
		close(l.release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
