package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/host"
	"drover/internal/agent/logs"
	"drover/internal/agent/specstore"
	"drover/internal/agent/uplink"
	"drover/internal/clip"
	"drover/internal/group"
	"drover/internal/process"
)

// Key returns the agent's public key, which is its name on the fabric.
func (a *Agent) Key() string { return a.link.Key() }

// Ready returns nil once the agent can take operations.
func (a *Agent) Ready() error {
	if !a.link.Ready() {
		return errors.New("the agent is not connected to the fabric")
	}
	return nil
}

// Notes says what this agent cannot do on its host.
func (a *Agent) Notes() []string {
	var notes []string
	if uid := os.Geteuid(); uid != 0 {
		notes = append(notes,
			fmt.Sprintf("the agent runs as uid %d, not as root: it can run processes only as that user", uid))
	}
	if mode := a.host.Groups(); mode == cgroup.ModeNone {
		notes = append(notes,
			"no control group can be written: what a command leaves behind is searched for in /proc, and a fork storm may escape")
	}
	if summary := a.policy.Summary(); summary != "" {
		notes = append(notes, "the policy of this host narrows what may be done: "+summary)
	}
	return notes
}

// troubles says what is wrong with the agent itself, for the server and for /readyz of drover dev.
func (a *Agent) troubles() []string {
	var notes []string
	if since := a.cfg.Service.LostSince(); since != 0 {
		notes = append(notes, "lines of the agent's own log have been lost since "+
			time.UnixMilli(since).UTC().Format(time.RFC3339)+": its reader is away, or too slow")
	}
	if err := fewDescriptors(); err != nil {
		notes = append(notes, err.Error())
	}
	if err := a.store.CheckFiles(); err != nil {
		notes = append(notes, err.Error())
	}
	for _, lack := range a.host.Lacks() {
		notes = append(notes, clip.Head(lack, noteLength))
	}
	if dir := logsOf(a.cfg.Dir); a.facts.Full(dir) != 0 {
		if largest, err := logs.Largest(dir, 3); err == nil && len(largest) > 0 {
			notes = append(notes, largestLogs(dir, largest))
		}
	}
	return notes
}

// noteLength is how long a note may be, in bytes.
const noteLength = 255

// largestLogs names the logs that take most room.
func largestLogs(dir string, largest []logs.Size) string {
	names := make([]string, len(largest))
	for i, l := range largest {
		names[i] = fmt.Sprintf("%s %d MiB", l.Process, l.Bytes>>20)
	}
	return clip.Head("the largest logs in "+dir+": "+strings.Join(names, ", "), noteLength)
}

// Run supervises processes and takes orders until ctx ends. If the server is unreachable, only the server's knowledge
// suffers. If something on the host hangs, Run returns stopTime after ctx has ended, and the end of this process
// cleans up.
//
// It also returns if another version has to be tried: see Due.
func (a *Agent) Run(ctx context.Context) error {
	ctx, a.stop = context.WithCancel(ctx)
	defer a.stop()
	return stopWithin(ctx, stopTime, a.run)
}

func (a *Agent) run(ctx context.Context) error {
	defer a.store.Close()  //nolint:errcheck // everything that counts has been synced
	defer a.events.Close() //nolint:errcheck // it has been synced
	defer a.recordAgent(process.StateStopped)
	defer a.saveUsage()
	defer a.host.Close()
	return group.Run(ctx,
		group.Part{Name: "host", Run: a.host.Run},
		group.Part{Name: "logs", Run: a.logs.Run},
		group.Part{Name: "prober", Run: func(ctx context.Context) error { return a.prober.Run(ctx, a.super) }},
		group.Part{Name: "limits", Run: func(ctx context.Context) error { return a.limits.Run(ctx, a.super, a.super) }},
		group.Part{Name: "timetable", Run: func(ctx context.Context) error { return a.timetable.Run(ctx, a.super) }},
		group.Part{Name: "events", Run: a.events.Run},
		group.Part{Name: "supervisor", Run: a.super.Run},
		group.Part{Name: "notices", Run: a.hearNotices},
		group.Part{Name: "reporter", Run: func(ctx context.Context) error {
			return a.reporter.Run(ctx, a.super, a.intake)
		}},
		group.Part{Name: "facts", Run: func(ctx context.Context) error { return a.facts.Run(ctx, a.link.Outdated) }},
		group.Part{Name: "housekeeping", Run: a.runHousekeeping},
		group.Part{Name: "upgrades", Run: func(ctx context.Context) error { return a.upgrades.Run(ctx, a.stop) }},
		group.Part{Name: "proof", Run: a.prove},
		group.Part{Name: "metrics", Run: a.serveMetrics},
		group.Part{Name: "shutdown", Run: a.hearShutdown},
		group.Part{Name: "link", Run: func(ctx context.Context) error {
			return a.link.Run(ctx, uplink.Handlers{
				Orders: a.intake.Take, Logs: a.intake.Ask, Pinged: a.reporter.Ask,
			})
		}},
	)
}

// recordAgent records that the agent runs, or has stopped. A server then knows what nobody has watched.
func (a *Agent) recordAgent(state string) {
	version := versionOf(&a.cfg)
	if a.cfg.Prove != nil {
		version += process.OnTrial
	}
	a.events.Append(process.Event{Kind: process.EventState, Shown: &process.Shown{State: state, Version: version}})
}

// hearNotices passes on what processes say of themselves.
func (a *Agent) hearNotices(ctx context.Context) error {
	for {
		run, ok := a.host.AwaitNotice(ctx)
		if !ok {
			return nil
		}
		a.super.TakeNotice(run)
	}
}

// watchdog implements probe.Config.
func (a *Agent) watchdog(run string) (last time.Duration, trouble bool) {
	said, _ := a.host.State(run)
	return said.Watchdog, said.Triggered
}

// runHousekeeping drops data that is no longer needed.
func (a *Agent) runHousekeeping(ctx context.Context) error {
	sweep, prune := time.NewTicker(relistEvery), time.NewTicker(pruneEvery)
	defer sweep.Stop()
	defer prune.Stop()
	told := a.policy.Summary()
	for {
		select {
		case <-sweep.C:
			if now := a.policy.Summary(); now != told {
				told = now
				a.link.Outdated()
			}
			if a.eventsLost.Swap(false) {
				a.super.RecordAll()
			}
			a.intake.Expire()
			a.usage.Tidy(a.super.ProcessIDs(), host.SinceBoot())
			a.logs.Sweep(a.super.ProcessIDs())
			a.host.Sweep(a.super.Runs) //nolint:contextcheck // a sweep that has begun to end something finishes
		case <-prune.C:
			if err := a.store.Prune(specstore.Age{
				SinceBoot: host.SinceBoot(), Wall: a.wall(),
				Keep: keepCommands,
			}); err != nil {
				a.cfg.Log.Warn("cannot prune journal", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
