package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"drover/internal/pki"
	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// Sources are read at each request of /metrics.
type Sources struct {
	Store     Store
	Agents    Agents
	Receivers Receivers
	// Waiting counts the items that wait for something else on the way to their agents.
	Waiting func() int
	// Certificates returns the certificates that the server presents, and its authorities; none without TLS.
	Certificates func() []pki.Certificate
	// Servers returns the number of online servers of the fleet. Skew is how far the machine's clock is ahead of the
	// database's. ClocksOff returns the number of hosts with wrong clocks.
	Servers func() int
	Skew    func() time.Duration
	// LogLost returns the number of lines of the server's log that were lost since its start.
	LogLost   func() uint64
	ClocksOff func() int
	// Proxies returns the number of proxies that have joined, and how many of them are online.
	Proxies func() (known, online int)
	// Unregistered returns the number of agents whose reports were rejected lately because the register does not have
	// them.
	Unregistered func() int
	Now          func() time.Time
	Log          *slog.Logger
}

// Store is the part of the store for the metrics.
type Store interface {
	store.Counting
	ListReceivers(ctx context.Context) ([]store.Subscription, error)
	LastCursor(ctx context.Context) (int64, error)
}

// Agents counts the agents that have joined, and the online ones.
type Agents interface {
	Count(now time.Time) (known, online int)
	// Rivals counts the agents whose key a second host uses.
	Rivals(now time.Time) int
}

// Receivers returns the progress of receivers.
type Receivers interface {
	Latest(s store.Subscription) store.Delivery
}

// Show adds the state of a server to its figures.
func (m *Metrics) Show(s Sources) { m.registry.MustRegister(newState(s)) }

const (
	// askTime bounds how long the store may take.
	askTime = 5 * time.Second
	// countEvery is the shortest interval between counts of all processes, however often /metrics is read.
	countEvery = 10 * time.Second
)

// state is the collector of the values that are read at each request.
type state struct {
	Sources
	fleet     fleetDescs
	processes processDescs
	hooks     hookDescs
	counted   cachedCounts
}

// fleetDescs describes the metrics of the servers, the hosts and the links between them.
type fleetDescs struct {
	servers, skew, certificates, logLost *prometheus.Desc
	agents, clocksOff, copied, unknown   *prometheus.Desc
	proxies, outbox                      *prometheus.Desc
}

// processDescs describes the metrics that need counts of the store.
type processDescs struct {
	states, hosted, flapping, unhealthy, drifted, items *prometheus.Desc
}

// hookDescs describes the metrics of each receiver.
type hookDescs struct {
	lag, failing, attempts, delivered *prometheus.Desc
}

// cachedCounts holds the last counts and their time; zero means never.
type cachedCounts struct {
	mu     sync.Mutex
	at     time.Time
	counts store.Counts
}

func newState(s Sources) *state {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &state{
		Sources: s,
		fleet: fleetDescs{
			servers: desc("drover_servers",
				"Servers of the fleet that are online as seen by this server, including itself."),
			skew: desc("drover_clock_skew_seconds",
				"How far the clock of this machine is ahead of the database's clock, which times the operations."),
			logLost: desc("drover_log_lines_lost_total",
				"Lines of the server's log that were lost because its reader was away or too slow."),
			certificates: desc("drover_certificate_expiry_timestamp_seconds",
				"Expiry of a certificate of the server, in Unix seconds.", "certificate"),
			agents: desc("drover_hosts", "Joined agents, by presence (online or away).",
				"presence"),
			clocksOff: desc("drover_hosts_clock_off",
				"Online agents whose host's clock was off by more than 30 s at their last message to this server."),
			copied: desc("drover_hosts_copied",
				"Agents whose key a second host uses; the server rejects the host that came later."),
			unknown: desc("drover_hosts_unknown",
				"Agents whose reports this server rejected in the last 5 minutes because its database does not know them."),
			proxies: desc("drover_proxies",
				"Joined proxies, by presence (online or away) as seen by this server.", "presence"),
			outbox: desc("drover_outbox_items",
				"Operations that wait in memory because the server is sending another one to the same agent."),
		},
		processes: processDescs{
			states: desc("drover_processes",
				"Processes by their last known state; counted at most every 10 s.", "state"),
			hosted:   desc("drover_processes_hosted", "Hosted processes."),
			flapping: desc("drover_processes_flapping", "Processes that drover relaunched too often lately."),
			unhealthy: desc("drover_processes_unhealthy",
				"Processes whose health check failed too often in a row."),
			drifted: desc("drover_processes_config_drifted",
				"Processes with a configuration file that differs from the checksum in the spec."),
			items: desc("drover_open_items",
				"Open operations on one process of one host, by state.", "state"),
		},
		hooks: hookDescs{
			lag: desc("drover_receiver_lag_events",
				"Events that arrived after the last event that the receiver handled.", "receiver"),
			failing: desc("drover_receiver_failing", "1 if the last delivery to the receiver failed, otherwise 0.",
				"receiver"),
			attempts: desc("drover_receiver_failed_attempts",
				"Failed attempts since the last successful delivery to the receiver.", "receiver"),
			delivered: desc("drover_receiver_last_delivery_timestamp_seconds",
				"Time of the last successful delivery to the receiver, in Unix seconds; 0 means never.", "receiver"),
		},
	}
}

// Describe implements prometheus.Collector.
func (s *state) Describe(out chan<- *prometheus.Desc) {
	f, p, h := s.fleet, s.processes, s.hooks
	for _, d := range []*prometheus.Desc{
		f.servers, f.skew, f.logLost, f.certificates, f.agents, f.clocksOff, f.copied, f.unknown, f.proxies,
		f.outbox,
		p.states, p.hosted, p.flapping, p.unhealthy, p.drifted, p.items,
		h.lag, h.failing, h.attempts, h.delivered,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It leaves out values that it cannot read.
func (s *state) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	known, online := s.Agents.Count(s.Now())
	gauge(s.fleet.agents, float64(online), "online")
	gauge(s.fleet.agents, float64(known-online), "away")
	gauge(s.fleet.copied, float64(s.Agents.Rivals(s.Now())))
	gauge(s.fleet.unknown, float64(s.Unregistered()))
	gauge(s.fleet.outbox, float64(s.Waiting()))
	known, online = s.Proxies()
	gauge(s.fleet.proxies, float64(online), "online")
	gauge(s.fleet.proxies, float64(known-online), "away")
	gauge(s.fleet.servers, float64(s.Servers()))
	gauge(s.fleet.skew, s.Skew().Seconds())
	out <- prometheus.MustNewConstMetric(s.fleet.logLost, prometheus.CounterValue, float64(s.LogLost()))
	gauge(s.fleet.clocksOff, float64(s.ClocksOff()))
	for _, c := range s.Certificates() {
		gauge(s.fleet.certificates, float64(c.Ends.Unix()), c.Name)
	}
	if f, err := s.count(ctx); err != nil {
		s.Log.WarnContext(ctx, "cannot count processes", "error", err)
	} else {
		for name, n := range byState(f.Processes) {
			gauge(s.processes.states, float64(n), name)
		}
		gauge(s.processes.hosted, float64(f.Hosted))
		gauge(s.processes.flapping, float64(f.Flapping))
		gauge(s.processes.unhealthy, float64(f.Unhealthy))
		gauge(s.processes.drifted, float64(f.Drifted))
		for _, of := range task.States() {
			if of != task.Done {
				gauge(s.processes.items, float64(f.Items[of]), of.String())
			}
		}
	}
	if err := s.receivers(ctx, gauge); err != nil {
		s.Log.WarnContext(ctx, "cannot read the state of receivers", "error", err)
	}
}

// count counts the store's contents, or returns the counts of a moment ago.
func (s *state) count(ctx context.Context) (store.Counts, error) {
	c := &s.counted
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < countEvery {
		return c.counts, nil
	}
	f, err := s.Store.Counts(ctx)
	if err != nil {
		return store.Counts{}, err
	}
	c.counts, c.at = f, time.Now()
	return f, nil
}

func (s *state) receivers(ctx context.Context, gauge func(d *prometheus.Desc, value float64, labels ...string)) error {
	list, err := s.Store.ListReceivers(ctx)
	if err != nil {
		return err
	}
	last, err := s.Store.LastCursor(ctx)
	if err != nil {
		return err
	}
	for _, sub := range list {
		d, name := s.Receivers.Latest(sub), sub.Receiver.Name
		failing, delivered := 0.0, 0.0
		if d.Failures > 0 {
			failing = 1
		}
		if !d.Delivered.IsZero() {
			delivered = float64(d.Delivered.UnixMilli()) / 1000
		}
		gauge(s.hooks.lag, float64(max(last-d.Cursor, 0)), name)
		gauge(s.hooks.failing, failing, name)
		gauge(s.hooks.attempts, float64(d.Failures), name)
		gauge(s.hooks.delivered, delivered, name)
	}
	return nil
}

// byState counts the processes in each state. It counts unknown states together, because agents report them.
func byState(counts map[string]int) map[string]int {
	known := map[string]int{"other": 0}
	for _, name := range process.States() {
		known[name] = 0
	}
	for name, n := range counts {
		if _, ok := known[name]; !ok {
			name = "other"
		}
		known[name] += n
	}
	return known
}
