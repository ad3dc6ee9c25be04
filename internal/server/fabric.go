package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"drover/internal/depot"
	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/frame"
	"drover/internal/group"
	"drover/internal/server/keyring"
	"drover/internal/server/pairs"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// brokers decide which clients may use the fabric: the embedded broker, or the brokers of another operator.
//
//nolint:interfacebloat // what both kinds of broker offer, for parts that each use some of it
type brokers interface {
	IssueAgent(publicNKey string, area int) (string, error)
	IssueProxy(publicNKey string, area int) (string, error)
	Account() (string, error)
	Revoke(publicNKey string) error
	Restore(publicNKey string) error
	RefreshRevoked(read func() ([]string, error)) error
	SetSigners(s broker.Signers) error
	ServerIdentity() fabric.Identity
}

// startBroker starts the embedded broker, or prepares the use of external brokers. It rejects all removed keys.
func (s *Server) startBroker(ctx context.Context) error {
	removed, err := s.store.ListRemoved(ctx)
	if err != nil {
		return err
	}
	shown, verified := s.joining.brokerTLS()
	dir := brokerDir(s.cfg.Dir)
	if len(s.cfg.NATS) > 0 {
		cfg := externalKeys(s.cfg.Dir, s.keys)
		cfg.URLs, cfg.TLS, cfg.Revoked, cfg.Reread, cfg.Log = s.cfg.NATS, verified, removed, s.store.ListRemoved,
			s.cfg.Log
		s.external, err = broker.OpenExternal(cfg)
		s.broker = s.external
		return err
	}
	routes, err := s.routes()
	if err != nil {
		return err
	}
	if s.tickets, err = s.openTickets(ctx); err != nil {
		return err
	}
	s.tickets.Resume(shown)
	s.embedded, err = broker.Start(ctx, broker.Config{
		Dir: dir, Listen: s.cfg.Fabric, Leaves: s.joining.leaves(), Cluster: routes, TLS: shown, Revoked: removed,
		Signers: signersOf(s.keys), Ready: s.reporting,
		Denied: newDenialLog(s.audit, s.cfg.Log).note, Agents: rights(wire.AgentSubjects()),
		Proxies: rights(wire.ProxySubjects()), Log: s.cfg.Log,
	})
	s.broker = s.embedded
	return err
}

// refreshRevoked passes the removed keys in the database to the broker.
func (s *Server) refreshRevoked(ctx context.Context) error {
	return s.broker.RefreshRevoked(func() ([]string, error) { return s.store.ListRemoved(ctx) })
}

// routes returns the connection of the embedded broker to the brokers of other servers; nil if there is none.
func (s *Server) routes() (*broker.Cluster, error) {
	if s.cfg.Cluster == "" {
		return nil, nil //nolint:nilnil // nil is a missing part
	}
	between, err := s.joining.fabric.PeerTLS()
	if err != nil {
		return nil, err
	}
	return &broker.Cluster{Listen: s.cfg.Cluster, Routes: s.cfg.Routes, TLS: between}, nil
}

// externalKeys returns the keys and rights by which external brokers admit the same clients as an embedded broker.
func externalKeys(dir string, keys *keyring.Ring) broker.ExternalConfig {
	return broker.ExternalConfig{
		Dir: brokerDir(dir), Signers: signersOf(keys), Operators: keys.Pairs(keyring.ServerSigner)[1:],
		Agents:  rights(wire.AgentSubjects()),
		Proxies: rights(wire.ProxySubjects()),
	}
}

func brokerDir(dir string) string { return filepath.Join(dir, "broker") }

// rights converts subjects to the broker's type.
func rights(publish, subscribe []string) broker.Rights {
	return broker.Rights{Publish: publish, Subscribe: subscribe}
}

// stopBroker ends the embedded broker, if there is one.
func (s *Server) stopBroker() {
	if s.embedded != nil {
		s.embedded.Shutdown()
	}
}

// FabricURLs returns the URLs to which agents connect, in the form that agents get.
func (s *Server) FabricURLs() []string {
	if s.joining == nil {
		return []string{s.embedded.URL()}
	}
	var urls []string
	for _, address := range s.joining.fleet.Advertise {
		urls = append(urls, "tls://"+address)
	}
	switch {
	case len(urls) > 0:
		return urls
	case s.external != nil:
		return s.external.URLs()
	default:
		host, _, _ := net.SplitHostPort(s.cfg.Fabric) // the broker listens on this address
		return []string{"tls://" + net.JoinHostPort(host, strconv.Itoa(s.embedded.Port()))}
	}
}

// serveFabric connects to the fabric, joins the other servers on it, and receives the reports of agents, until ctx
// ends.
func (s *Server) serveFabric(ctx context.Context) error {
	dial := fabric.DialConfig{
		Identity: s.broker.ServerIdentity(), Name: "server", Log: s.cfg.Log,
		Token:       func() string { return s.broker.ServerIdentity().JWT },
		OnConnected: s.connected, Replies: mayReply,
	}
	if s.external != nil {
		dial.URLs = s.external.URLs()
		_, dial.TLS = s.joining.brokerTLS()
	} else {
		dial.Broker = s.embedded
	}
	conn, err := fabric.Dial(ctx, dial)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := s.cluster.join(ctx, conn); err != nil {
		return err
	}
	return group.Run(ctx,
		group.Part{Name: "other servers", Run: func(ctx context.Context) error { return s.cluster.announce(ctx, conn) }},
		group.Part{Name: "reports", Run: func(ctx context.Context) error { return s.serveReports(ctx, conn) }},
		group.Part{Name: "proxies", Run: func(ctx context.Context) error { return s.serveProxies(ctx, conn) }},
	)
}

// mayReply reports whether a reply goes to the sender of the request. Agents and proxies choose their reply subjects,
// and must not make the server write to another's inbox. Their subjects have their area and key; other subjects belong
// to servers.
func mayReply(subject, reply string) bool {
	const parts, area, key = 6, 2, 4
	words := strings.Split(subject, ".")
	return len(words) != parts || strings.HasPrefix(reply, fabric.InboxPrefix(words[area], words[key])+".")
}

// connected is called whenever a link is established, because agents may have lost theirs at the same time.
func (s *Server) connected() {
	s.directory.Linked(s.clock.Now())
	s.cluster.connected()
}

// serveReports receives the reports of agents over a link, until ctx ends.
func (s *Server) serveReports(ctx context.Context, conn *fabric.Conn) error {
	//nolint:contextcheck // stop ends it
	stop, err := conn.ServeEach(wire.AnyReportSubject, wire.ServersQueue, reportWorkers, s.report)
	if err != nil {
		return fmt.Errorf("cannot listen for reports: %w", err)
	}
	defer stop()
	//nolint:contextcheck // stop ends it
	stopPackages, err := conn.ServeEach(wire.AnyPackageSubject, wire.ServersQueue, depot.Workers, s.depot.Answer)
	if err != nil {
		return fmt.Errorf("cannot listen for questions about packages: %w", err)
	}
	defer stopPackages()
	s.link.set(conn)
	close(s.reporting)
	<-ctx.Done()
	return nil
}

// storedPackages are the packages in the database, as a depot gives them.
type storedPackages struct{ store.Packages }

// Signed implements depot.Source.
func (s storedPackages) Signed(ctx context.Context, version, arch string) ([]byte, error) {
	p, err := s.GetPackage(ctx, version, arch)
	return []byte(p.Signed), missing(err)
}

// Piece implements depot.Source.
func (s storedPackages) Piece(ctx context.Context, version, arch string, piece int) ([]byte, error) {
	data, err := s.GetPiece(ctx, version, arch, piece)
	return data, missing(err)
}

func missing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return wire.ErrNoPackage
	}
	return err
}

// reseal takes another sealing key of an agent, which the agent itself has signed. Nobody else can make an agent's key
// change, and no old change counts.
func (s *Server) reseal(ctx context.Context, agent string, signed []byte) {
	c, err := s.openSealing(signed, agent)
	if err == nil {
		err = s.directory.Reseal(ctx, agent, func(keys string) (string, error) {
			return s.pairs.Replaced(keys, c.Key, c.Since)
		})
	}
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "cannot take new sealing key of an agent", "agent", agent, "error", err)
	}
}

// openSealing opens a change of a member's sealing key, which must be recent.
func (s *Server) openSealing(signed []byte, member string) (wire.SealingChange, error) {
	c, err := wire.OpenSealing(signed, member, s.fleet)
	if err == nil && c.At.Sub(s.clock.Now()).Abs() > frame.Width {
		err = frame.ErrStale
	}
	return c, err
}

// sealingOf returns the sealing keys of an agent, which may have just joined through another server.
func (s *Server) sealingOf(ctx context.Context, agent string) (key string, known bool, err error) {
	a, known, err := s.directory.Find(ctx, agent)
	return a.Sealing, known, err
}

// open opens the report of an agent. The answer is sealed with the same pair.
func (s *Server) open(ctx context.Context, agent string, data []byte) (
	pair *frame.Pair, head frame.Head, report []byte, err error,
) {
	if head, err = frame.Read(data); err != nil {
		return nil, head, nil, err
	}
	if pair, err = s.pairs.For(ctx, agent, head.Pair); err != nil {
		return nil, head, nil, err
	}
	head, report, err = pair.Open(frame.Report, data, frame.Nonce{})
	return pair, head, report, err
}

// report handles one report of an agent.
func (s *Server) report(ctx context.Context, subject string, data []byte) []byte {
	area, agent, err := wire.ReportAgent(subject)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "rejected report", "error", err)
		return nil
	}
	size := len(data)
	pair, head, report, err := s.open(ctx, agent, data)
	if errors.Is(err, pairs.ErrUnknownMember) {
		s.unregistered.Reported(area, agent, s.clock.Wall())
	}
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "rejected report", "agent", agent, "error", err)
		return hint(err)
	}
	a, known := s.directory.ByKey(agent)
	over, ok := s.reports.admit(ctx, agent, known && a.Cloud == area, report)
	if !ok {
		s.cfg.Log.WarnContext(ctx, "dropped report: too many reports are in progress", "agent", agent)
		return nil
	}
	defer over()
	reply, refused := s.stranger(ctx, area, agent)
	if !refused {
		begun := time.Now()
		reply = s.engine.HandleReport(ctx, agent, report, head.Time)
		s.metrics.Reported(size, time.Since(begun))
	}
	if reply, _, err = pair.Seal(frame.Ack, s.clock.Now(), head.Nonce, reply); err != nil {
		s.cfg.Log.ErrorContext(ctx, "cannot seal answer to a report", "agent", agent, "error", err)
		return nil
	}
	return reply
}

// hint returns the answer to a member whose message this server cannot open; nil if the message is a forgery.
func hint(err error) []byte {
	for _, told := range []error{pairs.ErrUnknownMember, pairs.ErrUnknownKeys, frame.ErrStale} {
		if errors.Is(err, told) {
			return frame.Hint(err.Error())
		}
	}
	return nil
}

// runBrokers updates the rights of clients at external brokers, until ctx ends.
func (s *Server) runBrokers(ctx context.Context) error {
	if s.external == nil {
		<-ctx.Done()
		return nil
	}
	return s.external.Run(ctx)
}
