// Package events answers the calls about events: their list, their stream, and the audit log.
package events

import (
	"context"

	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/bus"
	"drover/internal/server/store"
)

// Config is what the calls about events need.
type Config struct {
	*call.Kernel
	Bus       *bus.Bus
	Directory hosts.Directory
	Events    store.Events
	Former    Former
	Listing   store.Listing
	History   History
	// Reads are the actions of all calls that change nothing.
	Reads func() []string
}

// Former has the hosts that have left, and the earlier names of hosts, the latest first.
type Former interface {
	ListFormer(ctx context.Context, limit int) ([]store.FormerAgent, error)
	FormerNames(ctx context.Context, limit int) ([]store.FormerName, error)
}

// Handler answers the calls about events.
type Handler struct {
	Config
	hosts   *hosts.Handler
	streams call.Slots
}

// New returns the handler.
func New(c Config, h *hosts.Handler) *Handler { return &Handler{Config: c, hosts: h} }
