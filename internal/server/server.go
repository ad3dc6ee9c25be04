// Package server is the assembly of the server: database, broker, engine and HTTP. It is stateless between requests:
// SQL holds an accepted call before the caller gets its answer.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"drover/internal/depot"
	"drover/internal/fabric/broker"
	"drover/internal/group"
	"drover/internal/httpd"
	"drover/internal/server/access"
	"drover/internal/server/api"
	"drover/internal/server/audit"
	"drover/internal/server/breaker"
	"drover/internal/server/caretaker"
	"drover/internal/server/dbclock"
	"drover/internal/server/drive"
	"drover/internal/server/edge"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/incarnation"
	"drover/internal/server/keyring"
	"drover/internal/server/login"
	"drover/internal/server/metrics"
	"drover/internal/server/pairs"
	"drover/internal/server/protect"
	"drover/internal/server/pulse"
	"drover/internal/server/receiver"
	"drover/internal/server/schedule"
	"drover/internal/server/store"
	"drover/internal/server/webui"
	"drover/internal/service"
	"drover/internal/wire"
)

// Config holds the settings of a server.
type Config struct {
	// Dir is the server's own directory; it is made with mode 0700.
	Dir string
	// HTTP and Fabric are the addresses to listen on, host:port; port 0 is any.
	HTTP   string
	Fabric string
	// NATS are the URLs of external brokers. If it is set, the server embeds no broker and does not listen on Fabric.
	NATS []string
	// Cluster is the address to which the embedded brokers of other servers connect, and Routes are the addresses of
	// those brokers. Both may be empty; both need a Fleet.
	Cluster string
	Routes  []string
	// Database is the URL of a PostgreSQL database, or the path of a SQLite file; empty: drover.db in Dir.
	Database string
	// Socket is the path of a socket for the operators of this machine; empty means none.
	Socket string
	// TrustedGateways are peers that are believed whom they call for; LoginURL is the login service that knows users'
	// sessions. Both may be empty.
	TrustedGateways []netip.Prefix
	LoginURL        string
	// OIDC is the identity provider of the console; nil if there is none.
	OIDC *OIDC
	// Console is what the operator of the server sets for the console.
	Console webui.Settings
	// Breadth is the number of hosts that a call may reach without the approval of a second person; 0 means all.
	Breadth int
	// Breakers says when breakers open; the zero rule is breaker.Default.
	Breakers breaker.Rule
	// Extras connects the other parts of the same program.
	Extras Extras
	// Build is the version in /metrics.
	Build string
	// Fleet is how agents on other machines join and reach the server. Without it HTTP and Fabric are on loopback and
	// without TLS.
	Fleet *Fleet
	// Service is the program around the server; nil in tests.
	Service *service.Service
	// Faults is nil except in tests.
	Faults *Faults
	Log    *slog.Logger
}

// Extras adds the status of another part of the program to the server's own. Each field may be nil.
type Extras struct {
	// Ready adds a condition to /readyz, and Notes adds warnings for operators.
	Ready func() error
	Notes func() []string
	// Metrics adds to /metrics, in the text format of Prometheus.
	Metrics func(io.Writer) error
}

// Faults wraps the database and the connection to the agents, to inject a delay, an error or a crash at a chosen
// moment. It also replaces the wall clock.
type Faults struct {
	Store func(store.Store) store.Store
	Link  func(engine.Link) engine.Link
	Wall  func() time.Time
}

// Server is an assembled server. New opens its listener, so its address is known from then on.
type Server struct {
	cfg     Config
	store   store.Store
	clock   *dbclock.Clock
	cluster *cluster // nil if there are no other servers
	// incarnations tells whether the database was restored from a copy.
	incarnations *incarnation.Watch
	transport
	directory *fleet.Directory
	engine    *engine.Engine
	gate      *gate.Gate
	secrets   access.Secrets
	audit     *audit.Recorder
	sender    *receiver.Sender
	receivers *receiver.Sealed
	metrics   *metrics.Metrics
	work      work
	pulse     *pulse.Pulse
	// edge is what both HTTP APIs use, and api is drover's own.
	edge edge.Config
	api  *api.Handler
	listeners
	keys    *keyring.Ring
	tickets *keyring.Tickets // nil as joining, and with external brokers
	trust   *trust
	joining *joining // nil if no agents on other machines join
	// cursors is the database's secret that seals the cursors of pages.
	cursors []byte
	// ballast is never written, so it takes no memory, but the garbage collector counts it. So the collector runs once
	// per ballastSize of garbage or less often. Without it, the collector would run many times during one large call,
	// because the state of a small server has only a few megabytes.
	ballast []byte
}

// ballastSize is also the approximate extra memory of a busy server. See https://go.dev/doc/gc-guide.
const ballastSize = 32 << 20

// transport holds the broker and the connection to it.
type transport struct {
	broker   brokers
	embedded *broker.Broker   // one of these two
	external *broker.External // is nil
	// fleet is the public key of the account, to which reports are addressed.
	fleet string
	// pairs has the keys of the frames of agents.
	pairs   *pairs.Pairs
	link    *agentLink
	logs    agentLogs
	depot   *depot.Depot
	reports *reportLimiter
	// unregistered has the agents whose reports cannot be opened, because the register does not have them.
	unregistered fleet.Unregistered
	// reporting is closed once the server receives reports. Agents that connect earlier would only report in vain, and
	// take processor time from the start.
	reporting chan struct{}
}

// listeners are the listeners of the API.
type listeners struct {
	listener net.Listener
	socket   net.Listener // nil if there is none
}

// Many agents report at the same time, and each report waits for a commit.
const reportWorkers = 2 * waitInTurn

// New opens everything that the server stands on. The caller runs it with Run and Serve, or gives it back with Close.
func New(ctx context.Context, cfg Config) (_ *Server, err error) {
	cfg.Log = slog.New(newRateLimitedLog(cfg.Log.Handler()))
	s := &Server{
		cfg: cfg, transport: transport{
			link: &agentLink{}, reports: newReportLimiter(), reporting: make(chan struct{}),
		},
		metrics: metrics.New(cfg.Build), work: newWork(), pulse: pulse.New(time.Now()),
		ballast: make([]byte, ballastSize),
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	tcp, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	if s.store, err = s.openStore(ctx, tcp); err != nil {
		return nil, err
	}
	var orders engine.Link = s.link
	if f := cfg.Faults; f != nil {
		s.store, orders = f.Store(s.store), f.Link(s.link)
	}
	if err := s.openClock(ctx); err != nil {
		return nil, err
	}
	database, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	if s.incarnations, err = incarnation.Open(ctx, incarnation.Config{
		Store: s.store, Path: filepath.Join(cfg.Dir, "incarnation"), Now: s.clock.Now, Log: cfg.Log,
	}); err != nil {
		return nil, err
	}
	s.audit, s.depot = audit.New(s.store, cfg.Log), depot.New(storedPackages{s.store}, cfg.Log)
	if err := s.startBroker(ctx); err != nil {
		return nil, err
	}
	s.directory = fleet.New(s.store, s.clock.Now())
	s.directory.SetIncarnation(s.incarnations.Now().ID)
	if s.joining != nil {
		s.directory.AdmitOnly()
	}
	s.openCluster(database)
	s.link.area, s.link.pairs, s.link.now = s.areaOf, s.pairs, s.clock.Now
	if err := s.directory.Load(ctx); err != nil {
		return nil, err
	}
	if err := s.openGate(); err != nil {
		return nil, err
	}
	s.logs = agentLogs{
		link: s.link, now: s.clock.Now, searches: newPlaces(mostSearches), follows: newPlaces(mostFollows),
	}
	s.engine = engine.New(engine.Config{
		Store: pulsingStore{s.store, s.pulse}, Directory: s.directory, Link: orders,
		Identity: engine.IdentityHooks{Trust: s.trust.renew, Sealing: s.reseal, Cloned: s.cloned},
		Now:      s.clock.Now, Incarnation: s.incarnations.Now,
		Shared: s.cluster.shared(), Log: cfg.Log,
	})
	s.openAlarms()
	s.metrics.Show(metrics.Sources{
		Store: s.receivers, Agents: s.directory, Receivers: s.sender, Waiting: s.engine.Waiting,
		Certificates: s.joining.certificates,
		Servers:      s.cluster.servers, Skew: s.clock.Skew, LogLost: s.cfg.Service.Lost,
		ClocksOff: s.clocksOff, Proxies: s.countProxies,
		Unregistered: func() int { return len(s.unknownAgents()) },
		Now:          s.clock.Wall, Log: cfg.Log,
	})
	if err := s.openAPI(ctx); err != nil {
		return nil, err
	}
	return s, s.shareKeys(ctx)
}

// listen opens the listeners of the API and the directory with the keys. It returns the TCP listener without TLS.
func (s *Server) listen(ctx context.Context) (tcp net.Listener, err error) {
	tcp, err = httpd.Listen(ctx, s.cfg.HTTP) // first: a failed start then leaves nothing behind
	if err != nil {
		return nil, fmt.Errorf("cannot listen for HTTP: %w (--http takes another address)", err)
	}
	s.listener = tcp
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create server directory: %w", err)
	}
	if err := s.openKeys(); err != nil {
		return nil, err
	}
	s.listener = s.joining.listener(httpd.Limited(tcp))
	if s.cfg.Socket != "" {
		s.socket, err = listenSocket(ctx, s.cfg.Socket)
	}
	return tcp, err
}

// openGate creates the gate and the hashes of secrets.
func (s *Server) openGate() error {
	key, err := keyring.HashKey(s.cfg.Dir)
	if err != nil {
		return err
	}
	s.secrets = access.NewSecrets(key)
	c := gate.Config{Store: s.store, Secrets: s.secrets, Groups: s.cfg.OIDC.groups(), Now: s.clock.Wall}
	if s.cfg.LoginURL != "" {
		client, err := login.New(s.cfg.LoginURL)
		if err != nil {
			return err
		}
		c.Login = client
	}
	s.gate = gate.New(c)
	return nil
}

// Close gives back everything. It may be called at any time after Run and Serve have returned.
func (s *Server) Close() {
	s.stopBroker()
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.cfg.Log.Error("cannot close database", "error", err)
		}
	}
	for _, l := range []net.Listener{s.listener, s.socket} {
		if l != nil {
			_ = l.Close() // already closed if it was served
		}
	}
}

// URL returns the URL of the API.
func (s *Server) URL() string {
	scheme := "https://"
	if s.joining == nil || s.joining.fleet.InsecureHTTP {
		scheme = "http://"
	}
	return scheme + s.listener.Addr().String()
}

// Ready returns nil if the server is ready, otherwise the reason why not.
func (s *Server) Ready() error {
	if !s.link.up() {
		return errors.New("the server is not connected to the fabric")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		return fmt.Errorf("the database rejects writes: %w", err)
	}
	if err := s.cluster.ready(); err != nil {
		return err
	}
	if s.cfg.Extras.Ready != nil {
		return s.cfg.Extras.Ready()
	}
	return nil
}

// Enrol lets the agent of this machine join, without a token: it is written into the register with its sealing key, and
// gets its token for the fabric.
func (s *Server) Enrol(ctx context.Context, publicKey, sealing string, cloud int, ip, id string) (
	wire.Enrolment, error,
) {
	known, ok := s.directory.ByKey(publicKey)
	if !ok {
		known = store.Agent{Key: publicKey, Created: time.Now()}
	}
	known.Cloud, known.IP, known.ID, known.Sealing = cloud, ip, id, sealing
	if err := s.directory.Join(ctx, known, time.Now()); err != nil {
		return wire.Enrolment{}, err
	}
	return s.trust.enrolment(known)
}

// Run sends tasks to the agents and stores their reports, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	return group.Run(ctx,
		group.Part{Name: "audit", Run: s.audit.Run},
		group.Part{Name: "engine", Run: s.engine.Run},
		group.Part{Name: "pulse", Run: s.runPulse},
		group.Part{Name: "alarms", Run: s.cluster.underLease("alarms", s.raise)},
		group.Part{Name: "news", Run: s.runAlarms},
		group.Part{Name: "rollouts", Run: s.cluster.underLease("rollouts", s.drive)},
		group.Part{Name: "upkeep", Run: s.cluster.underLease("upkeep", caretaker.New(caretaker.Config{
			Store: s.store, Engine: s.engine, Directory: s.directory, Rights: s.gate, Live: s.logs,
			Now: s.clock.Now, Log: s.cfg.Log,
		}).Run)},
		group.Part{Name: "breakers", Run: s.cluster.underLease("breakers", protect.New(protect.Config{
			Store: s.store, Presence: present{s.directory, s.clock}, Tell: s.logs.withhold,
			Happened: s.engine.EventsStored, Woken: s.work.breakers, Rule: s.cfg.Breakers,
			Now: s.clock.Wall, Log: s.cfg.Log,
		}).Run)},
		group.Part{Name: "others", Run: s.cluster.run},
		group.Part{Name: "incarnations", Run: s.watchIncarnations},
		group.Part{Name: "brokers", Run: s.runBrokers},
		group.Part{Name: "fabric", Run: s.serveFabric},
		group.Part{Name: "links", Run: s.watchLinks},
		group.Part{Name: "certificates", Run: s.joining.run},
		group.Part{Name: "keys", Run: s.keys.Run},
		group.Part{Name: "ticket keys", Run: s.tickets.Run},
		group.Part{Name: "watchdog", Run: s.beat},
		group.Part{Name: "memory", Run: s.boundMemory},
		group.Part{Name: "rest", Run: func(ctx context.Context) error {
			return releaseAtRest(ctx, processorTime, releaseMemory)
		}},
	)
}

// raise tells which hosts are away, and delivers alarms, until ctx ends.
func (s *Server) raise(ctx context.Context) error {
	return group.Run(ctx,
		group.Part{Name: "absences", Run: fleet.NewTeller(fleet.TellerConfig{
			Store: s.store, Directory: s.directory, Happened: s.engine.EventsStored,
			Now: s.clock.Now, Wall: s.clock.Wall,
			Log: s.cfg.Log,
		}).Run},
		group.Part{Name: "alarms", Run: s.sender.Run},
	)
}

// drive drives rollouts and schedules until ctx ends. Both have one lease, because a run of a schedule may be a
// rollout.
func (s *Server) drive(ctx context.Context) error {
	return group.Run(ctx,
		group.Part{Name: "rollouts", Run: drive.New(drive.Config{
			Store: s.store, Engine: s.engine, Presence: s.directory, Undoer: s.api.Operations, Rights: s.gate,
			Woken: s.work.rollouts, Happened: s.engine.EventsStored,
			Now: s.clock.Now, Wall: s.clock.Wall, Log: s.cfg.Log,
		}).Run},
		group.Part{Name: "schedules", Run: schedule.New(schedule.Config{
			Store: s.store, Beginner: s.api.Operations, Rights: s.gate, Hosts: s.directory,
			Happened: s.engine.EventsStored, Woken: s.work.schedules, Now: s.clock.Wall, Clock: s.clock.Now,
			Log: s.cfg.Log,
		}).Run},
	)
}

// present tells the presence of agents to a part that goes by the time for people, as the events of hosts do.
type present struct {
	directory *fleet.Directory
	clock     *dbclock.Clock
}

// Presence returns the presence of an agent now.
func (p present) Presence(key string, _ time.Time) fleet.Presence {
	now := p.clock.Now()
	found := p.directory.Presence(key, now)
	if !found.Linked.IsZero() {
		found.Linked = found.Linked.Add(p.clock.Wall().Sub(now))
	}
	return found
}

// watchIncarnations looks until ctx ends whether the database is another one. What counts is the report that follows
// a ping.
func (s *Server) watchIncarnations(ctx context.Context) error {
	return s.incarnations.Run(ctx, s.directory, func(ctx context.Context, agent string) {
		if s.link.up() {
			_ = s.link.Ping(ctx, agent)
		}
	})
}

// Introduced returns nil once the agent has introduced itself to this server, so that answers about the agent come from
// its own reports.
func (s *Server) Introduced(agent string) error {
	if !s.directory.Introduction(agent) {
		return errors.New("the agent has not introduced itself yet")
	}
	return nil
}
