package agent

import (
	"cmp"
	"context"
	"runtime"
	"strings"

	"drover/internal/agent/host"
	"drover/internal/agent/orders"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/agent/supervisor"
	"drover/internal/agent/upgrade"
	"drover/internal/agent/uplink/linkstate"
	"drover/internal/process"
	"drover/internal/release"
)

// commands gives each order to its part.
type commands struct {
	processes *supervisor.Supervisor
	upgrades  *upgrade.Upgrader
}

// Submit implements orders.Queue.
func (c commands) Submit(entries []record.Entry) {
	upgrades, others := split(entries)
	c.upgrades.Submit(upgrades)
	c.processes.Submit(others)
}

// split separates the orders on the agent itself from those on processes.
func split(entries []record.Entry) (upgrades, others []record.Entry) {
	for _, e := range entries {
		if e.Op.Name() == process.Upgrade {
			upgrades = append(upgrades, e)
		} else {
			others = append(others, e)
		}
	}
	return upgrades, others
}

// versionOf returns the version to report: that of the fetched program, or the build.
func versionOf(cfg *Config) string {
	if cfg.Version != nil {
		return cfg.Version.Version
	}
	return cfg.Build
}

// newUpgrades returns the part that upgrades the agent.
func (a *Agent) newUpgrades(fs procfs.FS, tracker *orders.Tracker, disk Disk) *upgrade.Upgrader {
	return upgrade.New(upgrade.Config{
		Dir: a.cfg.Dir, Keys: strings.FieldsFunc(a.cfg.Settings.ReleaseKeys, func(r rune) bool { return r == ',' }),
		Arch: runtime.GOARCH, Format: release.Format, Version: release.Ordered(cmp.Or(versionOf(&a.cfg), a.cfg.Build)),
		Trial: a.cfg.Prove != nil, Orders: tracker, Journal: disk,
		Allow: func(op process.Op) error { return a.policy.Allow(process.AgentID(), op, nil) },
		Ask:   a.link.Package, Sights: func() []upgrade.Sight { return a.sights(fs) }, Clock: host.SinceBoot,
		Changed: func(e process.Event) {
			a.link.Outdated()
			a.events.Append(e)
			a.reporter.Happened()
		},
		Log: a.cfg.Log,
	})
}

// PendingTrial returns the trial that has to begin now that Run has returned without an error; nil if there is none.
func (a *Agent) PendingTrial() *upgrade.PendingTrial { return a.upgrades.PendingTrial() }

// sights returns the running processes that the agent has seen.
func (a *Agent) sights(fs procfs.FS) []upgrade.Sight {
	list := []upgrade.Sight{}
	for _, id := range a.super.ProcessIDs() {
		_, rt, ok := a.super.Running(id)
		status, _, known := a.super.Snapshot(id)
		if ok && known && status.Instance.PID == rt.Process.PID && fs.Same(*rt.Process) {
			list = append(list, upgrade.Sight{Process: id, Instance: *rt.Process})
		}
	}
	return list
}

// prove proves to the judge of a trial that this program works.
func (a *Agent) prove(ctx context.Context) error {
	if a.cfg.Prove == nil {
		<-ctx.Done()
		return nil
	}
	fs := procfs.New("/proc")
	linked := func() bool { return a.link.Now().State == linkstate.Confirmed }
	return upgrade.Prove(ctx, a.cfg.Prove, linked, func() []upgrade.Sight { return a.sights(fs) })
}
