package processes

import (
	"context"
	"net/http"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// ReadUsage returns what a process has used on one host. It asks the host, which keeps the history.
func (h *Handler) ReadUsage(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := process.ID{Namespace: c.Request.PathValue("namespace"), Name: c.Request.PathValue("name")}
	c.Audit.Target = edge.Clip(id.String())
	window := map[string]time.Duration{
		"": time.Hour, v1.UsageQuarter: 15 * time.Minute, v1.UsageHour: time.Hour, v1.UsageDay: 24 * time.Hour,
	}[c.Params.Choice("last", v1.UsageQuarter, v1.UsageHour, v1.UsageDay)]
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	query := access.OperationOf(process.Query)
	reach := c.Principal.On(query, id.Namespace)
	if reach.Nowhere() {
		return call.Reply{}, call.Forbidden(access.Missing{Operation: query, Subject: id.String()})
	}
	unknown := call.Problemf(http.StatusNotFound, "the host %.80q knows no process %q", c.Request.PathValue("host"),
		id.String())
	agent, joined := h.Directory.LookupID(c.Request.PathValue("host"))
	if !joined || !reach.Covers(gate.Host(agent)) {
		return call.Reply{}, unknown
	}
	rows, _, err := h.Listing.ListObserved(ctx, store.ObservedFilter{Process: id, Agents: []string{agent.Key}},
		store.ObservedKey{}, 1)
	switch {
	case err != nil:
		return call.Reply{}, call.Failure("read the process", err)
	case len(rows) == 0:
		return call.Reply{}, unknown
	}
	leave, free := h.Readers.Enter(c.Principal.App, call.MaxStreams)
	if !free {
		return call.Reply{}, call.Busy("the app reads too many answers of hosts at the same time", int(call.Heartbeat/time.Second))
	}
	defer leave()
	c.Audit.Targets = 1
	a, err := h.Logs.Usage(ctx, agent.Key, wire.UsageQuestion{Process: id, Seconds: int(window / time.Second)})
	if err != nil {
		a = wire.UsageAnswer{Error: err.Error()}
	}
	return call.OK(viewUsage(id, h.hosts.View(agent), window, &a))
}

func viewUsage(id process.ID, host v1.Host, window time.Duration, a *wire.UsageAnswer) v1.UsageHistory {
	step := wire.UsageStepOf(window)
	v := v1.UsageHistory{
		Namespace: id.Namespace, Name: id.Name, Host: host, Step: int(step / time.Second), Steps: []v1.UsageStep{},
		Problem: a.Error,
	}
	if v.End = call.MilliTime(a.End); v.End == nil {
		return v
	}
	start := v.End.Add(-window)
	v.Start = &start
	for _, s := range a.Steps {
		v.Steps = append(v.Steps, v1.UsageStep{
			At: v.End.Add(-time.Duration(s.Before) * step), CPU: s.CPU, Memory: s.Memory, Files: s.Files,
			Restarted: s.Restarted,
		})
	}
	return v
}
