// Package api is drover's own API: one table of all routes below v1.Prefix, whose calls a package for each noun
// answers.
package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/api/accounts"
	"drover/internal/server/api/alarms"
	"drover/internal/server/api/call"
	"drover/internal/server/api/changes"
	"drover/internal/server/api/events"
	"drover/internal/server/api/files"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/install"
	"drover/internal/server/api/operations"
	"drover/internal/server/api/processes"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// Owns reports whether a path belongs to this API.
func Owns(path string) bool { return path == v1.Prefix || strings.HasPrefix(path, v1.Prefix+"/") }

// Config holds the parts and settings of the API. All fields except Now and CursorSecret are required.
type Config struct {
	edge.Config
	// Bus tells of new events, and hears of what the API stores.
	Bus       *bus.Bus
	Directory hosts.Directory
	Labels    hosts.Labels
	Cancels   operations.Cancels
	Rollouts  operations.Rollouts
	Schedules store.Schedules
	Listing   store.Listing
	Picture   processes.Picture
	// SharedFor is how long callers with the same rights share an overview; 0 means that each caller gets its own.
	SharedFor        time.Duration
	CallerSelections store.CallerSelections
	Revisions        store.Revisions
	FileSelections   store.FileSelections
	Upkeep           operations.Upkeep
	Packages         store.Packages
	Events           store.Events
	Timeline         processes.Timeline
	accounts.Records
	Receivers alarms.Receivers
	Breakers  store.Breakers
	Joining   install.Joining
	Keys      install.Keys
	// State returns the state of the server.
	State func() v1.Server
	// Console returns the URL of the console, which ends with a slash; empty if there is none.
	Console func() string
	// CursorSecret seals the cursors of pages; all servers of a fleet have the same. If it is nil, the handler creates
	// its own.
	CursorSecret []byte
	// Breadth is the number of hosts that an operation or a rollout may reach without the approval of a second person;
	// 0 means all.
	Breadth int
	History events.History
	// OtherReads are the actions of calls outside of this API that change nothing.
	OtherReads []string
	Logs       processes.Logs
	Fullness   store.Fullness
}

// Handler serves the API. It starts nothing and is safe for concurrent use.
type Handler struct {
	Config
	// Accounts and Operations are for parts of the server that sign people in, begin runs of schedules and undo
	// rollouts.
	Accounts   *accounts.Handler
	Operations *operations.Handler

	routes    http.Handler
	hosts     *hosts.Handler
	events    *events.Handler
	processes *processes.Handler
	files     *files.Handler
	changes   *changes.Handler
	alarms    *alarms.Handler
	install   *install.Handler
	stop      context.CancelFunc
}

// New returns the handler of all paths below v1.Prefix.
func New(c Config) *Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	h := &Handler{Config: c}
	stopping, stop := context.WithCancel(context.Background())
	h.stop = stop
	k := call.NewKernel(stopping, c.Config, c.Fullness, c.CursorSecret)
	h.hosts = hosts.New(hosts.Config{
		Kernel: k, Directory: c.Directory, Labels: c.Labels, Proxies: c.Joining.Proxies,
		FileSelections: c.FileSelections, Breadth: c.Breadth,
	})
	h.events = events.New(events.Config{
		Kernel: k, Bus: c.Bus, Directory: c.Directory, Events: c.Events, Former: c.Timeline,
		Listing: c.Listing, History: c.History, Reads: h.reads,
	}, h.hosts)
	h.processes = processes.New(processes.Config{
		Kernel: k, Directory: c.Directory, Listing: c.Listing, Picture: c.Picture, Timeline: c.Timeline,
		CallerSelections: c.CallerSelections, Logs: c.Logs, SharedFor: c.SharedFor,
	}, h.hosts, h.events)
	h.Operations = operations.New(operations.Config{
		Kernel: k, Directory: c.Directory, Cancels: c.Cancels, Rollouts: c.Rollouts, Schedules: c.Schedules,
		Listing: c.Listing, Picture: c.Picture, Revisions: c.Revisions,
		FileSelections: c.FileSelections, Upkeep: c.Upkeep, Breadth: c.Breadth, Bus: c.Bus,
	}, h.hosts, h.events, h.processes)
	h.files = files.New(files.Config{
		Kernel: k, Directory: c.Directory, Rollouts: c.Rollouts, Revisions: c.Revisions, Events: c.Events,
		FileSelections: c.FileSelections, Upkeep: c.Upkeep, Logs: c.Logs, Breadth: c.Breadth,
	}, h.hosts, h.events, h.processes, h.Operations)
	h.changes = changes.New(changes.Config{
		Kernel: k, Directory: c.Directory, Listing: c.Listing, Revisions: c.Revisions, Rollouts: c.Rollouts,
		Timeline: c.Timeline,
	}, h.hosts, h.events, h.processes, h.Operations, h.files)
	h.alarms = alarms.New(alarms.Config{
		Kernel: k, Receivers: c.Receivers, Breakers: c.Breakers, Events: c.Events, Bus: c.Bus,
	})
	h.install = install.New(install.Config{
		Kernel: k, Directory: c.Directory, Joining: c.Joining, Keys: c.Keys, Packages: c.Packages, Rollouts: c.Rollouts,
	}, h.hosts, h.Operations)
	h.Accounts = accounts.New(accounts.Config{
		Kernel: k, Records: c.Records, Directory: c.Directory, Console: c.Console,
	})
	var routes []call.Route
	for _, r := range h.table() {
		routes = append(routes, call.Route(r))
	}
	h.routes = k.Routes(routes)
	return h
}

// Stop answers long polls at once, so that a server that shuts down need not wait for them.
func (h *Handler) Stop() { h.stop() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.routes.ServeHTTP(w, r) }

// route is one row of the table.
type route call.Route

// The kinds of callers that a route admits.
const (
	noApp, anyone, admin = call.NoApp, call.Anyone, call.Admin
)

// table lists every path below v1.Prefix.
//
//nolint:funlen,revive // one row a route
func (h *Handler) table() []route {
	return []route{
		{v1.RouteListProcesses, "processes.list", anyone, h.processes.List},
		{v1.RouteCountProcesses, "processes.counts", anyone, h.processes.Count},
		{v1.RouteOverview, "processes.overview", anyone, h.processes.Overview},
		{v1.RouteGetProcess, "processes.get", anyone, h.processes.Get},
		{v1.RouteReadLogs, "processes.logs", anyone, h.processes.ReadLogs},
		{v1.RouteReadUsage, "processes.usage", anyone, h.processes.ReadUsage},
		{v1.RouteGetNamespace, "namespaces.get", anyone, h.files.Get},
		{v1.RoutePutNamespace, "namespaces.apply", anyone, h.files.Put},
		{v1.RouteListRevisions, "namespaces.revisions", anyone, h.files.ListRevisions},
		{v1.RouteCompareRevisions, "namespaces.diff", anyone, h.files.CompareRevisions},
		{v1.RouteListChanges, "changes.list", anyone, h.changes.List},
		{v1.RouteListWhy, "why.list", anyone, h.processes.Why},
		{v1.RouteListDrift, "drift.list", anyone, h.files.ListDrift},
		{v1.RouteListHosts, "hosts.list", anyone, h.hosts.List},
		{v1.RouteCountHosts, "hosts.counts", anyone, h.hosts.Count},
		{v1.RouteLabelHosts, "hosts.label", anyone, h.hosts.Label},
		{v1.RouteListScrapeTargets, "hosts.prometheus", anyone, h.hosts.ListTargets},
		{v1.RouteRemoveHost, "hosts.remove", admin, h.install.RemoveHost},

		{v1.RouteListProxies, "proxies.list", admin, h.install.ListProxies},
		{v1.RouteRemoveProxy, "proxies.remove", admin, h.install.RemoveProxy},

		{v1.RouteJoin, "join", noApp, h.install.Join},
		{v1.RouteCreateJoinToken, "tokens.create", admin, h.install.CreateJoinToken},
		{v1.RouteListJoinTokens, "tokens.list", admin, h.install.ListJoinTokens},
		{v1.RouteGetJoinToken, "tokens.get", admin, h.install.GetJoinToken},
		{v1.RouteRevokeJoinToken, "tokens.revoke", admin, h.install.RevokeJoinToken},

		{v1.RouteListKeys, "keys.list", admin, h.install.ListKeys},
		{v1.RouteRotateKeys, "keys.rotate", admin, h.install.RotateKeys},
		{v1.RouteDropKey, "keys.drop", admin, h.install.DropKey},

		{v1.RouteUpgradeAgents, "hosts.upgrade", anyone, h.install.UpgradeAgents},
		{v1.RouteAddPackage, "packages.add", admin, h.install.AddPackage},
		{v1.RouteListPackages, "packages.list", anyone, h.install.ListPackages},
		{v1.RoutePutPiece, "packages.pieces.put", admin, h.install.PutPiece},
		{v1.RouteRemovePackage, "packages.remove", admin, h.install.RemovePackage},

		{v1.RouteListEvents, "events.list", anyone, h.events.List},
		{v1.RouteStreamEvents, "events.stream", anyone, h.events.Stream},

		{v1.RouteCreateTask, "tasks.create", anyone, h.Operations.Create},
		{v1.RouteCreateSelection, "selections.create", anyone, h.processes.CreateSelection},
		{v1.RouteGetSelection, "selections.get", anyone, h.processes.GetSelection},
		{v1.RouteListTasks, "tasks.list", anyone, h.Operations.List},
		{v1.RouteGetTask, "tasks.get", anyone, h.Operations.Get},
		{v1.RouteListResults, "tasks.results", anyone, h.Operations.ListResults},
		{v1.RouteCancelTask, "tasks.cancel", anyone, h.Operations.Cancel},

		{v1.RouteListRollouts, "rollouts.list", anyone, h.Operations.ListRollouts},
		{v1.RouteGetRollout, "rollouts.get", anyone, h.Operations.GetRollout},
		{v1.RoutePauseRollout, "rollouts.pause", anyone, h.Operations.PauseRollout},
		{v1.RouteResumeRollout, "rollouts.resume", anyone, h.Operations.ResumeRollout},
		{v1.RouteAbortRollout, "rollouts.abort", anyone, h.Operations.AbortRollout},
		{v1.RouteRetryRollout, "rollouts.retry", anyone, h.Operations.RetryRollout},
		{v1.RoutePaceRollout, "rollouts.pace", anyone, h.Operations.PaceRollout},
		{v1.RouteApproveRollout, "rollouts.approve", anyone, h.Operations.ApproveRollout},
		{v1.RouteUndoRollout, "rollouts.undo", anyone, h.Operations.UndoRollout},

		{v1.RouteCreateSchedule, "schedules.create", anyone, h.Operations.CreateSchedule},
		{v1.RouteListSchedules, "schedules.list", anyone, h.Operations.ListSchedules},
		{v1.RouteGetSchedule, "schedules.get", anyone, h.Operations.GetSchedule},
		{v1.RoutePauseSchedule, "schedules.pause", anyone, h.Operations.PauseSchedule},
		{v1.RouteResumeSchedule, "schedules.resume", anyone, h.Operations.ResumeSchedule},
		{v1.RouteRunSchedule, "schedules.run", anyone, h.Operations.RunSchedule},
		{v1.RouteRemoveSchedule, "schedules.remove", anyone, h.Operations.RemoveSchedule},

		{v1.RouteCreateApp, "apps.create", admin, h.Accounts.CreateApp},
		{v1.RouteListApps, "apps.list", admin, h.Accounts.ListApps},
		{v1.RouteGetApp, "apps.get", admin, h.Accounts.GetApp},
		{v1.RouteChangeApp, "apps.change", admin, h.Accounts.ChangeApp},
		{v1.RouteCreateSecret, "apps.secrets.create", admin, h.Accounts.CreateSecret},

		{v1.RouteCreateUser, "users.create", admin, h.Accounts.CreateUser},
		{v1.RouteListUsers, "users.list", admin, h.Accounts.ListUsers},
		{v1.RouteGetUser, "users.get", admin, h.Accounts.GetUser},
		{v1.RouteChangeUser, "users.change", admin, h.Accounts.ChangeUser},
		{v1.RouteCheckRight, "rights.check", anyone, h.Accounts.CheckRight},
		{v1.RouteCreateToken, "users.tokens.create", admin, h.Accounts.CreateToken},
		{v1.RouteListTokens, "users.tokens.list", anyone, h.Accounts.ListTokens},
		{v1.RouteDeleteToken, "users.tokens.delete", anyone, h.Accounts.DeleteToken},
		{v1.RouteCreateSignIn, "sign-ins.create", anyone, h.Accounts.CreateSignIn},
		{v1.RouteCreateDevice, "sign-ins.devices.create", noApp, h.Accounts.CreateDevice},
		{v1.RouteDeviceState, "sign-ins.devices.state", noApp, h.Accounts.DeviceState},
		{v1.RouteEndSignIn, "sign-ins.end", anyone, h.Accounts.EndSignIn},

		{v1.RouteCreateReceiver, "receivers.create", admin, h.alarms.CreateReceiver},
		{v1.RouteListReceivers, "receivers.list", admin, h.alarms.ListReceivers},
		{v1.RouteGetReceiver, "receivers.get", admin, h.alarms.GetReceiver},
		{v1.RouteChangeReceiver, "receivers.change", admin, h.alarms.ChangeReceiver},
		{v1.RouteDeleteReceiver, "receivers.delete", admin, h.alarms.DeleteReceiver},
		{v1.RouteRotateReceiver, "receivers.secret.create", admin, h.alarms.RotateReceiver},
		{v1.RouteTestReceiver, "receivers.test", admin, h.alarms.TestReceiver},

		{v1.RouteCreateSilence, "silences.create", anyone, h.alarms.CreateSilence},
		{v1.RouteListSilences, "silences.list", anyone, h.alarms.ListSilences},
		{v1.RouteGetSilence, "silences.get", anyone, h.alarms.GetSilence},
		{v1.RouteRemoveSilence, "silences.remove", anyone, h.alarms.RemoveSilence},

		{v1.RouteListBreakers, "breakers.list", anyone, h.alarms.ListBreakers},
		{v1.RouteResetBreaker, "breakers.reset", anyone, h.alarms.ResetBreaker},

		{v1.RouteListAudit, "audit.list", anyone, h.events.ListAudit},
		{v1.RouteGetServer, "server.get", admin, h.getServer},
	}
}

// reads returns the actions of the audit log for calls that change nothing.
func (h *Handler) reads() []string {
	list := slices.Concat(h.OtherReads, []string{"selections.create", "sign-ins.devices.state"})
	for _, r := range h.table() {
		if strings.HasPrefix(r.Pattern, http.MethodGet) {
			list = append(list, r.Name)
		} else {
			list = append(list, r.Name+call.DryRun)
		}
	}
	return list
}

// getServer shows the state of this server.
func (h *Handler) getServer(_ context.Context, c *call.Call) (call.Reply, error) {
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	return call.OK(h.State())
}
