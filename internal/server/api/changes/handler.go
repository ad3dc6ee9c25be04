// Package changes answers what has changed in the fleet between two moments.
package changes

import (
	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/files"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/operations"
	"drover/internal/server/api/processes"
	"drover/internal/server/store"
)

// Config is what the call about changes needs.
type Config struct {
	*call.Kernel
	Directory hosts.Directory
	Listing   store.Listing
	Revisions store.Revisions
	Rollouts  operations.Rollouts
	Timeline  processes.Timeline
}

// Handler answers the call about changes.
type Handler struct {
	Config
	hosts      *hosts.Handler
	events     *events.Handler
	processes  *processes.Handler
	operations *operations.Handler
	files      *files.Handler
}

// New returns the handler.
func New(
	c Config, h *hosts.Handler, e *events.Handler, p *processes.Handler, o *operations.Handler, f *files.Handler,
) *Handler {
	return &Handler{Config: c, hosts: h, events: e, processes: p, operations: o, files: f}
}
