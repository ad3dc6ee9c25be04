// Package agent is the assembly of everything that runs on a host: supervisor, operations, disk and the link to the
// server. It decides nothing itself. Its death, stop or upgrade touches no process.
package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/agent/eventlog"
	"drover/internal/agent/facts"
	"drover/internal/agent/host"
	"drover/internal/agent/launch"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/limit"
	"drover/internal/agent/logs"
	"drover/internal/agent/metrics"
	"drover/internal/agent/operation"
	"drover/internal/agent/orders"
	"drover/internal/agent/policy"
	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/agent/report"
	"drover/internal/agent/specstore"
	"drover/internal/agent/supervisor"
	"drover/internal/agent/timetable"
	"drover/internal/agent/upgrade"
	"drover/internal/agent/uplink"
	"drover/internal/agent/usage"
	"drover/internal/config"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/loglimit"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/service"
	"drover/internal/wire"
)

// Config is what an agent needs.
type Config struct {
	// Dir is the agent's own directory; it is made with mode 0700. It holds the key, the enrolment and the state.
	Dir string
	// Build is the version to report.
	Build string
	// Policy is the file with the policy of this host; empty is policy.DefaultFile.
	Policy string
	// Settings say how drover supervises processes; the zero value stands for config.DefaultAgent.
	Settings config.Agent
	// Metrics is the listener for /metrics, which the agent closes. It may be nil.
	Metrics net.Listener
	// Version is the fetched version that this program is; nil for the installed program.
	Version *upgrade.Program
	// Prove is set while this program is tried: it writes its proofs there.
	Prove *os.File
	// Service is the program around the agent; nil in tests.
	Service *service.Service
	Log     *slog.Logger
	// Host is the machine to work on; nil means the machine of this process, which then serves this agent only.
	Host Host
	// Faults is nil but in tests.
	Faults *Faults
}

// Times that are not settings.
const (
	healthyAfter = time.Minute
	relistEvery  = 30 * time.Second
	// relaunchSpread is by how much the hosts of a fleet differ when they relaunch very many processes.
	relaunchSpread = 5 * time.Second
	// The journal keeps an operation for longer than the oldest manifest that could repeat it is admitted.
	keepCommands = orders.ReplayWindow + time.Hour
	pruneEvery   = 10 * time.Minute
	bootStarts   = 8
	// breachWindow is how long a breach of a limit counts.
	breachWindow = time.Hour
)

// Agent is one host's agent.
type Agent struct {
	cfg       Config
	wall      func() time.Time
	store     *specstore.Store
	host      Host
	policy    *policy.Checker
	facts     *facts.Collector
	metrics   *metrics.Metrics
	logs      *logs.Store
	events    *eventlog.Log
	link      *uplink.Link
	reporter  *report.Reporter
	prober    *probe.Prober
	limits    *limit.Monitor
	usage     *usage.Book
	timetable *timetable.Scheduler
	super     *supervisor.Supervisor
	intake    *orders.Intake
	// comparing counts the questions about running processes that are being answered.
	comparing atomic.Int32
	// eventsLost is set when events were lost.
	eventsLost atomic.Bool
	upgrades   *upgrade.Upgrader
	stop       context.CancelFunc // ends Run
}

// New opens the agent's directory, which must hold an enrolment, and takes over the work of the last agent. Without a
// Host it makes this process the reaper of orphans and sets its umask (launch.Prepare). It starts nothing before Run.
func New(cfg Config) (*Agent, error) {
	cfg.Log = slog.New(loglimit.New(cfg.Log.Handler(), limitFabric))
	if cfg.Settings == (config.Agent{}) {
		cfg.Settings = config.DefaultAgent()
	}
	if cfg.Host == nil {
		if err := launch.Prepare(); err != nil {
			return nil, fmt.Errorf("cannot prepare to start commands: %w", err)
		}
	}
	key, err := OwnKey(cfg.Dir)
	if err != nil {
		return nil, err
	}
	sealing, err := SealingKeys(cfg.Dir, key)
	if err != nil {
		return nil, err
	}
	link, err := uplink.Open(cfg.Dir, uplink.Keys{Name: key, Sealing: sealing}, host.SinceBoot, cfg.Log)
	if err != nil {
		return nil, err
	}
	fs := procfs.New("/proc")
	boot, err := fs.BootID()
	if err != nil {
		return nil, fmt.Errorf("%w; drover needs the whole /proc, without subset=pid", err)
	}
	// Do this before any write: daemons may have filled the disk meanwhile.
	if err := host.TrimOutputs(outputsOf(cfg.Dir)); err != nil {
		cfg.Log.Warn("cannot truncate outputs", "error", err)
	}
	output, err := logs.Open(logsOf(cfg.Dir), cfg.Log)
	if err != nil {
		return nil, err
	}
	open := specstore.Open
	if cfg.Prove != nil {
		open = specstore.OpenForTrial
	}
	store, err := open(cfg.Dir, boot)
	if err != nil {
		return nil, err
	}
	a, err := assemble(cfg, fs, link, store, output)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return a, nil
}

// assemble makes the parts, each from earlier parts. A part that calls a later part gets it in Run.
func assemble(cfg Config, fs procfs.FS, link *uplink.Link, store *specstore.Store,
	output *logs.Store,
) (*Agent, error) {
	faults := cmp.Or(cfg.Faults, noFaults())
	disk := faults.Disk(store)
	a := &Agent{
		cfg: cfg, wall: faults.Wall, store: store, link: link, metrics: metrics.New(cfg.Build), logs: output,
		policy: policy.New(cmp.Or(cfg.Policy, policy.DefaultFile), cfg.Log),
		usage:  openUsage(&cfg, store.BootID()),
	}
	labels, _ := selector.ParseLabels(cfg.Settings.Labels) // the settings were validated
	a.facts = facts.New(facts.Config{
		FS: fs, Dir: cfg.Settings.FactsDir, Labels: labels, Disks: []string{cfg.Dir, logsOf(cfg.Dir)},
		Notes: a.troubles, Log: cfg.Log,
	})
	newest, err := store.NewestManifest()
	if err != nil {
		return nil, err
	}
	if a.host, err = a.openHost(fs); err != nil {
		return nil, err
	}
	if a.events, err = eventlog.Open(eventlog.Config{
		Dir: filepath.Join(cfg.Dir, "events"), Booted: host.ClockOffset().Milliseconds(), Age: cfg.Settings.EventAge,
		Log:  cfg.Log,
		Lost: func() { a.eventsLost.Store(true) },
	}); err != nil {
		return nil, err
	}
	a.recordAgent(process.StateRunning)
	var tracker *orders.Tracker
	a.reporter = report.New(report.Config{
		Link: measuredLink{faults.Link(link), a.metrics}, LinkState: link.LinkState, Journal: disk, Events: a.events,
		Groups: store, Disk: store, Trusted: link.RenewTrust, Wall: a.wall, Heartbeat: uplink.Heartbeat, Log: cfg.Log,
		Complete: a.completion(placeOf(cfg.Dir, store.BootID())), Busy: func() bool { return tracker.Busy() },
		Hello: wire.Hello{
			Build: versionOf(&cfg), BootID: store.BootID(), Name: facts.Hostname(), Started: a.wall().Unix(),
			Root: os.Geteuid() == 0,
		},
	})
	tracker = orders.NewTracker(a.reporter, host.SinceBoot)
	a.prober = probe.New(probe.Config{
		Host: a.host, Clock: host.SinceBoot, NewRun: newRun, Watchdog: a.watchdog, Log: cfg.Log,
	})
	a.limits = limit.NewMonitor(limit.Config{
		Groups: store, Trees: a.host, Histories: a.usage, Clock: host.SinceBoot, Interval: cfg.Settings.LimitInterval,
		Log: cfg.Log,
	})
	a.timetable = timetable.New(timetable.Config{Now: a.wall, Host: link.Key()})
	a.super = supervisor.New(supervisor.Config{
		Store: disk, Histories: store, Revisions: store, Confirmed: link.Released(), MayBegin: tracker.MayBegin,
		Sink: &sink{tracker: tracker, reporter: a.reporter, events: a.events, metrics: a.metrics, changed: a.boundLog},
		Operation: operation.Config{
			Policy: a.policy, Processes: a.host, Commands: measuredHost{a.host, a.metrics}, Trees: a.host,
			Claims: a.host, Notices: a.host, Journal: disk, Prober: a.prober, Clock: host.SinceBoot, NewRun: newRun,
			Preflight: a.host.Preflight, LimitNotes: a.host.LimitNotes, OOM: a.host.OOM, Marks: a.host.Marks,
			Relimit: a.host.Relimit, AdoptPlaces: a.host.AdoptPlaces, LogRemoved: output.Removed,
			LogFull: func() int64 { return a.facts.Full(logsOf(cfg.Dir)) }, Log: cfg.Log,
		},
		Timetables: a.timetable, Probes: a.prober, Usages: a.limits, AnyOOM: a.host.AnyOOM,
		Remains: a.host,
		Alive:   cfg.Service.Beat, HealthyAfter: healthyAfter, Relist: relistEvery, BootStarts: bootStarts,
		Bounds: lifecycle.Bounds{
			Flaps: cfg.Settings.Flaps, FlapWindow: cfg.Settings.FlapWindow, BreachWindow: breachWindow,
		},
		Burst: cfg.Settings.RelaunchBurst, Rate: float64(cfg.Settings.RelaunchRate), Spread: relaunchSpread,
		Log: cfg.Log,
	})
	a.upgrades = a.newUpgrades(fs, tracker, disk)
	a.intake = orders.New(orders.Config{
		Disk: disk, Tracker: tracker, Commands: commands{a.super, a.upgrades},
		Questions: faults.Queue(a.super), Records: a.super, Relaunches: a.super, Logs: a,
		Newest: newest, Note: store.NoteManifest, Wall: a.wall, Clock: host.SinceBoot,
		Metrics: a.metrics, Log: cfg.Log,
	})
	return a, a.resume(tracker)
}

// openHost returns the machine to work on.
func (a *Agent) openHost(fs procfs.FS) (Host, error) {
	offset, err := a.store.ClockOffset(host.ClockOffset())
	if err != nil {
		a.cfg.Log.Warn("cannot store clock offset", "error", err)
	}
	if a.cfg.Host != nil {
		return a.cfg.Host, nil
	}
	return openMachine(a.cfg, fs, a.link, offset, a.store.Urgent, a.policy.MayRead, a.logs)
}

// completion adds to a report the facts that may change while the agent runs.
func (a *Agent) completion(place string) func(r *wire.Report) {
	return func(r *wire.Report) {
		a.link.CompleteReport(r)
		r.Place = place
		r.Load = a.facts.Load(r.Hello != nil)
		if r.Hello != nil {
			r.Hello.Policy, r.Hello.Host = a.policy.Summary(), a.facts.Host()
			r.Hello.Wanted, r.Hello.Upgrade = a.upgrades.Verdict()
			r.Hello.Build = cmp.Or(a.upgrades.Name(), r.Hello.Build)
		}
	}
}

// resume hands over the work of an earlier agent.
func (a *Agent) resume(tracker *orders.Tracker) error {
	records, err := a.store.Records()
	if err != nil {
		return err
	}
	open, unacked, err := a.store.Journal()
	if err != nil {
		return err
	}
	if err := a.resendOutcomes(records, unacked); err != nil {
		return err
	}
	underway := tracker.Adopt(open, a.store.BootID(), func(item string) bool {
		return a.super.Begun(item) || a.upgrades.Begun(item)
	})
	upgrades, others := split(underway)
	a.upgrades.Submit(upgrades)
	a.super.Adopt(records, others)
	if len(unacked) > 0 {
		told, since := a.events.Operations()
		a.super.TellOf(unacked, told, since)
	}
	a.cfg.Log.Info("agent resumed its processes", "processes", len(records), "open_operations", len(open),
		"control_groups", a.host.Groups())
	return nil
}

// resendOutcomes reports the outcomes and removals that an earlier agent may not have delivered.
func (a *Agent) resendOutcomes(records []record.Record, unacked []record.Entry) error {
	latest, err := a.store.Revision()
	if err != nil {
		return err
	}
	for _, e := range unacked {
		a.reporter.Finished(e.Item, *e.Outcome)
		if e.Op != process.Unregister || e.Outcome.Fault != process.None {
			continue
		}
		if !slices.ContainsFunc(records, func(r record.Record) bool { return r.ID == e.Process }) {
			a.reporter.Removed(e.Process, latest)
		}
	}
	return nil
}

// newRun makes a unique run id.
func newRun(id process.ID) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return operation.NewRunID(id, hex.EncodeToString(b[:]))
}

// OwnKey returns the agent's private key, made in dir at first use; it never leaves the host.
func OwnKey(dir string) (nkeys.KeyPair, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create agent directory: %w", err)
	}
	return fabric.LoadOrCreateKey(filepath.Join(dir, "agent.nkey"), nkeys.PrefixByteUser)
}

// SealingKeys returns the private keys for sealed messages of the agent with a key (OwnKey), made in dir at first use;
// they never leave the host. The directory must exist.
func SealingKeys(dir string, key nkeys.KeyPair) (*frame.Keys, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot read agent key: %w", err)
	}
	return fabric.LoadOrCreateSealing(filepath.Join(dir, "sealing.nkey"), public)
}
