// Package metrics counts the work of a server and shows it in the format of Prometheus. It owns the names and their
// meaning, and decides nothing. All its labels are bounded: kinds, operations, outcomes, routes, and the names of the
// few receivers. An agent writes its own metrics, and this package only forwards them.
package metrics

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drover/internal/gse"
	"drover/internal/process"
)

// Metrics are the figures of one server. Its methods may be called from any goroutine and do not block.
type Metrics struct {
	registry *prometheus.Registry

	requests   *prometheus.HistogramVec
	operations *prometheus.CounterVec
	took       *prometheus.HistogramVec
	events     *prometheus.CounterVec
	restarts   prometheus.Counter
	delay      prometheus.Histogram
	writeTime  prometheus.Histogram
	writes     prometheus.Counter
	failures   prometheus.Counter
	audited    prometheus.Counter
	reports    prometheus.Histogram
	reportTime prometheus.Histogram
}

// New returns figures that are all zero, of a build of drover.
func New(build string) *Metrics {
	seconds := prometheus.ExponentialBuckets(0.001, 4, 9)
	m := &Metrics{
		registry: prometheus.NewPedanticRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "drover_http_request_seconds",
			Help:    "Time to answer HTTP calls, by endpoint and class of status; without streams.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"endpoint", "status"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_operations_total",
			Help: "Finished operations on one process of one host, by operation, outcome and error code.",
		}, []string{"op", "outcome", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "drover_operation_seconds",
			Help:    "Time from an accepted call to the outcome of an operation on one process of one host.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 9),
		}, []string{"op"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_events_total", Help: "Events of processes that reached the server, by kind.",
		}, []string{"kind"}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_process_restarts_total", Help: "Relaunches of processes by their agents.",
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "drover_event_lag_seconds",
			Help:    "Time from an event, by the clock of its host, to its arrival at the server.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}),
		writeTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_database_write_seconds", Help: "Time of a transaction until it is on disk.", Buckets: seconds,
		}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_database_writes_total",
			Help: "Writes to the database; writes that wait at the same time share a transaction.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_database_write_failures_total",
			Help: "Transactions that the database rejected, for example because of a full disk or a damaged file.",
		}),
		audited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_audit_rows_total", Help: "Rows added to the audit log.",
		}),
		reports: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_report_bytes", Help: "Size of the reports of agents.",
			Buckets: prometheus.ExponentialBuckets(64, 4, 8),
		}),
		reportTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_report_seconds", Help: "Time to process a report of an agent.", Buckets: seconds,
		}),
	}
	about := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_build_info", Help: "Always 1; the labels name the build that runs.",
		ConstLabels: prometheus.Labels{"version": build, "go_version": runtime.Version()},
	})
	about.Set(1)
	m.registry.MustRegister(m.requests, m.operations, m.took, m.events, m.restarts, m.delay, m.writeTime, m.writes,
		m.failures, m.audited,
		m.reports, m.reportTime, about, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// Counters start at zero, so that an alert on their rise also sees the first event.
	for _, kind := range process.EventKinds() {
		m.events.WithLabelValues(string(kind))
	}
	return m
}

// Wrote implements kit.Watch.
func (m *Metrics) Wrote(writes int, took time.Duration, err error) {
	m.writeTime.Observe(took.Seconds())
	m.writes.Add(float64(writes))
	// A rejected call, for example for a taken name, is not a failure of the database. An error of the database has a
	// code.
	var own interface{ Code() int }
	if errors.As(err, &own) {
		m.failures.Inc()
	}
}

// Ended implements kit.Watch.
func (m *Metrics) Ended(op process.Op, fault process.Fault, took time.Duration) {
	outcome := "ok"
	if fault != process.None {
		outcome = string(fault)
	}
	name := string(op.Name())
	m.operations.WithLabelValues(name, outcome, strconv.Itoa(gse.Code(fault))).Inc()
	m.took.WithLabelValues(name).Observe(took.Seconds())
}

// Happened implements kit.Watch.
func (m *Metrics) Happened(kind process.EventKind, delay time.Duration) {
	m.events.WithLabelValues(bounded(kind)).Inc()
	if kind == process.EventRelaunched {
		m.restarts.Inc()
	}
	m.delay.Observe(delay.Seconds())
}

// bounded returns a kind that this version knows, because a newer agent may report other kinds.
func bounded(kind process.EventKind) string {
	if slices.Contains(process.EventKinds(), kind) {
		return string(kind)
	}
	return "other"
}

// Audited implements kit.Watch.
func (m *Metrics) Audited(rows int) { m.audited.Add(float64(rows)) }

// Reported counts a report of an agent.
func (m *Metrics) Reported(size int, took time.Duration) {
	m.reports.Observe(float64(size))
	m.reportTime.Observe(took.Seconds())
}

// Handler serves the metrics, and the metrics that more writes in the text format; more may be nil.
func (m *Metrics) Handler(more func(io.Writer) error, log *slog.Logger) http.Handler {
	all := prometheus.Gatherers{m.registry}
	if more != nil {
		all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return read(more) }))
	}
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
	})
}

// read parses metrics in the text format.
func read(write func(io.Writer) error) ([]*dto.MetricFamily, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	_ = r.Close() // ends the writer if the text was not read to its end
	if err != nil {
		return nil, fmt.Errorf("cannot read more metrics: %w", err)
	}
	list := make([]*dto.MetricFamily, 0, len(families))
	for _, f := range families {
		list = append(list, f)
	}
	return list, nil
}
