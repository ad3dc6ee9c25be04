package store

import (
	"context"
	"errors"
	"time"
)

// ErrKeyUsed is returned for a key that joins as something else than it is, or was when it was removed: its former
// credential would count again.
var ErrKeyUsed = errors.New("the key is or was in use for another purpose")

// JoinToken lets hosts join an area.
type JoinToken struct {
	// ID is no secret; ids are in the order in which tokens were made.
	ID string
	// Hash is access.HashToken of its secret.
	Hash string
	// Role is what joins with it.
	Role  Role
	Cloud int
	// Labels and Business are what every host that joins with it gets; Business 0 is none.
	Labels   map[string]string
	Business int64
	// Note is for people.
	Note string
	// Used is how many of the Uses have been made.
	Uses, Used int
	Created    time.Time
	Expires    time.Time
	// Revoked is when it was ended by hand; zero: never.
	Revoked time.Time
}

// Role is what joins with a token.
type Role string

// The roles.
const (
	RoleAgent Role = "agent"
	RoleProxy Role = "proxy"
)

// KeepJoinTokens is how long tokens are remembered after their end.
const KeepJoinTokens = 90 * 24 * time.Hour

// Joining is who may join, and who may no longer be there.
type Joining interface { //nolint:interfacebloat // one table and what hangs on it; consumers ask for parts
	// CreateJoinToken inserts a token; ErrExists when the id is taken. It forgets tokens that ended KeepJoinTokens
	// before it was created.
	CreateJoinToken(ctx context.Context, t JoinToken) error
	// GetJoinToken returns ErrNotFound for an unknown id.
	GetJoinToken(ctx context.Context, id string) (JoinToken, error)
	// ListJoinTokens returns up to limit tokens whose ids come before the given one (empty: all), the latest first.
	ListJoinTokens(ctx context.Context, before string, limit int) ([]JoinToken, error)
	// RevokeJoinToken ends a token, unless that was done before, and returns it; ErrNotFound for an unknown id.
	RevokeJoinToken(ctx context.Context, id string, at time.Time) (JoinToken, error)
	// UseJoinToken stores an agent as PutAgent does, counts a use of the token that the agent names, and lets the agent
	// be there again if it was removed, all in one transaction. Check is given the token as it is stored, and whether
	// this agent has joined with it already, in which case no use is counted. If the agent replaces another one, it
	// gets what that one had confirmed, its process groups and its events, and that one is removed. Nothing happens
	// when it fails, and its error is returned. ErrNotFound for an unknown token, ErrKeyUsed for a key that is or was a
	// proxy's. Check may be called more than once and must not call the store.
	UseJoinToken(ctx context.Context, a Agent, check func(t JoinToken, again bool) error) error
	// RemoveAgent forgets an agent, what was observed and confirmed of it and its process groups, and remembers that it
	// was removed. Tasks and events stay. ErrNotFound for an unknown one.
	RemoveAgent(ctx context.Context, key string, at time.Time) error
	// ListRemoved returns the keys of the agents and proxies that were removed and have not joined again.
	ListRemoved(ctx context.Context) ([]string, error)
}
