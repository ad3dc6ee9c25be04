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
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/eventlog"
	"drover/internal/agent/host"
	"drover/internal/agent/launch"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/limit"
	"drover/internal/agent/metrics"
	"drover/internal/agent/operation"
	"drover/internal/agent/policy"
	"drover/internal/agent/probe"
	"drover/internal/agent/procfs"
	"drover/internal/agent/report"
	"drover/internal/agent/specstore"
	"drover/internal/agent/supervisor"
	"drover/internal/agent/timetable"
	"drover/internal/config"
	"drover/internal/fabric"
	"drover/internal/group"
	"drover/internal/process"
	"drover/internal/wire"
)

// Config is what an agent needs.
type Config struct {
	// Dir is the agent's own directory; it is made with mode 0700. It holds the key, the enrolment and the state.
	Dir string
	// Build is the version to report.
	Build string
	// Policy is the file that says what may be done on this host; empty is policy.DefaultFile.
	Policy string
	// Settings say how processes are watched over; the zero value stands for config.DefaultAgent.
	Settings config.Agent
	// Metrics is where /metrics is answered; the agent closes it. It may be nil.
	Metrics net.Listener
	Log     *slog.Logger
	// Host is the machine to work on; nil is the one that this process runs on, which is then the agent's alone.
	Host Host
	// Faults is nil but in tests.
	Faults *Faults
}

// Times that an operator may come to know; none has had to be a setting so far.
const (
	heartbeat    = 5 * time.Second
	healthyAfter = time.Minute
	relistEvery  = 30 * time.Second
	// What was carried out is remembered for longer than any manifest is admitted that could ask for it again.
	keepCommands = replayWindow + time.Hour
	pruneEvery   = 10 * time.Minute
	bootStarts   = 8
	orderWorkers = 4
	// breachWindow is how long a breach of a limit counts.
	breachWindow = time.Hour
)

// Agent is one host's agent.
type Agent struct {
	cfg   Config
	key   string
	trust *trust
	store *specstore.Store
	disk  Disk // store, behind its faults
	wall  func() time.Time
	host  Host
	parts
	uplink

	metrics *metrics.Metrics
	policy  *policy.Keeper
}

// uplink is the way to the server and what has come from there.
type uplink struct {
	dial      fabric.DialConfig
	conn      *serverLink
	intake    *orderIntake
	answers   *answers
	orderGate *orderGate

	confirmation *confirmation
	acceptance   *acceptance
}

// parts are what runs on the host.
type parts struct {
	super     *supervisor.Supervisor
	prober    *probe.Keeper
	limits    *limit.Keeper
	timetable *timetable.Scheduler
	events    *eventlog.Log
	reporter  *report.Reporter
}

// New opens the agent's directory, which must hold an enrolment, and takes over what its last life has left. Unless it
// is given a Host it makes this process the reaper of orphans and sets its umask (launch.Prepare). Nothing is started
// before Run.
func New(cfg Config) (*Agent, error) {
	cfg.Log = slog.New(newRateLimitedLog(cfg.Log.Handler()))
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
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot read agent key: %w", err)
	}
	trust, err := openTrust(cfg.Dir, public, cfg.Log)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, key: public, trust: trust, policy: policy.New(cmp.Or(cfg.Policy, policy.DefaultFile),
		cfg.Log), metrics: metrics.New(cfg.Build)}
	a.confirmation = newConfirmation(cfg.Log)
	a.dial = fabric.DialConfig{
		Identity: fabric.Identity{Key: key, Area: strconv.Itoa(trust.current().Cloud)}, Token: func() string {
			return trust.current().JWT
		},
		TLS: trust.tls(), Name: "agent " + public, Log: cfg.Log,
	}
	a.conn, a.answers = newServerLink(a.dial.Identity, trust), newAnswers()
	fs := procfs.New("/proc")
	boot, err := fs.BootID()
	if err != nil {
		return nil, fmt.Errorf("cannot read boot id: %w", err)
	}
	a.acceptance = newAcceptance(placeOf(cfg.Dir, boot))
	// Before anything is written: daemons may have filled the disk meanwhile.
	if err := host.TrimOutputs(outputsOf(cfg.Dir)); err != nil {
		cfg.Log.Warn("cannot truncate outputs", "error", err)
	}
	if a.store, err = specstore.Open(cfg.Dir, boot); err != nil {
		return nil, err
	}
	a.disk, a.wall = a.store, time.Now
	var server report.Link = a.conn
	if f := cfg.Faults; f != nil {
		a.disk, server, a.wall = f.Disk(a.disk), f.Link(server), f.Wall
	}
	if err := a.assemble(fs, boot, server); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	return a, nil
}

// assemble makes the parts and hands them what is on disk.
func (a *Agent) assemble(fs procfs.FS, boot string, server report.Link) error {
	newest, err := a.store.NewestManifest()
	if err != nil {
		return err
	}
	a.intake = newOrderIntake(a.disk, &freshness{note: a.store.NoteManifest, newest: newest, noted: newest})
	offset, err := a.store.ClockOffset(host.ClockOffset())
	if err != nil {
		a.cfg.Log.Warn("cannot store clock offset", "error", err)
	}
	if a.host = a.cfg.Host; a.host == nil {
		if a.host, err = openMachine(a.cfg, fs, a.key, offset, a.store.Urgent, a.policy.MayRead); err != nil {
			return err
		}
	}
	sink := &sink{metrics: a.metrics, answers: a.answers}
	if a.events, err = eventlog.Open(eventlog.Config{
		Dir: filepath.Join(a.cfg.Dir, "events"),
		Age: a.cfg.Settings.EventAge, OnAppend: sink.wake, Log: a.cfg.Log,
	}); err != nil {
		return err
	}
	asked := &probeSink{}
	a.prober = probe.New(probe.Config{Host: a.host, Sink: asked, Clock: host.SinceBoot, NewRun: newRun, Log: a.cfg.Log})
	a.orderGate = &orderGate{clock: host.SinceBoot, requestReport: func() { a.reporter.Ask() }}
	operator := &operation.Operator{
		Policy:    a.policy,
		Processes: a.host, Commands: measuredHost{a.host, a.metrics}, Trees: a.host, Claims: a.host, Journal: a.disk,
		Prober: a.prober, Clock: host.SinceBoot, NewRun: newRun,
		LimitNotes: a.host.LimitNotes, Log: a.cfg.Log,
	}
	a.super = supervisor.New(supervisor.Config{
		Store: a.disk, Histories: a.store, Revisions: a.store, Confirmed: a.confirmation.done, Sink: sink,
		Operator: operator, MayBegin: a.orderGate.MayBegin, HealthyAfter: healthyAfter, Relist: relistEvery,
		BootStarts: bootStarts,
		Bounds: lifecycle.Bounds{
			Flaps: a.cfg.Settings.Flaps, FlapWindow: a.cfg.Settings.FlapWindow,
			BreachWindow: breachWindow,
		},
		Burst: a.cfg.Settings.RelaunchBurst, Rate: float64(a.cfg.Settings.RelaunchRate), Log: a.cfg.Log,
	})
	asked.Supervisor = a.super
	a.answers.queue = a.super
	if f := a.cfg.Faults; f != nil {
		a.answers.queue = f.Queue(a.super)
	}
	a.limits = limit.NewKeeper(limit.Config{
		Subjects: a.super, Sink: a.super, Groups: a.store, Trees: a.host, Clock: host.SinceBoot,
		Interval: a.cfg.Settings.LimitInterval, Log: a.cfg.Log,
	})
	a.timetable = timetable.New(timetable.Config{Sink: a.super, Now: a.wall, Host: a.key})
	a.super.Join(supervisor.Parts{Timetables: a.timetable, Probes: a.prober, Usages: a.limits, OOM: a.host.OOM})
	a.orderGate.queue, sink.orderGate = a.super, a.orderGate
	a.reporter = report.New(report.Config{
		Answered: a.orderGate.handleAnswer,
		Link:     measuredLink{server, a.metrics}, Processes: a.super, Journal: a.disk, Events: a.events,
		Groups: a.store, Disk: a.store, Introduced: a.introductionAnswered, Complete: a.completeReport,
		Trusted:          a.renewTrust,
		IdentityRejected: a.identityRejected,
		Wall:             a.wall, Heartbeat: heartbeat, Log: a.cfg.Log,
		Hello: wire.Hello{
			Build: a.cfg.Build, BootID: boot, Name: hostname(),
			Started: a.wall().Unix(), Root: os.Geteuid() == 0, Host: machine(fs),
		},
	})
	sink.Reporter, sink.events = a.reporter, a.events
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
	a.adopt(records, open, boot, operator.Begun)
	a.cfg.Log.Info("agent resumed its processes", "processes", len(records), "open_operations", len(open),
		"control_groups", a.host.Groups())
	return nil
}

// adopt hands on what an earlier agent has left.
func (a *Agent) adopt(records []specstore.Record, open []specstore.Entry, boot string, begun func(item string) bool) {
	a.answers.adopt(open)
	underway, unsure := divide(open, boot, begun)
	a.super.Adopt(records, underway)
	a.orderGate.hold(unsure)
}

// divide tells what an earlier agent has left that goes on, and what goes on only if the server still wants it. Of
// commands that an earlier boot has left nothing is begun.
func divide(open []specstore.Entry, boot string, begun func(item string) bool) (underway, unsure []specstore.Entry) {
	for _, e := range open {
		if e.Op == process.Query || e.Op.Info().RunsCommands && e.Boot != boot || begun(e.Item) {
			underway = append(underway, e)
		} else {
			unsure = append(unsure, e)
		}
	}
	return underway, unsure
}

// resendOutcomes has the server told what an earlier agent may not have been able to tell it.
func (a *Agent) resendOutcomes(records []specstore.Record, unacked []specstore.Entry) error {
	latest, err := a.store.Revision()
	if err != nil {
		return err
	}
	for _, e := range unacked {
		a.reporter.Finished(e.Item, *e.Outcome)
		if e.Op != process.Unregister || e.Outcome.Fault != process.None {
			continue
		}
		if !slices.ContainsFunc(records, func(r specstore.Record) bool { return r.ID == e.Process }) {
			a.reporter.Gone(e.Process, latest)
		}
	}
	return nil
}

// sink is the reporter behind the supervisor, and the log of events; they know each other, so some of them are set
// later.
type sink struct {
	*report.Reporter
	events    *eventlog.Log
	metrics   *metrics.Metrics
	answers   *answers
	orderGate *orderGate
}

// Began implements supervisor.Sink.
func (s *sink) Began(item string, limit time.Duration) {
	if !s.answers.began(item, limit) {
		s.Reporter.Began(item, limit)
	}
}

// Happened implements supervisor.Sink.
func (s *sink) Happened(e process.Event) {
	s.metrics.Happened(e.Kind)
	s.events.Append(e)
}

// Finished implements supervisor.Sink.
func (s *sink) Finished(item string, outcome process.Outcome) {
	s.metrics.Finished()
	s.orderGate.forget(item)
	if !s.answers.resolve(item, outcome) {
		s.Reporter.Finished(item, outcome)
	}
}

func (s *sink) wake() {
	if s.Reporter != nil {
		s.Reporter.Happened()
	}
}

// probeSink is the supervisor behind the probes, which are made before it.
type probeSink struct{ *supervisor.Supervisor }

// groupName is the name of an agent's control group: two agents on one host have two.
func groupName(key string) string { return "drover-" + strings.ToLower(key[len(key)-16:]) }

// newRun makes a run id that nobody else has made.
func newRun(id process.ID) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return operation.NewRunID(id, hex.EncodeToString(b[:]))
}

// Key returns the agent's public key, which is its name on the fabric.
func (a *Agent) Key() string { return a.key }

// Ready returns nil once the agent can take operations.
func (a *Agent) Ready() error {
	if !a.conn.takesOrders() {
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

// Run supervises and takes operations until ctx ends. Losing the server changes nothing but what the server knows.
// Where something of the host hangs it returns stopTime after ctx has ended, and leaves that to the end of this
// process.
func (a *Agent) Run(ctx context.Context) error { return stopWithin(ctx, stopTime, a.run) }

func (a *Agent) run(ctx context.Context) error {
	defer a.store.Close()  //nolint:errcheck // everything that counts has been synced
	defer a.events.Close() //nolint:errcheck // it has been synced
	defer a.host.Close()
	return group.Run(ctx,
		group.Part{Name: "host", Run: a.host.Run},
		group.Part{Name: "prober", Run: a.prober.Run},
		group.Part{Name: "limits", Run: a.limits.Run},
		group.Part{Name: "timetable", Run: a.timetable.Run},
		group.Part{Name: "events", Run: a.events.Run},
		group.Part{Name: "confirmation", Run: a.confirmation.run},
		group.Part{Name: "supervisor", Run: a.super.Run},
		group.Part{Name: "reporter", Run: a.reporter.Run},
		group.Part{Name: "housekeeping", Run: a.runHousekeeping},
		group.Part{Name: "metrics", Run: a.serveMetrics},
		group.Part{Name: "link", Run: a.serve},
	)
}

// runHousekeeping drops what is not needed any more.
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
				a.reporter.Introduce()
			}
			a.orderGate.expire(a.disk.BootID())
			a.host.Sweep(a.super.Runs) //nolint:contextcheck // what it has begun to end is ended
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

// OwnKey returns the agent's private key, made in dir at first use; it never leaves the host.
func OwnKey(dir string) (nkeys.KeyPair, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create agent directory: %w", err)
	}
	return fabric.LoadOrCreateKey(filepath.Join(dir, "agent.nkey"), nkeys.PrefixByteUser)
}
