package server

import (
	"context"
	"fmt"

	"drover/internal/depot"
	"drover/internal/fabric"
	"drover/internal/group"
	"drover/internal/server/reports"
	"drover/internal/wire"
)

// FabricURLs returns the URLs to which agents connect, in the form that agents get.
func (s *Server) FabricURLs() []string { return s.brokers.URLs() }

// urls returns the URLs to which the agents of an area connect: those of its proxies, or of the fabric.
func (s *Server) urls(area int) []string {
	if s.proxies != nil {
		if urls := s.proxies.URLs(area); len(urls) > 0 {
			return urls
		}
	}
	return s.FabricURLs()
}

// serveFabric connects to the fabric, joins the other servers on it, and receives the reports of agents, until ctx
// ends.
func (s *Server) serveFabric(ctx context.Context) error {
	conn, err := s.brokers.Dial(ctx, s.connected)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := s.cluster.Join(ctx, conn); err != nil {
		return err
	}
	return group.Run(ctx,
		group.Part{Name: "other servers", Run: func(ctx context.Context) error { return s.cluster.Announce(ctx, conn) }},
		group.Part{Name: "reports", Run: func(ctx context.Context) error { return s.serveReports(ctx, conn) }},
		group.Part{Name: "proxies", Run: func(ctx context.Context) error { return s.proxies.Serve(ctx, conn) }},
	)
}

// connected is called whenever a link is established, because agents may have lost theirs at the same time.
func (s *Server) connected() {
	s.directory.Linked(s.clock.Now())
	s.cluster.Connected()
}

// serveReports receives the reports of agents over a link, until ctx ends.
func (s *Server) serveReports(ctx context.Context, conn *fabric.Conn) error {
	//nolint:contextcheck // stop ends it
	stop, err := conn.ServeEach(wire.AnyReportSubject, wire.ServersQueue, reports.Workers, s.reports.Answer)
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
	s.link.Connect(conn)
	close(s.reporting)
	<-ctx.Done()
	return nil
}
