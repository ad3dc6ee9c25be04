// Package httpapi is the HTTP edge of the server for the callers' existing APIs. It resolves their paths, checks
// credentials, reads bodies, turns calls into tasks for the engine, and writes replies in the envelopes that the
// callers expect. It owns no state. Package gse owns the meaning of the JSON, gate the identity of a caller and
// access its rights. The engine runs tasks, and the store keeps their state.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"drover/internal/process"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// Directory finds agents by the names that callers use: an address, an id of either form, or (for rows of the store) a
// key. It knows which agents are online, and stores the ids that callers assign.
type Directory interface {
	Lookup(cloud int, ip string) (store.Agent, bool)
	LookupID(id string) (store.Agent, bool)
	ByKey(key string) (store.Agent, bool)
	Presence(key string, now time.Time) fleet.Presence
	Assign(ctx context.Context, key, id string, now time.Time) error
}

// Repeats remembers calls that were answered before their tasks had ended.
type Repeats interface {
	PutRepeat(ctx context.Context, r store.Repeat, before time.Time) error
	FindRepeat(ctx context.Context, of string) (store.Repeat, error)
	DropRepeat(ctx context.Context, of string) error
}

// Observations is the part of the store for the status calls.
type Observations interface {
	GetObserved(ctx context.Context, id process.ID, agents []string, fn func(store.Observed) error) error
	PageObserved(ctx context.Context, namespace string, start, limit int) (rows []store.Observed, total int, err error)
	ListOpenItems(ctx context.Context, f store.OpenItemFilter, limit int) ([]store.OpenItem, error)
}

// Groups stores the process groups that hosts should have, and returns the usage of their processes.
type Groups interface {
	PutGroups(ctx context.Context, hosts []store.GroupHost, groups []process.Group) error
	GetGroups(ctx context.Context, namespace string, agents []string,
		fn func(agent string, g process.Group) error) error
	GroupUsage(ctx context.Context, namespace string, agents []string) (map[string]store.GroupUsage, error)
}

// Config holds the parts and settings of the API. All fields except TrustedGateways, Notes, Metrics and Now are
// required.
type Config struct {
	edge.Config
	Repeats      Repeats
	Observations Observations
	Groups       Groups
	// TrustedGateways are the peers that may name the caller on a backend's paths.
	TrustedGateways []netip.Prefix
	Directory       Directory
	// Ready returns nil if the server is ready, otherwise the reason why not.
	Ready func() error
	// Notes returns warnings for operators about a server that accepts calls; it may be nil.
	Notes func() []string
	// Metrics answers /metrics; nil means that the path does not exist.
	Metrics http.Handler
}

// Limits of one call.
const (
	restBody    = 64 << 20         // bytes to read from the rest of an unwanted body
	restTime    = 2 * time.Second  // pause of the caller within an unwanted body
	registering = 20 * time.Second // for a registration call, which must end before the callers' 30 s
	repeating   = 2 * time.Minute  // for a repeat of an unfinished registration call
)

type server struct {
	Config
	paths     paths
	other     *http.ServeMux
	readiness readiness
}

// New returns the handler of every path. It starts nothing and is safe for concurrent use.
func New(c Config) http.Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &server{Config: c, other: http.NewServeMux()}
	s.paths = index(s.table())
	s.other.HandleFunc("GET /healthz", s.healthz)
	s.other.HandleFunc("GET /readyz", s.readyz)
	if c.Metrics != nil {
		s.other.Handle("GET /metrics", c.Metrics)
	}
	return s
}

// NewServer returns a server for the handler whose limits keep stalled connections from piling up. The handler itself
// bounds the time for a body and for a reply.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           drainBody(h),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
