package server

import (
	"context"
	"net"
	"net/http"

	"drover/internal/group"
	"drover/internal/httpd"
	"drover/internal/server/admission"
	"drover/internal/server/apiv1"
	"drover/internal/server/edge"
	"drover/internal/server/httpapi"
)

// Serve answers HTTP until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	both := edge.Config{
		Gate: s.gate, Engine: s.engine, Tasks: s.store, Audit: s.audit, Rooms: admission.New(), Log: s.cfg.Log,
		Now: s.clock.Wall,
	}
	own := apiv1.New(apiv1.Config{
		Config: both, CursorSecret: s.cursors,
		Arrivals: s.engine, Directory: s.directory, Labels: s.directory, Listing: s.store,
		Revisions: s.store, Standing: s.store, Upkeep: s.store, Events: s.store, Timeline: s.store,
		Cancels:  s.engine,
		Rollouts: s.store, Breadth: s.cfg.Breadth,
		Breakers: s.store,
		Receivers: apiv1.Receivers{
			Store: s.receivers, Silences: s.receivers, Sender: alarmSender{s.sender, s.cluster},
		},
		Joining:  s.joiningAPI(),
		Keys:     apiv1.Keys{Ring: s.keys, Reached: s.trust.reached, Without: s.cluster.without},
		Accounts: apiv1.Accounts{Apps: s.store, Users: s.store, Tokens: s.store, Secrets: s.secrets},
		History:  s.store, Fullness: s.store, Logs: s.logs,
	})
	if s.joining != nil {
		s.joining.proxies.takeJoins(own)
	}
	compatible := httpapi.New(httpapi.Config{
		Config: both, Repeats: s.store, Observations: s.store, Groups: s.store, Directory: s.directory,
		TrustedGateways: s.cfg.TrustedGateways,
		Ready:           s.Ready, Notes: s.notes, Metrics: s.metrics.Handler(s.cfg.Extras.Metrics, s.cfg.Log),
	})
	handler := s.metrics.Counted(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The compatible paths are matched by their ends, and a mux would redirect a path that is not clean.
		if apiv1.Owns(r.URL.Path) {
			own.ServeHTTP(w, r)
			return
		}
		compatible.ServeHTTP(w, r)
	}))
	parts := []group.Part{{Name: "tcp", Run: s.serving(handler, own, s.listener, nil)}}
	if s.socket != nil {
		parts = append(parts, group.Part{Name: "socket", Run: s.serving(handler, own, s.socket, s.operator)})
	}
	return group.Run(ctx, parts...)
}

// serving returns a function that answers HTTP on a listener until its context ends.
func (s *Server) serving(handler http.Handler, own *apiv1.Handler, l net.Listener,
	accepted func(context.Context, net.Conn) context.Context,
) func(context.Context) error {
	return func(ctx context.Context) error {
		srv := httpapi.NewServer(handler, s.cfg.Log)
		srv.ConnContext = accepted
		srv.RegisterOnShutdown(own.Stop)
		return httpd.Serve(ctx, srv, l)
	}
}
