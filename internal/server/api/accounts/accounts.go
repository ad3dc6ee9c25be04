package accounts

import (
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// Records holds the callers of the API.
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
