// Package apiv1 is drover's own API below /api/v1, as JSON with cursor paging and with RFC 9457 problems that name
// the field. Its resources are processes, agents and how they join, operations, events, apps, users, webhooks and
// audit records. It owns the outside view of these resources and who may see them. The gate identifies a caller, the
// engine runs operations, and the store keeps the state.
package apiv1

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// Owns reports whether a path is one of this API.
func Owns(path string) bool { return path == v1.Prefix || strings.HasPrefix(path, v1.Prefix+"/") }

// Arrivals tells of new events: ListenEvents returns a channel that receives when events have arrived.
type Arrivals interface {
	ListenEvents() (woken <-chan struct{}, stop func())
}

// Directory knows the agents.
type Directory interface {
	// After returns the agents that come after a place, in order.
	After(p fleet.Place) iter.Seq[store.Agent]
	LookupID(id string) (store.Agent, bool)
	ByKey(key string) (store.Agent, bool)
	Presence(key string, now time.Time) fleet.Presence
	// Remarked says what keeps an agent from being of use, Rival whether a second host uses its key.
	Remarked(key string) string
	Rival(key string, now time.Time) (fleet.Rival, bool)
}

// History reads the record of calls.
type History interface {
	ListAudit(ctx context.Context, filter store.AuditFilter) ([]store.AuditRow, error)
}

// Accounts are those who call.
type Accounts struct {
	Apps   store.Apps
	Users  store.Users
	Tokens store.Tokens
	// Secrets hashes those of apps, as the gate does.
	Secrets access.Secrets
}

// Config is what the API stands on. All but Now and CursorSecret is required.
type Config struct {
	edge.Config
	Arrivals  Arrivals
	Directory Directory
	Listing   store.Listing
	Events    store.Events
	Accounts
	Webhooks Webhooks
	Joining  Joining
	Keys     Keys
	// CursorSecret is what the cursors of pages are sealed with, and the same for all servers of a fleet; nil is one of
	// this handler's own.
	CursorSecret []byte
	History      History
	Fullness     store.Fullness
}

// Handler serves the API. It starts nothing and is safe for concurrent use.
type Handler struct {
	Config
	mux     *http.ServeMux
	cursors *cursors
	streams streamSlots
	heavy   streamSlots
	// stopping ends the calls that only wait for something to happen.
	stopping context.Context //nolint:containedctx // it is the life of the handler, not of a call
	stop     context.CancelFunc
}

// New returns the handler of all paths below v1.Prefix.
func New(c Config) *Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.CursorSecret == nil {
		c.CursorSecret = someSecret()
	}
	h := &Handler{Config: c, mux: http.NewServeMux(), cursors: newCursors(c.CursorSecret)}
	h.stopping, h.stop = context.WithCancel(context.Background())
	for _, r := range h.table() {
		h.mux.Handle(r.pattern, h.serving(r))
	}
	h.mux.Handle("/", h.serving(route{name: "unknown", serve: h.noSuchPath}))
	return h
}

// Stop has long polls answered at once, so that a server that shuts down need not wait for them.
func (h *Handler) Stop() { h.stop() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// operatorKey is the context key of the operator.
type operatorKey struct{}

// WithOperator marks the calls of a connection as those of an operator of this machine, whom the kernel has vouched
// for. They pass by the gate.
func WithOperator(ctx context.Context, who access.Principal) context.Context {
	return context.WithValue(ctx, operatorKey{}, who)
}

// supported are the operations that can be asked for; a query is none, as the list of processes answers it.
func supported() (list []string) {
	for _, row := range process.Ops() {
		if row.OwnAPI {
			list = append(list, string(row.Op))
		}
	}
	return list
}
