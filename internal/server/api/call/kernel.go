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
	mux     *http.ServeMux
}

// NewKernel returns a kernel without routes. stopping ends the calls that only wait. If secret is nil, cursors of this
// kernel are valid for this kernel only.
func NewKernel(stopping context.Context, c edge.Config, fullness store.Fullness, secret []byte) *Kernel {
	if secret == nil {
		secret = someSecret()
	}
	k := &Kernel{
		Config: c, Fullness: fullness, CursorSecret: secret, Stopping: stopping, cursors: newCursors(secret),
		mux: http.NewServeMux(),
	}
	k.mux.Handle("/", k.serving(Route{Name: "unknown", Serve: k.noSuchPath}))
	return k
}

// Handle serves a route. Call it before the first request.
func (k *Kernel) Handle(r Route) { k.mux.Handle(r.Pattern, k.serving(r)) }

// ServeHTTP implements http.Handler.
func (k *Kernel) ServeHTTP(w http.ResponseWriter, r *http.Request) { k.mux.ServeHTTP(w, r) }
