package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"drover/internal/group"
	"drover/internal/httpd"
	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/admission"
	"drover/internal/server/api"
	"drover/internal/server/api/accounts"
	"drover/internal/server/api/alarms"
	"drover/internal/server/api/install"
	"drover/internal/server/edge"
	"drover/internal/server/httpapi"
	"drover/internal/server/provider"
	"drover/internal/server/pulse"
	"drover/internal/server/rollout"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
	"drover/internal/server/webui"
)

// openAPI creates drover's own API, which also lets agents join and begins the runs of schedules.
func (s *Server) openAPI(ctx context.Context) error {
	if err := s.openEnroller(ctx); err != nil {
		return err
	}
	s.edge = edge.Config{
		Gate: s.gate, Engine: s.engine, Tasks: s.store, Audit: s.audit, Rooms: admission.New(), Log: s.cfg.Log,
		Now: s.clock.Wall,
	}
	telling := s.telling()
	s.api = api.New(api.Config{ //nolint:contextcheck // Stop ends what waits
		Config: s.edge, CursorSecret: s.cursors,
		Arrivals: s.engine, Directory: s.directory, Labels: s.directory, Listing: s.store,
		Picture: rollup.New(rollup.Config{
			Store: s.store, Directory: s.directory, Rest: 500 * time.Millisecond, Now: s.clock.Now,
		}),
		SharedFor: 500 * time.Millisecond,
		Held:      s.store, Revisions: s.store, Standing: s.store, Upkeep: s.store, Events: s.store, Timeline: s.store,
		Packages: s.store,
		Cancels:  s.engine,
		Rollouts: telling, Schedules: telling, Breadth: s.cfg.Breadth,
		Breakers: telling,
		Receivers: alarms.Receivers{
			Store: s.receivers, Silences: s.receivers, Sender: alarmSender{s.sender, s.cluster},
		},
		Joining: s.joiningAPI(),
		Keys: install.Keys{
			Ring: s.keys, Reached: s.trust.reached, Without: s.cluster.without, Stopped: s.cluster.stopped,
		},
		Records: accounts.Records{
			Apps: s.store, Users: s.store, Tokens: s.store, Secrets: s.secrets,
			Devices: s.store, Groups: s.cfg.OIDC.groups(),
		},
		History: s.store, OtherReads: httpapi.Reads(), Fullness: s.store, Logs: s.logs,
		Console: s.consoleURL, State: s.state,
	})
	return nil
}

// Serve answers HTTP until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	both, own := s.edge, s.api
	console, err := webui.New(webui.Config{
		API: own, Gate: s.gate, Tokens: s.store, Devices: s.store, Views: s.store, Audit: s.audit, Named: s.named,
		Settings: s.cfg.Console, Now: s.clock.Wall, Log: s.cfg.Log, Pulse: s.pulse, Users: s.store,
		Parse:     both.Rooms.ParseYAML,
		Directory: s.directory, Provider: s.identityProvider(),
	})
	if err != nil {
		return err
	}
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
	parts := []group.Part{{Name: "tcp", Run: s.serving(s.guarded(handler), stop, s.listener, edge.WithAccount)}}
	if s.socket != nil {
		parts = append(parts, group.Part{Name: "socket", Run: func(ctx context.Context) error {
			return s.serveSocket(ctx, func(l net.Listener) func(context.Context) error {
				return s.serving(handler, func() {
					if ctx.Err() != nil { // else only the socket ends
						stop()
					}
				}, l, s.operator)
			})
		}})
	}
	return group.Run(ctx, parts...)
}

// guarded keeps pages of other sites away: a browser sends their requests, too. A request that changes something must
// not come from a page of another origin. What needs no credentials is served, without TLS, under the names of this
// server only: a foreign name may point here (DNS rebinding). Programs send none of the headers of browsers.
func (s *Server) guarded(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := origins.Check(r); err != nil {
			http.Error(w, "A page of another site has sent this request.", http.StatusForbidden)
			return
		}
		open := strings.HasSuffix(r.URL.Path, "/metrics") || strings.Contains(r.URL.Path, "/sign-ins/")
		if host := hostOf(r); open && r.TLS == nil && !s.named(host) && !slices.Contains(s.cfg.Console.Hosts, host) {
			http.Error(w, "This is not served under this name: use an address or a name of this server.",
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is the name or address that a request is for, in lower case and without its port.
func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return strings.ToLower(strings.Trim(host, "[]"))
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

// consoleURL is the URL of the console under a name of this server.
func (s *Server) consoleURL() string {
	scheme, rest, _ := strings.Cut(s.URL(), "://")
	host, port, _ := net.SplitHostPort(rest)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if s.joining != nil && len(s.joining.fleet.Names) > 0 {
			host = s.joining.fleet.Names[0]
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port) + s.cfg.Console.BasePath + webui.Prefix
}

// named reports whether a host of a URL is this server: a name of its certificate, or loopback.
func (s *Server) named(host string) bool {
	if host == "localhost" {
		return true
	}
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || s.joining == nil) {
		return ip.IsLoopback()
	}
	return s.joining != nil && slices.Contains(s.joining.fleet.Names, host)
}

// work wakes the parts that drive what people have begun, so that they need not ask the database all the time. Each
// part runs on the server that has its lease, so the other servers hear of a change, too. keys tells this server that
// the keys of the fleet have changed.
type work struct{ rollouts, schedules, breakers, keys chan struct{} }

func newWork() work {
	return work{make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)}
}

// wake wakes the parts of this server.
func (w *work) wake() {
	for _, part := range []chan struct{}{w.rollouts, w.schedules, w.breakers} {
		idle.Wake(part)
	}
}

// tellingStore is a store for the API. It wakes the parts that drive what the API has stored.
type tellingStore struct {
	store.Store
	changed func()
	// happened is called when there are new events.
	happened func()
}

// telling returns the store of the API.
func (s *Server) telling() tellingStore {
	return tellingStore{s.store, func() {
		s.pulse.Changed(pulse.Rollouts)
		s.work.wake()
		s.cluster.workChanged()
	}, s.engine.EventsStored}
}

// told calls changed if a change was stored.
func (t tellingStore) told(err error) error {
	if err == nil {
		t.changed()
	}
	return err
}

// CreateRollouts implements store.Rollouts.
func (t tellingStore) CreateRollouts(ctx context.Context, list []*store.Rollout, row store.AuditRow) error {
	err := t.Store.CreateRollouts(ctx, list, row)
	if err == nil {
		t.happened() // an undo has ended another rollout
	}
	return t.told(err)
}

// ChangeRollout implements store.Rollouts.
func (t tellingStore) ChangeRollout(ctx context.Context, id, app string, by store.RolloutChange,
	change func(*rollout.Rollout) error,
) (*store.Rollout, error) {
	r, err := t.Store.ChangeRollout(ctx, id, app, by, change)
	if err == nil {
		t.happened()
	}
	return r, t.told(err)
}

// CreateSchedule implements store.Schedules.
func (t tellingStore) CreateSchedule(ctx context.Context, s store.Schedule) error {
	return t.told(t.Store.CreateSchedule(ctx, s))
}

// PauseSchedule implements store.Schedules.
func (t tellingStore) PauseSchedule(ctx context.Context, name, app string, paused bool, now time.Time) (
	store.Schedule, error,
) {
	s, err := t.Store.PauseSchedule(ctx, name, app, paused, now)
	return s, t.told(err)
}

// RemoveSchedule implements store.Schedules.
func (t tellingStore) RemoveSchedule(ctx context.Context, name, app string, now time.Time) (told bool, err error) {
	if told, err = t.Store.RemoveSchedule(ctx, name, app, now); told {
		t.happened()
	}
	return told, err
}

// CloseBreaker implements store.Breakers.
func (t tellingStore) CloseBreaker(ctx context.Context, id process.ID, at time.Time, by string) (store.Breaker, error) {
	b, err := t.Store.CloseBreaker(ctx, id, at, by)
	return b, t.told(err)
}

// pulsingStore is the store of the engine. It tells the pages of the console what the engine has stored.
type pulsingStore struct {
	store.Store
	pulse *pulse.Pulse
}

// told tells topics if something was stored.
func (s pulsingStore) told(err error, topics ...pulse.Topic) error {
	if err == nil {
		s.pulse.Changed(topics...)
	}
	return err
}

// PutObserved implements store.Observations.
func (s pulsingStore) PutObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
	gone []store.Removal,
) error {
	return s.told(s.Store.PutObserved(ctx, from, rows, gone), pulse.Processes)
}

// ReplaceObserved implements store.Observations.
func (s pulsingStore) ReplaceObserved(ctx context.Context, from store.ReportMark, rows []store.Observed,
	keep []process.ID,
) (known bool, err error) {
	known, err = s.Store.ReplaceObserved(ctx, from, rows, keep)
	return known, s.told(err, pulse.Processes, pulse.Hosts)
}

// CreateTask implements store.Tasks.
func (s pulsingStore) CreateTask(ctx context.Context, t *store.Task, row store.AuditRow, until time.Time,
	limit int,
) ([]store.Item, error) {
	items, err := s.Store.CreateTask(ctx, t, row, until, limit)
	return items, s.told(err, pulse.Tasks)
}

// Begin implements store.Results.
func (s pulsingStore) Begin(ctx context.Context, agent string, deadlines map[string]time.Time) error {
	return s.told(s.Store.Begin(ctx, agent, deadlines), pulse.Tasks, pulse.Rollouts)
}

// Finish implements store.Results.
func (s pulsingStore) Finish(ctx context.Context, given []store.ReportedOutcome) ([]string, error) {
	tasks, err := s.Store.Finish(ctx, given)
	return tasks, s.told(err, pulse.Tasks, pulse.Rollouts)
}

// Conclude implements store.Results.
func (s pulsingStore) Conclude(ctx context.Context, ended []store.DecidedOutcome) ([]string, error) {
	tasks, err := s.Store.Conclude(ctx, ended)
	return tasks, s.told(err, pulse.Tasks, pulse.Rollouts)
}

// runPulse tells the pages of new events, of this server and of others, until ctx ends. An event of another server
// mostly tells of a process there.
func (s *Server) runPulse(ctx context.Context) error {
	woken, stop := s.engine.ListenEvents()
	defer stop()
	for {
		select {
		case <-woken:
			s.pulse.Changed(pulse.Events, pulse.Processes, pulse.Hosts)
		case <-ctx.Done():
			return nil
		}
	}
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
