// Package install answers the calls about joining, upgrading and removing hosts and proxies: join tokens and joins,
// keys, packages, upgrades and removals.
package install

import (
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/operations"
	"drover/internal/server/store"
)

// Config is what the calls about installations need.
type Config struct {
	*call.Kernel
	Directory hosts.Directory
	Joining   Joining
	Keys      Keys
	Packages  store.Packages
	Rollouts  operations.Rollouts
}

// Handler answers the calls about installations.
type Handler struct {
	Config
	hosts      *hosts.Handler
	operations *operations.Handler
}

// New returns the handler.
func New(c Config, h *hosts.Handler, o *operations.Handler) *Handler {
	return &Handler{Config: c, hosts: h, operations: o}
}
