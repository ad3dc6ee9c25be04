// Package server is the assembly of the server: database, broker, engine and HTTP. New opens the parts, each from those
// before it, and Run runs them. The server is stateless between requests: SQL holds an accepted call before the caller
// gets its answer.
package server

import (
	"cmp"
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
	"drover/internal/group"
	"drover/internal/httpd"
	"drover/internal/loglimit"
	"drover/internal/server/access"
	"drover/internal/server/agentlink"
	"drover/internal/server/api"
	"drover/internal/server/audit"
	"drover/internal/server/breaker"
	"drover/internal/server/breakerdriver"
	"drover/internal/server/brokers"
	"drover/internal/server/bus"
	"drover/internal/server/certificates"
	"drover/internal/server/cluster"
	"drover/internal/server/dbclock"
	"drover/internal/server/edge"
	"drover/internal/server/engine"
	"drover/internal/server/enrol"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/incarnation"
	"drover/internal/server/keyring"
	"drover/internal/server/login"
	"drover/internal/server/memory"
	"drover/internal/server/metrics"
	"drover/internal/server/pairs"
	"drover/internal/server/proxies"
	"drover/internal/server/receiver"
	"drover/internal/server/repeats"
	"drover/internal/server/reports"
	"drover/internal/server/rolloutdriver"
	"drover/internal/server/schedule"
	"drover/internal/server/socket"
	"drover/internal/server/startup"
	"drover/internal/server/store"
	"drover/internal/server/trust"
	"drover/internal/server/upkeepdriver"
	"drover/internal/server/webui"
	"drover/internal/service"
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

// Fleet is how agents on other machines reach a server.
type Fleet struct {
	// Advertise are the addresses, host:port, to which agents connect; the default is the address of the fabric.
	Advertise []string
	// Names are host names and addresses by which callers and hosts reach the server.
	Names []string
	// CertFile and KeyFile are an external certificate of the API. Without them the API uses a certificate of the
	// server's own authority, as the fabric always does.
	CertFile, KeyFile string
	// Proxies is the address at which proxies connect to the embedded fabric, host:port; empty means none.
	// AdvertiseProxies are the addresses by which proxies reach it; the default is Proxies, or the hosts of Advertise
	// with its port.
	Proxies          string
	AdvertiseProxies []string
	// InsecureHTTP has the API speak without TLS. The fabric has it all the same.
	InsecureHTTP bool
}

// fleet returns the fleet's settings, which are empty for a server without a fleet.
func (c *Config) fleet() Fleet {
	if c.Fleet == nil {
		return Fleet{}
	}
	return *c.Fleet
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
	cfg   Config
	store store.Store
	clock *dbclock.Clock
	// bus tells the parts, and the other servers, of changes.
	bus     *bus.Bus
	cluster *cluster.Cluster // nil if there are no other servers
	// incarnations tells whether the database was restored from a copy.
	incarnations *incarnation.Watch

	keys         *keyring.Ring
	tickets      *keyring.Tickets           // nil without TLS, and with external brokers
	certificates *certificates.Certificates // nil if no agents on other machines join
	trust        *trust.Trust
	// fleet is the public key of the account, to which reports are addressed. cursors is the database's secret that
	// seals the cursors of pages.
	fleet   string
	cursors []byte
	// database is the database's id.
	database string

	brokers   *brokers.Brokers
	pairs     *pairs.Pairs
	link      *agentlink.Link
	questions *agentlink.Questions
	depot     *depot.Depot
	// reporting is closed once the server receives reports. Agents that connect earlier would only report in vain, and
	// take processor time from the start.
	reporting chan struct{}

	directory *fleet.Directory
	engine    *engine.Engine
	reports   *reports.Receiver
	enroller  *enrol.Enroller   // nil as certificates
	proxies   *proxies.Register // nil as certificates

	gate      *gate.Gate
	secrets   access.Secrets
	audit     *audit.Recorder
	sender    *receiver.Sender
	receivers *receiver.Sealed
	metrics   *metrics.Metrics

	// edge is what both HTTP APIs use, and api is drover's own.
	edge     edge.Config
	api      *api.Handler
	listener net.Listener
	socket   *socket.Socket // nil if there is none
	ballast  []byte
}

// New opens everything that the server stands on. The caller runs it with Run and Serve, or gives it back with Close.
func New(ctx context.Context, cfg Config) (_ *Server, err error) {
	cfg.Log = slog.New(loglimit.New(cfg.Log.Handler(), repeats.Rule()))
	s := &Server{
		cfg: cfg, metrics: metrics.New(cfg.Build), bus: bus.New(time.Now()), reporting: make(chan struct{}),
		ballast: memory.Ballast(),
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for _, open := range []func(context.Context) error{
		s.openListeners, s.openDatabase, s.openFabric, s.openDirectory, s.openGate, s.openEngine, s.openEnroller,
		s.openAPI, s.shareKeys,
	} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// openListeners opens the listeners of the API, the database behind them, and the directory with the keys.
func (s *Server) openListeners(ctx context.Context) error {
	tcp, err := httpd.Listen(ctx, s.cfg.HTTP) // first: a failed start then leaves nothing behind
	if err != nil {
		return fmt.Errorf("cannot listen for HTTP: %w (--http takes another address)", err)
	}
	s.listener = tcp
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot create server directory: %w", err)
	}
	if err := s.openKeys(); err != nil {
		return err
	}
	s.listener = s.certificates.Listener(httpd.Limited(tcp))
	if s.cfg.Socket != "" {
		if s.socket, err = socket.Listen(ctx, s.cfg.Socket); err != nil {
			return err
		}
	}
	s.store, err = startup.Open(ctx, startup.Config{
		Database: cmp.Or(s.cfg.Database, filepath.Join(s.cfg.Dir, "drover.db")), Watch: s.metrics,
		Listener: tcp, TLS: s.certificates.Listener, Log: s.cfg.Log,
	})
	return err
}

// openDatabase opens what the server needs to know of its database: its clock, its fleet and its incarnation.
func (s *Server) openDatabase(ctx context.Context) error {
	if f := s.cfg.Faults; f != nil {
		s.store = f.Store(s.store)
	}
	if err := s.openClock(ctx); err != nil {
		return err
	}
	if err := s.identify(ctx); err != nil {
		return err
	}
	var err error
	s.incarnations, err = incarnation.Open(ctx, incarnation.Config{
		Store: s.store, Path: filepath.Join(s.cfg.Dir, "incarnation"), Now: s.clock.Now, Log: s.cfg.Log,
	})
	s.audit, s.depot = audit.New(s.store, s.cfg.Log), depot.New(storedPackages{s.store}, s.cfg.Log)
	return err
}

// openFabric opens the broker and the connection to the agents.
func (s *Server) openFabric(ctx context.Context) (err error) {
	if len(s.cfg.NATS) == 0 {
		if err := s.openTickets(ctx); err != nil {
			return err
		}
	}
	fleet := s.cfg.fleet()
	s.brokers, err = brokers.Open(ctx, brokers.Config{
		Dir: s.cfg.Dir, Listen: s.cfg.Fabric, External: s.cfg.NATS, Cluster: s.cfg.Cluster, Routes: s.cfg.Routes,
		Advertise: fleet.Advertise, AdvertiseProxies: fleet.AdvertiseProxies, Proxies: fleet.Proxies,
		Certificates: s.certificates, Keys: s.keys, Tickets: s.tickets, Removed: s.store.ListRemoved,
		Ready: s.reporting, Denied: audit.NewFabricDenials(s.audit, s.cfg.Log).Record, Log: s.cfg.Log,
	})
	s.link = agentlink.New(agentlink.Config{Area: s.areaOf, Pairs: s.pairs, Now: s.clock.Now})
	s.questions = agentlink.NewQuestions(s.link)
	return err
}

// openDirectory reads the register of agents, and prepares the connection with other servers.
func (s *Server) openDirectory(ctx context.Context) error {
	s.directory = fleet.New(s.store, s.clock.Now())
	s.directory.SetIncarnation(s.incarnations.Now().ID)
	if s.certificates != nil {
		s.directory.AdmitOnly()
	}
	s.trust = trust.New(trust.Config{
		Keys: s.keys, Directory: s.directory, Fleet: s.fleet, URLs: s.urls, CA: s.certificates.CA,
		Issue: s.brokers.IssueAgent, Now: s.clock.Now, Log: s.cfg.Log,
	})
	if s.store.Shared() || len(s.cfg.NATS) > 0 || s.cfg.Cluster != "" {
		s.cluster = cluster.New(cluster.Config{
			Store: s.store, Build: s.cfg.Build, Database: s.database, Pairs: s.pairs.Servers, Directory: s.directory,
			Clock: s.clock, Keys: s.keys.Held, Bus: s.bus,
			TasksEnded: func(ids []string) { s.engine.TasksEnded(ids) }, Look: func() { s.engine.Look() },
			Removed: s.brokers.Refresh, Log: s.cfg.Log,
		})
	}
	return s.directory.Load(ctx)
}

// openGate creates the gate and the hashes of secrets.
func (s *Server) openGate(context.Context) error {
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

// openEngine creates the engine, and the parts that feed it and that it feeds.
func (s *Server) openEngine(context.Context) error {
	var orders engine.Link = s.link
	if f := s.cfg.Faults; f != nil {
		orders = f.Link(s.link)
	}
	s.engine = engine.New(engine.Config{
		Store: s.store, Directory: s.directory, Link: orders, Bus: s.bus,
		Identity: engine.IdentityHooks{Trust: s.trust.Renew, Sealing: s.reseal, Cloned: s.cloned},
		Now:      s.clock.Now, Incarnation: s.incarnations.Now,
		Shared: s.cluster.Engines(), Log: s.cfg.Log,
	})
	s.reports = reports.New(reports.Config{
		Pairs: s.pairs, Directory: s.directory, Registered: s.certificates != nil, Handle: s.engine.HandleReport,
		Handled: s.metrics.Reported, Now: s.clock.Now, Wall: s.clock.Wall, Log: s.cfg.Log,
	})
	// Only the servers of the fleet can read the secrets that sign alarms.
	s.receivers = receiver.NewSealed(s.store, func() ([][]byte, error) {
		return s.keys.Secrets("secrets of receivers")
	})
	s.sender = receiver.New(receiver.Config{Store: s.receivers, Hosts: s.directory, Now: s.clock.Wall, Log: s.cfg.Log})
	s.metrics.Show(metrics.Sources{
		Store: s.receivers, Agents: s.directory, Receivers: s.sender, Waiting: s.engine.CountQueued,
		Certificates: s.certificates.List,
		Servers:      s.cluster.Servers, Skew: s.clock.Skew, LogLost: s.cfg.Service.Lost,
		ClocksOff: s.clocksOff, Proxies: func() (known, online int) { return s.proxies.Count() },
		Unregistered: func() int { return len(s.reports.Unknown()) },
		Now:          s.clock.Wall, Log: s.cfg.Log,
	})
	return nil
}

// openEnroller creates the part that admits hosts, and the register of proxies.
func (s *Server) openEnroller(ctx context.Context) error {
	if s.certificates == nil {
		return nil
	}
	s.proxies = proxies.New(proxies.Config{
		Store: s.store, Broker: s.brokers, Keys: s.keys, Authority: s.certificates.Fabric, Fleet: s.fleet,
		Addresses: s.brokers.ProxyAddresses,
		Admitted: func(key string) {
			s.trust.Changed()
			s.cluster.AgentChanged(key)
		},
		Removed: s.brokers.Refresh, Reports: s.reports.Answer, Packages: s.depot.Answer,
		Now: s.clock.Now, Log: s.cfg.Log,
	})
	if err := s.proxies.Load(ctx); err != nil {
		return err
	}
	s.enroller = enrol.New(enrol.Config{
		Store: s.store, Directory: s.directory, Broker: s.proxies.Notifying(s.brokers), Issue: s.trust.Enrolment,
		Proxies: s.proxies, Fingerprint: s.fingerprint, Happened: s.eventsStored, Now: s.clock.Wall,
	})
	return nil
}

// eventsStored tells of new events.
func (s *Server) eventsStored() { s.bus.Changed(bus.Events) }

// Close gives back everything. It may be called at any time after Run and Serve have returned.
func (s *Server) Close() {
	s.brokers.Close()
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.cfg.Log.Error("cannot close database", "error", err)
		}
	}
	if s.listener != nil {
		_ = s.listener.Close() // already closed if it was served
	}
	_ = s.socket.Close() // likewise
}

// URL returns the URL of the API.
func (s *Server) URL() string {
	scheme := "http://"
	if s.certificates.APIHasTLS() {
		scheme = "https://"
	}
	return scheme + s.listener.Addr().String()
}

// Ready returns nil if the server is ready, otherwise the reason why not.
func (s *Server) Ready() error {
	if !s.link.Connected() {
		return errors.New("the server is not connected to the fabric")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		return fmt.Errorf("the database rejects writes: %w", err)
	}
	if err := s.cluster.Ready(); err != nil {
		return err
	}
	if s.cfg.Extras.Ready != nil {
		return s.cfg.Extras.Ready()
	}
	return nil
}

// Run sends tasks to the agents and stores their reports, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	changes, stop := s.bus.Listen(bus.Work, bus.Events)
	defer stop()
	return group.Run(ctx,
		group.Part{Name: "audit", Run: s.audit.Run},
		group.Part{Name: "engine", Run: s.engine.Run},
		group.Part{Name: "alarms", Run: s.cluster.UnderLease("alarms", s.raise)},
		group.Part{Name: "news", Run: s.runAlarms},
		group.Part{Name: "rollouts", Run: s.cluster.UnderLease("rollouts", s.drive)},
		group.Part{Name: "upkeep", Run: s.cluster.UnderLease("upkeep", upkeepdriver.New(upkeepdriver.Config{
			Store: s.store, Engine: s.engine, Directory: s.directory, Rights: s.gate, Live: s.questions,
			Now: s.clock.Now, Log: s.cfg.Log,
		}).Run)},
		group.Part{Name: "breakers", Run: s.cluster.UnderLease("breakers", breakerdriver.New(breakerdriver.Config{
			Store: s.store, Presence: present{s.directory, s.clock}, Tell: s.questions.Withhold,
			Happened: s.eventsStored, Woken: changes, Rule: s.cfg.Breakers,
			Now: s.clock.Wall, Log: s.cfg.Log,
		}).Run)},
		group.Part{Name: "others", Run: s.cluster.Run},
		group.Part{Name: "incarnations", Run: s.watchIncarnations},
		group.Part{Name: "brokers", Run: s.brokers.Run},
		group.Part{Name: "fabric", Run: s.serveFabric},
		group.Part{Name: "links", Run: s.watchLinks().Run},
		group.Part{Name: "certificates", Run: s.certificates.Run},
		group.Part{Name: "keys", Run: s.keys.Run},
		group.Part{Name: "ticket keys", Run: s.tickets.Run},
		group.Part{Name: "watchdog", Run: s.beat},
		group.Part{Name: "memory", Run: func(ctx context.Context) error {
			return memory.Bound(ctx, func() int { known, _ := s.directory.Count(s.clock.Now()); return known })
		}},
		group.Part{Name: "rest", Run: memory.ReleaseAtRest},
	)
}

// watchLinks notices agents that come and go.
func (s *Server) watchLinks() agentlink.Watch {
	return agentlink.Watch{
		Broker: s.brokers.Embedded(), Directory: s.directory, Now: s.clock.Now, Log: s.cfg.Log,
		Changed: func() { s.bus.Changed(bus.Hosts, bus.Processes) },
	}
}

// raise tells which hosts are away, and delivers alarms, until ctx ends.
func (s *Server) raise(ctx context.Context) error {
	return group.Run(ctx,
		group.Part{Name: "absences", Run: fleet.NewTeller(fleet.TellerConfig{
			Store: s.store, Directory: s.directory, Happened: s.eventsStored,
			Now: s.clock.Now, Wall: s.clock.Wall,
			Log: s.cfg.Log,
		}).Run},
		group.Part{Name: "alarms", Run: s.sender.Run},
	)
}

// drive drives rollouts and schedules until ctx ends. Both have one lease, because a run of a schedule may be a
// rollout.
func (s *Server) drive(ctx context.Context) error {
	rollouts, stopRollouts := s.bus.Listen(bus.Work)
	defer stopRollouts()
	schedules, stopSchedules := s.bus.Listen(bus.Work)
	defer stopSchedules()
	return group.Run(ctx,
		group.Part{Name: "rollouts", Run: rolloutdriver.New(rolloutdriver.Config{
			Store: s.store, Engine: s.engine, Presence: s.directory, Undoer: s.api.Operations, Rights: s.gate,
			Woken: rollouts, Happened: s.eventsStored,
			Now: s.clock.Now, Wall: s.clock.Wall, Log: s.cfg.Log,
		}).Run},
		group.Part{Name: "schedules", Run: schedule.New(schedule.Config{
			Store: s.store, Beginner: s.api.Operations, Rights: s.gate, Hosts: s.directory,
			Happened: s.eventsStored, Woken: schedules, Now: s.clock.Wall, Clock: s.clock.Now,
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
		if s.link.Connected() {
			_ = s.link.Ping(ctx, agent)
		}
	})
}
