package server

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"drover/internal/group"
	"drover/internal/httpd"
	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/api"
	"drover/internal/server/api/accounts"
	"drover/internal/server/api/alarms"
	"drover/internal/server/api/call"
	"drover/internal/server/api/install"
	"drover/internal/server/edge"
	"drover/internal/server/httpapi"
	"drover/internal/server/provider"
	"drover/internal/server/rollup"
	"drover/internal/server/socket"
	"drover/internal/server/webui"
)

// openAPI creates drover's own API, which also lets agents join and begins the runs of schedules.
func (s *Server) openAPI(context.Context) error {
	s.edge = edge.Config{
		Gate: s.gate, Engine: s.engine, Tasks: s.store, Audit: s.audit, Rooms: admission.New(), Log: s.cfg.Log,
		Now: s.clock.Wall,
	}
	s.api = api.New(api.Config{ //nolint:contextcheck // Stop ends what waits
		Config: s.edge, CursorSecret: s.cursors,
		Bus: s.bus, Directory: s.directory, Labels: s.directory, Listing: s.store,
		Picture: rollup.New(rollup.Config{
			Store: s.store, Directory: s.directory, Rest: 500 * time.Millisecond, Now: s.clock.Now,
		}),
		SharedFor:        500 * time.Millisecond,
		CallerSelections: s.store, Revisions: s.store, FileSelections: s.store, Upkeep: s.store, Events: s.store,
		Timeline: s.store,
		Packages: s.store,
		Cancels:  s.engine,
		Rollouts: s.store, Schedules: s.store, Breadth: s.cfg.Breadth,
		Breakers: s.store,
		Receivers: alarms.Receivers{
			Store: s.receivers, Silences: s.receivers, Sender: s.sender,
		},
		Joining: s.joiningAPI(),
		Keys: install.Keys{
			Ring: s.keys, Reached: s.trust.Reached, Without: s.cluster.Without, Stopped: s.cluster.Stopped,
		},
		Records: accounts.Records{
			Apps: s.store, Users: s.store, Tokens: s.store, Secrets: s.secrets,
			Devices: s.store, Groups: s.cfg.OIDC.groups(),
		},
		History: s.store, OtherReads: httpapi.Reads(), Fullness: s.store, Logs: s.questions,
		Console: s.consoleURL, State: s.state,
	})
	return nil
}

// Serve answers HTTP until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	both, own := s.edge, s.api
	console, err := webui.New(webui.Config{
		API: own, Gate: s.gate, Tokens: s.store, Devices: s.store, Views: s.store, Audit: s.audit, Named: s.named,
		Settings: s.cfg.Console, Now: s.clock.Wall, Log: s.cfg.Log, Bus: s.bus, Users: s.store,
		Parse:     both.Rooms.ParseYAML,
		Directory: s.directory, Provider: s.identityProvider(),
	})
	if err != nil {
		return err
	}
	if s.proxies != nil {
		s.proxies.TakeJoins(own)
	}
	compatible := httpapi.New(httpapi.Config{
		Config: both, Repeats: s.store, Observations: s.store, Groups: s.store, Directory: s.directory,
		TrustedGateways: s.cfg.TrustedGateways,
		Ready:           s.Ready, Notes: s.notes, Metrics: s.metrics.Handler(s.cfg.Extras.Metrics, s.cfg.Log),
	})
	handler := s.metrics.Counted(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The compatible paths are matched by their ends, and a mux would redirect a path that is not clean.
		if api.Owns(r.URL.Path) {
			own.ServeHTTP(w, r)
			return
		}
		if webui.Owns(r.URL.Path) {
			console.ServeHTTP(w, r)
			return
		}
		compatible.ServeHTTP(w, r)
	}))
	handler = webui.Below(s.cfg.Console.BasePath, handler)
	stop := func() {
		own.Stop()
		console.Stop()
	}
	parts := []group.Part{{Name: "tcp", Run: s.serving(edge.Guarded(handler, func(host string) bool {
		return s.named(host) || slices.Contains(s.cfg.Console.Hosts, host)
	}), stop, s.listener, edge.WithAccount)}}
	if s.socket != nil {
		parts = append(parts, group.Part{Name: "socket", Run: func(ctx context.Context) error {
			return s.socket.Serve(ctx, s.cfg.Log, func(served context.Context, l net.Listener) error {
				return s.serving(handler, func() {
					if ctx.Err() != nil { // else only the socket ends
						stop()
					}
				}, l, s.operator)(served)
			})
		}})
	}
	return group.Run(ctx, parts...)
}

// serving returns a function that answers HTTP on a listener until its context ends.
func (s *Server) serving(handler http.Handler, stop func(), l net.Listener,
	accepted func(context.Context, net.Conn) context.Context,
) func(context.Context) error {
	return func(ctx context.Context) error {
		srv := httpapi.NewServer(handler, s.cfg.Log)
		srv.ConnContext = accepted
		srv.RegisterOnShutdown(stop)
		return httpd.Serve(ctx, srv, l)
	}
}

// operator marks a connection of the socket as an operator's, if the kernel says that root or the server's own account
// opened it. Any other connection counts as remote. The mode of the file should prevent it, but may have been changed.
func (s *Server) operator(ctx context.Context, conn net.Conn) context.Context {
	uid, err := socket.Account(conn)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "cannot identify the peer of the socket", "error", err)
		return ctx
	}
	if uid != 0 && uid != uint32(os.Geteuid()) {
		s.cfg.Log.WarnContext(ctx, "unknown user at the socket, treating the call as a remote call", "uid", uid)
		return ctx
	}
	return call.WithOperator(ctx, access.LocalAdmin(uid))
}

// consoleURL is the URL of the console under a name of this server.
func (s *Server) consoleURL() string {
	scheme, rest, _ := strings.Cut(s.URL(), "://")
	host, port, _ := net.SplitHostPort(rest)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if names := s.cfg.fleet().Names; len(names) > 0 {
			host = names[0]
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port) + s.cfg.Console.BasePath + webui.Prefix
}

// named reports whether a host of a URL is this server: a name of its certificate, or loopback.
func (s *Server) named(host string) bool {
	if host == "localhost" {
		return true
	}
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || s.cfg.Fleet == nil) {
		return ip.IsLoopback()
	}
	return slices.Contains(s.cfg.fleet().Names, host)
}

// joiningAPI returns the part of the API for joining.
func (s *Server) joiningAPI() install.Joining {
	offered := install.Joining{Store: s.store}
	if s.enroller != nil { // a nil *Enroller in an interface would not be nil
		offered.Enroller, offered.Proxies = s.enroller, s.proxies
	}
	return offered
}

// OIDC is an OpenID Connect provider that signs people in to the console.
type OIDC struct {
	// Config is how to ask it, without the clock.
	provider.Config
	// RedirectURL is where it sends browsers back to; empty: the address that the browser has called.
	RedirectURL string
	// Groups are the rights of its groups.
	Groups access.GroupRights
}

// groups are the rights of groups; none without a provider.
func (o *OIDC) groups() access.GroupRights {
	if o == nil {
		return nil
	}
	return o.Groups
}

// identityProvider is the provider of the console; nil if there is none.
func (s *Server) identityProvider() *webui.Provider {
	o := s.cfg.OIDC
	if o == nil {
		return nil
	}
	asked := o.Config
	asked.Now = s.clock.Wall
	return &webui.Provider{Provider: provider.New(asked), Groups: o.Groups, RedirectURL: o.RedirectURL}
}
