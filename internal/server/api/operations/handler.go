// Package operations answers the calls that do something to processes: operations, rollouts and schedules, with their
// lists, their results and the ways to end them.
package operations

import (
	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/processes"
	"drover/internal/server/bus"
	"drover/internal/server/store"
)

// Config is what the calls about operations need.
type Config struct {
	*call.Kernel
	Directory      hosts.Directory
	Cancels        Cancels
	Rollouts       Rollouts
	Schedules      store.Schedules
	Listing        store.Listing
	Picture        processes.Picture
	Revisions      store.Revisions
	FileSelections store.FileSelections
	Upkeep         Upkeep
	// Bus hears of changed rollouts and schedules.
	Bus *bus.Bus
	// Breadth is the number of hosts that an operation or a rollout may reach without the approval of a second person;
	// 0 means all.
	Breadth int
}

// Handler answers the calls about operations.
type Handler struct {
	Config
	hosts     *hosts.Handler
	events    *events.Handler
	processes *processes.Handler
}

// New returns the handler.
func New(c Config, h *hosts.Handler, e *events.Handler, p *processes.Handler) *Handler {
	return &Handler{Config: c, hosts: h, events: e, processes: p}
}
