// Package metrics counts the work of an agent and writes the counts in the text format of Prometheus. It owns the
// names and their meaning, and the optional listener. It needs only counters, gauges and one sum of times; a library
// for them would make the agent larger by a quarter. The agent supplies other figures, such as processes by state, at
// each scrape.
package metrics

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drover/internal/process"
)

// Metrics are the figures of one agent. Its methods may be called from any goroutine and do not block.
type Metrics struct {
	build   string
	started time.Time

	mu       sync.Mutex
	events   map[process.EventKind]int64
	launches struct {
		count, failed int64
		time          time.Duration
	}
	reports struct {
		delivered, failed, bytes int64
		last                     time.Time
	}
	accepted, finished int64
}

// State is the state of the agent at a scrape.
type State struct {
	// Processes counts the known processes by state (docs/states.md). Hosted, Flapping and Unhealthy count the
	// processes with that property.
	Processes                   map[string]int
	Hosted, Flapping, Unhealthy int
	// Waiting counts operations that wait for others on the same process.
	Waiting int
	// PendingBytes is the size of the events that the server has not acknowledged. Unwritten counts the events that
	// wait for the disk, and Lost the events that were lost since the start.
	PendingBytes    int64
	Unwritten, Lost int
	// LogLost counts the lines of the agent's log that were lost, since the start.
	LogLost uint64
	// Ignored counts notifications that belong to no run, since the start.
	Ignored int64
	// Used are the processes with metrics of their own; nil if the owner of the host wants none. UsedMore is the number
	// of processes that were left out.
	Used     []Used
	UsedMore int
	// Connected is whether there is a link to the server.
	Connected bool
}

// Used is what a process with its whole tree used at the last look: CPU in percent of the machine, Memory in bytes.
// Files is 0 if it is not known.
type Used struct {
	Process process.ID
	CPU     float64
	Memory  int64
	Files   int
}

// New returns figures that are all zero, of a build of drover that begins now.
func New(build string) *Metrics {
	return &Metrics{build: build, started: time.Now(), events: map[process.EventKind]int64{}}
}

// Happened counts an event.
func (m *Metrics) Happened(kind process.EventKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events[kind]++
}

// Launched counts a command that was brought to its gate, or could not be.
func (m *Metrics) Launched(took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.launches.count++
	m.launches.time += took
	if err != nil {
		m.launches.failed++
	}
}

// Reported counts a report that the server has taken, or has not.
func (m *Metrics) Reported(size int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.reports.failed++
		return
	}
	m.reports.delivered++
	m.reports.bytes += int64(size)
	m.reports.last = time.Now()
}

// Accepted counts operations that have been taken.
func (m *Metrics) Accepted(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accepted += int64(n)
}

// Finished counts an operation that has its outcome.
func (m *Metrics) Finished() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finished++
}

// Write writes the figures.
func (m *Metrics) Write(w io.Writer, s State) error {
	p := &page{}
	m.write(p, s)
	if _, err := w.Write(p.text.Bytes()); err != nil {
		return fmt.Errorf("cannot write metrics: %w", err)
	}
	return nil
}

func (m *Metrics) write(p *page, s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := p.family("drover_agent_processes", "gauge", "Known processes, by state.")
	for _, name := range sorted(s.Processes) {
		states.add(float64(s.Processes[name]), "state", name)
	}
	p.gauge("drover_agent_processes_hosted", "Processes that the agent hosts.", float64(s.Hosted))
	p.gauge("drover_agent_processes_flapping", "Processes that drover relaunched too often lately.",
		float64(s.Flapping))
	p.gauge("drover_agent_processes_unhealthy", "Processes whose health check failed too often in a row.",
		float64(s.Unhealthy))
	events := p.family("drover_agent_events_total", "counter", "Events of processes, by kind.")
	for _, kind := range process.EventKinds() {
		events.add(float64(m.events[kind]), "kind", string(kind))
	}
	p.counter("drover_agent_relaunches_total", "Relaunches of processes.",
		float64(m.events[process.EventRelaunched]))
	p.gauge("drover_agent_events_pending_bytes", "Size of the events on disk that the server has not acknowledged.",
		float64(s.PendingBytes))
	p.gauge("drover_agent_events_unwritten", "Events that wait in memory because the agent cannot write them to disk.",
		float64(s.Unwritten))
	p.counter("drover_agent_events_lost_total", "Events that the agent dropped because it had no room for them.",
		float64(s.Lost))
	p.counter("drover_agent_log_lines_lost_total",
		"Lines of the agent's log that were lost because its reader was away or too slow.", float64(s.LogLost))
	p.counter("drover_agent_notifications_ignored_total",
		"Notifications that came from no run of the agent, or were too long.", float64(s.Ignored))
	p.counter("drover_agent_operations_accepted_total", "Accepted operations.", float64(m.accepted))
	p.counter("drover_agent_operations_finished_total", "Finished operations.", float64(m.finished))
	p.gauge("drover_agent_operations_waiting", "Operations that wait for another operation on the same process.",
		float64(s.Waiting))
	launches := p.family("drover_agent_launch_seconds", "summary",
		"Time to launch a command up to the gate, where it waits until its identity is on disk.")
	launches.sample("_sum", m.launches.time.Seconds())
	launches.sample("_count", float64(m.launches.count))
	p.counter("drover_agent_launch_failures_total", "Commands that did not reach the gate.",
		float64(m.launches.failed))
	p.counter("drover_agent_reports_total", "Reports that the server acknowledged.", float64(m.reports.delivered))
	p.counter("drover_agent_report_bytes_total", "Size of the acknowledged reports.", float64(m.reports.bytes))
	p.counter("drover_agent_report_failures_total",
		"Reports that the server did not acknowledge; the agent creates them anew.",
		float64(m.reports.failed))
	last := m.reports.last
	if last.IsZero() {
		last = m.started
	}
	p.gauge("drover_agent_report_age_seconds",
		"Time since the server last acknowledged a report, or since the start of the agent.",
		time.Since(last).Seconds())
	connected := 0.0
	if s.Connected {
		connected = 1
	}
	p.gauge("drover_agent_connected", "1 while the agent is connected to the server, otherwise 0.", connected)
	writeUsed(p, s)
	p.gauge("drover_agent_start_timestamp_seconds", "Start time of the agent, in Unix seconds.",
		float64(m.started.Unix()))
	p.family("drover_agent_build_info", "gauge",
		"Always 1; the labels name the build that runs.").add(1, "version", m.build,
		"go_version", runtime.Version())
}

// writeUsed writes the figures of single processes.
func writeUsed(p *page, s State) {
	if s.Used == nil {
		return
	}
	p.gauge("drover_agent_process_metrics_left_out",
		"Running processes without metrics of their own, because there are more than --process-metrics.",
		float64(s.UsedMore))
	for _, f := range []struct {
		name, help string
		of         func(u *Used) float64
	}{
		{
			"drover_agent_process_cpu_percent", "CPU that a process with its whole tree uses, in percent of the host.",
			func(u *Used) float64 { return u.CPU },
		},
		{
			"drover_agent_process_memory_bytes", "Memory that a process with its whole tree uses.",
			func(u *Used) float64 { return float64(u.Memory) },
		},
		{
			"drover_agent_process_open_files", "Files that a process has open, 0 if that is not known.",
			func(u *Used) float64 { return float64(u.Files) },
		},
	} {
		if len(s.Used) == 0 {
			return
		}
		family := p.family(f.name, "gauge", f.help)
		for i := range s.Used {
			u := &s.Used[i]
			family.add(f.of(u), "namespace", strings.ToValidUTF8(u.Process.Namespace, "\uFFFD"),
				"name", strings.ToValidUTF8(u.Process.Name, "\uFFFD"))
		}
	}
}

func sorted(counts map[string]int) []string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// page is a text in the format of Prometheus.
type page struct{ text bytes.Buffer }

// family has the samples of one name.
type family struct {
	page *page
	name string
}

// family starts the samples of a name.
func (p *page) family(name, kind, help string) family {
	fmt.Fprintf(&p.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	return family{p, name}
}

func (p *page) gauge(name, help string, value float64) { p.family(name, "gauge", help).add(value) }

func (p *page) counter(name, help string, value float64) { p.family(name, "counter", help).add(value) }

// add adds a sample with labels, given as names and values.
func (f family) add(value float64, labels ...string) {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+escape.Replace(labels[i+1])+`"`)
	}
	suffix := ""
	if len(pairs) > 0 {
		suffix = "{" + strings.Join(pairs, ",") + "}"
	}
	f.sample(suffix, value)
}

func (f family) sample(suffix string, value float64) {
	f.page.text.WriteString(f.name + suffix + " " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}
