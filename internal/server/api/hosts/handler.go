// Package hosts answers the calls about hosts: their list, their counts and their labels. It has what other calls need
// of hosts: which of them a caller has chosen, and how a host is shown.
package hosts

import (
	"drover/internal/server/api/call"
	"drover/internal/server/store"
)

// Config is what the calls about hosts need.
type Config struct {
	*call.Kernel
	Directory Directory
	Labels    Labels
	// Proxies is nil if no proxy can join.
	Proxies        Proxies
	FileSelections store.FileSelections
	// Breadth is the number of hosts that a call may reach without the approval of a second person; 0 means all.
	Breadth int
}

// Handler answers the calls about hosts.
type Handler struct{ Config }

// New returns the handler.
func New(c Config) *Handler { return &Handler{c} }
