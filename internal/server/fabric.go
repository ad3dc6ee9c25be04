package server

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/group"
	"drover/internal/server/keyring"
	"drover/internal/wire"
)

// brokers decide who may use the fabric: the one that the server embeds, or those that somebody else runs.
//
//nolint:interfacebloat // what both kinds of broker offer, for the parts that each take some of it
type brokers interface {
	IssueAgent(publicNKey string, area int) (string, error)
	IssueProxy(publicNKey string, area int) (string, error)
	Trust() (broker.Trust, error)
	Revoke(publicNKey string) error
	Restore(publicNKey string) error
	RefreshRevoked(read func() ([]string, error)) error
	SetAgentSigners(s broker.Signers) error
	ServerIdentity() fabric.Identity
}

// startBroker starts the fabric, or prepares to use that of others. Nobody who was removed is let in.
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
	s.embedded, err = broker.Start(ctx, broker.Config{
		Dir: dir, Listen: s.cfg.Fabric, Leaves: s.joining.leaves(), Cluster: routes, TLS: shown, Revoked: removed,
		Signers: s.signers(),
		Denied:  newDenialLog(s.audit, s.cfg.Log).note, Agents: rights(wire.AgentSubjects()),
		Proxies: rights(wire.ProxySubjects()), Log: s.cfg.Log,
	})
	s.broker = s.embedded
	return err
}

// refreshRevoked has the broker go by who was removed as the database has it.
func (s *Server) refreshRevoked(ctx context.Context) error {
	return s.broker.RefreshRevoked(func() ([]string, error) { return s.store.ListRemoved(ctx) })
}

// routes is how the embedded broker is joined to those of other servers; nil where it is not.
func (s *Server) routes() (*broker.Cluster, error) {
	if s.cfg.Cluster == "" {
		return nil, nil //nolint:nilnil // a part that is not there
	}
	between, err := s.joining.fabric.PeerTLS()
	if err != nil {
		return nil, err
	}
	return &broker.Cluster{Listen: s.cfg.Cluster, Routes: s.cfg.Routes, TLS: between}, nil
}

// externalKeys are the keys and rights by which brokers of somebody else let in the same as an embedded one.
func externalKeys(dir string, keys *keyring.Ring) broker.ExternalConfig {
	return broker.ExternalConfig{
		Dir: brokerDir(dir), Signers: signersOf(keys), Agents: rights(wire.AgentSubjects()),
		Proxies: rights(wire.ProxySubjects()),
	}
}

// serverQueue is the name by which servers share what is to reach one of them.
const serverQueue = "servers"

func brokerDir(dir string) string { return filepath.Join(dir, "broker") }

// rights are subjects as the broker takes them.
func rights(publish, subscribe []string) broker.Rights {
	return broker.Rights{Publish: publish, Subscribe: subscribe}
}

// stopBroker ends the embedded broker, if there is one.
func (s *Server) stopBroker() {
	if s.embedded != nil {
		s.embedded.Shutdown()
	}
}

// FabricURLs returns what agents connect to, as they are told it.
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
		host, _, _ := net.SplitHostPort(s.cfg.Fabric) // the broker listens on it
		return []string{"tls://" + net.JoinHostPort(host, strconv.Itoa(s.embedded.Port()))}
	}
}

// serveFabric connects to the fabric, joins the other servers on it, and takes the reports of agents, until ctx ends.
func (s *Server) serveFabric(ctx context.Context) error {
	dial := fabric.DialConfig{
		Identity: s.broker.ServerIdentity(), Name: "server", Log: s.cfg.Log,
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

// mayReply reports whether a reply goes to the one who has asked. An agent and a proxy choose where they await it, and
// must not have the server write to another's inbox. Their subjects name their area and their key; others are those of
// servers.
func mayReply(subject, reply string) bool {
	const parts, area, key = 6, 2, 4
	words := strings.Split(subject, ".")
	return len(words) != parts || strings.HasPrefix(reply, fabric.InboxPrefix(words[area], words[key])+".")
}

// connected is called whenever there is a link: agents may have lost theirs with it.
func (s *Server) connected() {
	s.directory.Linked(s.clock.Now())
	s.cluster.connected()
}

// serveReports takes the reports of agents over a link, until ctx ends.
func (s *Server) serveReports(ctx context.Context, conn *fabric.Conn) error {
	//nolint:contextcheck // stop ends it
	stop, err := conn.ServeEach(wire.AnyReportSubject, serverQueue, reportWorkers, s.report)
	if err != nil {
		return fmt.Errorf("cannot listen for reports: %w", err)
	}
	defer stop()
	s.link.set(conn)
	<-ctx.Done()
	return nil
}

// report takes one report of an agent.
func (s *Server) report(ctx context.Context, subject string, data []byte) []byte {
	area, agent, err := wire.ReportAgent(subject)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "rejected report", "error", err)
		return nil
	}
	a, known := s.directory.ByKey(agent)
	over, ok := s.reports.admit(ctx, agent, known && a.Cloud == area, data)
	if !ok {
		s.cfg.Log.WarnContext(ctx, "dropped report: too many reports are in progress", "agent", agent)
		return nil
	}
	defer over()
	report, signed, err := wire.OpenReport(data, s.fleet, agent)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "rejected report", "agent", agent, "error", err)
		return nil
	}
	reply, refused := s.stranger(ctx, area, agent)
	if !refused {
		begun := time.Now()
		reply = s.engine.HandleReport(ctx, agent, report, signed)
		s.metrics.Reported(len(data), time.Since(begun))
	}
	if signed {
		if reply, err = wire.SealAnswer(reply, report, agent, s.keys.ManifestKey()); err != nil {
			s.cfg.Log.ErrorContext(ctx, "cannot sign answer to a report", "agent", agent, "error", err)
			return nil
		}
	}
	return reply
}

// runBrokers keeps the brokers of others told of who may use them, until ctx ends.
func (s *Server) runBrokers(ctx context.Context) error {
	if s.external == nil {
		<-ctx.Done()
		return nil
	}
	return s.external.Run(ctx)
}
