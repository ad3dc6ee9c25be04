package store

import (
	"context"
	"errors"
	"time"
)

// ErrKeyUsed is returned for a key that joins in another role or area than it has, or than it had before its removal:
// its former credential would be valid again.
var ErrKeyUsed = errors.New("the key is or was in use for another purpose")

// JoinToken lets hosts join an area.
type JoinToken struct {
	// ID is public; ids are in the order in which the tokens were created.
	ID string
	// Hash is access.HashToken of the secret.
	Hash string
	// Role is the kind of program that may join with the token.
	Role  Role
	Cloud int
	// Labels and Business are copied to every host that joins with the token; Business 0 means none.
	Labels   map[string]string
	Business int64
	// Replaces is the key of the agent whose place a host takes that joins with the token; empty for a new host.
	Replaces string
	// Note is for people.
	Note string
	// Used is the number of Uses so far.
	Uses, Used int
	Created    time.Time
	Expires    time.Time
	// Revoked is the time of the revocation; zero means never.
	Revoked time.Time
}

// Role is the kind of program that joins with a token.
type Role string

// The roles.
const (
	RoleAgent Role = "agent"
	RoleProxy Role = "proxy"
)

// KeepJoinTokens is how long the store keeps tokens after their end.
const KeepJoinTokens = 90 * 24 * time.Hour

// Joining records which hosts may join, and which were removed.
type Joining interface { //nolint:interfacebloat // one table and what hangs on it; consumers ask for parts
	// CreateJoinToken inserts a token. It returns ErrExists if the id is taken. It deletes tokens that ended
	// KeepJoinTokens before the creation of the new one.
	CreateJoinToken(ctx context.Context, t JoinToken) error
	// GetJoinToken returns a token, or ErrNotFound for an unknown id.
	GetJoinToken(ctx context.Context, id string) (JoinToken, error)
	// ListJoinTokens returns up to limit tokens with ids before the given id (empty: all), newest first.
	ListJoinTokens(ctx context.Context, before string, limit int) ([]JoinToken, error)
	// RevokeJoinToken revokes a token, unless it is revoked already, and returns it. It returns ErrNotFound for an
	// unknown id.
	RevokeJoinToken(ctx context.Context, id string, at time.Time) (JoinToken, error)
	// UseJoinToken stores an agent as PutAgent does, counts a use of the token that the agent names, and readmits the
	// agent if it was removed, all in one transaction. check gets the stored token, and whether this agent has joined
	// with it before; in that case UseJoinToken counts no use. It keeps other names that the agent had before. If the
	// agent replaces another agent, it gets that agent's confirmed records, process groups and events, and UseJoinToken
	// removes that agent. If check fails, nothing happens and UseJoinToken returns its error. It returns ErrNotFound
	// for an unknown token, and ErrKeyUsed for a key that is or was the key of a proxy. check may run more than once
	// and must not call the store.
	UseJoinToken(ctx context.Context, a Agent, check func(t JoinToken, again bool) error) error
	// RemoveAgent deletes an agent with its observations, confirmed records and process groups, records the removal,
	// and stores its last events, all in one transaction. Tasks and events stay. It returns ErrNotFound for an unknown
	// agent.
	RemoveAgent(ctx context.Context, key string, at time.Time, last []NewEvent) error
	// ListFormer returns up to limit agents that were removed and have not joined again, the latest first.
	ListFormer(ctx context.Context, limit int) ([]FormerAgent, error)
	// ListRemoved returns the keys of the agents and proxies that were removed and have not joined again.
	ListRemoved(ctx context.Context) ([]string, error)
}
