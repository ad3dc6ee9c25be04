// Package processes answers the calls about processes: their lists, their counts, their past, the causes of their
// problems, their logs and their usage. It stores the selections of processes that callers make for a later operation.
package processes

import (
	"time"

	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/hosts"
	"drover/internal/server/store"
)

// Config is what the calls about processes need.
type Config struct {
	*call.Kernel
	Directory        hosts.Directory
	Listing          store.Listing
	Picture          Picture
	Timeline         Timeline
	CallerSelections store.CallerSelections
	Logs             Logs
	// SharedFor is how long callers with the same rights share an overview; 0 means that each caller gets its own.
	SharedFor time.Duration
}

// Handler answers the calls about processes.
type Handler struct {
	Config
	hosts     *hosts.Handler
	events    *events.Handler
	overviews overviews
	recent    recentSelections
}

// New returns the handler.
func New(c Config, h *hosts.Handler, e *events.Handler) *Handler {
	return &Handler{Config: c, hosts: h, events: e}
}
