// Package accounts answers the calls about callers: apps, users, their rights, their tokens and their sign-ins.
package accounts

import (
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// Records has the tables of the callers of the API.
type Records struct {
	Apps   store.Apps
	Users  store.Users
	Tokens store.Tokens
	// Secrets hashes the secrets of apps, as the gate does.
	Secrets access.Secrets
	Devices store.Devices
	// Groups are the rights of groups of the identity provider; nil if there is none.
	Groups access.GroupRights
}

// Config is what the calls about callers need.
type Config struct {
	*call.Kernel
	Records
	Directory hosts.Directory
	// Console returns the URL of the console, which ends with a slash; empty if there is none.
	Console func() string
}

// Handler answers the calls about callers.
type Handler struct {
	Config
	// devices counts, by address, the sign-ins of command lines that were begun. unknownDevices counts the requests for
	// the state of a sign-in that does not exist.
	devices, unknownDevices *gate.Failures
}

// New returns the handler.
func New(c Config) *Handler {
	return &Handler{Config: c, devices: gate.NewFailures(), unknownDevices: gate.NewFailures()}
}
