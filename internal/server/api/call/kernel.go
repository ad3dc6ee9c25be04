// Package call is what all calls of drover's own API share: it identifies and limits the caller, reads the query and
// the body, turns faults into problems, seals cursors and records the call.
package call

import (
	"context"
	"net/http"

	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// Kernel has what every call needs: it identifies callers, limits and records their calls, and seals cursors. It starts
// nothing and is safe for concurrent use.
type Kernel struct {
	edge.Config
	// Fullness says whether the disk of the database is full.
	Fullness store.Fullness
	// CursorSecret seals the cursors of pages.
	CursorSecret []byte
	// Readers are the calls under way that wait for answers of hosts.
	Readers Slots
	// Stopping ends the calls that only wait.
	Stopping context.Context //nolint:containedctx // it is the lifetime of the API, not of a call

	cursors *cursors
	heavy   Slots
}

// NewKernel returns a kernel. stopping ends the calls that only wait. If secret is nil, cursors of this
// kernel are valid for this kernel only.
func NewKernel(stopping context.Context, c edge.Config, fullness store.Fullness, secret []byte) *Kernel {
	if secret == nil {
		secret = someSecret()
	}
	return &Kernel{
		Config: c, Fullness: fullness, CursorSecret: secret, Stopping: stopping, cursors: newCursors(secret),
	}
}

// Routes returns the handler of routes. It answers every other path with a problem.
func (k *Kernel) Routes(list []Route) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", k.serving(Route{Name: "unknown", Serve: func(_ context.Context, c *Call) (Reply, error) {
		return noSuchPath(mux, c)
	}}))
	for _, r := range list {
		mux.Handle(r.Pattern, k.serving(r))
	}
	return mux
}
