// Package files answers the calls about process files: what a namespace has, a plan and an apply, the revisions, and
// how far hosts have drifted from their files.
package files

import (
	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/operations"
	"drover/internal/server/api/processes"
	"drover/internal/server/store"
)

// Config is what the calls about process files need.
type Config struct {
	*call.Kernel
	Directory      hosts.Directory
	Rollouts       operations.Rollouts
	Revisions      store.Revisions
	Events         store.Events
	FileSelections store.FileSelections
	Upkeep         operations.Upkeep
	Logs           processes.Logs
	// Breadth is the number of hosts that an apply may reach without the approval of a second person; 0 means all.
	Breadth int
}

// Handler answers the calls about process files.
type Handler struct {
	Config
	hosts      *hosts.Handler
	events     *events.Handler
	processes  *processes.Handler
	operations *operations.Handler
}

// New returns the handler.
func New(c Config, h *hosts.Handler, e *events.Handler, p *processes.Handler, o *operations.Handler) *Handler {
	return &Handler{Config: c, hosts: h, events: e, processes: p, operations: o}
}
