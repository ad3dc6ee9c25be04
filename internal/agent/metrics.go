package agent

import (
	"context"
	"io"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/metrics"
	"drover/internal/agent/report"
	"drover/internal/process"
)

// WriteMetrics writes the counts and the state of the agent in the text format of Prometheus.
func (a *Agent) WriteMetrics(w io.Writer) error {
	f, b := a.super.Counts(), a.events.Backlog()
	used, more := a.used()
	return a.metrics.Write(w, metrics.State{
		Processes: f.States, Hosted: f.Hosted, Flapping: f.Flapping, Unhealthy: f.Unhealthy, Waiting: f.Waiting,
		PendingBytes: b.Bytes, Unwritten: b.Unwritten, Lost: b.Lost, Connected: a.link.Ready(),
		LogLost: a.cfg.Service.Lost(), Ignored: a.host.Ignored(), Used: used, UsedMore: more,
	})
}

// used returns the use of the first processes by name, and the number of the others; nil unless the owner wants it.
func (a *Agent) used() (list []metrics.Used, more int) {
	most := a.cfg.Settings.ProcessMetrics
	if most == 0 {
		return nil, 0
	}
	uses := a.limits.Uses()
	list = make([]metrics.Used, 0, min(most, len(uses)))
	for _, u := range uses[:min(most, len(uses))] {
		list = append(list, metrics.Used{Process: u.ID, CPU: u.CPU, Memory: u.Memory, Files: u.Files})
	}
	return list, len(uses) - len(list)
}

// serveMetrics answers /metrics until ctx ends, if a listener is configured.
func (a *Agent) serveMetrics(ctx context.Context) error {
	if a.cfg.Metrics == nil {
		<-ctx.Done()
		return nil
	}
	return metrics.Serve(ctx, a.cfg.Metrics, a.WriteMetrics, a.cfg.Log)
}

// measuredLink counts reports.
type measuredLink struct {
	report.Link
	metrics *metrics.Metrics
}

// Report implements report.Link.
func (l measuredLink) Report(ctx context.Context, data []byte) ([]byte, error) {
	reply, err := l.Link.Report(ctx, data)
	l.metrics.Reported(len(data), err)
	return reply, err
}

// measuredHost measures launches, and refuses those that would take the descriptors of what runs already.
type measuredHost struct {
	Host
	metrics *metrics.Metrics
}

// Preflight implements operation.Commands: Launch would refuse the start, too.
func (h measuredHost) Preflight(id process.ID, spec *process.Spec, lines []instance.Line, adopts bool) error {
	if err := fewDescriptors(); err != nil {
		return err
	}
	return h.Host.Preflight(id, spec, lines, adopts)
}

// Launch implements operation.Commands.
func (h measuredHost) Launch(id process.ID, run, line string, spec *process.Spec) (instance.Child, error) {
	if _, start := spec.Starter(); line == start || line == process.Replacing(start) { // what ends a process never is
		if err := fewDescriptors(); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	child, err := h.Host.Launch(id, run, line, spec)
	h.metrics.Launched(time.Since(begun), err)
	return child, err
}
