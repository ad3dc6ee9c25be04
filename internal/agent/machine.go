package agent

import (
	"context"
	"log/slog"

	"drover/internal/agent/facts"
	"drover/internal/agent/procfs"
	"drover/internal/config"
	"drover/internal/selector"
	"drover/internal/wire"
)

// Machine describes this host, as far as its facts are readable at once.
func Machine() wire.Host { return facts.Machine(procfs.New("/proc")) }

// Facts describes this host completely, as the agent with the settings reports it, and returns the faults of the
// owner's facts. It runs the owner's executables.
func Facts(ctx context.Context, settings config.Agent, log *slog.Logger) (wire.Host, []error) {
	labels, _ := selector.ParseLabels(settings.Labels) // the settings were validated
	return facts.New(facts.Config{
		FS: procfs.New("/proc"), Dir: settings.FactsDir, Labels: labels, Log: log,
	}).Collect(ctx)
}
