package agent

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"drover/internal/agent/host"
	"drover/internal/agent/usage"
	"drover/internal/durable"
	"drover/internal/process"
	"drover/internal/wire"
)

// usageFile is the file with the histories of usage while no agent runs.
const usageFile = "usage"

// openUsage returns the histories that the last agent of this boot has saved. The file is valid once: an agent that
// dies writes none, and old histories would hide that time.
func openUsage(cfg *Config, boot string) *usage.Book {
	book, path := usage.NewBook(), filepath.Join(cfg.Dir, usageFile)
	if cfg.Prove != nil {
		return book
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(book.Load(data, boot), os.Remove(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		cfg.Log.Info("histories of usage begin anew", "error", err)
	}
	return book
}

// saveUsage saves the histories for the next agent.
func (a *Agent) saveUsage() {
	if a.cfg.Prove != nil {
		return
	}
	var data bytes.Buffer
	err := a.usage.Save(&data, a.store.BootID())
	if err == nil {
		err = durable.Replace(filepath.Join(a.cfg.Dir, usageFile), data.Bytes(), 0o600)
	}
	if err != nil {
		a.cfg.Log.Warn("cannot save histories of usage", "error", err)
	}
}

// Usage implements orders.Logs.
func (a *Agent) Usage(_ context.Context, q wire.UsageQuestion) wire.UsageAnswer {
	spec, _ := a.super.Spec(q.Process)
	if spec == nil {
		return wire.UsageAnswer{Error: "the process is not registered on this host"}
	}
	if err := a.policy.Allow(q.Process, process.Query, spec); err != nil {
		return wire.UsageAnswer{Error: err.Error()}
	}
	now := host.SinceBoot()
	steps, end := a.usage.History(q.Process, time.Duration(q.Seconds)*time.Second, now)
	answer := wire.UsageAnswer{End: a.wall().Add(end - now).UnixMilli()}
	for i, s := range steps {
		if s != (usage.Step{}) {
			answer.Steps = append(answer.Steps, wire.UsageStep{
				Before: len(steps) - 1 - i, CPU: s.CPU, Memory: s.Memory, Files: s.Files, Restarted: s.Restarted,
			})
		}
	}
	return answer
}
