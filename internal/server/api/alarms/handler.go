// Package alarms answers the calls about alarms: who receives them, when they are silent, and the breakers that stop
// relaunches.
package alarms

import (
	"drover/internal/server/api/call"
	"drover/internal/server/bus"
	"drover/internal/server/store"
)

// Config is what the calls about alarms need.
type Config struct {
	*call.Kernel
	Receivers Receivers
	Breakers  store.Breakers
	Events    store.Events
	// Bus hears of changed receivers, silences and breakers.
	Bus *bus.Bus
}

// Handler answers the calls about alarms.
type Handler struct{ Config }

// New returns the handler.
func New(c Config) *Handler { return &Handler{c} }
