package agent

import (
	"time"

	"drover/internal/agent/eventlog"
	"drover/internal/agent/metrics"
	"drover/internal/agent/orders"
	"drover/internal/agent/report"
	"drover/internal/process"
)

// sink passes on what the supervisor reports.
type sink struct {
	tracker  *orders.Tracker
	reporter *report.Reporter
	events   *eventlog.Log
	metrics  *metrics.Metrics
	// changed is called for a process that has changed.
	changed func(id process.ID)
}

// Began implements supervisor.Sink.
func (s *sink) Began(item string, limit time.Duration) { s.tracker.Began(item, limit) }

// Finished implements supervisor.Sink.
func (s *sink) Finished(item string, outcome process.Outcome) {
	s.metrics.Finished()
	s.tracker.Finished(item, outcome)
}

// Changed implements supervisor.Sink.
func (s *sink) Changed(id process.ID) {
	s.changed(id)
	s.reporter.Changed(id)
}

// Happened implements supervisor.Sink.
func (s *sink) Happened(e process.Event) {
	s.metrics.Happened(e.Kind)
	s.events.Append(e)
	s.reporter.Happened()
}

// StateShown implements supervisor.Sink. The reporter sends it with the state, which Changed announces.
func (s *sink) StateShown(id process.ID, at int64, shown process.Shown) {
	s.events.Append(process.Event{Process: id, At: at, Kind: process.EventState, Shown: &shown})
}

// Removed implements supervisor.Sink.
func (s *sink) Removed(id process.ID, revision uint64) { s.reporter.Removed(id, revision) }
