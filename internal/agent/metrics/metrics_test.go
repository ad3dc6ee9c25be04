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
	"testing"
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
		Processes: map[string]int{"running": 2, "backoff": 1}, Hosted: 3, Flapping: 1, Unhealthy: 2, Waiting: 4, PendingBytes: 500, Unwritten: 6, Lost: 7,
		Connected: true,
	})
	lines := strings.Split(text, "\n")
	for _, want := range []string{
		`drover_agent_processes{state="running"} 2`, `drover_agent_processes{state="backoff"} 1`, `drover_agent_processes_hosted 3`,
		`drover_agent_processes_flapping 1`, `drover_agent_processes_unhealthy 2`,
		`drover_agent_events_total{kind="exited"} 1`, `drover_agent_events_total{kind="given-up"} 0`, `drover_agent_relaunches_total 1`,
		`drover_agent_events_pending_bytes 500`, `drover_agent_events_unwritten 6`, `drover_agent_events_lost_total 7`,
		`drover_agent_operations_accepted_total 3`, `drover_agent_operations_finished_total 1`, `drover_agent_operations_waiting 4`,
		`drover_agent_launch_seconds_sum 2.5`, `drover_agent_launch_seconds_count 2`, `drover_agent_launch_failures_total 1`,
		`drover_agent_reports_total 1`, `drover_agent_report_bytes_total 100`, `drover_agent_report_failures_total 1`, `drover_agent_connected 1`,
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
	text := written(t, metrics.New("1.2.3"), metrics.State{Processes: map[string]int{"running": 1}})
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
		if age, ok := strings.CutPrefix(line, "drover_agent_report_age_seconds "); ok && !strings.HasPrefix(age, "0.") && !strings.Contains(age, "e-") {
			t.Errorf("the last report is %s old", age)
		}
	}
}

func TestServe(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New("x")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- metrics.Serve(ctx, l, func(w io.Writer) error { return m.Write(w, metrics.State{}) }, slog.New(slog.DiscardHandler))
	}()
	get := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if status, body := get("/metrics"); status != http.StatusOK || !strings.Contains(body, "drover_agent_build_info{") {
		t.Errorf("HTTP %d: %s", status, body)
	}
	if status, _ := get("/"); status != http.StatusNotFound {
		t.Errorf("another path is answered with %d", status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
